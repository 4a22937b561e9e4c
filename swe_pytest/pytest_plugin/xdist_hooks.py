"""What the controller must hear of xdist: registered only where xdist is there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest

from swe_pytest.pytest_plugin.member import MEMBER
from swe_pytest.pytest_plugin.owner import OWNER

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController


class XdistHooks:
    """Gives workers the run's facts, begins the run before any test is sent out, and answers for dead workers."""

    def __init__(self, config: pytest.Config) -> None:
        self._owner = config.stash[OWNER]
        self._member = config.stash[MEMBER]

    @pytest.hookimpl
    def pytest_configure_node(self, node: WorkerController) -> None:
        facts = self._owner.facts
        node.workerinput["swe_pytest"] = (facts.run_id, str(facts.directory), facts.owner)

    @pytest.hookimpl
    def pytest_xdist_node_collection_finished(self, node: WorkerController, ids: Sequence[str]) -> None:
        # The first worker writes the plan before it reports its collection, and no test is sent out
        # before all have reported: so ownership is taken in time, and only if there is something to own.
        if (self._owner.facts.directory / "ledger.jsonl").exists():
            if node.config.getoption("dist") == "each":
                raise pytest.UsageError("--dist each would run every case once a worker; use --swe-repeats N")
            self._owner.begin()

    @pytest.hookimpl
    def pytest_testnodedown(self, node: WorkerController, error: object) -> None:
        if error:
            self._owner.worker_died(node.gateway.id, str(error))

    @pytest.hookimpl
    def pytest_handlecrashitem(self, crashitem: str, report: pytest.TestReport, sched: Any) -> None:
        from swe_pytest.pytest_plugin.reconcile import mask_crashed

        if self._owner.begun:
            mask_crashed(self._owner, crashitem, report)
