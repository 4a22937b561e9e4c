"""The ledger of a run: append-only lines, written as things happen, by every process of the run."""

from __future__ import annotations

import errno
import json
import os
import platform
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from swe_pytest.results.codec import Malformed, decode, encode, json_line
from swe_pytest.results.events import (
    EVENTS,
    CasesPlanned,
    CheckEnd,
    EpisodeBegin,
    EpisodeEnd,
    Event,
    GatesSet,
    PlannedCase,
    RunBegin,
    RunEnd,
    WorkerDied,
)
from swe_pytest.results.gates import Gates
from swe_pytest.results.record import EpisodeRecord, Outcome

# A plan is written in lines of so many cases: few enough to read, many enough to be quick.
_CASES_A_LINE = 500
# What a machine or process crash must not take away again: everything that a later line cannot replace.
_SYNCED = (RunBegin, EpisodeEnd, RunEnd)
# How every line begins. Inside a JSON string its quotes would be escaped, so it marks nothing else: a line
# that was appended right behind a torn one can be told from it.
_BEGINNING = b'{"event":"'
_PLAN = _BEGINNING + CasesPlanned.event.encode() + b'"'


@dataclass(frozen=True, slots=True)
class Ledger:
    """Appends to a ledger file. Any number of processes and threads may append to one file.

    Each event is one line in one write in append mode, so lines are never mixed. A line that a killed
    process left torn is told apart by the reader. Every method raises OSError when the line could not
    be written whole, e.g. on a full disk.
    """

    path: Path

    def append(self, event: Event) -> None:
        """Append one event; the events that results rest on are on disk when this returns."""
        line = json_line({"event": event.event, **encode(event)})
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            written = os.write(descriptor, line)
            if written != len(line):
                # The rest cannot follow: other processes' lines may already stand behind the torn one.
                reason = f"only {written} of {len(line)} bytes of {event.event} were written (disk full?)"
                raise OSError(errno.ENOSPC, reason, str(self.path))
            if isinstance(event, _SYNCED):
                os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def run_begin(self, run_id: str, argv: Sequence[str], versions: Mapping[str, str] | None = None) -> None:
        """Write the run's facts, those of this host included."""
        self.append(RunBegin(time.time(), run_id, tuple(argv), dict(versions or {}), _host()))

    def plan(self, cases: Sequence[PlannedCase]) -> None:
        """Write down what is going to be run: once, by one process, after collection and deselection."""
        remaining = iter(cases)
        announced = len(cases)
        while part := tuple(islice(remaining, _CASES_A_LINE)):
            self.append(CasesPlanned(time.time(), announced, part))
            announced = 0

    def gates(self, suite: str, gates: Gates) -> None:
        """Write down what a suite demands, so that a report can judge without the suite's file."""
        self.append(GatesSet(time.time(), suite, gates))

    def episode_begin(self, case_id: str, process: str) -> None:
        """Say that work on a case begins. What begins and never ends is masked, never a zero."""
        self.append(EpisodeBegin(time.time(), case_id, process))

    def episode_end(self, record: EpisodeRecord) -> None:
        """Say how an episode came out; its record is on disk already."""
        self.append(
            EpisodeEnd(
                time.time(),
                record.case_id,
                record.outcome,
                record.reward,
                record.resolved,
                record.mask_reason,
                record.failure,
                record.attempts,
            )
        )

    def check_end(self, case_id: str, passed: bool, message: str = "") -> None:
        """Say what the check made of the episode."""
        self.append(CheckEnd(time.time(), case_id, passed, message))

    def worker_died(self, process: str, message: str = "") -> None:
        """Say that a process died."""
        self.append(WorkerDied(time.time(), process, message))

    def run_end(self, exit_status: int, *, interrupted: bool = False) -> None:
        """Say that the run is over; nothing follows."""
        self.append(RunEnd(time.time(), exit_status, not interrupted))


