"""Public rows and official logs in `../shared/data`; tests skip where they are absent."""

from __future__ import annotations

import json
import tarfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from swe_pytest.benchmarks.swebench import SwebenchBenchmark
from swe_pytest.benchmarks.task import Gold

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"

needs_public_data = pytest.mark.skipif(
    not DATA.is_dir(), reason="no ../shared/data with public rows and logs beside the repository"
)

ROW_FILES = {
    "verified": "swebench_verified.test.jsonl",
    "lite": "swebench_lite.test.jsonl",
    "lite_dev": "swebench_lite.dev.jsonl",
    "multilingual": "swebench_multilingual.test.jsonl",
    "multimodal_dev": "swebench_multimodal.dev.jsonl",
}


@dataclass(frozen=True)
class OfficialRun:
    """One run of the official harness: its evidence, and its own word on it."""

    name: str
    instance_id: str
    log: Path
    patch: bytes
    resolved: bool
    applied: bool
    counts: tuple[int, int, int, int]


def rows_of(name: str) -> list[dict[str, object]]:
    with (DATA / ROW_FILES[name]).open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def golds_of(name: str, only: set[str] | None = None) -> dict[str, Gold]:
    """Gold halves by instance, through the code that episodes use."""
    benchmark = SwebenchBenchmark(f"swebench:{name}")
    refs, _ = benchmark.index(DATA / ROW_FILES[name])
    return {
        ref.instance_id: benchmark.load(ref)[1] for ref in refs if only is None or ref.instance_id in only
    }


def official_runs(folder: Path) -> list[OfficialRun]:
    """Unpack the official logs into a folder and return what is known of each."""
    with tarfile.open(DATA / "logs" / "run_evaluation.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    runs = []
    for line in (DATA / "logs" / "index.jsonl").read_text().splitlines():
        entry = json.loads(line)
        home = folder / entry["dir"]
        runs.append(
            OfficialRun(
                name=entry["dir"],
                instance_id=entry["instance_id"],
                log=home / "test_output.txt",
                patch=(home / "patch.diff").read_bytes(),
                resolved=entry["resolved"],
                applied=entry["applied"],
                counts=(*entry["f2p"], *entry["p2p"]),
            )
        )
    return runs
