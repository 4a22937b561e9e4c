"""The sandbox port: what every backend promises. Docstrings here are contracts.

A *sandbox* is a container with an idle first process; commands run in it one after the other.
A *script run* is a container whose only command is one program; it is how patches are graded.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Literal

Role = Literal["task", "verifier"]
Network = Literal["none", "open"]

MIB = 1024 * 1024
DEFAULT_MAX_OUTPUT = 16 * MIB


@dataclass(frozen=True, slots=True)
class SandboxSpec:
    """What to create. Sizes are bytes, times seconds; None means the engine's own default.

    `memory` is without swap. `ttl_s` is how long the container may live before it ends itself.
    `cap_add` names Linux capabilities on top of the small set every sandbox has.
    """

    image: str
    role: Role
    case_id: str
    workdir: str = "/"
    user: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    network: Network = "none"
    cpus: float | None = None
    memory: int | None = None
    pids: int | None = None
    disk: int | None = None
    ttl_s: float = 25200.0
    cap_add: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ExecResult:
    """How a command ended. Output is bytes; when `truncated`, head and tail are kept around a marked gap.

    `began` is false where the engine could not start it for a reason of the command's own (no such program
    or user, arguments too long): then `exit_code` is 126 or 127 and `stdout` says why.
    """

    exit_code: int
    stdout: bytes
    stderr: bytes
    truncated: bool
    duration_s: float
    began: bool = True


@dataclass(frozen=True, slots=True)
class Prologue:
    """A command that a new sandbox runs, as root and without input, before it idles.

    It costs no more than the start itself, where a command in a running sandbox costs as much as a small
    container does: so what every sandbox of a kind needs done belongs here.
    """

    argv: tuple[str, ...]
    timeout_s: float


@dataclass(frozen=True, slots=True)
class ScriptResult:
    """How a script run ended.

    `output` is what the program wrote to stdout (capped as in ExecResult), `control` what it wrote to
    stderr. `exit_code` is None when `timed_out`. A script run never outlives this result: its container
    is dead and its removal has been confirmed or handed to the sweep.
    """

    container: str
    exit_code: int | None
    output: bytes
    control: bytes
    truncated: bool
    timed_out: bool
    duration_s: float


@dataclass(frozen=True, slots=True)
class Image:
    """An image on this host: the reference asked for, its id, and its repository digest ("" for local ones)."""

    reference: str
    id: str
    digest: str


@dataclass(frozen=True, slots=True)
class Life:
    """One container as the engine itself witnessed it. Times are epoch seconds by the engine's clock."""

    role: str
    id: str
    name: str
    image: str
    image_digest: str
    created: float | None
    removed: float | None
    exit_code: int | None
    oom: bool


class Sandbox(ABC):
    """A live container. Not thread-safe: one command at a time.

    `prologue` is how the command ended that it was opened with, None if there was none.
    """

    name: str
    id: str
    spec: SandboxSpec
    image: Image
    prologue: ExecResult | None

    @abstractmethod
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
        """Run a command to its end and return how it ended; a non-zero status is a result, not an error.

        A string is run by /bin/sh -c, a sequence as argv. `env` is added to the sandbox's environment.
        `max_output` bounds stdout and stderr each; everything is read to the end all the same.

        Raises:
            CommandTimeout: the deadline passed. The command and every descendant are gone, also those
                that left its session; so is anything else but the first process. The sandbox is usable.
            SandboxGone: the container died, was paused or removed meanwhile, or the end of the command
                cannot be confirmed.
            OutOfMemory: the memory limit killed a process of this sandbox during the command.
            OutputLimit: only with overflow="raise".
            EngineUnreachable: the engine stopped answering.
        """

    @abstractmethod
    def write_files(self, files: Mapping[str, bytes], *, mode: int = 0o644) -> None:
        """Put files at absolute paths, making parent directories. Bytes arrive unchanged.

        Raises: SandboxGone, EngineUnreachable, CommandFailed (disk full, read-only path).
        """

    @abstractmethod
    def read_file(self, path: str, *, max_bytes: int = DEFAULT_MAX_OUTPUT) -> bytes:
        """Return the bytes of a regular file.

        Raises: CommandFailed (no such file), OutputLimit, SandboxGone, EngineUnreachable.
        """

    @abstractmethod
    def end_processes(self, *, timeout_s: float = 10.0) -> None:
        """End every process but the first and confirm that none is left.

        Raises: SandboxGone if that cannot be confirmed; EngineUnreachable.
        """

    @abstractmethod
    def check(self) -> None:
        """Ask the engine whether the sandbox still lives; costs milliseconds, runs nothing inside.

        Raises: SandboxGone when it died, was paused or removed; EngineUnreachable.
        """

    @abstractmethod
    def remove(self) -> None:
        """Remove the container and confirm that it is gone. Idempotent.

        Raises: Leaked after bounded retries (the run's sweep then takes over); EngineUnreachable.
        """

    # Used by fault plans and tests only: real faults, by the engine's own means.
    @abstractmethod
    def kill(self) -> None:
        """Kill the container from outside, as an operator or a dying host would."""

    @abstractmethod
    def pause(self) -> None:
        """Freeze the container from outside."""


class SandboxProvider(ABC):
    """A container engine as this run sees it: everything created is named and labelled as the run's own."""

    @abstractmethod
    def open(self, spec: SandboxSpec, prologue: Prologue | None = None) -> AbstractContextManager[Sandbox]:
        """Create and start a sandbox; leaving the context removes it, whatever happened inside.

        With a prologue it is entered when that has ended; how is for the caller to judge.

        The name and labels are chosen and registered before the engine is asked, so that a slow, lost
        or interrupted create is never an orphan. The image is never pulled here.

        Raises: ImageMissing, CreateFailed, EngineUnreachable; with a prologue also CommandTimeout (the
            sandbox has been removed), SandboxGone, OutOfMemory.
        """

    @abstractmethod
    def run_script(
        self,
        spec: SandboxSpec,
        script: str,
        files: Mapping[str, bytes],
        *,
        timeout_s: float,
        max_output: int = 64 * MIB,
    ) -> ScriptResult:
        """Run `/bin/sh -c script` as the only command of a fresh container and remove the container.

        `files` (paths relative to /swe-pytest, bytes) are there before the script starts. The script has
        no standard input. On time-out the container is killed and `timed_out` is set: whose fault it was
        is for the caller to say.

        Raises: ImageMissing, CreateFailed, EngineUnreachable; SandboxGone when the container died by any
            other hand than its own or ours; OutOfMemory when its memory limit killed any process, also if the
            script went on: what it then says is not complete.
        """

    @abstractmethod
    def ensure_image(self, reference: str, *, pull: bool = True) -> Image:
        """Return the image, pulling it if absent and allowed: once per host however many processes ask.

        Raises: ImageMissing (with the engine's reason), EngineUnreachable.
        """

    @abstractmethod
    def missing_images(self, references: Sequence[str]) -> list[str]:
        """Return those references that are not on this host. Raises: EngineUnreachable."""

    @abstractmethod
    def lives(self, case_id: str, *, settle_s: float = 5.0) -> list[Life]:
        """Return the containers of a case in order of creation, as witnessed by the engine's event stream.

        Waits at most `settle_s` for outstanding removals to be seen.
        """
