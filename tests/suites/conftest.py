"""A project in a folder, with a toy benchmark: its rows are real files, its grading is never reached here."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from swe_pytest.benchmarks.contract import Benchmark
from swe_pytest.benchmarks.registry import UnknownBenchmark
from swe_pytest.benchmarks.task import Gold, RowRef, Task
from swe_pytest.problem import InvalidFiles, Problem
from swe_pytest.suites import load, manifest
from swe_pytest.suites.plan import LoadedSuite, load_suite

Write = Callable[[str, str], Path]


class ToyBenchmark(Benchmark):
    """Rows of instance_id, repo and image; a row without `tests` is a problem, as in the real benchmarks."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.folder = folder

    def prepared_rows(self) -> Path:
        return self.folder / "prepared.jsonl"

    def index(self, path: Path) -> tuple[list[RowRef], list[Problem]]:
        if not path.is_file():
            return [], [Problem(path, 0, 0, "not prepared", f"swe-pytest prepare {self.name}")]
        rows: list[RowRef] = []
        problems: list[Problem] = []
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            row = json.loads(line)
            if row.get("tests", 1) == []:
                problems.append(
                    Problem(path, number, 1, f"{row['instance_id']}: no required tests", "name one")
                )
            else:
                rows.append(RowRef(path, number, 0, len(line), row["instance_id"], row["repo"], row["image"]))
        return rows, problems

    def load(self, ref: RowRef) -> tuple[Task, Gold]:
        raise NotImplementedError("planning never reads a row")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project whose only benchmarks are toy:box and toy:chest."""

    def benchmark(name: str) -> Benchmark:
        if name not in ("toy:box", "toy:chest"):
            raise UnknownBenchmark(name, ())
        return ToyBenchmark(name, tmp_path)

    monkeypatch.setattr(load, "benchmark", benchmark)
    for module in (load, manifest):
        monkeypatch.setattr(module, "benchmark_names", lambda: ("toy:box", "toy:chest"))
    return tmp_path


@pytest.fixture
def write(project: Path) -> Write:
    """Write a file of the project and return its path."""

    def put(name: str, text: str) -> Path:
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return put


def rows(*instances: str, repo: str = "toys/box") -> str:
    """Return rows as JSON lines."""
    lines = ({"instance_id": name, "repo": repo, "image": f"toy/{name}"} for name in instances)
    return "".join(json.dumps(line) + "\n" for line in lines)


@pytest.fixture
def loaded(project: Path, write: Write) -> Callable[..., LoadedSuite]:
    """Load a suite written as text; `instances` become its prepared rows."""

    def read(text: str, *instances: str, name: str = "suites/mine/suite.yaml") -> LoadedSuite:
        write("prepared.jsonl", rows(*(instances or ("a__a-1", "a__a-2", "b__b-1"))))
        return load_suite(write(name, text), project)

    return read


def told(project: Path, problems: tuple[Problem, ...]) -> list[str]:
    """Return problems as their text, paths relative to the project."""
    return [str(problem).replace(f"{project}/", "") for problem in problems]


def complaints(project: Path, path: Path) -> list[str]:
    """Return every problem of a suite as text, none when it is right."""
    try:
        load_suite(path, project)
    except InvalidFiles as invalid:
        return told(project, invalid.problems)
    return []
