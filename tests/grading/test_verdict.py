"""Verdicts: what is measured, what is not, and whose fault a bad end was."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from swe_pytest.grading.evaluate import ALREADY_APPLIED, OFFICIAL_LADDER, STRICT, Attempt, Trace
from swe_pytest.grading.evaluation import Evaluation, evaluation_from_json, evaluation_to_json
from swe_pytest.grading.integrity import findings
from swe_pytest.grading.official import Grader, OfficialVerdict
from swe_pytest.grading.verdict import NotMeasured, empty_patch_verdict, judge, settle
from swe_pytest.results import record
from swe_pytest.results.record import Finding
from tests.grading.examples import ALL_PASS, EVALUATION, ONE_FAILS, evaluation, log_of

PATCH = b"--- a/calc.py\n+++ b/calc.py\n@@ -1 +1 @@\n-a\n+b\n"

GOOD = Trace(
    start_tree="1" * 40,
    start_tree_matches=True,
    apply_step=STRICT,
    apply_attempts=(Attempt(STRICT, 0),),
    applied=True,
    restored=(),
    test_patch_applies=True,
    guarded=True,
    started=True,
    script_status=0,
    completed=True,
    fault="",
)
# As far as a verifier comes before it starts the evaluation script.
UNSTARTED = replace(GOOD, started=False, script_status=None, completed=False)
UNFINISHED = replace(GOOD, script_status=None, completed=False)


@dataclass(frozen=True)
class Run:
    output: bytes
    timed_out: bool = False
    truncated: bool = False


class NobodyAsks:
    """A grader that must not be asked: the verdict is known without the log."""

    def grade(self, evaluation: Evaluation, log: object) -> OfficialVerdict:
        raise AssertionError("the grader was asked")


@pytest.fixture(scope="module")
def grader() -> Iterator[Grader]:
    with Grader() as grader:
        yield grader


def test_a_resolved_run_is_worth_one(grader: Grader) -> None:
    """All required tests pass and nothing is amiss: reward 1.0, no reason, the step that applied the patch."""
    verdict = judge(EVALUATION, GOOD, Run(log_of(*ALL_PASS)), PATCH, grader)
    assert (verdict.official, verdict.reward, verdict.reason) == (True, 1.0, "")
    assert verdict.apply_step == STRICT
    assert verdict.findings == ()


def test_an_unresolved_run_says_what_failed(grader: Grader) -> None:
    """A measured zero names how many required tests of each kind did not pass."""
    verdict = judge(EVALUATION, GOOD, Run(log_of(*ONE_FAILS)), PATCH, grader)
    assert (verdict.official, verdict.reward) == (False, 0.0)
    assert verdict.reason == "1 of 1 FAIL_TO_PASS did not pass"


def test_a_patch_that_applies_by_no_step_is_a_measured_zero() -> None:
    """When every step of the ladder was tried in vain, the candidate has measured nothing but itself."""
    tried = tuple(Attempt(step, 1, "no") for step in (STRICT, *OFFICIAL_LADDER, ALREADY_APPLIED))
    trace = replace(UNSTARTED, applied=False, apply_step="", apply_attempts=tried, test_patch_applies=None)
    verdict = judge(EVALUATION, trace, Run(b""), PATCH, NobodyAsks())
    assert (verdict.official, verdict.reward, verdict.reason) == (False, 0.0, "patch does not apply")


def test_an_empty_patch_is_a_measured_zero_without_a_run() -> None:
    """A candidate that changed nothing is unresolved, and no container is needed to know it."""
    verdict = empty_patch_verdict(EVALUATION)
    assert (verdict.official, verdict.reward, verdict.reason) == (False, 0.0, "empty patch")


@pytest.mark.parametrize(
    ("trace", "run", "kind", "terminal"),
    [
        (replace(UNSTARTED, fault="the image has no git"), Run(b""), "verifier_fault", True),
        (replace(UNSTARTED, start_tree_matches=False, applied=False), Run(b""), "image_changed", True),
        (replace(UNSTARTED, test_patch_applies=False), Run(b""), "test_patch_failed", True),
        (UNSTARTED, Run(b""), "verifier_incomplete", False),
        (
            replace(UNSTARTED, start_tree="", start_tree_matches=False, applied=False, apply_attempts=()),
            Run(b""),
            "verifier_incomplete",
            False,
        ),
        (
            replace(UNSTARTED, applied=False, apply_step="", apply_attempts=(Attempt(STRICT, 1),)),
            Run(b""),
            "verifier_incomplete",
            False,
        ),
        (UNSTARTED, Run(b"", timed_out=True), "verifier_timeout", False),
    ],
    ids=[
        "gave-up",
        "other-tree",
        "test-patch",
        "died-unstarted",
        "died-at-once",
        "died-applying",
        "slow-unstarted",
    ],
)
def test_what_no_candidate_can_have_done_is_not_measured(
    trace: Trace, run: Run, kind: str, terminal: bool
) -> None:
    """An end before any code of the candidate ran is never a zero; the failure class says what it was."""
    with pytest.raises(NotMeasured) as caught:
        judge(EVALUATION, trace, run, PATCH, NobodyAsks())
    assert (caught.value.kind, caught.value.terminal) == (kind, terminal)
    assert "acme__calc-1" in str(caught.value)


def test_tests_that_hang_are_a_measured_zero() -> None:
    """Time that runs out after the tests began is the candidate's."""
    run = Run(log_of(*ALL_PASS[:1]).partition(b"+ : '>>>>> End")[0], timed_out=True)
    verdict = judge(EVALUATION, UNFINISHED, run, PATCH, NobodyAsks())
    assert (verdict.official, verdict.reward, verdict.reason) == (False, 0.0, "tests timed out")


