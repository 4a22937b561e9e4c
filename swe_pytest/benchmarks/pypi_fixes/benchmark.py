"""The benchmark port of these tasks: their rows are swebench 5 rows, and no evaluation needs a network."""

from __future__ import annotations

from swe_pytest.benchmarks.swebench import SwebenchBenchmark


class PypiFixes(SwebenchBenchmark):
    """`pypi_fixes`: real bug fixes in real packages, made from nothing but a Python package registry."""

    def __init__(self) -> None:
        super().__init__("pypi_fixes", network="none")
