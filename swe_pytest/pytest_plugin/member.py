"""A process's part in a run: it runs episodes. Nothing of an engine is touched before the first one."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from swe_pytest.pytest_plugin.plan import case_of, marked
from swe_pytest.pytest_plugin.termination import Termination
from swe_pytest.results.record import EpisodeRecord

if TYPE_CHECKING:
    from swe_pytest.episode.run import Run
    from swe_pytest.results.run_dir import RunDir
    from swe_pytest.sandbox.contract import Sandbox
    from swe_pytest.sandbox.engine import Engine
    from swe_pytest.suites.plan import Case


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What every process of a run must agree on. `process` is "main" or an xdist worker's id."""

    run_id: str
    directory: Path
    owner: str
    process: str


def claimed(facts: RunFacts) -> RunDir:
    """Return the run's directory, made and claimed if need be.

    Raises: pytest.UsageError when it is another run's, or cannot be written.
    """
    from swe_pytest.results.run_dir import RunDir, RunDirTaken

    try:
        return RunDir.claim(facts.directory, facts.run_id, facts.owner)
    except RunDirTaken as taken:
        raise pytest.UsageError(str(taken)) from taken
    except OSError as error:
        raise pytest.UsageError(
            f"{facts.directory} cannot hold the results: {error}; choose --swe-run-dir"
        ) from error


