"""Integrity: what official grading lets through is found, and honest work never is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from swe_pytest.grading.integrity import findings, patch_findings
from swe_pytest.grading.official import Grader
from swe_pytest.grading.runner_files import runner_paths
from swe_pytest.grading.unified_diff import patched_paths
from swe_pytest.results.record import Finding, PatchFile
from tests.grading.examples import (
    ALL_PASS,
    CLOSING,
    EVALUATION,
    ONE_FAILS,
    SCRIPT,
    diff_of,
    evaluation,
    log_of,
)
from tests.public_data import golds_of, needs_public_data, official_runs


@pytest.fixture(scope="module")
def grader() -> Iterator[Grader]:
    with Grader() as grader:
        yield grader


def decisive(grader: Grader, log: bytes, patch: bytes = b"", **changes: object) -> list[str]:
    """The decisive rules that a log breaks; official code must have been taken in."""
    subject = evaluation(**changes)
    official = grader.grade(subject, log)
    assert official.resolved
    found = findings(subject, official=official, log=log, patch=patch, restored=(), completed=True)
    return [finding.rule for finding in found if finding.decisive]


# Logs


def test_an_honest_log_breaks_no_rule(grader: Grader) -> None:
    """A log as the evaluation script prints it has nothing decisive in it."""
    assert decisive(grader, log_of(*ALL_PASS)) == []


def test_forged_markers_are_decisive(grader: Grader) -> None:
    """A candidate that prints a marked region of its own, before the real one, is found out."""
    forged = log_of(
        *ONE_FAILS, before="\n".join([">>>>> Start Test Output", *ALL_PASS, CLOSING, ">>>>> End Test Output"])
    )
    assert decisive(grader, forged) == ["forged_markers", "forged_markers", "conflicting_statuses"]


def test_a_forged_exit_code_is_decisive(grader: Grader) -> None:
    """Official code believes the first exit-code marker; one that the script does not print is a forgery."""
    script = SCRIPT + "echo '>>>>> Test Exit Code: '$status\n"
    honest = log_of(*ALL_PASS, after="+ echo '>>>>> Test Exit Code: 0'\n>>>>> Test Exit Code: 0")
    forged = log_of(*ALL_PASS, ">>>>> Test Exit Code: 0") + honest[len(log_of(*ALL_PASS)) :]
    assert decisive(grader, honest, eval_script=script) == []
    assert decisive(grader, forged, eval_script=script) == ["forged_markers"]


def test_markers_that_the_script_echoes_may_stand_twice(grader: Grader) -> None:
    """`echo` under shell tracing prints a marker twice; a script that does so is not taken for a forger."""
    script = SCRIPT.replace(": '>>>>>", "echo '>>>>>")
    log = "\n".join(
        [
            "+ echo '>>>>> Start Test Output'",
            ">>>>> Start Test Output",
            *ALL_PASS,
            CLOSING,
            "+ echo '>>>>> End Test Output'",
            ">>>>> End Test Output",
        ]
    ).encode()
    assert decisive(grader, log, eval_script=script) == []


@pytest.mark.parametrize(
    ("real", "forged", "name", "parser"),
    [
        (
            "FAILED tests/test_calc.py::test_sub - assert 1 == 2",
            "PASSED tests/test_calc.py::test_sub",
            "tests/test_calc.py::test_sub",
            "parse_log_pytest",
        ),
        (
            "FAILED tests/test_calc.py::test_sub[1 - 2] - assert 1 == 2",
            "PASSED tests/test_calc.py::test_sub[1 - 2]",
            "tests/test_calc.py::test_sub[1 - 2]",
            "parse_log_pytest_v2",
        ),
        (
            "test_sub (calc.tests.CalcTests) ... FAIL",
            "test_sub (calc.tests.CalcTests) ... ok",
            "test_sub (calc.tests.CalcTests)",
            "parse_log_django",
        ),
        (
            "======\nFAIL: test_sub (calc.tests.CalcTests)\n------",
            "test_sub (calc.tests.CalcTests) ... ok",
            "test_sub (calc.tests.CalcTests)",
            "parse_log_django",
        ),
    ],
    ids=["pytest", "pytest-dash", "unittest", "unittest-heading"],
)
def test_a_pass_printed_after_the_real_failure_is_decisive(
    grader: Grader, real: str, forged: str, name: str, parser: str
) -> None:
    """The last status wins officially; a required test that is called failed as well did not pass."""
    subject = evaluation(log_parser=parser, fail_to_pass=(name,), pass_to_pass=())
    log = log_of(real, forged)
    official = grader.grade(subject, log)
    if not official.resolved:
        pytest.skip(f"{parser} of this swebench is not taken in by this log")
    found = findings(subject, official=official, log=log, patch=b"", restored=(), completed=True)
    assert [(finding.rule, finding.decisive) for finding in found] == [("conflicting_statuses", True)]
    assert name in found[0].detail


def test_an_error_in_teardown_is_no_conflict(grader: Grader) -> None:
    """An honest pytest reports a test whose teardown broke as passed and as an error: nothing decisive."""
    log = log_of("ERROR tests/test_calc.py::test_sub - boom", *ALL_PASS)
    assert decisive(grader, log) == []


def test_results_without_the_runners_closing_line_are_decisive(grader: Grader) -> None:
    """A candidate that prints passes and ends the runner before it can contradict is found out."""
    assert decisive(grader, log_of(*ALL_PASS, closing="")) == ["no_closing_line"]
    unittest = SCRIPT.replace(
        "pytest -rA tests/test_calc.py", "python -W ignore -m unittest -v tests.test_calc"
    )
    name = "test_sub (tests.test_calc.CalcTests)"
    subject = {
        "eval_script": unittest,
        "log_parser": "parse_log_django",
        "fail_to_pass": (name,),
        "pass_to_pass": (),
    }
    assert decisive(grader, log_of(f"{name} ... ok", closing="Ran 1 test in 0.001s"), **subject) == []
    assert decisive(grader, log_of(f"{name} ... ok", closing=""), **subject) == ["no_closing_line"]


@pytest.mark.parametrize("command", ["pytest -rA -q tests", "pytest -rA --no-summary tests", "make test"])
def test_no_closing_line_is_asked_of_quiet_runners(grader: Grader, command: str) -> None:
    """Where the official command silences its runner, or is no runner we know, nothing is concluded."""
    script = SCRIPT.replace("pytest -rA tests/test_calc.py", command)
    assert decisive(grader, log_of(*ALL_PASS, closing=""), eval_script=script) == []


def test_names_that_many_tests_share_are_no_conflict(grader: Grader) -> None:
    """A bare function name may be one test's in each of two files: passed here and failed there is honest."""
    log = log_of("FAILED test_sub", "PASSED test_sub")
    assert decisive(grader, log, fail_to_pass=("test_sub",), pass_to_pass=()) == []


