"""What the terminal says: the list of planned cases, and the closing table."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from swe_pytest.pytest_plugin.plan import case_of

if TYPE_CHECKING:
    from swe_pytest.pytest_plugin.owner import Owner


def print_list(session: pytest.Session) -> None:
    """`--swe-list`: the planned cases, their images, and which of those this host lacks."""
    from swe_pytest.sandbox.engine import find_engine
    from swe_pytest.sandbox.errors import EngineUnreachable
    from swe_pytest.sandbox.images import missing_images

    terminal = session.config.get_terminal_writer()
    cases = [(item.nodeid, case) for item in session.items if (case := case_of(item)) is not None]
    images = Counter(case.ref.image for _, case in cases)
    terminal.line()
    for nodeid, case in cases:
        terminal.line(f"{nodeid}  {case.ref.image}")
    try:
        missing: set[str] | None = set(missing_images(find_engine(), list(images)))
    except EngineUnreachable as error:
        missing = None
        terminal.line(f"images could not be looked up: {error}")
    for image, uses in sorted(images.items()):
        state = "unknown" if missing is None else "missing" if image in missing else "here"
        terminal.line(f"image {image}  {state}, {uses} cases")
    absent = "unknown" if missing is None else str(len(missing))
    terminal.line(f"{len(cases)} cases planned, {len(images)} images, {absent} missing")


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
