"""One thing that is wrong with a file a person wrote, with the place and what would be right."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """A fault in a suite, config, manifest or row file.

    `line` and `column` count from 1; 0 means that the place inside the file is not known.
    `remedy` says what would be right; it may be empty only where `message` already does.
    """

    path: Path
    line: int
    column: int
    message: str
    remedy: str = ""

    def __str__(self) -> str:
        where = f"{self.path}:{self.line}:{self.column}" if self.line else str(self.path)
        return f"{where}: {self.message}" + (f"; {self.remedy}" if self.remedy else "")


class InvalidFiles(Exception):
    """Files that people wrote cannot be used; carries every problem found, never only the first."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems: tuple[Problem, ...] = tuple(sorted(set(problems)))
        super().__init__("\n".join(str(problem) for problem in self.problems))
