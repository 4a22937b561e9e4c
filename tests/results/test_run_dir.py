"""The run directory: one run's own, with safe names."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given

from swe_pytest.results.ledger import Ledger
from swe_pytest.results.run_dir import NotARunDir, RunDir, RunDirTaken
from swe_pytest.sandbox.ownership import current_owner
from tests.results.making import ANY_TEXT

DEAD = "/".join([*current_owner().split("/")[:3], "1"])  # this pid, started at another time


def test_every_process_of_a_run_may_claim(tmp_path: Path) -> None:
    """Claiming again for the same run is no conflict, in any order, with or without a ledger."""
    owner = current_owner()
    for _ in range(2):
        run_dir = RunDir.claim(tmp_path / "run", "r1", owner)
        Ledger(run_dir.ledger).check_end("a", passed=True)
    assert run_dir.controller_alive()
    assert sorted(path.name for path in run_dir.path.iterdir()) == [
        "episodes",
        "ledger.jsonl",
        "locks",
        "owner.json",
    ]


@pytest.mark.parametrize(("owner", "alive"), [(current_owner(), True), (DEAD, False)], ids=["alive", "dead"])
def test_another_runs_directory_is_refused(tmp_path: Path, owner: str, alive: bool) -> None:
    """A directory of another run is never written to, and the error says whether that run is live."""
    RunDir.claim(tmp_path, "r1", owner)
    with pytest.raises(RunDirTaken, match=r"r1; choose another --swe-run-id") as caught:
        RunDir.claim(tmp_path, "r2", current_owner())
    assert caught.value.alive is alive
    assert ("live run" in str(caught.value)) is alive
    assert RunDir(tmp_path).controller_alive() is alive


def test_a_ledger_of_nobody_is_refused(tmp_path: Path) -> None:
    """A directory with a ledger that nobody claimed is somebody's results, and stays as it is."""
    (tmp_path / "ledger.jsonl").write_bytes(b"")
    with pytest.raises(RunDirTaken):
        RunDir.claim(tmp_path, "r1", current_owner())
    assert not (tmp_path / "owner.json").exists()


def test_one_of_many_claims_wins(tmp_path: Path) -> None:
    """Of eight runs that claim one directory at once exactly one gets it."""
    code = """
import sys
from pathlib import Path
from swe_pytest.results.run_dir import RunDir, RunDirTaken
from swe_pytest.sandbox.ownership import current_owner
print("ready", flush=True)
sys.stdin.readline()
try:
    RunDir.claim(Path(sys.argv[1]), sys.argv[2], current_owner())
    print("mine", flush=True)
except RunDirTaken:
    print("taken", flush=True)
"""
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path / "run"), f"r{n}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for n in range(8)
    ]
    for run in runs:
        assert run.stdout is not None
        assert run.stdout.readline() == "ready\n"
    answers = [run.communicate("go\n", timeout=60)[0] for run in runs]
    assert sorted(answers) == ["mine\n"] + ["taken\n"] * 7


@given(ANY_TEXT, ANY_TEXT)
def test_episode_names_are_safe_and_apart(first: str, second: str) -> None:
    """Whatever a case is called, its directory is right under episodes, and no other case's."""
    run_dir = RunDir(Path("/run"))
    for name in (first, second, first * 400):
        path = run_dir.episode_path(name)
        assert path.parent == Path("/run/episodes")
        assert path.name == os.path.basename(os.path.normpath(path))  # noqa: PTH119 - as the system sees it
        assert 0 < len(os.fsencode(path.name)) <= 255
        assert not path.name.startswith((".", "-"))
        path.name.encode("ascii")
    assert (run_dir.episode_path(first) == run_dir.episode_path(second)) == (first == second)


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "/etc", "a/b", "-rf", "a\x00b", "con~1"])
def test_hostile_names_stay_inside(tmp_path: Path, name: str) -> None:
    """Names that mean something to a file system or a shell mean nothing here."""
    run_dir = RunDir.create(tmp_path)
    made = run_dir.episode_dir(name)
    assert made.is_dir()
    assert made.resolve().parent == (tmp_path / "episodes").resolve()
    assert run_dir.lock(name).parent == tmp_path / "locks"


def test_plain_names_are_kept() -> None:
    """A name that is safe already is the directory's name, so that people find it."""
    name = "smoke.gold-django__django-11099-1.interrupted"
    assert RunDir(Path("/run")).episode_path(name).name == name


def test_open_wants_a_ledger(tmp_path: Path) -> None:
    """Only a directory with a ledger is a run's."""
    with pytest.raises(NotARunDir, match=r"has no ledger\.jsonl"):
        RunDir.open(tmp_path)
