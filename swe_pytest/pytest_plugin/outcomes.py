"""Our own words for outcomes: resolved, unresolved, masked, not run."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from swe_pytest.pytest_plugin.fixtures import EpisodeMasked
from swe_pytest.pytest_plugin.member import member_of

Status = tuple[str, str, str | tuple[str, dict[str, bool]]]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A masked episode is told by its reason; what a check made of its episode goes into the ledger."""
    report = yield
    if call.excinfo is not None and isinstance(call.excinfo.value, EpisodeMasked):
        # Where in our code it was raised helps nobody.
        report.longrepr = str(call.excinfo.value)
    told = dict(report.user_properties)
    if report.when == "call" and "case_id" in told:
        message = "" if call.excinfo is None else str(call.excinfo.value)
        member_of(item.config).tell_check(str(told["case_id"]), report.passed, message)
    return report


def pytest_report_teststatus(report: pytest.TestReport) -> Status | None:
    """Letters and words for items that ran an episode; all others keep pytest's."""
    told = dict(getattr(report, "user_properties", ()))
    outcome = told.get("outcome")
    if outcome == "not_run" and report.skipped:
        return "not run", "-", ("NOT RUN", {"yellow": True})
    if outcome == "masked" and report.failed and report.when != "teardown":
        return "masked", "M", ("MASKED", {"red": True})
    if outcome == "measured" and report.when == "call" and report.passed:
        if told.get("resolved") == "true":
            return "resolved", "R", ("RESOLVED", {"green": True})
        return "unresolved", "u", ("UNRESOLVED", {"yellow": True})
    return None
