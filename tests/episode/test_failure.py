"""From an exception to a failure class."""

from __future__ import annotations

import pytest

from swe_pytest.episode.failure import DeadlinePassed, Masked, Terminated, failure_of
from swe_pytest.grading.verdict import NotMeasured
from swe_pytest.results.record import Stage
from swe_pytest.sandbox.errors import ImageMissing, SandboxGone


@pytest.mark.parametrize(
    ("error", "kind", "terminal"),
    [
        (SandboxGone("it died", container="c"), "sandbox_gone", False),
        (ImageMissing("none"), "image_missing", True),
        (NotMeasured("verifier_timeout", "late", terminal=False), "verifier_timeout", False),
        (NotMeasured("image_changed", "other tree", terminal=True), "image_changed", True),
        (Masked("accidental_pass", "by luck"), "accidental_pass", True),
        (DeadlinePassed("late"), "episode_timeout", False),
        (Terminated("SIGTERM"), "interrupted", True),
        (KeyboardInterrupt(), "interrupted", True),
        (SystemExit(1), "interrupted", True),
        (ValueError("a fault of ours"), "harness_error", True),
    ],
)
def test_each_cause_has_its_class(error: BaseException, kind: str, terminal: bool) -> None:
    """An error that names its class keeps it; what interrupts is `interrupted`; all else is our own fault."""
    failure = failure_of(error, Stage.VERIFY, "toy__toy-1")
    assert (failure.failure_class, failure.terminal, failure.stage) == (kind, terminal, "verify")
    assert failure.message.startswith("toy__toy-1: verify: ")


def test_the_first_cause_is_kept() -> None:
    """However often an error was wrapped, the record names the first of the chain."""
    try:
        try:
            raise ConnectionRefusedError("no socket")
        except OSError as first:
            raise SandboxGone("it died") from first
    except SandboxGone as error:
        assert failure_of(error, Stage.SEED, "x").cause == "ConnectionRefusedError: no socket"


def test_messages_are_bounded() -> None:
    """No error text can blow up a record."""
    failure = failure_of(ValueError("x" * 100_000), Stage.SEED, "i")
    assert len(failure.message) <= 2000 and len(failure.cause) <= 2000
