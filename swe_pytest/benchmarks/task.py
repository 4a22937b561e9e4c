"""An instance in two halves: what an agent may know, and what only the grader may."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from swe_pytest.grading.evaluation import Evaluation


@dataclass(frozen=True, slots=True)
class Task:
    """The public half: all that may enter the task sandbox or reach an agent."""

    benchmark: str
    instance_id: str
    repo: str
    version: str
    image: str
    workdir: str
    base_commit: str
    problem_statement: str


@dataclass(frozen=True, slots=True)
class Gold:
    """The grader-only half. `row_digest` is the sha256 of the row's bytes, for the record."""

    patch: bytes
    evaluation: Evaluation
    row_digest: str


@dataclass(frozen=True, slots=True)
class RowRef:
    """Where a row stands in its JSON-lines file; the row itself is read only when its case runs."""

    path: Path
    line: int
    offset: int
    length: int
    instance_id: str
    repo: str
    image: str
