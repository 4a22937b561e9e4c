"""A shell command as an agent: the smallest one that can really work, and the way to plug in anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from swe_pytest.agents.contract import Agent, AgentEnd, AgentResult, AgentSession
from swe_pytest.benchmarks.task import Task
from swe_pytest.sandbox.contract import Sandbox
from swe_pytest.sandbox.errors import CommandTimeout

# The kernel takes no longer single argument (128 KiB with its end).
_LONGEST = 128 * 1024 - 64
# What is kept of the command's output; the end tells most about how a turn went.
_LOG_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class CommandAgent(Agent):
    """Runs `command` by /bin/sh in the checkout. The prompt is its standard input.

    The environment has SWE_PYTEST_INSTANCE_ID and SWE_PYTEST_WORKDIR besides `env`. A non-zero status
    is the agent's own affair: it is recorded, and what the command left in the checkout is graded.
    """

    command: str
    env: Mapping[str, str] = field(default_factory=dict)
    version: str = "1"
    name: str = "command"

    def open(self, sandbox: Sandbox, task: Task) -> AgentSession:
        return _CommandSession(sandbox, task, self)


@dataclass(slots=True)
class _CommandSession(AgentSession):
    sandbox: Sandbox
    task: Task
    agent: CommandAgent

    def respond(self, prompt: str, timeout_s: float) -> AgentResult:
        env = {
            **self.agent.env,
            "SWE_PYTEST_INSTANCE_ID": self.task.instance_id,
            "SWE_PYTEST_WORKDIR": self.task.workdir,
        }
        size = len(self.agent.command.encode("utf-8", "surrogatepass"))
        if size > _LONGEST or "\0" in self.agent.command:
            detail = f"no command of {size} bytes (at most {_LONGEST}) or with a NUL in it can be run; use a script"
            return AgentResult(AgentEnd.LAUNCH_FAILED, detail=detail)
        try:
            # One stream, so that the log keeps the order in which things were said.
            result = self.sandbox.exec(
                ["/bin/sh", "-c", f"exec 2>&1\n{self.agent.command}"],
                timeout_s=timeout_s,
                stdin=prompt.encode("utf-8", "surrogatepass"),
                env=env,
                workdir=self.task.workdir,
                max_output=_LOG_BYTES,
            )
        except CommandTimeout as timeout:
            return AgentResult(AgentEnd.TIMEOUT, detail=str(timeout))
        if not result.began:
            detail = f"the agent could not be started: {result.stdout.decode(errors='replace').strip()}"
            return AgentResult(AgentEnd.LAUNCH_FAILED, result.exit_code, log=result.stdout, detail=detail)
        return AgentResult(AgentEnd.NORMAL, result.exit_code, turns=1, log=result.stdout)

    def close(self) -> None:
        self.sandbox.end_processes()
