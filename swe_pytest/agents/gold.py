"""The oracle: applies the gold patch. It shows that a task can be solved and that its grading says so."""

from __future__ import annotations

from dataclasses import dataclass

from swe_pytest.agents.contract import Agent, AgentEnd, AgentResult, AgentSession
from swe_pytest.benchmarks.task import Task
from swe_pytest.sandbox.contract import Sandbox


@dataclass(frozen=True, slots=True)
class GoldAgent(Agent):
    """The one agent that is given something grader-only, because being the solution is its purpose."""

    patch: bytes
    name: str = "gold"
    version: str = "1"

    def open(self, sandbox: Sandbox, task: Task) -> AgentSession:
        return _GoldSession(sandbox, task, self.patch)


@dataclass(slots=True)
class _GoldSession(AgentSession):
    sandbox: Sandbox
    task: Task
    patch: bytes

    def respond(self, prompt: str, timeout_s: float) -> AgentResult:
        # The patch goes over stdin, so that no copy of it stays in the sandbox beside its effect.
        result = self.sandbox.exec(
            ["git", "-c", "safe.directory=*", "apply", "--whitespace=nowarn", "-"],
            timeout_s=timeout_s,
            stdin=self.patch,
            workdir=self.task.workdir,
        )
        if result.exit_code != 0:
            detail = "the gold patch does not apply to the starting tree: the row and the image disagree"
            return AgentResult(AgentEnd.LAUNCH_FAILED, result.exit_code, log=result.stderr, detail=detail)
        return AgentResult(AgentEnd.NORMAL, 0, turns=1, log=result.stderr)

    def close(self) -> None:
        self.sandbox.check()  # nothing of this agent can still run: it started nothing that outlives its turn
