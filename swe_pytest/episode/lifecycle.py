"""The way of one episode: seed, agent, capture, verify, close; every stage with a deadline, every path closed."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace

from swe_pytest.agents.contract import AgentEnd, AgentResult
from swe_pytest.agents.registry import make_agent
from swe_pytest.benchmarks.registry import benchmark
from swe_pytest.benchmarks.task import Gold, Task
from swe_pytest.episode.failure import DeadlinePassed, Masked, failure_of
from swe_pytest.episode.fault import FaultPlan, FaultySandbox, verifier_killed_on_start
from swe_pytest.episode.journal import Journal
from swe_pytest.episode.run import Run
from swe_pytest.grading.capture import CapturedPatch, capture_patch
from swe_pytest.grading.evaluate import Trace, evaluation_script, read_trace
from swe_pytest.grading.runner_files import runner_paths
from swe_pytest.grading.verdict import empty_patch_verdict, judge
from swe_pytest.grading.workspace import Workspace, seed_command, seeded_workspace
from swe_pytest.results.record import Failure, Stage, Verdict
from swe_pytest.sandbox.contract import (
    Image,
    Network,
    Prologue,
    Sandbox,
    SandboxProvider,
    SandboxSpec,
    ScriptResult,
)
from swe_pytest.sandbox.errors import SandboxError
from swe_pytest.suites.plan import Case


def instance_of(case: Case) -> tuple[Task, Gold]:
    """Return the two halves of a case's instance; a config's `workdir` outranks the row's in both.

    Raises: InvalidFiles when the case's row changed since collection.
    """
    task, gold = benchmark(case.benchmark).load(case.ref)
    workdir = case.config.sandbox.workdir
    if workdir is None:
        return task, gold
    return replace(task, workdir=workdir), replace(gold, evaluation=replace(gold.evaluation, workdir=workdir))


def task_spec(case: Case, task: Task) -> SandboxSpec:
    """Return the task sandbox of a case. Nothing grader-only can get in: it is not given."""
    sandbox, limits = case.config.sandbox, case.config.limits
    return SandboxSpec(
        image=task.image,
        role="task",
        case_id=case.case_id,
        user=sandbox.user,
        env=sandbox.env,
        network=sandbox.network,
        cpus=sandbox.cpus,
        memory=sandbox.memory,
        pids=sandbox.pids,
        disk=sandbox.disk,
        ttl_s=limits.sandbox_ttl_s,
        cap_add=tuple(sandbox.cap_add),
    )


def verifier_spec(case: Case, task: Task, gold: Gold) -> SandboxSpec:
    """Return the verifier sandbox of a case; by default its network is what the official evaluation needs."""
    verifier, limits = case.config.verifier, case.config.limits
    network: Network = gold.evaluation.network if verifier.network == "benchmark" else verifier.network
    return SandboxSpec(
        image=task.image,
        role="verifier",
        case_id=case.case_id,
        env=verifier.env,
        network=network,
        cpus=verifier.cpus,
        memory=verifier.memory,
        pids=verifier.pids,
        ttl_s=limits.sandbox_ttl_s,
        # Given up again before any code of the candidate runs, which then cannot look into the first process.
        cap_add=("SETPCAP",),
    )


@contextmanager
def seeded_sandbox(
    provider: SandboxProvider, case: Case, task: Task, timeout_s: float
) -> Iterator[tuple[Sandbox, Workspace]]:
    """A task sandbox whose later history is purged, the purge proven, and whose starting tree is recorded.

    Raises: SandboxError, SeedFailed, PurgeUnproven.
    """
    prologue = Prologue(seed_command(task.workdir, task.base_commit), timeout_s)
    with provider.open(task_spec(case, task), prologue) as sandbox:
        assert sandbox.prologue is not None
        yield sandbox, seeded_workspace(sandbox.prologue, task.workdir, sandbox.name)


@dataclass(slots=True)
class Attempt:
    """One try at a case. After `go()` its fields say all that is known of it."""

    case: Case
    run: Run
    task: Task
    gold: Gold
    plan: FaultPlan | None = None
    journal: Journal = field(default_factory=Journal)
    image: Image | None = None
    agent_version: str = ""
    agent: AgentResult | None = None
    patch: CapturedPatch | None = None
    verdict: Verdict | None = None
    verification: tuple[Trace, ScriptResult] | None = None
    failure: Failure | None = None
    _ends: float = 0.0

    def go(self) -> BaseException | None:
        """Run the stages and close the session on every path.

        A failure becomes `self.failure`. Whatever interrupts the process itself (Ctrl-C, SIGTERM, a test
        timeout) becomes one too, and is returned for the caller to raise once the record is safe.
        """
        self._ends = time.monotonic() + self.case.config.limits.episode_s
        session = ExitStack()
        interruption: BaseException | None = None
        try:
            self._stages(session)
        except BaseException as error:  # noqa: BLE001 - nothing is swallowed: it is recorded, or returned to be raised
            self.failure = failure_of(error, self.journal.stage, self.task.instance_id)
            interruption = None if isinstance(error, Exception) else error
        try:
            self._close(session)
        except BaseException as error:  # noqa: BLE001 - returned to be raised; what was measured before it stays
            interruption = interruption or error
        return interruption

    def _stages(self, session: ExitStack) -> None:
        sandbox, workspace = self._seed(session)
        handle: Sandbox = sandbox
        if self.plan is not None and self.plan.fault.target != "verifier":
            handle = FaultySandbox(sandbox, self.plan)
        self._act(handle)
        with self._stage(Stage.CAPTURE, self.case.config.limits.capture_s) as limit_s:
            max_bytes = self.case.config.limits.patch_bytes
            self.patch = capture_patch(sandbox, workspace, timeout_s=limit_s, max_bytes=max_bytes)
        self._mask_by_turn()
        # The verifier must never see the task sandbox alive, so this is on the critical path on purpose.
        sandbox.remove()
        with self._stage(Stage.VERIFY, self.case.config.verifier.timeout_s) as limit_s:
            self.verdict = self._verify(workspace, limit_s)
        self._mask_by_verdict()

    @contextmanager
    def _stage(self, stage: Stage, limit_s: float) -> Iterator[float]:
        """Enter a stage with what the episode's deadline leaves of its limit."""
        remaining = self._ends - time.monotonic()
        with self.journal.entered(stage, min(limit_s, remaining)):
            if remaining <= 0:
                raise DeadlinePassed(
                    f"the episode's limit of {self.case.config.limits.episode_s} s passed; next: raise limits.episode_s"
                )
            yield min(limit_s, remaining)

    def _seed(self, session: ExitStack) -> tuple[Sandbox, Workspace]:
        config = self.case.config
        with self._stage(Stage.SEED, config.limits.seed_s) as limit_s:
            self.image = self.run.provider.ensure_image(self.task.image)
            sandbox, workspace = session.enter_context(
                seeded_sandbox(self.run.provider, self.case, self.task, limit_s)
            )
        return sandbox, workspace

    def _act(self, handle: Sandbox) -> None:
        """The agent's three stages. Once opened it is closed on every path, before the sandbox goes."""
        settings = self.case.config.agent
        agent = make_agent(settings.harness, settings.model_dump(), self.gold.patch)
        self.agent_version = agent.version
        with self._stage(Stage.AGENT_OPEN, self.case.config.limits.seed_s):
            session = agent.open(handle, self.task)
        try:
            with self._stage(Stage.AGENT_RESPOND, self.case.config.limits.agent_s) as limit_s:
                self.agent = session.respond(self.task.problem_statement, limit_s)
                if isinstance(handle, FaultySandbox) and self.plan is not None and not self.plan.fired:
                    # The agent gave fewer commands than the plan waits for; its turn is not over without the fault.
                    handle.strike()
                    handle.check()
        except BaseException:
            try:
                session.close()
            except SandboxError as error:
                self.journal.note("agent.close.failed", error=type(error).__name__, message=str(error))
            raise
        with self._stage(Stage.AGENT_CLOSE, self.case.config.limits.close_s):
            session.close()

    def _mask_by_turn(self) -> None:
        result = self.agent
        if result is None:
            return
        if result.end is AgentEnd.TIMEOUT and self.case.config.mask.agent_timeout:
            raise self._masked(
                Stage.AGENT_RESPOND, "agent_timeout", f"the agent's wall clock ran out; {result.detail}"
            )
        if result.end in (AgentEnd.LAUNCH_FAILED, AgentEnd.MODEL_ERROR, AgentEnd.KILLED):
            raise self._masked(
                Stage.AGENT_RESPOND, f"agent_{result.end}", result.detail or f"the agent ended: {result.end}"
            )

    def _mask_by_verdict(self) -> None:
        result, verdict = self.agent, self.verdict
        ran_out = result is not None and result.end in (AgentEnd.ITERATION_LIMIT, AgentEnd.CONTEXT_EXHAUSTED)
        if ran_out and verdict is not None and verdict.reward > 0 and self.case.config.mask.accidental_pass:
            assert result is not None
            raise self._masked(
                Stage.AGENT_RESPOND, "accidental_pass", f"resolved although the agent ended by {result.end}"
            )

    def _masked(self, stage: Stage, kind: str, message: str) -> Masked:
        self.journal.stage = stage
        return Masked(kind, message)

    def _verify(self, workspace: Workspace, limit_s: float) -> Verdict:
        patch, evaluation = self.patch, self.gold.evaluation
        assert patch is not None
        if not patch.data:
            return empty_patch_verdict(evaluation)
        nonce = secrets.token_hex(16)
        script, files = evaluation_script(
            evaluation,
            patch.data,
            start_tree=workspace.start_tree,
            restore=runner_paths(
                patch.facts.files, patch.data, evaluation.gold_paths, evaluation.eval_script
            ),
            nonce=nonce,
        )
        spec = verifier_spec(self.case, self.task, self.gold)
        if self.plan is not None and self.plan.fault.target == "verifier":
            with verifier_killed_on_start(self.run.engine, self.case.case_id, self.plan) as hold:
                result = self.run.provider.run_script(spec, hold + script, files, timeout_s=limit_s)
        else:
            result = self.run.provider.run_script(spec, script, files, timeout_s=limit_s)
        trace = read_trace(result.control, nonce)
        self.verification = (trace, result)
        return judge(evaluation, trace, result, patch.data, self.run.grader)

    def _close(self, session: ExitStack) -> None:
        stage_before = self.journal.stage
        try:
            with self.journal.entered(Stage.CLOSE, self.case.config.limits.close_s):
                session.close()
        except SandboxError:
            # Journalled by the stage. A clean-up error never changes a verdict; the run's sweep and its
            # leak assertion deal with what is left.
            pass
        finally:
            self.journal.stage = stage_before