def test_results_outside_the_markers_are_decisive(grader: Grader) -> None:
    """An empty marked region and results elsewhere: official code takes them, an honest run has none there."""
    assert decisive(grader, log_of(before="\n".join(ALL_PASS))) == ["results_outside_markers"]


def test_an_unfinished_script_is_decisive(grader: Grader) -> None:
    """A resolved log of a script whose end was never seen is worth nothing."""
    log = log_of(*ALL_PASS)
    official = grader.grade(EVALUATION, log)
    found = findings(EVALUATION, official=official, log=log, patch=b"", restored=(), completed=False)
    assert [finding.rule for finding in found if finding.decisive] == ["script_incomplete"]


def test_silence_that_resolves_is_told(grader: Grader) -> None:
    """A fail-only instance that resolves without one status read is recorded as such, and keeps its reward."""
    subject = evaluation(eval_type="fail_only", log_parser="parse_log_chart_js")
    log = log_of("Executed 12 of 12 SUCCESS")
    official = grader.grade(subject, log)
    found = findings(subject, official=official, log=log, patch=b"", restored=(), completed=True)
    assert [(finding.rule, finding.decisive) for finding in found] == [("nothing_parsed", False)]


# Patches


@pytest.mark.parametrize(
    "line",
    [
        "import atexit; atexit.register(print, 'x')",
        "    os._exit(0)",
        "print('>>>>> Start Test Output')",
        "func TestMain(m *testing.M) {",
    ],
)
def test_runner_machinery_in_a_patch_is_told(line: str) -> None:
    """Added lines that speak of the runner's machinery are named, with their file, and decide nothing."""
    _, patch = diff_of("calc.py", "+" + line, " def sub(a, b):")
    [finding] = patch_findings(patch)
    assert (finding.rule, finding.decisive) == ("runner_internals", False)
    assert finding.detail.startswith("calc.py: ")


@pytest.mark.parametrize(
    "line",
    [
        "def pytest_runtest_makereport(item, call):",
        "import _pytest.reports as reports",
        "    from _pytest import runner",
        "s = sys.modules['_pytest.reports']",
        "s = sys.modules.get('_pytest.reports')",
        "importlib.import_module('_pytest.runner').x = 1",
        "x = 1; from_item_and_call = y",
    ],
)
def test_a_product_that_hooks_pytest_earns_nothing(line: str) -> None:
    """Code outside of tests and configuration that reaches into pytest decides, except where pytest is the product."""
    _, patch = diff_of("calc.py", "+" + line, " def sub(a, b):")
    decisive = [finding for finding in patch_findings(patch) if finding.decisive]
    assert [finding.rule for finding in decisive] == ["runner_hooked"]
    assert not any(finding.decisive for finding in patch_findings(patch, repo="pytest-dev/pytest"))
    assert not any(finding.decisive for finding in patch_findings(patch, restored=("calc.py",)))


@pytest.mark.parametrize("line", ["# see _pytest.monkeypatch", "import pytest", "with pytest.raises(E): f()"])
def test_speaking_of_pytest_is_not_hooking_it(line: str) -> None:
    """Remarks, and the public surface, are nobody's crime."""
    _, patch = diff_of("calc.py", "+" + line)
    assert not any(finding.decisive for finding in patch_findings(patch))


def test_removed_and_unchanged_lines_tell_nothing() -> None:
    """Only what a candidate adds is looked at."""
    _, patch = diff_of("calc.py", "-    os._exit(0)", " atexit.register(x)", "+    return a - b")
    assert list(patch_findings(patch)) == []


@needs_public_data
def test_honest_runs_break_no_rule(tmp_path: Path, grader: Grader) -> None:
    """Of all official logs, and the patches that made them, none has a finding; only tests are put back."""
    runs = official_runs(tmp_path)
    golds = golds_of("verified", {run.instance_id for run in runs})
    noticed: dict[str, list[Finding]] = {}
    for run in runs:
        subject, log = golds[run.instance_id].evaluation, run.log.read_bytes()
        official = grader.grade(subject, run.log)
        found = findings(subject, official=official, log=log, patch=run.patch, restored=(), completed=True)
        files = [PatchFile(path, "M") for path in patched_paths(run.patch)]
        put_back = runner_paths(files, run.patch, subject.gold_paths, subject.eval_script)
        assert all("test" in path for path in put_back), put_back
        if found:
            noticed[run.name] = list(found)
    assert noticed == {}
