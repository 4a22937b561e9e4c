"""From a verifier's run to a verdict, or to the statement that nothing was measured.

What is whose fault, in the order in which it is asked:

    seen                                             outcome
    the verifier gave up (no git, no checkout …)     masked verifier_fault, terminal
    the start tree is not the recorded one           masked image_changed, terminal
    the patch applies by no step of the ladder       zero "patch does not apply"
    the held-out test patch does not apply           masked test_patch_failed, terminal
    time ran out before the evaluation script        masked verifier_timeout
    time ran out in the evaluation's set-up          masked verifier_timeout where set-up may use the network,
                                                     else zero: nothing but the candidate's code runs in it
    time ran out with tests running                  zero "tests timed out"
    ended before the evaluation script was started   masked verifier_incomplete: no code of the candidate ran
    ended while the evaluation script ran            zero: the container lived, so only code in it can have
                                                     ended it, and from there on that is the candidate's
    the log was cut, and what is left does not pass  masked output_limit, terminal
    no result in the log, and official code sees     masked environment_failed: a printed excuse may turn a
    the environment's fault                          zero into a mask, never into a reward
    else                                             the official verdict, less what integrity decides

A container that died, ran out of memory or never started is no matter of this module: those are
SandboxErrors of the run itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from swe_pytest.grading.evaluate import ALREADY_APPLIED
from swe_pytest.grading.evaluation import Evaluation
from swe_pytest.grading.integrity import START, findings
from swe_pytest.grading.official import OfficialVerdict
from swe_pytest.results.record import Finding, TestStatuses, Verdict

if TYPE_CHECKING:
    from pathlib import Path

    from swe_pytest.grading.evaluate import Trace


class NotMeasured(Exception):
    """The verifier's run says nothing about the candidate. `kind` is the failure class for the record."""

    def __init__(self, kind: str, message: str, *, terminal: bool) -> None:
        self.kind = kind
        self.terminal = terminal
        super().__init__(message)


class ScriptRun(Protocol):
    """What a verdict needs to know of a script run (see `sandbox.contract.ScriptResult`)."""

    @property
    def output(self) -> bytes: ...
    @property
    def timed_out(self) -> bool: ...
    @property
    def truncated(self) -> bool: ...


class OfficialGrader(Protocol):
    """Gives the official verdict on a log (see `official.Grader`)."""

    def grade(self, evaluation: Evaluation, log: bytes | Path) -> OfficialVerdict: ...


def judge(
    evaluation: Evaluation, trace: Trace, run: ScriptRun, patch: bytes, grader: OfficialGrader
) -> Verdict:
    """Return the verdict on one verifier run; the grader is asked only when the tests had their say.

    Raises: NotMeasured, GraderError.
    """
    zero = _before_tests(evaluation, trace, run)
    if zero is not None:
        return zero
    official = grader.grade(evaluation, run.output)
    if run.truncated and not official.resolved:
        raise NotMeasured(
            "output_limit",
            f"{evaluation.instance_id}: the log was too long, and what is left out may be the results; "
            "next: have the evaluation write less",
            terminal=True,
        )
    if not official.found and _is_environments(official.infra_hint, evaluation):
        raise NotMeasured(
            "environment_failed",
            f"{evaluation.instance_id}: no test result, and the log shows {official.infra_hint}",
            terminal=False,
        )
    found = findings(
        evaluation,
        official=official,
        log=run.output,
        patch=patch,
        restored=trace.restored,
        completed=trace.completed,
    )
    if run.truncated:
        found = (*found, Finding("log_truncated", "the log was too long; its middle was not graded", False))
    return settle(official, found, apply_step=trace.apply_step)


def settle(official: OfficialVerdict, found: Sequence[Finding], *, apply_step: str = "") -> Verdict:
    """Return the verdict that an official one and the findings make together."""
    decisive = next((finding for finding in found if finding.decisive), None)
    if decisive is not None:
        reason = f"officially resolved, but {decisive.rule}: {decisive.detail}"
    else:
        reason = "" if official.resolved else _why_unresolved(official)
    return Verdict(
        official=official.resolved,
        reward=1.0 if official.resolved and decisive is None else 0.0,
        reason=reason,
        tests=official.tests,
        apply_step=apply_step,
        findings=tuple(found),
    )


def empty_patch_verdict(evaluation: Evaluation) -> Verdict:
    """Return the measured zero of a candidate that changed nothing: no container is needed to know it."""
    return Verdict(
        official=False,
        reward=0.0,
        reason="empty patch",
        tests=TestStatuses(fail_to_pass_failure=evaluation.fail_to_pass),
    )


def _before_tests(evaluation: Evaluation, trace: Trace, run: ScriptRun) -> Verdict | None:
    who = evaluation.instance_id
    if trace.fault:
        raise NotMeasured(
            "verifier_fault",
            f"{who}: {trace.fault}; next: look into the image {evaluation.image}",
            terminal=True,
        )
    if trace.start_tree and not trace.start_tree_matches:
        raise NotMeasured(
            "image_changed",
            f"{who}: the verifier's checkout is not the tree that the agent started from; "
            f"next: compare the image {evaluation.image} with the one in the record",
            terminal=True,
        )
    if not trace.applied and trace.apply_attempts and trace.apply_attempts[-1].step == ALREADY_APPLIED:
        return _zero("patch does not apply")
    if trace.test_patch_applies is False:
        raise NotMeasured(
            "test_patch_failed",
            f"{who}: the held-out test patch does not apply; next: run the gold patch on this instance",
            terminal=True,
        )
    if run.timed_out:
        return _after_time_out(evaluation, trace, run)
    if not trace.started:
        raise NotMeasured(
            "verifier_incomplete",
            f"{who}: the verifier ended before the evaluation script was started",
            terminal=False,
        )
    if not trace.completed:
        return _zero("the evaluation was ended before its end", trace.apply_step)
    return None


def _after_time_out(evaluation: Evaluation, trace: Trace, run: ScriptRun) -> Verdict:
    # A log cut in the middle may have lost the marker; that much output is the tests'.
    testing = START in run.output or run.truncated
    if trace.started and (testing or evaluation.network == "none"):
        return _zero("tests timed out", trace.apply_step)
    stage = "the set-up in the evaluation script" if trace.started else "preparing the verifier"
    raise NotMeasured(
        "verifier_timeout",
        f"{evaluation.instance_id}: {stage} did not end in time; next: raise verifier.timeout_s",
        terminal=False,
    )


def _is_environments(hint: str, evaluation: Evaluation) -> bool:
    # Memory and container are left out: their ends are witnessed, not read from a log, where a shell's
    # "Killed" may be the candidate's. Without a network nobody expects to reach one.
    if hint == "network_unreachable":
        return evaluation.network == "open"
    return hint in ("browser_launch_failed", "display_unavailable")


def _zero(reason: str, apply_step: str = "") -> Verdict:
    return Verdict(official=False, reward=0.0, reason=reason, tests=TestStatuses(), apply_step=apply_step)


def _why_unresolved(official: OfficialVerdict) -> str:
    if not official.found:
        return "no valid test results in the log"
    tests = official.tests
    parts = []
    for name, passed, failed in (
        ("FAIL_TO_PASS", tests.fail_to_pass_success, tests.fail_to_pass_failure),
        ("PASS_TO_PASS", tests.pass_to_pass_success, tests.pass_to_pass_failure),
    ):
        if failed:
            parts.append(f"{len(failed)} of {len(passed) + len(failed)} {name}")
    return f"{' and '.join(parts)} did not pass"
