"""A small project with suites of its own, in which real pytest processes run real episodes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from bench import trivial
from swe_pytest.sandbox.engine import Engine, find_engine
from swe_pytest.sandbox.sweep import list_ours, sweep_run


@dataclass(frozen=True)
class Done:
    """How a pytest process ended, and what it left."""

    status: int
    out: str
    run_dir: Path
    xml: Path

    @property
    def results(self) -> dict:
        return json.loads((self.run_dir / "results.json").read_text())

    @property
    def records(self) -> dict[str, dict]:
        files = sorted((self.run_dir / "episodes").glob("*/record.json"))
        return {file.parent.name: json.loads(file.read_text()) for file in files}

    def record(self) -> dict:
        (only,) = self.records.values()
        return only

    @property
    def junit(self) -> dict[str, ElementTree.Element]:
        return {case.get("name", ""): case for case in ElementTree.parse(self.xml).iter("testcase")}


def properties(case: ElementTree.Element) -> dict[str, str]:
    return {item.get("name", ""): item.get("value", "") for item in case.iter("property")}


@dataclass
class Project:
    """A folder with suites; `run` runs pytest in it to its end, `start` only starts it."""

    folder: Path
    base_commit: str
    engine: Engine
    environ: dict[str, str]
    run_ids: list[str] = field(default_factory=list)

    def suite(self, name: str = "mine", *, rows: list[dict] | None = None, **keys: object) -> Path:
        """Write suites/<name> with the trivial task, or with other rows."""
        folder = self.folder / "suites" / name
        folder.mkdir(parents=True, exist_ok=True)
        written = [self.row()] if rows is None else rows
        (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in written))
        suite = {"benchmark": "swebench:custom", "rows": "rows.jsonl", "configs": ["gold"], **keys}
        (folder / "suite.yaml").write_text(yaml.safe_dump(suite, sort_keys=False))
        return folder

    def row(self, instance_id: str = trivial.INSTANCE, **keys: object) -> dict:
        return {**trivial.row(self.base_commit, instance_id), **keys}

    def command(self, script: str, name: str = "agent", **keys: object) -> dict:
        """An inline config whose agent is a shell command."""
        verifier = {"network": "none"}
        return {
            "name": name,
            "agent": {"harness": "command", "command": script},
            "verifier": verifier,
            **keys,
        }

    def start(self, *args: str, run_id: str | None = None) -> tuple[subprocess.Popen[str], Done]:
        run_id = run_id or f"t{os.getpid()}-{len(self.run_ids)}-{os.urandom(3).hex()}"
        self.run_ids.append(run_id)
        run_dir, xml = self.folder / "runs" / run_id, self.folder / f"{run_id}.xml"
        command = [sys.executable, "-m", "pytest", "--swe-run-id", run_id, "--swe-run-dir", str(run_dir)]
        # Hypothesis's plugin imports all of hypothesis at the end of each session.
        command += ["--junitxml", str(xml), "-p", "no:cacheprovider", "-p", "no:hypothesispytest", *args]
        process = subprocess.Popen(
            command,
            cwd=self.folder,
            env=self.environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        return process, Done(-1, "", run_dir, xml)

    def run(self, *args: str, run_id: str | None = None, timeout: float = 120) -> Done:
        process, done = self.start(*args, run_id=run_id)
        try:
            out, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, _ = process.communicate()
            pytest.fail(f"pytest did not end within {timeout} s:\n{out}")
        return Done(process.returncode, out, done.run_dir, done.xml)

    def left(self) -> list[str]:
        """Names of what the engine still holds of this project's runs."""
        return [thing.name for run_id in self.run_ids for thing in list_ours(self.engine, run_id)]


@pytest.fixture(scope="session")
def engine(base_image: str) -> Engine:
    return find_engine()


@pytest.fixture(scope="session")
def base_commit(engine: Engine) -> str:
    return trivial.build_image(engine)


@pytest.fixture(scope="session")
def environ(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of inner sessions: compiled once, even where nothing may be written into the sources."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environ.pop("PYTHONDONTWRITEBYTECODE", None)
    return {**environ, "PYTHONPYCACHEPREFIX": str(tmp_path_factory.getbasetemp() / "pycache")}


@pytest.fixture
def project(tmp_path: Path, engine: Engine, base_commit: str, environ: dict[str, str]) -> Iterator[Project]:
    project = Project(tmp_path, base_commit, engine, environ)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    try:
        yield project
    finally:
        for run_id in project.run_ids:
            sweep_run(engine, run_id, within_s=20)
