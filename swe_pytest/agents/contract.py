"""The agent port. An agent borrows the task sandbox: it never removes it, and lets go of it on close."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import StrEnum

from swe_pytest.benchmarks.task import Task
from swe_pytest.sandbox.contract import Sandbox


class AgentEnd(StrEnum):
    """How an agent's turn ended."""

    NORMAL = "normal"
    TIMEOUT = "timeout"
    ITERATION_LIMIT = "iteration_limit"
    CONTEXT_EXHAUSTED = "context_exhausted"
    MODEL_ERROR = "model_error"
    LAUNCH_FAILED = "launch_failed"
    KILLED = "killed"


@dataclass(frozen=True, slots=True)
class AgentResult:
    """What is known of a turn. None means not known, never zero. `log` is the kept tail, as bytes."""

    end: AgentEnd
    exit_code: int | None = None
    turns: int | None = None
    log: bytes = b""
    detail: str = ""


class AgentSession(ABC):
    """One agent in one sandbox."""

    @abstractmethod
    def respond(self, prompt: str, timeout_s: float) -> AgentResult:
        """Take the one turn. The outcome of the agent's own work is a result, also when it failed.

        Raises: SandboxError when the sandbox failed under the agent.
        """

    @abstractmethod
    def close(self) -> None:
        """Let go: end the agent's processes and confirm it. Idempotent.

        Raises: SandboxError when the end cannot be confirmed.
        """


class Agent(ABC):
    """How to start an agent. `version` goes into every record."""

    name: str
    version: str

    @abstractmethod
    def open(self, sandbox: Sandbox, task: Task) -> AgentSession:
        """Install the agent into the borrowed sandbox and return its session.

        Raises: SandboxError. Nothing grader-only is in reach of an agent: `task` is the public half.
        """
