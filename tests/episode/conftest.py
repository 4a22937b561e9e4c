"""Episodes run by the library itself, without a pytest session around them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from bench import trivial
from swe_pytest.episode.episode import run_episode
from swe_pytest.episode.run import Run, open_run
from swe_pytest.results.record import EpisodeRecord
from swe_pytest.results.run_dir import RunDir
from swe_pytest.sandbox.engine import Engine, find_engine
from swe_pytest.sandbox.ownership import Ownership, current_owner, new_run_id
from swe_pytest.sandbox.sweep import list_ours
from swe_pytest.suites.plan import Case, load_cases


@pytest.fixture(scope="module")
def engine(base_image: str) -> Engine:
    return find_engine()


@pytest.fixture
def run(engine: Engine, tmp_path: Path) -> Iterator[Run]:
    ownership = Ownership(new_run_id(), current_owner(), "main")
    with open_run(RunDir.create(tmp_path / "run"), ownership, engine) as run:
        yield run
    assert list_ours(engine, ownership.run_id) == [], "an episode must leave nothing"


@dataclass(frozen=True)
class Maker:
    folder: Path
    base_commit: str

    def __call__(self, config: dict | None = None, **row: object) -> Case:
        """The case of the trivial task, with some keys of its row and of its config changed."""
        written = {
            "name": "it",
            "agent": {"harness": "gold"},
            "verifier": {"network": "none"},
            **(config or {}),
        }
        (self.folder / "rows.jsonl").write_text(json.dumps({**trivial.row(self.base_commit), **row}) + "\n")
        suite = {"benchmark": "swebench:custom", "rows": "rows.jsonl", "configs": [written]}
        (self.folder / "suite.yaml").write_text(yaml.safe_dump(suite))
        (case,) = load_cases(self.folder, root=self.folder)
        return case


@pytest.fixture
def make(engine: Engine, tmp_path: Path) -> Maker:
    return Maker(tmp_path, trivial.build_image(engine))


@pytest.fixture
def play(run: Run) -> Callable[[Case], EpisodeRecord]:
    return lambda case: run_episode(case, run)
