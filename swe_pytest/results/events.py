"""The events of a run, one class each, as the ledger keeps them. `at` is epoch seconds in every one."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import ClassVar

from swe_pytest.results.gates import Gates
from swe_pytest.results.record import Failure, Outcome


@dataclass(frozen=True, slots=True)
class PlannedCase:
    """A case that the run set out to run. `nodeid` is pytest's, `repeat` counts from 1."""

    case_id: str
    nodeid: str
    suite: str
    check: str
    benchmark: str
    config: str
    instance_id: str
    repeat: int


@dataclass(frozen=True, slots=True)
class RunBegin:
    """The run's facts."""

    event: ClassVar[str] = "run.begin"
    at: float
    run_id: str
    argv: tuple[str, ...]
    versions: dict[str, str]
    host: dict[str, str]


@dataclass(frozen=True, slots=True)
class CasesPlanned:
    """A part of the plan. The first part of each plan announces how many cases there are in all its parts."""

    event: ClassVar[str] = "case.planned"
    at: float
    announced: int
    cases: tuple[PlannedCase, ...]


@dataclass(frozen=True, slots=True)
class GatesSet:
    """What a suite demands of its results."""

    event: ClassVar[str] = "suite.gates"
    at: float
    suite: str
    gates: Gates


@dataclass(frozen=True, slots=True)
class EpisodeBegin:
    """A process starts on a case: written before anything is created for it."""

    event: ClassVar[str] = "episode.begin"
    at: float
    case_id: str
    process: str


@dataclass(frozen=True, slots=True)
class EpisodeEnd:
    """How an episode came out, as in its record. A reward is there only if the outcome is measured."""

    event: ClassVar[str] = "episode.end"
    at: float
    case_id: str
    outcome: Outcome
    reward: float | None
    resolved: bool | None
    mask_reason: str
    failure: Failure | None
    attempts: int

    @classmethod
    def masked(cls, case_id: str, failure: Failure) -> EpisodeEnd:
        """Make the end of an episode whose own process could write no record, e.g. because it died."""
        reason = f"{failure.failure_class}: {failure.message}"
        return cls(time.time(), case_id, Outcome.MASKED, None, None, reason, failure, 1)


@dataclass(frozen=True, slots=True)
class CheckEnd:
    """What the check made of the episode, after its end; `message` says why it did not pass."""

    event: ClassVar[str] = "check.end"
    at: float
    case_id: str
    passed: bool
    message: str


@dataclass(frozen=True, slots=True)
class WorkerDied:
    """A process of the run ended without leaving it."""

    event: ClassVar[str] = "worker.died"
    at: float
    process: str
    message: str


@dataclass(frozen=True, slots=True)
class RunEnd:
    """The run is over. `complete` is false when it was cut short."""

    event: ClassVar[str] = "run.end"
    at: float
    exit_status: int
    complete: bool


Event = RunBegin | CasesPlanned | GatesSet | EpisodeBegin | EpisodeEnd | CheckEnd | WorkerDied | RunEnd
EVENTS: dict[str, type[Event]] = {
    shape.event: shape
    for shape in (RunBegin, CasesPlanned, GatesSet, EpisodeBegin, EpisodeEnd, CheckEnd, WorkerDied, RunEnd)
}
