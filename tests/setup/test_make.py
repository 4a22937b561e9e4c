"""The two commands, and what CI calls."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest


def plan(root: Path, target: str, *more: str) -> list[str]:
    """The commands that make would run for a target."""
    run = subprocess.run(
        ["make", "--no-print-directory", "-n", target, *more],
        cwd=root,
        text=True,
        capture_output=True,
        check=True,
    )
    return run.stdout.splitlines()


SET_UP = ["setup/python.sh", ".venv/bin/python setup/engine.py", ".venv/bin/python setup/base_image.py"]


@pytest.mark.parametrize(
    ("target", "job"),
    [
        ("smoke", [".venv/bin/swe-pytest prepare pypi_fixes", ".venv/bin/pytest suites/smoke -k some"]),
        ("test", [".venv/bin/pytest tests -n 2 -k some"]),
        ("bench", [".venv/bin/python -m bench -k some"]),
    ],
)
def test_each_command_does_all_the_set_up_and_then_its_job(root: Path, target: str, job: list[str]) -> None:
    """Set-up comes first and whole, the job is the last thing that prints, ARGS reach it."""
    commands = plan(root, target, "ARGS=-k some")
    assert commands[: len(SET_UP)] == SET_UP
    assert commands[-len(job) :] == job


def test_help_tells_every_target_and_setting(root: Path) -> None:
    """Nothing that a person can say to make, or set for set-up, is missing from make help."""
    makefile = (root / "Makefile").read_text()
    text = subprocess.check_output(["make", "-s", "help"], cwd=root, text=True)
    phony = next(line for line in makefile.splitlines() if line.startswith(".PHONY:")).split()[1:]
    assert [target for target in phony if f"  make {target} " not in text] == []
    scripts = "".join(path.read_text() for path in (root / "setup").iterdir() if path.is_file())
    assert "SWE_PYTEST_INSTALL" in scripts and "SWE_PYTEST_INSTALL=" in text
    assert "SWE_PYTEST_BASE_IMAGE" in scripts and "SWE_PYTEST_BASE_IMAGE=" in text


def test_clean_takes_only_what_set_up_and_tests_made(root: Path, tmp_path: Path) -> None:
    """Sources, the lock and the results of runs survive make clean; .venv and the caches do not."""
    shutil.copy(root / "Makefile", tmp_path)
    kept = [
        "requirements.lock",
        "suites/mine/suite.yaml",
        "swe-pytest-runs/one/results.json",
        "swe_pytest/a.py",
    ]
    gone = [".venv/bin/python", ".swe_pytest/python.log", "swe_pytest/__pycache__/a.pyc", ".mypy_cache/x"]
    for name in kept + gone:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    subprocess.run(["make", "-s", "clean"], cwd=tmp_path, check=True)
    assert [name for name in kept if not (tmp_path / name).exists()] == []
    assert [name for name in gone if (tmp_path / name).exists()] == []


@pytest.mark.parametrize(("recipe", "green"), [("@cat; echo all ran", True), ("@exit 3", False)])
def test_ci_runs_make_test_without_input_and_ends_as_it_does(
    root: Path, tmp_path: Path, recipe: str, green: bool
) -> None:
    """.ci/run is make test and nothing else: no input, its output, its red or green."""
    (tmp_path / ".ci").mkdir()
    shutil.copy(root / ".ci" / "run", tmp_path / ".ci")
    (tmp_path / "Makefile").write_text(f"test:\n\t{recipe}\n")
    run = subprocess.run(
        ["bash", ".ci/run"],
        cwd=tmp_path,
        input="not for tests\n",
        text=True,
        capture_output=True,
        check=False,
    )
    assert (run.returncode == 0) is green
    assert run.stdout == ("all ran\n" if green else "")


def test_set_up_that_has_nothing_to_do_takes_under_five_seconds(root: Path) -> None:
    """make setup again, for real, in this clone: quick, and nothing is made."""
    made = root / ".venv" / "swe_pytest.lock"
    if Path(sys.prefix) != root / ".venv":
        pytest.skip("runs where .venv is the environment of the tests, as in make test")
    lock = (root / "requirements.lock").read_text()
    installed = root / ".venv" / "swe_pytest.pyproject"
    # Else make would take the environment away from under these very tests.
    assert made.read_text() == f"# for {root}\n{lock}", "requirements.lock changed since make setup"
    assert installed.read_text() == (root / "pyproject.toml").read_text(), (
        "pyproject.toml changed since make setup"
    )

    began = time.monotonic()
    environment = {name: value for name, value in os.environ.items() if name != "PYTHON"}
    run = subprocess.run(
        ["make", "-s", "setup"], cwd=root, env=environment, text=True, capture_output=True, check=True
    )
    assert time.monotonic() - began < 5
    assert [line.split(":")[0] for line in run.stdout.splitlines()] == ["engine", "base image"], run.stdout
