"""Benchmarks by name. Modules are imported on first use: a worker pays only for what its suite names."""

from __future__ import annotations

import difflib
import functools

from swe_pytest.benchmarks.contract import Benchmark
from swe_pytest.benchmarks.swebench import VARIANTS, SwebenchBenchmark


class UnknownBenchmark(ValueError):
    """No benchmark has this name; the message lists near ones."""


def benchmark_names() -> tuple[str, ...]:
    """Return the names that suites may write."""
    return (*(f"swebench:{variant}" for variant in VARIANTS), "pypi_fixes")


@functools.cache
def benchmark(name: str) -> Benchmark:
    """Return the benchmark of a name as written in suites, always the same object.

    Raises: UnknownBenchmark.
    """
    if name == "pypi_fixes":
        from swe_pytest.benchmarks.pypi_fixes import PypiFixes

        return PypiFixes()
    family, _, variant = name.partition(":")
    if family == "swebench" and variant in VARIANTS:
        return SwebenchBenchmark(name)
    names = benchmark_names()
    near = difflib.get_close_matches(name, names, 3) or names
    raise UnknownBenchmark(f"unknown benchmark {name!r}; did you mean {', '.join(near)}?")
