"""At the end every planned case is told: what no process could report any more, the controller reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from swe_pytest.results.events import EpisodeEnd, PlannedCase
from swe_pytest.results.ledger import Ledger, read_ledger
from swe_pytest.results.properties import properties_of_planned
from swe_pytest.results.record import Failure, Outcome, Stage

if TYPE_CHECKING:
    from swe_pytest.pytest_plugin.owner import Owner
    from swe_pytest.results.run_dir import RunDir


def tell_the_rest(owner: Owner, session: pytest.Session, directory: RunDir) -> None:
    """Report every planned case that pytest has not reported: masked where it had begun, else not run."""
    for crash in owner.crashed:
        session.config.hook.pytest_runtest_logreport(report=teardown_of(crash))
    ledger = Ledger(directory.ledger)
    state = read_ledger(directory.ledger)
    for planned in state.planned.values():
        if planned.nodeid in owner.reported:
            continue
        if planned.case_id in state.begun and planned.case_id not in state.ended:
            # Its process could not say so any more.
            message = f"{planned.instance_id}: the run was interrupted"
            failure = Failure("interrupted", str(Stage.CLOSE), True, message)
            ledger.append(EpisodeEnd.masked(planned.case_id, failure))
    ended = read_ledger(directory.ledger).ended
    for planned in state.planned.values():
        if planned.nodeid not in owner.reported:
            for report in _reports(planned, ended.get(planned.case_id)):
                session.config.hook.pytest_runtest_logreport(report=report)


def mask_crashed(owner: Owner, nodeid: str, report: pytest.TestReport) -> None:
    """Turn xdist's report of a crashed worker into a masked episode: infrastructure, never a zero."""
    directory = owner.directory()
    state = read_ledger(directory.ledger)
    for planned in state.planned.values():
        if planned.nodeid == nodeid and planned.case_id not in state.ended:
            message = f"{planned.instance_id}: {report.longrepr}"
            failure = Failure("worker_died", str(Stage.CLOSE), False, message)
            end = EpisodeEnd.masked(planned.case_id, failure)
            Ledger(directory.ledger).append(end)
            report.when = "setup"
            report.longrepr = f"masked: {end.mask_reason}"
            report.user_properties[:] = properties_of_planned(planned, end)
            owner.reported.add(nodeid)
            owner.crashed.append(report)


def teardown_of(report: pytest.TestReport) -> pytest.TestReport:
    """Return a teardown report after another: only that makes JUnit writers take the properties."""
    closing = pytest.TestReport(
        nodeid=report.nodeid,
        location=report.location,
        keywords={},
        outcome="passed",
        longrepr=None,
        when="teardown",
        user_properties=list(report.user_properties),
    )
    node = getattr(report, "node", None)
    if node is not None:
        closing.node = node  # type: ignore[attr-defined]  # xdist sets it so too
    return closing


def _reports(planned: PlannedCase, end: EpisodeEnd | None) -> list[pytest.TestReport]:
    path = planned.nodeid.split("::")[0]
    failed = end is not None and end.outcome is Outcome.MASKED
    longrepr: str | tuple[str, int, str] = (path, 0, "not run: the session ended before it")
    if end is not None:
        longrepr = (
            f"masked: {end.mask_reason}" if failed else (path, 0, f"{end.outcome}, but not reported in time")
        )
    report = pytest.TestReport(
        nodeid=planned.nodeid,
        location=(path, None, planned.nodeid.split("::", 1)[-1]),
        keywords={},
        outcome="failed" if failed else "skipped",
        longrepr=longrepr,
        when="setup",
        user_properties=list(properties_of_planned(planned, end)),
    )
    return [report, teardown_of(report)]
