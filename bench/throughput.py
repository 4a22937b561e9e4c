"""Sixty-four trivial episodes under xdist: how many a minute, and how much memory a process takes."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench import trivial
from swe_pytest.sandbox.engine import find_engine


def measure(episodes: int = 64, workers: tuple[int, ...] = (1, 2, 4, 8, 16)) -> list[str]:
    """Return the report's lines, one a number of workers."""
    base = trivial.build_image(find_engine())
    lines = []
    with tempfile.TemporaryDirectory(prefix="swe-pytest-bench-") as name:
        folder = Path(name)
        suite = trivial.write_suite(folder / "suite", [trivial.row(base)], repeats=episodes)
        for count in workers:
            footprints = folder / f"footprints-{count}"
            footprints.mkdir()
            command = [
                sys.executable,
                "-m",
                "pytest",
                str(suite),
                "-q",
                "-n",
                str(count),
                "-p",
                "bench.footprint",
            ]
            command += [
                "-p",
                "no:cacheprovider",
                "--swe-run-dir",
                str(folder / f"run-{count}"),
                "--rootdir",
                str(folder),
            ]
            environ = {**trivial.inner_environ(folder), "SWE_PYTEST_BENCH_FOOTPRINTS": str(footprints)}
            began = time.perf_counter()
            done = subprocess.run(
                command, capture_output=True, text=True, cwd=folder, env=environ, check=False
            )
            spent = time.perf_counter() - began
            if done.returncode:
                raise SystemExit(
                    f"{count} workers: exit {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-2000:]}"
                )
            peaks = {file.name: float(file.read_text()) for file in footprints.iterdir()}
            worker = max(peak for role, peak in peaks.items() if role != "controller")
            lines.append(
                f"-n {count}: {episodes} episodes in {spent:.1f} s ({episodes / spent:.2f}/s); "
                f"peak memory: controller {peaks['controller']:.0f} MiB, a worker {worker:.0f} MiB (goal: under 90)"
            )
    return lines
