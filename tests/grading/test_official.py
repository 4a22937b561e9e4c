"""The official verdict: the same as the pinned grader's, whatever the log does to the parser."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from swe_pytest.grading import official
from swe_pytest.grading.official import (
    Grader,
    GraderFailed,
    GraderUnavailable,
    UnknownParser,
    official_grade,
    parser_names,
)
from tests.grading.examples import ALL_PASS, EVALUATION, ONE_FAILS, evaluation, log_of
from tests.public_data import golds_of, needs_public_data, official_runs


@pytest.fixture
def grader() -> Iterator[Grader]:
    with Grader(deadline_s=30.0) as grader:
        yield grader


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def wait_until_gone(pid: int, within_s: float = 10.0) -> bool:
    end = time.monotonic() + within_s
    while is_alive(pid) and time.monotonic() < end:
        time.sleep(0.02)
    return not is_alive(pid)


@needs_public_data
def test_every_official_log_gets_its_official_verdict(tmp_path: Path, grader: Grader) -> None:
    """Each log of the official harness gets the verdict, and the counts of tests, that it got there."""
    runs = official_runs(tmp_path)
    golds = golds_of("verified", {run.instance_id for run in runs})
    wrong = []
    for run in runs:
        verdict = grader.grade(golds[run.instance_id].evaluation, run.log)
        tests = verdict.tests
        counts = (
            len(tests.fail_to_pass_success),
            len(tests.fail_to_pass_failure),
            len(tests.pass_to_pass_success),
            len(tests.pass_to_pass_failure),
        )
        if (verdict.resolved, verdict.found, counts) != (run.resolved, run.applied, run.counts):
            wrong.append(run.name)
    assert len(runs) >= 70
    assert not wrong


def test_passing_tests_resolve(grader: Grader) -> None:
    """All required tests passed between the markers: resolved, each test under its own name."""
    verdict = grader.grade(EVALUATION, log_of(*ALL_PASS))
    assert verdict.resolved
    assert verdict.found
    assert verdict.tests.fail_to_pass_success == EVALUATION.fail_to_pass
    assert verdict.tests.pass_to_pass_success == EVALUATION.pass_to_pass
    assert verdict.parsed == 3


@pytest.mark.parametrize(
    "lines",
    [ONE_FAILS, ALL_PASS[1:], ("SKIPPED tests/test_calc.py::test_sub", *ALL_PASS[1:])],
    ids=["failed", "absent", "skipped"],
)
def test_a_required_test_that_did_not_pass_is_not_resolved(grader: Grader, lines: tuple[str, ...]) -> None:
    """A test that must turn green and failed, is absent or was skipped leaves the instance unresolved."""
    verdict = grader.grade(EVALUATION, log_of(*lines))
    assert verdict.found
    assert not verdict.resolved
    assert verdict.tests.pass_to_pass_success == EVALUATION.pass_to_pass


def test_a_log_without_markers_is_not_found(grader: Grader) -> None:
    """Results without the markers count for nothing, and an environment's fault in the log is hinted at."""
    verdict = grader.grade(EVALUATION, b"PASSED tests/test_calc.py::test_sub\nCould not resolve host: x\n")
    assert not verdict.found
    assert not verdict.resolved
    assert verdict.infra_hint == "network_unreachable"


def test_bytes_that_are_no_text_are_graded(grader: Grader) -> None:
    """A log with bytes that are no UTF-8, and with Windows line ends, is graded all the same."""
    log = log_of("\x00 noise", *ALL_PASS).replace(b"noise", b"\xff\xfe\xc3(").replace(b"\n", b"\r\n")
    assert grader.grade(EVALUATION, log).resolved


def test_results_outside_the_markers_are_told(grader: Grader) -> None:
    """Official code falls back to the whole log; the verdict says that it did."""
    assert grader.grade(EVALUATION, log_of(after="\n".join(ALL_PASS))).outside
    assert not grader.grade(EVALUATION, log_of(*ALL_PASS)).outside


def test_fail_only_counts_what_did_not_fail(grader: Grader) -> None:
    """By the fail-only rule a required test that no line calls failed is fine, if a run is in the log."""
    fail_only = evaluation(eval_type="fail_only", log_parser="parse_log_chart_js", pass_to_pass=())
    assert grader.grade(fail_only, log_of("Executed 12 of 12 SUCCESS")).resolved
    assert not grader.grade(fail_only, log_of("Executed 0 of 0 SUCCESS")).resolved


def test_the_registry_is_known_without_loading_it(grader: Grader) -> None:
    """The parser names read from source text are those that the loaded grader has."""
    grader.grade(EVALUATION, log_of(*ALL_PASS))
    process = subprocess.run(
        [sys.executable, "-P", str(Path(official.__file__).with_name("grader_process.py"))],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
        timeout=60,
    )
    greeting = json.loads(process.stdout)
    assert greeting["version"] == official.GRADER_VERSION
    assert frozenset(greeting["parsers"]) == parser_names()
    assert "parse_log_django" in parser_names()


def test_grading_imports_nothing_here() -> None:
    """Neither swebench nor its parsers are ever imported into the process that asks for a verdict."""
    program = (
        "import sys; from pathlib import Path; from swe_pytest.grading.official import official_grade\n"
        "from tests.grading.examples import *\n"
        "assert official_grade(EVALUATION, log_of(*ALL_PASS)).resolved\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('swebench', 'unidiff', 'datasets')])"
    )
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_the_grader_is_small(grader: Grader) -> None:
    """The grader process stays under 60 MB: many workers have one each."""
    grader.grade(EVALUATION, log_of(*ALL_PASS))
    status = Path(f"/proc/{grader.pid}/status").read_text()
    peak_kib = int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")))
    assert peak_kib < 60 * 1024


