"""The prologue on Docker: a command that the first process of a sandbox runs before it idles."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, field

from swe_pytest.sandbox import programs
from swe_pytest.sandbox.contract import DEFAULT_MAX_OUTPUT, ExecResult, Prologue, SandboxSpec
from swe_pytest.sandbox.docker_api import DockerApi
from swe_pytest.sandbox.docker_container import Claim, Holding, container_config
from swe_pytest.sandbox.docker_exec import DockerSandbox
from swe_pytest.sandbox.errors import CommandTimeout, SandboxGone
from swe_pytest.sandbox.stream import Capture, Stream


@dataclass(slots=True)
class PrologueRun:
    """One prologue: `bring_up` starts its container, `finish` waits for its end."""

    api: DockerApi
    prologue: Prologue
    _closing: str = field(default_factory=lambda: secrets.token_hex(16))
    _stdout: Capture = field(default_factory=lambda: Capture(DEFAULT_MAX_OUTPUT))
    _stderr: Capture = field(default_factory=lambda: Capture(DEFAULT_MAX_OUTPUT))
    _streams: list[Stream] = field(default_factory=list)
    _began: float = 0.0

    def bring_up(self, holding: Holding, spec: SandboxSpec) -> Claim:
        """Create and start the container, listening from its first word. Raises: as Holding.bring_up."""
        program = programs.PROLOGUE + programs.idle(spec.ttl_s)
        arguments = (self._closing, *self.prologue.argv)
        config = container_config(spec, program, arguments, user="0:0", script=False)
        config |= {"AttachStdout": True, "AttachStderr": True}

        def attach(claim: Claim) -> None:
            self.close()  # an earlier attempt's
            self._streams.append(self.api.attach(claim.id))

        claim = holding.bring_up(spec, config, attach)
        self._began = time.monotonic()
        return claim

    def finish(self, sandbox: DockerSandbox) -> ExecResult:
        """Return how the command ended.

        Raises: CommandTimeout, and whatever `sandbox.check` says when the output broke off.
        """

        def silent() -> bool:
            sandbox.check()
            return False

        end = self._streams[-1].converse(
            self._stdout,
            self._stderr,
            deadline=self._began + self.prologue.timeout_s,
            silent=silent,
            complete=lambda: self._status() is not None,
        )
        self.close()
        status = self._status()
        if status is None and end == "deadline":
            raise CommandTimeout(
                "the sandbox was not ready in time and is removed",
                container=sandbox.name,
                limit=f"{self.prologue.timeout_s:g} s",
                remedy="raise the limit of the stage that opened it",
            )
        if status is None:
            sandbox.check()
            raise SandboxGone(
                "the output of its prologue broke off",
                container=sandbox.name,
                remedy="see the engine's log: it, or the connection to it, was interrupted",
            )
        return ExecResult(
            status,
            self._before_closing(self._stdout),
            self._before_closing(self._stderr),
            self._stdout.truncated or self._stderr.truncated,
            time.monotonic() - self._began,
        )

    def close(self) -> None:
        """Let go of the streams: the container goes on without a listener. Idempotent."""
        while self._streams:
            self._streams.pop().close()

    def _before_closing(self, capture: Capture) -> bytes:
        return capture.value().rpartition(f"\n{self._closing} ".encode())[0]

    def _status(self) -> int | None:
        """The command's exit status, once the closing line stands at the end of both streams."""
        found = [_closing_status(capture, self._closing) for capture in (self._stdout, self._stderr)]
        return None if None in found else found[0]


def _closing_status(capture: Capture, closing: str) -> int | None:
    _, found, rest = capture.tail(64).rpartition(f"\n{closing} ".encode())
    word, end, _ = rest.partition(b"\n")
    return int(word) if found and end and word.isdigit() else None