def test_a_slow_set_up_is_measured_only_without_a_network() -> None:
    """Time that runs out before the tests began may be the network's where there is one, and else is not."""
    run = Run(b"+ python -m pip install -e .\n", timed_out=True)
    with pytest.raises(NotMeasured, match="set-up") as caught:
        judge(evaluation(network="open"), UNFINISHED, run, PATCH, NobodyAsks())
    assert caught.value.kind == "verifier_timeout"
    verdict = judge(evaluation(network="none"), UNFINISHED, run, PATCH, NobodyAsks())
    assert verdict.reason == "tests timed out"


def test_a_candidate_that_ends_the_script_gets_a_measured_zero() -> None:
    """A script that ended early in a container that lived was ended by the code in it."""
    verdict = judge(EVALUATION, UNFINISHED, Run(log_of(*ALL_PASS)), PATCH, NobodyAsks())
    assert (verdict.official, verdict.reward) == (False, 0.0)
    assert "ended before its end" in verdict.reason


def test_an_environment_that_broke_is_not_measured(grader: Grader) -> None:
    """No test result, and official code sees that the network broke: masked, and worth another try."""
    with pytest.raises(NotMeasured, match="network_unreachable") as caught:
        judge(evaluation(network="open"), GOOD, Run(log_of("Could not resolve host: x")), PATCH, grader)
    assert (caught.value.kind, caught.value.terminal) == ("environment_failed", False)


@pytest.mark.parametrize(
    "words", ["Killed", "Could not resolve host: x", "Cannot connect to the Docker daemon"]
)
def test_words_that_prove_nothing_excuse_nothing(grader: Grader, words: str) -> None:
    """Without a network none can break, and the ends of memory and container are witnessed elsewhere."""
    verdict = judge(evaluation(network="none"), GOOD, Run(log_of(words)), PATCH, grader)
    assert (verdict.official, verdict.reward) == (False, 0.0)


def test_an_excuse_beside_results_excuses_nothing(grader: Grader) -> None:
    """The same words beside test results change no verdict."""
    run = Run(log_of("Could not resolve host: x", *ONE_FAILS))
    verdict = judge(evaluation(network="open"), GOOD, run, PATCH, grader)
    assert (verdict.official, verdict.reward) == (False, 0.0)


def test_a_run_without_results_is_a_measured_zero(grader: Grader) -> None:
    """A candidate that silences the runner is unresolved."""
    verdict = judge(EVALUATION, GOOD, Run(log_of()), PATCH, grader)
    assert (verdict.reward, verdict.reason) == (0.0, "no valid test results in the log")


def test_a_decisive_finding_takes_the_reward_and_keeps_the_official_word() -> None:
    """Officially resolved, but the log is forged: both verdicts stand in the record, with the reason."""
    official = OfficialVerdict(resolved=True, found=True, tests=record.TestStatuses())
    verdict = settle(official, [Finding("forged_markers", "three", True)])
    assert (verdict.official, verdict.reward) == (True, 0.0)
    assert verdict.reason == "officially resolved, but forged_markers: three"


def test_a_remark_changes_no_reward(grader: Grader) -> None:
    """Findings that are not decisive are recorded beside a full reward."""
    trace = replace(GOOD, restored=("conftest.py",))
    verdict = judge(EVALUATION, trace, Run(log_of(*ALL_PASS), truncated=True), PATCH, grader)
    assert verdict.reward == 1.0
    assert [finding.rule for finding in verdict.findings] == ["files_restored", "log_truncated"]


def test_nothing_is_decisive_about_an_unresolved_run() -> None:
    """A finding is called decisive only where it made the reward differ from the official verdict."""
    official = OfficialVerdict(resolved=False, found=True, tests=record.TestStatuses())
    log = log_of(*ALL_PASS) + b">>>>> Start Test Output\n"
    found = findings(EVALUATION, official=official, log=log, patch=PATCH, restored=(), completed=True)
    assert [(finding.rule, finding.decisive) for finding in found] == [("forged_markers", False)]


def test_an_evaluation_survives_storage_byte_for_byte() -> None:
    """What is stored of an evaluation gives an equal one, also where a patch is no UTF-8."""
    before = evaluation(test_patch=b"\xff\x00\r\nx", gold_paths=("a\udcff.py",), eval_type="fail_only")
    assert evaluation_from_json(evaluation_to_json(before)) == before
    with pytest.raises(ValueError, match="eval_type"):
        evaluation_from_json(evaluation_to_json(before) | {"eval_type": "any"})
