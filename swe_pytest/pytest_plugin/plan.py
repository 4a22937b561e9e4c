"""From pytest items to planned cases, as the ledger keeps them."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from swe_pytest.results.events import PlannedCase
from swe_pytest.results.gates import Bounds, Gates, PairGates

if TYPE_CHECKING:
    from swe_pytest.suites.plan import Case
    from swe_pytest.suites.suite import Rate


_MAKERS = frozenset(("episode", "run_episode", "task_sandbox", "verifier_sandbox"))


def case_of(item: pytest.Item) -> Case | None:
    """Return the case that an item was parametrized with, if any."""
    from swe_pytest.suites.plan import Case

    callspec = getattr(item, "callspec", None)
    found = callspec.params.get("case") if callspec is not None else None
    return found if isinstance(found, Case) else None


def marked(nodeid: str) -> str:
    """Return a short name that stands for an item in case ids."""
    return hashlib.sha256(nodeid.encode("utf-8", "surrogatepass")).hexdigest()[:6]


def name_apart(items: list[pytest.Item]) -> None:
    """Give the same case in several items (a test that is parametrized further, say) a name in each."""
    seen: dict[str, int] = {}
    for item in items:
        case = case_of(item)
        if case is None:
            continue
        times = seen[case.case_id] = seen.get(case.case_id, 0) + 1
        if times > 1:
            item.callspec.params["case"] = replace(case, id=f"{case.id}.{times}")  # type: ignore[attr-defined]  # parametrized items have it


def takes_part(item: pytest.Item) -> bool:
    """Say whether an item may make containers, so that a run has to stand behind it."""
    return not _MAKERS.isdisjoint(getattr(item, "fixturenames", ()))


def runs_episode(item: pytest.Item) -> bool:
    """Say whether an item will run an episode: a test may also take a case for its sandboxes alone."""
    names = getattr(item, "fixturenames", ())
    return "episode" in names or "run_episode" in names


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
    """Return what a session's items plan to run, in order."""
    return [
        planned_case(case, item.nodeid)
        for item in items
        if runs_episode(item) and (case := case_of(item)) is not None
    ]


def gates_of(items: list[pytest.Item]) -> dict[str, Gates]:
    """Return what the suites of a session's items demand, by suite name."""
    from swe_pytest.pytest_plugin.collection import plans_of

    names = {case.suite for item in items if (case := case_of(item)) is not None}
    found: dict[str, Gates] = {}
    for plan in plans_of(items[0].config) if items else ():
        gates = plan.loaded.suite.gates
        if plan.loaded.name in names:
            each = {
                name: PairGates(_bounds(pair.resolve_rate), _bounds(pair.mask_rate))
                for name, pair in gates.configs.items()
            }
            found[plan.loaded.name] = Gates(_bounds(gates.resolve_rate), _bounds(gates.mask_rate), each)
    return found


def _bounds(rate: Rate | None) -> Bounds | None:
    return None if rate is None else Bounds(rate.min, rate.max)
