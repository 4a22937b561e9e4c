"""`--swe-list`: what would run, instead of running it. A plugin of its own, there only when asked for."""

from __future__ import annotations

from collections import Counter

import pytest

from swe_pytest.pytest_plugin.plan import case_of


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool:
    print_list(session)
    return True


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
