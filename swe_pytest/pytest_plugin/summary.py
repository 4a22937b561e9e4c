"""What the terminal says at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from swe_pytest.pytest_plugin.owner import Owner


def print_results(reporter: pytest.TerminalReporter, owner: Owner) -> None:
    """The closing table per pair, masked cases with their reasons, and whatever fails the run."""
    from swe_pytest.results.table import table

    if owner.results is None:
        return
    reporter.section("swe_pytest", sep="=")
    for line in table(owner.results):
        reporter.write_line(line)
    for line in owner.problems:
        reporter.write_line(line, red=True)
    if owner.leaked:
        reporter.write_line(f"leaked, and removed now: {', '.join(owner.leaked)}", red=True)
    reporter.write_line(f"results: {owner.facts.directory}")
