"""`swe-pytest report`: a run that was killed is told in full, by its ledger and records alone."""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from swe_pytest.cli.report import add_parser, run
from swe_pytest.results.gates import Bounds, Gates
from swe_pytest.results.run_dir import RunDir
from swe_pytest.sandbox.ownership import current_owner
from tests.results.making import MadeRun, planned, record_of


def report(*argv: str) -> int:
    """Run the command as the command line does."""
    parser = argparse.ArgumentParser()
    add_parser(parser.add_subparsers())
    return run(parser.parse_args(["report", *argv]))


def _resolved(made: MadeRun) -> None:
    made.end(record_of(planned("a")), passed=True)
    made.end(record_of(planned("b")), passed=True)
    made.ledger.run_end(0)


def _masked(made: MadeRun) -> None:
    made.end(record_of(planned("a")))
    made.end(record_of(planned("b"), None))


def _not_run(made: MadeRun) -> None:
    made.end(record_of(planned("a")))


def _rejected(made: MadeRun) -> None:
    _resolved(made)
    made.ledger.check_end(planned("b").case_id, passed=False, message="expected unresolved")


def _gate(made: MadeRun) -> None:
    _resolved(made)
    made.ledger.gates("smoke", Gates(resolve_rate=Bounds(max=0.5)))


def _stranger(made: MadeRun) -> None:
    _resolved(made)
    made.begin(planned("c"))


def _nothing(made: MadeRun) -> None:
    made.begin(planned("a"))


def _as_expected(made: MadeRun) -> None:
    made.end(record_of(planned("a"), None), passed=True)
    made.end(record_of(planned("b"), None), passed=True)


@pytest.mark.parametrize(
    ("write", "status"),
    [
        (_resolved, 0),
        (_as_expected, 0),
        (_masked, 1),
        (_not_run, 1),
        (_rejected, 1),
        (_gate, 1),
        (_stranger, 1),
        (_nothing, 3),
    ],
)
def test_exit_status(tmp_path: Path, write: Callable[[MadeRun], None], status: int) -> None:
    """All measured, some not, and nothing measured have statuses of their own."""
    made = MadeRun(tmp_path, [planned("a"), planned("b")])
    write(made)
    assert report(str(tmp_path)) == status


def test_no_run_directory_is_a_usage_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A directory without a ledger is refused with what is missing, and nothing is written into it."""
    assert report(str(tmp_path)) == 2
    assert "no ledger.jsonl" in capsys.readouterr().err
    assert report(str(tmp_path / "nowhere")) == 2
    assert list(tmp_path.iterdir()) == []


def test_a_live_run_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """While its controller lives a run writes its reports itself: begun is not yet interrupted."""
    made = MadeRun(tmp_path, [])
    made.run_dir.ledger.rename(tmp_path / "aside")
    RunDir.claim(tmp_path, "r1", current_owner())
    (tmp_path / "aside").rename(made.run_dir.ledger)
    assert report(str(tmp_path)) == 2
    assert "still going on" in capsys.readouterr().err
    assert not made.run_dir.results.exists()
    made.ledger.run_end(0)
    assert report(str(tmp_path)) == 3
    assert made.run_dir.results.exists()


def test_json_prints_the_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--json prints what results.json holds."""
    made = MadeRun(tmp_path, [planned("a")])
    made.end(record_of(planned("a")))
    assert report(str(tmp_path), "--json") == 0
    printed = capsys.readouterr().out
    assert json.loads(printed)["totals"]["resolved"] == 1
    assert printed == made.run_dir.results.read_text()


def test_a_killed_run_is_rebuilt(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """After KILL in the middle of a run every planned case is told: measured, masked or not run."""
    code = """
import sys
from pathlib import Path
from swe_pytest.results.run_dir import RunDir
from swe_pytest.sandbox.ownership import current_owner
from tests.results.making import MadeRun, planned, record_of
path = Path(sys.argv[1])
RunDir.claim(path, "r1", current_owner())
cases = [planned(f"i{n}") for n in range(10)]
made = MadeRun(path, cases)
made.end(record_of(cases[0]))
made.end(record_of(cases[1], 0.0))
made.end(record_of(cases[2], None))
made.begin(cases[3])
print("in the middle", flush=True)
sys.stdin.read()
"""
    root = Path(__file__).parents[2]
    killed = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=root
    )
    assert killed.stdout is not None
    assert killed.stdout.readline() == b"in the middle\n"
    assert report(str(tmp_path)) == 2
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    with (tmp_path / "ledger.jsonl").open("ab") as ledger:
        ledger.write(b'{"event":"episode.e')
    capsys.readouterr()

    assert report(str(tmp_path)) == 1
    told = capsys.readouterr().out
    assert "planned 10 = measured 2 + masked 2 + not run 6" in told
    assert "smoke.gold-i3-1: interrupted: " in told
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["balanced"]
    assert not results["run"]["complete"]
    assert results["pairs"][0]["mean_reward"] == 0.5
    suite = ElementTree.parse(tmp_path / "junit.xml").getroot()[0]
    assert (suite.attrib["tests"], suite.attrib["errors"], suite.attrib["skipped"]) == ("10", "2", "6")
    assert len((tmp_path / "failures.jsonl").read_text().splitlines()) == 2
