"""A sandbox on Docker: commands by exec, with a deadline that ends all of what they started."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from swe_pytest.sandbox import programs
from swe_pytest.sandbox.archive import tar_of
from swe_pytest.sandbox.contract import DEFAULT_MAX_OUTPUT, ExecResult, Image, Sandbox, SandboxSpec
from swe_pytest.sandbox.docker_api import BAD_REQUEST, SERVER_ERROR, DockerApi, ExecState, Refused
from swe_pytest.sandbox.docker_container import Claim, Holding
from swe_pytest.sandbox.errors import (
    CommandFailed,
    CommandTimeout,
    EngineUnreachable,
    Leaked,
    OutOfMemory,
    OutputLimit,
    SandboxGone,
)
from swe_pytest.sandbox.stream import Capture
from swe_pytest.sandbox.witness import Witness

KILLED = 137
NOT_EXECUTABLE, NO_COMMAND = 126, 127
# Bounds of our own commands: moving files, and looking at control group counters.
FILES_S = 120.0
CHECK_S = 15.0
# The engine ends the stream when the command ends; in so long it must say so too.
SETTLE_S = 2.0
# A container whose command was killed may itself be dying: for so long it is looked at.
DEATH_S = 0.3
# A command that the engine could not begin for want of something has not run: it can be tried again.
ATTEMPTS = 3
SMALL_OUTPUT = 64 * 1024

# What the engine itself says, in place of output, of a command that it could not begin. The first kind
# is the command's own fault, and a shell would give the same status for it.
_NOT_BEGUN = (b"OCI runtime exec failed", b"unable to find user", b"unable to find group", b"crun: ")
_OWN_FAULT = (
    b"executable file not found",
    b"permission denied",
    b"no such file or directory",
    b"not a directory",
    b"is a directory",
    b"exec format error",
    b"argument list too long",
    b"unable to find user",
    b"unable to find group",
)


@dataclass(frozen=True, slots=True)
class _Ended:
    state: ExecState
    exit_code: int
    stdout: Capture
    stderr: Capture


class DockerSandbox(Sandbox):
    """See `Sandbox`. Made by DockerProvider.open, which also removes it."""

    def __init__(
        self, api: DockerApi, holding: Holding, claim: Claim, spec: SandboxSpec, image: Image, *,
        user: str, witness: Witness | None,
    ) -> None:  # fmt: skip
        self.name = claim.name
        self.id = claim.id
        self.spec = spec
        self.image = image
        self._api = api
        self._holding = holding
        self._claim = claim
        self._user = user
        self._witness = witness
        self.prologue = None
        self._memory_kills = 0
        self._memory_kills_told = 0

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
        argv = [programs.SHELL, "-c", command] if isinstance(command, str) else list(command)
        began = time.monotonic()
        ended = self._run(
            argv,
            deadline=began + timeout_s,
            stdin=stdin,
            env=env or {},
            workdir=self.spec.workdir if workdir is None else workdir,
            user=self._user if user is None else user,
            max_output=max_output,
        )
        if ended is None:
            self._end_late(argv, timeout_s)
            raise CommandTimeout(
                f"{_shown(argv)} did not end in time; it and all it had started were ended",
                container=self.name,
                limit=f"{timeout_s:g} s",
                remedy="raise the limit if the command may take that long; the sandbox can be used further",
            )
        duration_s = time.monotonic() - began
        self._look_for_memory_kills(ended)
        truncated = ended.stdout.truncated or ended.stderr.truncated
        if truncated and overflow == "raise":
            raise OutputLimit(
                f"{_shown(argv)} wrote {ended.stdout.total} bytes to stdout, {ended.stderr.total} to stderr",
                container=self.name,
                limit=f"{max_output} bytes each",
                remedy="raise the limit, or have the command write less",
            )
        stdout, stderr = ended.stdout.value(), ended.stderr.value()
        return ExecResult(ended.exit_code, stdout, stderr, truncated, duration_s, not _never_ran(ended))

    def write_files(self, files: Mapping[str, bytes], *, mode: int = 0o644) -> None:
        for path in files:
            if not path.startswith("/") or path.endswith("/") or ".." in path.split("/") or "\0" in path:
                raise ValueError(f"{path!r} is no absolute path of a file without '..'")
        archive = tar_of({path.lstrip("/"): content for path, content in files.items()}, mode)
        self._demand(["tar", "-xpf", "-", "-C", "/"], f"write {len(files)} files", stdin=archive)

    def read_file(self, path: str, *, max_bytes: int = DEFAULT_MAX_OUTPUT) -> bytes:
        argv = [programs.SHELL, "-c", programs.READ_FILE, "sh", programs.escaped(path)]
        told = self._demand(argv, f"read {path!r}", max_output=max_bytes)
        if told.stdout.truncated:
            raise OutputLimit(
                f"{path} has {told.stdout.total} bytes",
                container=self.name,
                limit=f"{max_bytes} bytes",
                remedy="raise the limit",
            )
        return told.stdout.value()

    def end_processes(self, *, timeout_s: float = 10.0) -> None:
        deadline = time.monotonic() + timeout_s
        try:
            signalled = False
            while time.monotonic() < deadline:
                if self._all_ended(deadline):
                    return
                if not signalled:
                    # No new process can begin in there, it seems: a fork bomb at the limit of processes.
                    # The first process can still end all others, perhaps also the next try of ours.
                    self._api.kill(self.id, "USR1")
                    signalled = True
        except Refused as refused:
            raise self._gone_or_unreachable(refused, "end its processes") from refused
        raise SandboxGone(
            "it cannot be confirmed that all its processes have ended",
            container=self.name,
            limit=f"{timeout_s:g} s",
            remedy="remove the sandbox; processes in uninterruptible sleep point to the host's storage",
        )

    def remove(self) -> None:
        self._holding.remove(self._claim)

    def kill(self) -> None:
        self._from_outside(lambda: self._api.kill(self.id), "kill it")

    def pause(self) -> None:
        self._from_outside(lambda: self._api.pause(self.id), "pause it")

    def _from_outside(self, fault: Callable[[], None], what: str) -> None:
        try:
            fault()
        except Refused as refused:
            raise self._gone_or_unreachable(refused, what) from refused

    def _run(
        self,
        argv: Sequence[str],
        *,
        deadline: float,
        stdin: bytes = b"",
        env: Mapping[str, str],
        workdir: str,
        user: str,
        max_output: int,
    ) -> _Ended | None:
        """Run a command to its confirmed end; None if the deadline came first and it may still run.

        Raises: SandboxGone, EngineUnreachable, CommandFailed (refused as it was asked for).
        """
        attempt = 0
        while True:
            try:
                ended = self._converse(argv, deadline, stdin, env, workdir, user, max_output)
            except Refused as refused:
                raise self._gone_or_unreachable(refused, f"run {_shown(argv)}") from refused
            if ended is None:
                return None
            if _begun(ended):
                break
            self.check()
            attempt += 1
            if attempt == ATTEMPTS:
                told = ended.stdout.value().decode(errors="replace")
                raise SandboxGone(
                    f"{_shown(argv)} could not be started in it: {told}",
                    container=self.name,
                    remedy="see the engine's log; the sandbox or the host may be out of processes or memory",
                )
            time.sleep(0.1 * attempt)  # whatever was lacking names no event to await
        if ended.exit_code == KILLED:
            # The death of the container, too, ends the stream as if the command had just ended, and the
            # engine may hear of the command's end first.
            settled = time.monotonic() + DEATH_S
            while time.monotonic() < settled:
                self.check()
                time.sleep(DEATH_S / 5)  # what is awaited is that nothing happens
            self._count_memory_kills()
        return ended

    def _converse(
        self,
        argv: Sequence[str],
        deadline: float,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        workdir: str = "/",
        user: str = "0",
        max_output: int = SMALL_OUTPUT,
    ) -> _Ended | None:
        """As `_run`, without a doubt about what status 137 means. Raises: Refused too."""
        stdout, stderr = Capture(max_output), Capture(max_output)
        exec_id = self._api.exec_create(
            self.id, argv, stdin=bool(stdin), env=env or {}, workdir=workdir, user=user
        )
        silent = self._silence_check(exec_id)
        with self._api.exec_start(exec_id) as stream:
            end = stream.converse(stdout, stderr, deadline=deadline, stdin=stdin or None, silent=silent)
        if end == "deadline":
            return None
        state = self._api.exec_state(exec_id)
        give_up = time.monotonic() + SETTLE_S
        while state.running and time.monotonic() < give_up:
            time.sleep(0.01)  # the engine has no call that waits for a command
            state = self._api.exec_state(exec_id)
        if end == "cut" or state.running or state.exit_code is None:
            self.check()
            raise SandboxGone(
                f"the output of {_shown(argv)} broke off while it was still running",
                container=self.name,
                remedy="see the engine's log: it, or the connection to it, was interrupted",
            )
        return _Ended(state, state.exit_code, stdout, stderr)

    def _silence_check(self, exec_id: str) -> Callable[[], bool]:
        """Whether a silent stream is to be left: the command is over, and was the last time as well.

        (A background process holds it open. Docker lets go after 2 s by itself, other engines never.)
        """
        was_over = False

        def silent() -> bool:
            nonlocal was_over
            self.check()
            over = not self._api.exec_state(exec_id).running
            left, was_over = over and was_over, over
            return left

        return silent

    def check(self) -> None:
        """Raises: SandboxGone unless the container runs and is not paused; EngineUnreachable."""
        try:
            state = self._api.state(self.id)
        except Refused as refused:
            raise self._gone(f"it was killed or removed meanwhile ({refused.reason})") from refused
        if state.paused or not state.running:
            raise self._gone(f"it is {state}")

    def _gone(self, why: str) -> SandboxGone:
        return SandboxGone(
            why,
            container=self.name,
            remedy="look for who or what did it: the host's memory, an operator, its time-to-live",
        )

    def _gone_or_unreachable(
        self, refused: Refused, what: str
    ) -> SandboxGone | EngineUnreachable | CommandFailed:
        if refused.status == BAD_REQUEST:
            return CommandFailed(f"the engine would not {what}: {refused.reason}", container=self.name)
        if refused.status < SERVER_ERROR:
            return self._gone(refused.reason)
        try:
            self.check()
        except SandboxGone as gone:
            return gone
        return EngineUnreachable(
            f"the engine refused to {what}: {refused.reason}",
            container=self.name,
            remedy="see the engine's log",
        )

    def _end_late(self, argv: Sequence[str], timeout_s: float) -> None:
        """End everything after a deadline; a sandbox where that cannot be confirmed is removed."""
        try:
            self.end_processes()
        except SandboxGone as gone:
            try:
                self.remove()
            except (Leaked, EngineUnreachable) as left:
                gone.add_note(f"and it could not be removed: {left}")
            gone.add_note(f"{_shown(argv)} had not ended within {timeout_s:g} s")
            raise

    def _all_ended(self, deadline: float) -> bool:
        ended = self._converse([programs.SHELL, "-c", programs.END_PROCESSES], deadline)
        return ended is not None and ended.exit_code == 0

    def _look_for_memory_kills(self, ended: _Ended) -> None:
        """Raises: OutOfMemory if the counter has moved. It is only read when there is reason to.

        A shell may hide the kill of its child behind its own status; but it prints "Killed", and the
        engine's events tell of each such kill. An event that comes late is seen by the next command.
        """
        if ended.exit_code != KILLED:
            if self.spec.memory is None:
                return
            printed = any(b"Killed" in output.tail(4096) for output in (ended.stdout, ended.stderr))
            told = self._witness is not None and self._witness.oom_seen(self.id)
            if not printed and not told:
                return
            self._count_memory_kills()
        if self._memory_kills > self._memory_kills_told:
            self._memory_kills_told = self._memory_kills
            limit = f"memory {self.spec.memory} bytes" if self.spec.memory is not None else "host memory"
            raise OutOfMemory(
                "the kernel ended a process for want of memory",
                container=self.name,
                limit=limit,
                remedy="raise `sandbox.memory` in the config, or have the command use less",
            )

    def _count_memory_kills(self) -> None:
        """Read the kernel's counter; that it can be read also proves that the sandbox lives.

        Raises: SandboxGone, EngineUnreachable.
        """
        try:
            ended = self._converse([programs.SHELL, "-c", programs.MEMORY_KILLS], time.monotonic() + CHECK_S)
        except Refused as refused:
            raise self._gone_or_unreachable(refused, "read its memory counter") from refused
        count = ended.stdout.value().strip() if ended is not None and ended.exit_code == 0 else b""
        if not count.isdigit():
            raise self._gone("it died, or its memory counter cannot be read")
        self._memory_kills = int(count)

    def _demand(
        self, argv: Sequence[str], what: str, *, stdin: bytes = b"", max_output: int = SMALL_OUTPUT
    ) -> _Ended:
        """Run a command of our own as root, which must succeed."""
        deadline = time.monotonic() + FILES_S
        ended = self._run(
            argv, deadline=deadline, stdin=stdin, env={}, workdir="/", user="0", max_output=max_output
        )
        if ended is None:
            raise SandboxGone(f"could not {what} in time", container=self.name, limit=f"{FILES_S:g} s")
        if ended.exit_code != 0:
            reason = (ended.stderr.value() or ended.stdout.value()).decode("utf-8", "replace").strip()
            raise CommandFailed(f"could not {what}: {reason}", container=self.name)
        return ended


def _begun(ended: _Ended) -> bool:
    """Whether the command ran at all, or could not for a reason of its own.

    Text alone proves nothing, for a command may print it; but one that ran has a process id.
    """
    return not _never_ran(ended) or any(text in ended.stdout.value() for text in _OWN_FAULT)


def _never_ran(ended: _Ended) -> bool:
    refused = ended.state.pid == 0 and ended.exit_code in (NOT_EXECUTABLE, NO_COMMAND)
    return refused and ended.stdout.value().startswith(_NOT_BEGUN)


def _shown(argv: Sequence[str]) -> str:
    """A command for a message: its beginning, on one line."""
    text = argv[2] if list(argv[:2]) == [programs.SHELL, "-c"] else " ".join(argv)
    text = " ".join(text.split())
    return repr(text if len(text) <= 80 else text[:77] + "...")
