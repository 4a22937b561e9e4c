"""Command-line options, the marker, and what they mean before anything is collected."""

from __future__ import annotations

from pathlib import Path

import pytest

MARKER = (
    "swe(suite, check='rollout'): parametrize the fixture `case` with the cases of a suite "
    "(a suite.yaml or its folder, relative to the test file)"
)


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError(f"{text} is not a positive number")
    return value


def add_options(parser: pytest.Parser) -> None:
    """Register the --swe-* options."""
    group = parser.getgroup("swe_pytest", "software-engineering benchmarks")
    group.addoption(
        "--swe-instance",
        action="append",
        default=[],
        metavar="ID",
        help="run exactly this instance (repeatable; unlike -k never a substring)",
    )
    group.addoption("--swe-config", metavar="NAME", help="run only this config of the suites")
    group.addoption("--swe-repeats", type=_positive, metavar="N", help="repeat every case N times")
    group.addoption(
        "--swe-limit", type=_positive, metavar="N", help="run the first N selected instances of each suite"
    )
    group.addoption("--swe-run-id", metavar="ID", help="name of this run (default: time and a random part)")
    group.addoption(
        "--swe-run-dir", type=Path, metavar="DIR", help="where results go (default: swe-pytest-runs/<run id>)"
    )
    group.addoption(
        "--swe-list",
        action="store_true",
        help="print the planned cases, their images and which are missing; run nothing",
    )
