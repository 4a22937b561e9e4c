"""setup/python.sh, for real, on a small project of its own: what it leaves is whole or is made anew."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(180)

PYPROJECT = """\
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "swe_pytest"
version = "0"
scripts = {swe-pytest = "swe_pytest:main"}
[tool.setuptools]
packages = ["swe_pytest"]
"""


def entry(root: Path, name: str) -> str:
    """The part of the real lock that is about one package."""
    found = re.search(rf"^{name}==.*\n(?:    .*\n)+", (root / "requirements.lock").read_text(), re.M)
    assert found is not None
    return found[0]


@pytest.fixture
def project(root: Path, tmp_path: Path) -> Path:
    """A project with two locked packages, and the real script."""
    folder = tmp_path / "a folder"
    (folder / "swe_pytest").mkdir(parents=True)
    (folder / "setup").mkdir()
    shutil.copy2(root / "setup" / "python.sh", folder / "setup")
    (folder / "pyproject.toml").write_text(PYPROJECT)
    (folder / "swe_pytest" / "__init__.py").write_text("def main(): print('here')\n")
    (folder / "requirements.lock").write_text(entry(root, "setuptools") + entry(root, "iniconfig"))
    return folder


def environment(**more: str) -> dict[str, str]:
    return {**{k: v for k, v in os.environ.items() if k != "PYTHON"}, **more}


def set_up(project: Path, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [project / "setup" / "python.sh"],
        env=environment(**more),
        cwd="/",
        text=True,
        capture_output=True,
        check=False,
    )


def packages(project: Path) -> set[str]:
    listed = subprocess.run(
        [project / ".venv/bin/python", "-m", "pip", "list", "--format=json", "--disable-pip-version-check"],
        check=True,
        capture_output=True,
    )
    return {package["name"] for package in json.loads(listed.stdout)}


def assert_whole(project: Path, *more: str) -> None:
    assert packages(project) == {"pip", "setuptools", "swe_pytest", *more}
    assert subprocess.check_output([project / ".venv/bin/swe-pytest"], text=True) == "here\n"


def test_two_at_once_make_one_and_a_third_has_nothing_to_do(project: Path) -> None:
    """Set-ups at the same time make .venv once, exactly as locked; the next one is silent and instant."""
    script = [project / "setup" / "python.sh"]
    both = [
        subprocess.Popen(script, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    said = [run.communicate()[0] for run in both]
    assert [run.returncode for run in both] == [0, 0]
    assert "".join(said).count("making .venv") == 1
    assert_whole(project, "iniconfig")

    began = time.monotonic()
    third = set_up(project)
    assert (third.returncode, third.stdout, third.stderr) == (0, "", "")
    assert time.monotonic() - began < 2


def test_an_interrupted_set_up_is_made_good(project: Path) -> None:
    """Killed in the middle, it leaves no environment that the next one takes for whole."""
    run = subprocess.Popen([project / "setup" / "python.sh"], env=environment(), start_new_session=True)
    while not (project / ".venv" / "bin" / "python").exists():
        assert run.poll() is None
        time.sleep(0.01)  # only a directory listing shows how far it is
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    assert not (project / ".venv" / "bin" / "swe-pytest").exists()
    assert set_up(project).returncode == 0
    assert_whole(project, "iniconfig")


def test_what_no_longer_fits_is_made_anew(root: Path, project: Path) -> None:
    """A dead interpreter, a moved folder and a changed lock, all at once here, are each told by a check."""
    assert set_up(project).returncode == 0
    moved = project.rename(project.with_name("elsewhere"))
    (moved / "requirements.lock").write_text(entry(root, "setuptools"))
    assert "making .venv" in set_up(moved).stdout
    assert_whole(moved)

    (moved / ".venv" / "bin" / "python").unlink()
    (moved / "pyproject.toml").write_text(PYPROJECT + "# changed\n")
    assert "making .venv" in set_up(moved).stdout
    assert_whole(moved)

    (moved / "pyproject.toml").write_text(
        PYPROJECT.replace("swe-pytest =", "other = 'swe_pytest:main', swe-pytest =")
    )
    again = set_up(moved)
    assert "making .venv" not in again.stdout, "a change of pyproject.toml alone must not cost a new .venv"
    assert (moved / ".venv" / "bin" / "other").exists()


def test_a_package_that_is_not_the_locked_one_is_refused(project: Path) -> None:
    """A hash that does not match fails the set-up, with what pip said, this time and the next."""
    lock = project / "requirements.lock"
    lock.write_text(re.sub("sha256:[0-9a-f]{8}", "sha256:00000000", lock.read_text()))
    for _ in range(2):
        run = set_up(project)
        assert run.returncode != 0
        assert "do not match" in run.stderr.lower()
        assert "python.log" in run.stderr


def test_a_python_that_will_not_do_is_named(project: Path) -> None:
    """PYTHON that is too old or none, or no Python at all, ends in one line that says what to do."""
    named = set_up(project, PYTHON="/bin/false")
    assert named.returncode == 1
    assert "PYTHON=/bin/false is no Python 3.11 or newer" in named.stderr

    tools = project / "tools"
    tools.mkdir()
    for tool in ("bash", "dirname", "env", "cmp", "cat"):
        (tools / tool).symlink_to(str(shutil.which(tool)))
    none = set_up(project, PATH=str(tools))
    assert none.returncode == 1
    assert "needs Python 3.11 or newer" in none.stderr and "PYTHON=" in none.stderr


def test_a_python_without_venv_is_told_from_a_broken_one(project: Path, tmp_path: Path) -> None:
    """Debian's Python without python3-venv: the package to install is named, and nothing is half made."""
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "ensurepip.py").write_text("raise ImportError\n")  # the fault: Debian leaves the module out
    run = set_up(project, PYTHONPATH=str(hidden), SWE_PYTEST_INSTALL="0", PYTHON=sys.executable)
    assert run.returncode == 1
    assert f"apt install python3.{sys.version_info.minor}-venv" in run.stderr
    assert not (project / ".venv").exists()
