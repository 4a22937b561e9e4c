"""From pytest items to planned cases, as the ledger keeps them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from swe_pytest.results.ledger import PlannedCase

if TYPE_CHECKING:
    from swe_pytest.suites.plan import Case


def case_of(item: pytest.Item) -> Case | None:
    """Return the case that an item was parametrized with, if any."""
    from swe_pytest.suites.plan import Case

    callspec = getattr(item, "callspec", None)
    found = callspec.params.get("case") if callspec is not None else None
    return found if isinstance(found, Case) else None


def planned_case(case: Case, nodeid: str) -> PlannedCase:
    """Return what the ledger keeps of a case."""
    return PlannedCase(
        case_id=case.case_id,
        nodeid=nodeid,
        suite=case.suite,
        check=case.check,
        benchmark=case.benchmark,
        config=case.config.name,
        instance_id=case.ref.instance_id,
        repeat=case.repeat,
    )


def planned_cases(items: list[pytest.Item]) -> list[PlannedCase]:
    """Return the planned cases of a session's items, in order."""
    found = ((case_of(item), item.nodeid) for item in items)
    return [planned_case(case, nodeid) for case, nodeid in found if case is not None]