def _host() -> dict[str, str]:
    return {
        "name": socket.gethostname(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cpus": str(os.cpu_count() or 0),
        "python": platform.python_version(),
    }


@dataclass(slots=True)
class LedgerState:
    """What a ledger says. `unbalanced` holds those problems after which the sums cannot be trusted."""

    run: RunBegin | None = None
    planned: dict[str, PlannedCase] = field(default_factory=dict)
    begun: dict[str, EpisodeBegin] = field(default_factory=dict)
    ended: dict[str, EpisodeEnd] = field(default_factory=dict)
    checked: dict[str, CheckEnd] = field(default_factory=dict)
    died: dict[str, WorkerDied] = field(default_factory=dict)
    gates: dict[str, Gates] = field(default_factory=dict)
    run_end: RunEnd | None = None
    problems: list[str] = field(default_factory=list)
    unbalanced: list[str] = field(default_factory=list)


def read_ledger(path: Path) -> LedgerState:
    """Return what a ledger says.

    Torn and strange lines become `problems`; they never hide a whole line, and never a case: if the plan
    may be among what is lost, that is in `unbalanced` too. Where a case ended twice, the first end counts.
    Raises: OSError when there is no readable file.
    """
    state = LedgerState()
    announced = found = 0
    for number, text in _pieces(path):
        try:
            event = _event(text)
        except Malformed as error:
            problem = f"{path.name}:{number}: {error} ({len(text)} bytes)"
            state.problems.append(problem)
            if _PLAN.startswith(text[: len(_PLAN)]):
                state.unbalanced.append(problem)
            continue
        if isinstance(event, CasesPlanned):
            announced += event.announced
            found += len(event.cases)
        _enter(state, event, f"{path.name}:{number}")
    if announced != found:
        state.unbalanced.append(f"the plan announced {announced} cases, {found} of them are in {path.name}")
    # Judged at the end: lines of different processes have no order among them.
    for case_id in (*state.begun, *state.ended):
        if case_id not in state.planned:
            state.unbalanced.append(f"{case_id} was run, but is not in the plan of {path.name}")
    state.unbalanced = list(dict.fromkeys(state.unbalanced))
    return state


def _pieces(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield line numbers and lines; a line with another one glued behind it yields both."""
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            text = line.rstrip(b"\n")
            start = 0
            while (next_start := text.find(_BEGINNING, start + 1)) > 0:
                yield number, text[start:next_start]
                start = next_start
            if text[start:]:
                yield number, text[start:]


def _event(text: bytes) -> Event:
    try:
        value = json.loads(text)
    except ValueError:
        raise Malformed("a torn line") from None
    name = value.pop("event", None) if isinstance(value, dict) else None
    shape = EVENTS.get(name) if isinstance(name, str) else None
    if shape is None:
        raise Malformed(f"an unknown event {name!r}")
    return decode(shape, value)


def _enter(state: LedgerState, event: Event, where: str) -> None:
    match event:
        case RunBegin():
            if state.run is not None and state.run.run_id != event.run_id:
                state.unbalanced.append(f"{where}: runs {state.run.run_id} and {event.run_id} are mixed")
            state.run = state.run or event
        case CasesPlanned():
            for case in event.cases:
                if state.planned.setdefault(case.case_id, case) != case:
                    state.unbalanced.append(f"{where}: two different cases are called {case.case_id}")
        case GatesSet():
            state.gates[event.suite] = event.gates
        case EpisodeBegin():
            state.begun.setdefault(event.case_id, event)
        case EpisodeEnd():
            _enter_end(state, event, where)
        case CheckEnd():
            state.checked[event.case_id] = event
        case WorkerDied():
            state.died[event.process] = event
        case RunEnd():
            state.run_end = event


def _enter_end(state: LedgerState, event: EpisodeEnd, where: str) -> None:
    measured, masked = event.outcome is Outcome.MEASURED, event.outcome is Outcome.MASKED
    rewarded = {event.reward is not None, event.resolved is not None}
    told = {event.failure is not None, event.mask_reason != ""}
    if rewarded != {measured} or told != {masked}:
        # Whoever wrote this is wrong about something: the case counts as one that never ended.
        text = f"reward {event.reward}, resolved {event.resolved}, reason {event.mask_reason!r}"
        state.problems.append(f"{where}: {event.case_id} cannot be {event.outcome} with {text}")
        return
    first = state.ended.setdefault(event.case_id, event)
    if first is not event and (first.outcome, first.reward) != (event.outcome, event.reward):
        both = f"first {first.outcome}, then {event.outcome}"
        state.problems.append(f"{where}: {event.case_id} ended twice, {both}: the first counts")