def test_a_log_that_traps_the_parser_ends_at_the_deadline() -> None:
    """A log that keeps an official pattern busy for hours fails at the deadline; the next is graded."""
    trap = log_of("  1)" + " " * 100_000 + "x")
    with Grader(deadline_s=1.0) as grader:
        began = time.monotonic()
        with pytest.raises(GraderFailed, match=r"acme__calc-1: .*parse_log_eslint did not end within 1 s"):
            grader.grade(evaluation(log_parser="parse_log_eslint"), trap)
        assert time.monotonic() - began < 10.0
        assert grader.pid is None
        assert grader.grade(EVALUATION, log_of(*ALL_PASS)).resolved


def test_a_stuck_grader_ends_without_anybody(tmp_path: Path) -> None:
    """A grader whose parent is gone while it is stuck is ended by its own alarm."""
    pipe = tmp_path / "log"
    os.mkfifo(pipe)  # a log that never comes
    process = subprocess.Popen(
        [sys.executable, "-P", str(Path(official.__file__).with_name("grader_process.py"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None and process.stdout is not None
    process.stdout.readline()
    request = {
        "log": str(pipe),
        "instance_id": "a",
        "image": "",
        "repo": "",
        "version": "",
        "fail_to_pass": [],
        "pass_to_pass": [],
        "log_parser": "parse_log_pytest",
        "eval_type": "pass_and_fail",
        "deadline_s": 0.2,
    }
    process.stdin.write(json.dumps(request).encode() + b"\n")
    process.stdin.close()
    try:
        assert process.wait(timeout=10) == -signal.SIGALRM
    finally:
        process.kill()
        process.stdout.close()


def test_a_parser_that_raises_fails_only_this_log(grader: Grader) -> None:
    """A log on which an official parser raises is a failure of the grader, and the same process goes on."""
    with pytest.raises(GraderFailed, match=r"acme__calc-1: parse_log_django raised IndexError") as caught:
        grader.grade(evaluation(log_parser="parse_log_django"), log_of("FAIL:"))
    assert caught.value.kind == "grader_failed"
    pid = grader.pid
    assert grader.grade(EVALUATION, log_of(*ALL_PASS)).resolved
    assert grader.pid == pid


def test_a_killed_grader_is_replaced(grader: Grader) -> None:
    """A grader killed between two logs is started again; one killed at work fails that log."""
    grader.grade(EVALUATION, log_of(*ALL_PASS))
    assert grader.pid is not None
    os.kill(grader.pid, signal.SIGKILL)
    assert wait_until_gone(grader.pid)
    assert grader.grade(EVALUATION, log_of(*ALL_PASS)).resolved
    os.kill(grader.pid, signal.SIGSTOP)
    killer = threading.Timer(0.3, os.kill, (grader.pid, signal.SIGKILL))
    killer.start()
    with pytest.raises(GraderFailed, match="the grader process died"):
        grader.grade(EVALUATION, log_of(*ALL_PASS))
    killer.join()
    assert grader.grade(EVALUATION, log_of(*ALL_PASS)).resolved


def test_the_grader_dies_with_its_parent() -> None:
    """When the process that grades is killed, its grader ends too."""
    program = (
        "import sys, signal; from swe_pytest.grading.official import Grader\n"
        "from tests.grading.examples import *\n"
        "grader = Grader(); grader.grade(EVALUATION, log_of(*ALL_PASS))\n"
        "print(grader.pid, flush=True); signal.pause()"
    )
    root = Path(__file__).resolve().parents[2]
    with subprocess.Popen([sys.executable, "-c", program], cwd=root, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert is_alive(child)
        parent.kill()
    assert wait_until_gone(child)


def test_leaving_ends_the_grader() -> None:
    """After the context nothing of the grader is left, and closing twice is fine."""
    with Grader() as grader:
        grader.grade(EVALUATION, log_of(*ALL_PASS))
        pid = grader.pid
    assert pid is not None
    assert not is_alive(pid)
    grader.close()


def test_an_unknown_parser_has_no_fallback(grader: Grader) -> None:
    """A parser name that the pinned registry does not have is an error, and no process is started for it."""
    with pytest.raises(UnknownParser, match=r"acme__calc-1.*parse_log_nonsense") as caught:
        grader.grade(evaluation(log_parser="parse_log_nonsense"), log_of(*ALL_PASS))
    assert caught.value.kind == "unknown_parser"
    assert grader.pid is None


def test_another_version_is_no_grader(monkeypatch: pytest.MonkeyPatch) -> None:
    """With another swebench than the pinned one there is no verdict; the message says what to do."""
    monkeypatch.setattr(official, "GRADER_VERSION", "5.0.1")
    parser_names.cache_clear()
    try:
        with pytest.raises(GraderUnavailable, match=r"pip install swebench==5\.0\.1") as caught:
            official_grade(EVALUATION, log_of(*ALL_PASS))
    finally:
        parser_names.cache_clear()
    assert caught.value.kind == "grader_missing"


def test_without_swebench_there_is_no_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interpreter without swebench gives no verdict: no fallback, and the message names the package."""
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True, timeout=60)
    monkeypatch.setattr(sys, "executable", str(bare / "bin" / "python"))
    with pytest.raises(GraderUnavailable, match=r"needs swebench 5\.0\.2 .*pip install"):
        official_grade(EVALUATION, log_of(*ALL_PASS))
