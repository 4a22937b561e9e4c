"""From an exception to a failure: one class a cause, so that nobody has to read messages to decide."""

from __future__ import annotations

from swe_pytest.results.record import Failure, Stage

_MESSAGE_CHARS = 2000

# Trying again cannot help: the same input meets the same wall.
_TERMINAL = frozenset(
    {
        "image_missing",
        "grader_missing",
        "unknown_parser",
        "test_patch_failed",
        "seed_failed",
        "accidental_pass",
        "agent_timeout",
        "agent_launch_failed",
        "interrupted",
        "harness_error",
        "output_limit",
        "out_of_memory",
    }
)


class Terminated(KeyboardInterrupt):
    """SIGTERM reached this process: unwind like Ctrl-C, so that every clean-up runs."""


class DeadlinePassed(Exception):
    """The episode's own deadline passed between two stages."""

    kind = "episode_timeout"


class Masked(Exception):
    """A rule of ours says that this episode says nothing about the agent. `kind` is the failure class."""

    def __init__(self, kind: str, message: str) -> None:
        self.kind = kind
        super().__init__(message)


def failure_of(error: BaseException, stage: Stage, instance_id: str) -> Failure:
    """Classify an error that ended an episode at `stage`.

    Errors that carry a `kind` name their own class. Anything interrupting from outside (Ctrl-C, SIGTERM,
    pytest-timeout, pytest.exit) is `interrupted`. What is left is a fault of the harness: `harness_error`.
    """
    kind = getattr(error, "kind", None)
    if not isinstance(kind, str):
        kind = "harness_error" if isinstance(error, Exception) else "interrupted"
    terminal = getattr(error, "terminal", None)
    if not isinstance(terminal, bool):
        terminal = kind in _TERMINAL
    text = str(error) or type(error).__name__
    first = error
    while (earlier := first.__cause__ or first.__context__) is not None:
        first = earlier
    return Failure(
        failure_class=kind,
        stage=str(stage),
        terminal=terminal,
        message=f"{instance_id}: {stage}: {text}"[:_MESSAGE_CHARS],
        cause=f"{type(first).__name__}: {first}"[:_MESSAGE_CHARS],
    )
