"""Classic rows are upgraded by the generator of the release they belong to."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from swe_pytest.benchmarks import classic
from swe_pytest.benchmarks.classic import UpgradeFailed, generator_python, is_classic, upgrade
from swe_pytest.benchmarks.swebench import UPGRADED
from tests.public_data import needs_public_data, rows_of

# One of each repository that differs in how its script is made, in two of which 5.x differs from 4.1.0:
# there the classic release checked out the whole base commit when the test patch only adds files.
SAME_SCRIPT = (
    "astropy__astropy-12907",
    "django__django-11490",
    "matplotlib__matplotlib-22719",
    "mwaskom__seaborn-3069",
    "pallets__flask-5014",
    "psf__requests-1921",
    "pydata__xarray-2905",
    "pylint-dev__pylint-4661",
    "pytest-dev__pytest-5262",
    "scikit-learn__scikit-learn-10297",
    "sphinx-doc__sphinx-10323",
    "sympy__sympy-16597",
)
OTHER_SCRIPT = ("django__django-16877", "sphinx-doc__sphinx-8595")


@needs_public_data
def test_upgraded_rows_are_those_of_the_release() -> None:
    """Image, parser and rule equal those of public 5.x rows, and so do the scripts where the releases agree."""
    public = {str(row["instance_id"]): row for row in rows_of("verified")}
    wanted = [public[instance_id] for instance_id in (*SAME_SCRIPT, *OTHER_SCRIPT)]
    stripped = [{key: value for key, value in row.items() if key not in UPGRADED} for row in wanted]
    assert all(is_classic(row) for row in stripped)
    for before, after in zip(wanted, upgrade(stripped), strict=True):
        instance_id = str(before["instance_id"])
        for key in ("image", "log_parser", "eval_type"):
            assert after[key] == before[key], instance_id
        assert (after["eval_script"] == before["eval_script"]) == (instance_id in SAME_SCRIPT), instance_id
        assert {key: after[key] for key in before if key not in UPGRADED} == {
            key: before[key] for key in before if key not in UPGRADED
        }
    bare = upgrade([row for row in stripped if row["instance_id"] == OTHER_SCRIPT[0]])[0]
    assert f"git checkout {bare['base_commit']} \n" in str(bare["eval_script"])


def test_rows_that_the_release_does_not_know_are_named() -> None:
    """A row of a repository or version that the generator has no table for is an error that names it."""
    row: dict[str, object] = {
        "instance_id": "acme__calc-1",
        "repo": "acme/calc",
        "version": "1.0",
        "base_commit": "0" * 40,
        "test_patch": "",
    }
    with pytest.raises(UpgradeFailed, match=r"no evaluation of 1 of 1 rows: acme__calc-1: no 'acme/calc'"):
        upgrade([row])


def test_the_environment_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several processes that want the environment at once one makes it, and nothing else is left of that."""
    log = tmp_path / "log"
    program = (
        "import sys, time; from pathlib import Path; from swe_pytest.benchmarks import classic\n"
        "def make(command):\n"
        "    with open(sys.argv[1], 'a') as file: file.write('made\\n')\n"
        "    target = Path(command[-1])\n"
        "    if target.name == 'venv':\n"
        "        (target / 'bin').mkdir(parents=True); (target / 'bin' / 'python').touch(); time.sleep(0.3)\n"
        "classic._run = make  # installing for real takes long; what is tested is who does it\n"
        "print(classic.generator_python())"
    )
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    command = [sys.executable, "-c", program, str(log)]
    processes = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    homes = {process.communicate(timeout=60)[0].strip() for process in processes}
    assert all(process.returncode == 0 for process in processes)
    assert len(homes) == 1
    assert log.read_text() == "made\n" * 3  # an empty environment, and twice what goes into it
    left = {path.name.removesuffix(".lock") for path in (tmp_path / "cache/swe_pytest/venvs").iterdir()}
    assert left == {Path(homes.pop()).parents[1].name}


def test_a_failed_installation_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the release cannot be installed the error says what was run, and the next attempt starts anew."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(classic, "GENERATOR", "swebench==0.0.0.nonsense")
    with pytest.raises(UpgradeFailed, match=r"swebench==0\.0\.0\.nonsense ended with status"):
        generator_python()
    assert [path.suffix for path in (tmp_path / "swe_pytest" / "venvs").iterdir()] == [".lock"]


@needs_public_data
def test_many_rows_take_seconds() -> None:
    """Upgrading a whole benchmark asks nobody over the network and takes seconds once the environment is there."""
    generator_python()
    rows = [{key: value for key, value in row.items() if key not in UPGRADED} for row in rows_of("verified")]
    began = time.monotonic()
    assert len(upgrade(rows)) == 500
    assert time.monotonic() - began < 60.0
