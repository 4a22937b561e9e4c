"""Collecting twenty thousand cases: time and memory."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench import trivial


def measure(cases: int = 20_000, runs: int = 5) -> list[str]:
    """Return the report's lines. The empty session is told apart, since Python and pytest are no fault of ours."""
    with tempfile.TemporaryDirectory(prefix="swe-pytest-bench-") as name:
        folder = Path(name)
        rows = [trivial.row("0" * 40, f"bench__trivial-{number}") for number in range(cases)]
        suite = trivial.write_suite(folder / "suite", rows)
        (folder / "empty").mkdir()
        (folder / "empty" / "test_nothing.py").write_text("def test_nothing():\n    pass\n")
        _collect(suite, folder, cases)  # compiles
        full = [_collect(suite, folder, cases) for _ in range(runs)]
        empty = [_collect(folder / "empty", folder, 1) for _ in range(runs)]
    spent = statistics.median(seconds for seconds, _ in full)
    alone = statistics.median(seconds for seconds, _ in empty)
    peak = max(mib for _, mib in full)
    return [
        f"{cases} cases: {spent:.2f} s (median of {runs}; goal: under 3), peak {peak:.0f} MiB (goal: under 150)",
        f"a session with one ordinary test: {alone:.2f} s",
    ]


def _collect(target: Path, folder: Path, expected: int) -> tuple[float, float]:
    footprints = folder / "footprints"
    footprints.mkdir(exist_ok=True)
    command = [
        sys.executable,
        "-m",
        "pytest",
        str(target),
        "--collect-only",
        "-q",
        "-q",
        "-p",
        "bench.footprint",
    ]
    command += ["-p", "no:cacheprovider", "-p", "no:hypothesispytest", "--rootdir", str(folder)]
    environ = {**trivial.inner_environ(folder), "SWE_PYTEST_BENCH_FOOTPRINTS": str(footprints)}
    began = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environ, check=False)
    spent = time.perf_counter() - began
    if done.returncode or f": {expected}" not in done.stdout:
        raise SystemExit(
            f"collection failed: exit {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
        )
    return spent, float((footprints / "controller").read_text())
