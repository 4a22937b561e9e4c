"""What can go wrong with a sandbox, one class a cause: callers decide by class, never by text."""

from __future__ import annotations

from typing import ClassVar


class SandboxError(Exception):
    """Base of all sandbox errors. `kind` is the failure class written into records.

    Attributes name the container and the limit involved (empty where none is) and the next step
    to take, so that a message alone is enough to act on.
    """

    kind: ClassVar[str] = "sandbox_error"

    def __init__(self, message: str, *, container: str = "", limit: str = "", remedy: str = "") -> None:
        self.message = message
        self.container = container
        self.limit = limit
        self.remedy = remedy
        parts = [message]
        if container:
            parts.append(f"container {container}")
        if limit:
            parts.append(f"limit {limit}")
        if remedy:
            parts.append(f"next: {remedy}")
        super().__init__("; ".join(parts))


class CommandFailed(SandboxError):
    """A command ran and ended with a status that its caller does not accept."""

    kind = "command_failed"


class CommandTimeout(SandboxError):
    """A command outlived its deadline; it and all its descendants have been ended, the sandbox lives on."""

    kind = "command_timeout"


class SandboxGone(SandboxError):
    """The sandbox is dead, paused or removed: nothing it said last can be trusted to be complete."""

    kind = "sandbox_gone"


class OutOfMemory(SandboxError):
    """The kernel ended a process of the sandbox because its memory limit was reached."""

    kind = "out_of_memory"


class OutputLimit(SandboxError):
    """A command wrote more than its caller accepts, and a part would not be the whole truth."""

    kind = "output_limit"


class EngineUnreachable(SandboxError):
    """The container engine does not answer, or refuses to work."""

    kind = "engine_unreachable"


class ImageMissing(SandboxError):
    """The image is not on this host and cannot be had from a registry."""

    kind = "image_missing"


class CreateFailed(SandboxError):
    """The engine answered, but would not create or start the container; nothing of it is left."""

    kind = "create_failed"


class Leaked(SandboxError):
    """Something of ours could not be removed."""

    kind = "leaked"
