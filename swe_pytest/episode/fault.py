"""Fault plans: make something really break in the middle of an episode, to see that it is masked."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

from swe_pytest.episode.journal import Journal
from swe_pytest.sandbox.contract import DEFAULT_MAX_OUTPUT, ExecResult, Sandbox
from swe_pytest.sandbox.engine import Engine
from swe_pytest.suites.case import Fault

# An address where no engine can be: a connection to it is really refused.
_NO_ENGINE = Engine(host="unix:///nonexistent/swe-pytest-fault.sock", source="fault plan")
_KILL_WAIT_S = 60.0


@dataclass(slots=True)
class FaultPlan:
    """A fault waiting for its moment. `fired` says whether it came."""

    fault: Fault
    journal: Journal
    fired: bool = False

    def fire(self, action: Callable[[], None]) -> None:
        """Do it, once, and write it down."""
        if not self.fired:
            self.fired = True
            self.journal.note("fault", action=self.fault.action, target=self.fault.target)
            action()


class FaultySandbox(Sandbox):
    """The agent's handle on its sandbox, with the fault after the Nth command; all else passes through."""

    def __init__(self, inner: Sandbox, plan: FaultPlan) -> None:
        self._inner = inner
        self._plan = plan
        self._commands = 0
        self.name, self.id, self.spec, self.image = inner.name, inner.id, inner.spec, inner.image
        self.prologue = inner.prologue

    def strike(self) -> None:
        """Let the fault happen now: killed and paused by the engine itself, refused by a dead address."""
        action = self._plan.fault.action
        if action == "kill":
            self._plan.fire(self._inner.kill)
        elif action == "pause":
            self._plan.fire(self._inner.pause)
        else:
            self._plan.fire(lambda: None)

    def _reach(self) -> Sandbox:
        if self._plan.fired and self._plan.fault.action == "refuse":
            _NO_ENGINE.client(timeout_s=5.0)
        return self._inner

    def exec(
        self,
        command: str | Sequence[str],
        *,
        timeout_s: float,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        workdir: str | None = None,
        user: str | None = None,
        max_output: int = DEFAULT_MAX_OUTPUT,
        overflow: Literal["truncate", "raise"] = "truncate",
    ) -> ExecResult:
        if self._plan.fault.after_command == 0:
            self.strike()
        result = self._reach().exec(
            command,
            timeout_s=timeout_s,
            stdin=stdin,
            env=env,
            workdir=workdir,
            user=user,
            max_output=max_output,
            overflow=overflow,
        )
        self._commands += 1
        if self._commands == self._plan.fault.after_command:
            self.strike()
        return result

    def write_files(self, files: Mapping[str, bytes], *, mode: int = 0o644) -> None:
        self._reach().write_files(files, mode=mode)

    def read_file(self, path: str, *, max_bytes: int = DEFAULT_MAX_OUTPUT) -> bytes:
        return self._reach().read_file(path, max_bytes=max_bytes)

    def end_processes(self, *, timeout_s: float = 10.0) -> None:
        self._reach().end_processes(timeout_s=timeout_s)

    def check(self) -> None:
        self._reach().check()

    def remove(self) -> None:
        self._inner.remove()

    def kill(self) -> None:
        self._inner.kill()

    def pause(self) -> None:
        self._inner.pause()


@dataclass(slots=True)
class _Started:
    container: str = ""
    error: str = ""
    seen: threading.Event = field(default_factory=threading.Event)


@contextmanager
def verifier_killed_on_start(engine: Engine, case_id: str, plan: FaultPlan) -> Iterator[str]:
    """Kill the case's verifier as soon as the engine says that it started.

    Yields a shell line that holds the verifier's script until then, so that the kill always comes first.
    """
    import docker.errors

    client = engine.client(timeout_s=_KILL_WAIT_S)
    wanted = {
        "type": ["container"],
        "event": ["start"],
        "label": [f"swe-pytest.case={case_id}", "swe-pytest.role=verifier"],
    }
    events = client.events(filters=wanted, decode=True)
    started = _Started()

    def kill_first() -> None:
        try:
            for event in events:
                started.container = str(event["id"])
                plan.fire(lambda: client.kill(started.container))
                break
        except (docker.errors.DockerException, OSError) as error:
            started.error = str(error)
        finally:
            started.seen.set()

    thread = threading.Thread(target=kill_first, name="swe-pytest-fault", daemon=True)
    thread.start()
    try:
        yield "while :; do sleep 1; done\n"
    finally:
        events.close()
        thread.join(timeout=_KILL_WAIT_S)
        client.close()
        if started.error:
            plan.journal.note("fault.failed", message=started.error)
