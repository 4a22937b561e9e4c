"""The journal: what the harness did in an episode, in order, with monotonic and wall time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from swe_pytest.results.record import JournalEntry, Stage

Value = str | int | float | bool | None


@dataclass(slots=True)
class Journal:
    """Append-only. `stage` is the stage now running, or the last one that did."""

    entries: list[JournalEntry] = field(default_factory=list)
    durations: dict[str, float] = field(default_factory=dict)
    stage: Stage = Stage.SEED
    started: float = field(default_factory=time.monotonic)

    def note(self, event: str, **data: Value) -> None:
        """Write down one thing that happened, now."""
        entry = JournalEntry(round(time.monotonic() - self.started, 6), round(time.time(), 6), event, data)
        self.entries.append(entry)

    @contextmanager
    def entered(self, stage: Stage, limit_s: float) -> Iterator[None]:
        """Journal that a stage began and that it ended or failed; an error passes through."""
        self.stage = stage
        began = time.monotonic()
        self.note(f"{stage}.begin", limit_s=round(limit_s, 3))
        try:
            yield
        except BaseException as error:
            self.note(f"{stage}.failed", error=type(error).__name__, message=str(error)[:2000])
            raise
        else:
            self.note(f"{stage}.end")
        finally:
            spent = time.monotonic() - began
            self.durations[stage] = round(self.durations.get(stage, 0.0) + spent, 6)
