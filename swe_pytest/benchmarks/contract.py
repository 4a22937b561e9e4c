"""The benchmark port: a named source of tasks with one way of grading."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path

from swe_pytest.benchmarks.task import Gold, RowRef, Task
from swe_pytest.problem import Problem


class Benchmark(ABC):
    """A benchmark. `name` is as written in suites, e.g. `swebench:verified`."""

    name: str

    @abstractmethod
    def prepared_rows(self) -> Path:
        """Return where `swe-pytest prepare` puts this benchmark's rows (the file may not exist yet)."""

    @abstractmethod
    def index(self, path: Path) -> tuple[list[RowRef], list[Problem]]:
        """List the rows of a file and everything wrong with it, without keeping rows in memory.

        A row with a problem (bad JSON, missing or mistyped field, unknown parser, no required tests,
        duplicate id) is left out of the list. Rows keep the order of the file. Raises: nothing for
        bad content; a missing file is one problem whose remedy is the prepare command.
        """

    @abstractmethod
    def load(self, ref: RowRef) -> tuple[Task, Gold]:
        """Read one row. Raises: InvalidFiles when the file changed since it was indexed."""
