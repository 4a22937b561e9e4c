"""A pytest plugin for the benchmarks: each process writes its peak resident memory when its session ends."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def peak_mib() -> float:
    """Return this process's own peak resident set in MiB (VmHWM, which exec resets, unlike ru_maxrss)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("the kernel does not tell VmHWM")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    role = getattr(session.config, "workerinput", {}).get("workerid", "controller")
    folder = Path(os.environ["SWE_PYTEST_BENCH_FOOTPRINTS"])
    (folder / role).write_text(f"{peak_mib():.1f}")
