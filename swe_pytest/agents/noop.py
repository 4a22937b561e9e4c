"""The agent that does nothing. It shows that an untouched checkout does not pass."""

from __future__ import annotations

from dataclasses import dataclass

from swe_pytest.agents.contract import Agent, AgentEnd, AgentResult, AgentSession
from swe_pytest.benchmarks.task import Task
from swe_pytest.sandbox.contract import Sandbox


@dataclass(frozen=True, slots=True)
class NoopAgent(Agent):
    """Takes its turn without a command."""

    name: str = "noop"
    version: str = "1"

    def open(self, sandbox: Sandbox, task: Task) -> AgentSession:
        return _NoopSession(sandbox)


@dataclass(slots=True)
class _NoopSession(AgentSession):
    sandbox: Sandbox

    def respond(self, prompt: str, timeout_s: float) -> AgentResult:
        return AgentResult(AgentEnd.NORMAL, 0, turns=0)

    def close(self) -> None:
        self.sandbox.check()  # it started nothing, so there is nothing to end