class Member:
    """Runs the episodes of this process. Use `member_of(config)`."""

    def __init__(self, facts: RunFacts) -> None:
        self.facts = facts
        self._opened = ExitStack()
        self._run: Run | None = None
        self._planned: set[str] = set()
        self._ran: Counter[tuple[str, str]] = Counter()
        self.termination = Termination()
        self._task: dict[str, ExitStack] = {}

    # -- the plan -------------------------------------------------------------------------------------

    def join(self, items: list[pytest.Item], *, write_plan: bool) -> None:
        """Take part in the run: hold this process's lock, and write down the plan if that falls to us."""
        from swe_pytest.pytest_plugin.plan import gates_of, planned_cases
        from swe_pytest.results.ledger import Ledger
        from swe_pytest.sandbox.lifeline import hold_lock

        directory = self.directory()
        self._opened.enter_context(hold_lock(directory.lock(self.facts.process)))
        if self.facts.process != "main":
            # The controller ends its workers this way; what they are at is cleaned up and recorded.
            self._opened.enter_context(self.termination)
        planned = planned_cases(items)
        self._planned.update(case.case_id for case in planned)
        if write_plan:
            directory.ledger.touch()  # tells the controller that there is a run, even if cases come later
            ledger = Ledger(directory.ledger)
            ledger.plan(planned)
            for suite, gates in gates_of(items).items():
                ledger.gates(suite, gates)

    def directory(self) -> RunDir:
        """The run's directory, made and claimed if need be. Raises: pytest.UsageError."""
        return claimed(self.facts)

    # -- episodes -------------------------------------------------------------------------------------

    def run_episode(self, case: Case, item: pytest.Item) -> EpisodeRecord:
        """Run a case for an item; its facts become the item's user_properties."""
        from swe_pytest.episode.episode import run_episode
        from swe_pytest.results.properties import properties_of

        run = self._open()
        case = self._own(case, item)
        self._ensure_planned(run, case, item)
        record = run_episode(case, run)
        item.user_properties[:] = [*item.user_properties, *properties_of(record)]
        return record

    def tell_check(self, case_id: str, passed: bool, message: str) -> None:
        """Write down what the check made of an episode."""
        from swe_pytest.results.ledger import Ledger

        Ledger(self.directory().ledger).check_end(case_id, passed, message[:2000])

    @contextmanager
    def task_sandbox(self, case: Case, item: pytest.Item) -> Iterator[Sandbox]:
        """A seeded task sandbox; `verifier_sandbox` of the same item removes it early."""
        from swe_pytest.episode.lifecycle import instance_of, seeded_sandbox

        run = self._open()
        task, _ = instance_of(case)
        with ExitStack() as stack:
            self._task[item.nodeid] = stack
            stack.callback(self._task.pop, item.nodeid, None)
            run.provider.ensure_image(task.image)
            seeding = seeded_sandbox(run.provider, case, task, case.config.limits.seed_s)
            sandbox, _ = stack.enter_context(seeding)
            yield sandbox

    @contextmanager
    def verifier_sandbox(self, case: Case, patch: bytes, item: pytest.Item) -> Iterator[Sandbox]:
        """A fresh sandbox with the patch applied, after the item's task sandbox has been removed."""
        from swe_pytest.episode.lifecycle import instance_of, verifier_spec
        from swe_pytest.sandbox.errors import CommandFailed

        task_stack = self._task.get(item.nodeid)
        if task_stack is not None:
            task_stack.close()
        run = self._open()
        task, gold = instance_of(case)
        run.provider.ensure_image(task.image)
        with run.provider.open(verifier_spec(case, task, gold)) as sandbox:
            if patch:
                applied = sandbox.exec(
                    ["git", "-c", "safe.directory=*", "apply", "--whitespace=nowarn", "-"],
                    timeout_s=case.config.limits.exec_s,
                    stdin=patch,
                    workdir=task.workdir,
                )
                if applied.exit_code != 0:
                    raise CommandFailed(
                        f"{task.instance_id}: the patch does not apply: {applied.stderr.decode(errors='replace')}",
                        container=sandbox.name,
                        remedy="make the patch against the starting tree",
                    )
            yield sandbox

    def close(self) -> None:
        """Leave the run: what this process opened is closed. Idempotent."""
        self._run = None
        self._opened.close()

    # -- the inside -----------------------------------------------------------------------------------

    def _open(self) -> Run:
        if self._run is None:
            from swe_pytest.episode.run import open_run
            from swe_pytest.sandbox.engine import Engine
            from swe_pytest.sandbox.ownership import Ownership

            engine = Engine.load(self.directory().engine.read_text(encoding="utf-8"))
            facts = self.facts
            if facts.process != "main":
                self._opened.enter_context(_controller_watched(self.directory(), facts, engine))
            ownership = Ownership(facts.run_id, facts.owner, facts.process)
            self._run = self._opened.enter_context(open_run(self.directory(), ownership, engine))
        return self._run

    def _own(self, case: Case, item: pytest.Item) -> Case:
        """Return the case under a name that no other episode of the run has.

        A case that the plan has for this item keeps its name; one that a test brings itself is named after
        the test, and an item's second episode is counted: otherwise one record would overwrite another.
        """
        if case is not case_of(item):
            case = replace(case, suite=f"{case.suite}+{marked(item.nodeid)}")
        self._ran[(item.nodeid, case.case_id)] += 1
        times = self._ran[(item.nodeid, case.case_id)]
        return case if times == 1 else replace(case, id=f"{case.id}.{times}")

    def _ensure_planned(self, run: Run, case: Case, item: pytest.Item) -> None:
        """A case that a user's own fixture made is planned now: planned = measured + masked + not run, always."""
        from swe_pytest.pytest_plugin.plan import planned_case

        if case.case_id not in self._planned:
            self._planned.add(case.case_id)
            run.ledger.plan([planned_case(case, item.nodeid)])


@contextmanager
def _controller_watched(directory: RunDir, facts: RunFacts, engine: Engine) -> Iterator[None]:
    """While inside, the controller's death ends this worker at once, and its containers with it."""
    from swe_pytest.sandbox.lifeline import watch_lock
    from swe_pytest.sandbox.sweep import sweep_process

    def controller_died() -> None:
        # Nobody is left to report to; the guardian removes whatever this last sweep does not.
        try:
            sweep_process(engine, facts.run_id, facts.process)
        finally:
            os._exit(70)

    with watch_lock(directory.lock("controller"), controller_died):
        yield


MEMBER: pytest.StashKey[Member] = pytest.StashKey()


def member_of(config: pytest.Config) -> Member:
    """Return this process's member. Raises: KeyError outside a configured session."""
    return config.stash[MEMBER]
