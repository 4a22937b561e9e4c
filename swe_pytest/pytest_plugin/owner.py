"""The controller's part in a run: it owns every container, keeps the books, and answers for both.

Everything an engine holds for the run belongs to the controller, also what workers made. The layers of
clean-up, from the inside out: each stage's own exit; the sweep and leak assertion in `finish`; the
guardian process, which outlives us; the time-to-live of each container; the sweep of dead owners in
`begin` of the next run.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

import pytest

from swe_pytest.pytest_plugin.member import RunFacts, claimed
from swe_pytest.pytest_plugin.termination import Termination

if TYPE_CHECKING:
    from swe_pytest.results.aggregate import RunResults
    from swe_pytest.results.gates import Gates
    from swe_pytest.results.run_dir import RunDir
    from swe_pytest.sandbox.engine import Engine
    from swe_pytest.sandbox.guardian import Guardian

# After SIGTERM everything must be told within 15 s; workers get most of it to end their episodes.
_WORKERS_END_S = 8.0
_SWEEP_S = 10.0


class Owner:
    """Owns the run. Begun only when there are cases to run; ordinary pytest sessions never meet it."""

    def __init__(self, facts: RunFacts) -> None:
        self.facts = facts
        self.begun = False
        self.reported: set[str] = set()
        self.crashed: list[pytest.TestReport] = []
        self.failed = 0
        self.masked_suites: set[str] = set()
        self.leaked: list[str] = []
        self.problems: list[str] = []
        self.results: RunResults | None = None
        self.termination = Termination()
        self._held = ExitStack()
        self._until_the_end = ExitStack()
        self._engine: Engine | None = None
        self._guardian: Guardian | None = None

    def refuse_reuse(self) -> None:
        """Look before anything is collected whether the run directory can be used and is free.

        Raises: pytest.UsageError; results of two runs are never mixed.
        """
        directory = self.facts.directory
        try:
            taken = (directory / "ledger.jsonl").exists()
            nearest = next(each for each in (directory, *directory.parents) if each.exists())
            usable = nearest.is_dir() and os.access(nearest, os.W_OK)
        except OSError:
            taken, usable = False, False
        if not usable:
            raise pytest.UsageError(f"{directory} cannot hold the results; choose another --swe-run-dir")
        if taken:
            raise pytest.UsageError(
                f"{self.facts.directory} already holds a run; choose another --swe-run-id or --swe-run-dir, "
                f"or look at it with: swe-pytest report {self.facts.directory}"
            )

    def begin(self) -> None:
        """Take ownership before the first container can exist.

        Raises: pytest.UsageError when no engine answers, or the run directory cannot be used.
        """
        from swe_pytest.episode.run import versions
        from swe_pytest.results.ledger import Ledger
        from swe_pytest.sandbox.engine import find_engine
        from swe_pytest.sandbox.errors import EngineUnreachable
        from swe_pytest.sandbox.guardian import guard
        from swe_pytest.sandbox.lifeline import hold_lock
        from swe_pytest.sandbox.sweep import sweep_dead_owners

        if self.begun:
            return
        try:
            self._engine = find_engine()
            directory = self.directory()
        except EngineUnreachable as error:
            raise pytest.UsageError(f"no episode can run: {error}") from error
        self.begun = True
        self._held.enter_context(hold_lock(directory.lock("controller")))
        self._until_the_end.enter_context(self.termination)
        Ledger(directory.ledger).run_begin(self.facts.run_id, sys.argv, versions())
        # Every process of the run uses this one engine, whatever its own environment says.
        directory.engine.write_text(self._engine.dump(), encoding="utf-8")
        log = directory.path / "guardian.log"
        self._guardian = self._held.enter_context(guard(self._engine, self.facts.run_id, log=log))
        sweep_dead_owners(self._engine)

    def directory(self) -> RunDir:
        """The run's directory, made and claimed if need be. Raises: pytest.UsageError."""
        return claimed(self.facts)

    def gates(self) -> dict[str, Gates]:
        """What the run's suites demand, as the ledger has it."""
        from swe_pytest.results.ledger import read_ledger

        return read_ledger(self.directory().ledger).gates

    def worker_died(self, process: str, message: str) -> None:
        """Remove what a dead worker left. Its case is masked when its crash is reported."""
        from swe_pytest.results.ledger import Ledger
        from swe_pytest.sandbox.errors import SandboxError
        from swe_pytest.sandbox.sweep import sweep_process

        if self.begun and self._engine is not None:
            Ledger(self.directory().ledger).worker_died(process, message)
            with suppress(SandboxError):  # `finish` sweeps the whole run, and reports what it cannot do
                sweep_process(self._engine, self.facts.run_id, process)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep count of what pytest was told, to know at the end what is still untold."""
        if report.when == "teardown":
            self.reported.add(report.nodeid)
        if report.failed:
            told = dict(report.user_properties)
            if told.get("outcome") == "masked" and report.when == "setup":
                self.masked_suites.add(str(told["suite"]))
            else:
                self.failed += 1

    def finish(self, session: pytest.Session, exitstatus: int) -> None:
        """End the run: workers ended, nothing left, every planned case told, results written, gates judged.

        Sets `session.exitstatus`: gates decide about masked cases; a leak or books that do not add up
        always fail the run.
        """
        from swe_pytest.pytest_plugin.judgement import judge_run
        from swe_pytest.pytest_plugin.reconcile import tell_the_rest
        from swe_pytest.results.aggregate import write_results
        from swe_pytest.results.ledger import Ledger

        if not self.begun:
            return
        interrupted = exitstatus == pytest.ExitCode.INTERRUPTED
        directory = self.directory()
        try:
            if interrupted:
                self._end_workers(directory)
            left = self._sweep()
            tell_the_rest(self, session, directory)
            if self._guardian is not None and (trouble := self._guardian.close()):
                self.problems.append(trouble)
            self.leaked = [] if interrupted else left
            Ledger(directory.ledger).run_end(int(exitstatus), interrupted=interrupted)
            self.results = write_results(directory)
            session.exitstatus = judge_run(self, exitstatus)
        finally:
            self._held.close()

    def close(self) -> None:
        """The session is over and everything told. Idempotent."""
        self._until_the_end.close()

    def _end_workers(self, directory: RunDir) -> None:
        """Ask workers to unwind their episodes, wait for them, and end those that do not."""
        from swe_pytest.sandbox.lifeline import holder_pid, watch_lock

        waits: list[tuple[threading.Event, int]] = []
        with ExitStack() as watches:
            for lock in directory.process_locks():
                pid = holder_pid(lock)
                if pid is None or pid == os.getpid():
                    continue
                ended = threading.Event()
                watches.enter_context(watch_lock(lock, ended.set))
                _signal(pid, signal.SIGTERM)
                waits.append((ended, pid))
            deadline = time.monotonic() + _WORKERS_END_S
            for ended, pid in waits:
                if not ended.wait(max(0.0, deadline - time.monotonic())):
                    _signal(pid, signal.SIGKILL)

    def _sweep(self) -> list[str]:
        """Remove what is left of the run and return its names: in a run that was not interrupted, leaks."""
        from swe_pytest.sandbox.errors import SandboxError
        from swe_pytest.sandbox.sweep import sweep_run

        if self._engine is None:
            return []
        try:
            swept = sweep_run(self._engine, self.facts.run_id, within_s=_SWEEP_S)
        except SandboxError as error:
            # The results are worth writing all the same; that nothing is left cannot be said.
            self.problems.append(f"the engine could not be swept: {error}")
            return []
        return [*swept.containers, *swept.networks, *swept.volumes, *swept.left]


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):  # it ended by itself, which is what was asked for
        os.kill(pid, number)


OWNER: pytest.StashKey[Owner] = pytest.StashKey()
