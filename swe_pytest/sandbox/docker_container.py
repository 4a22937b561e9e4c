"""Containers that a stage asked the engine for, held so that none of them can outlive the stage."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import TypeVar

from swe_pytest.sandbox.admission import Lanes
from swe_pytest.sandbox.contract import SandboxSpec
from swe_pytest.sandbox.docker_api import CONFLICT, NOT_FOUND, SERVER_ERROR, DockerApi, Refused
from swe_pytest.sandbox.errors import CreateFailed, EngineUnreachable, ImageMissing, Leaked, SandboxError
from swe_pytest.sandbox.ownership import NONCE, Ownership

T = TypeVar("T")

ATTEMPTS = 3
# How long an engine that does not answer is given before it counts as unreachable.
PATIENCE_S = 10.0
REMOVE_S = 60.0
# A request that got no answer may still be carried out; so long its container is waited for.
LATE_S = 3.0

# What ordinary installs and tests do as root: give files away and reach them, drop privileges, end other
# users' processes. Left out of Docker's own set: raw sockets and device nodes (host-facing), audit,
# file capabilities and chroot (nothing in a benchmark needs them by default; `cap_add` brings them back).
# Low ports need no capability in a container.
CAPABILITIES = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID")


def container_config(
    spec: SandboxSpec, command: str, arguments: Sequence[str] = ("/bin/sh",), *, user: str, script: bool
) -> dict[str, object]:
    """The engine's create request for a container whose first process is the shell program `command`.

    `arguments` are what it sees as $0, $1 …

    An idle sandbox removes itself when its first process ends; a script run stays to be looked at. With
    `script` and a plain user /swe-pytest is a tmpfs: that user could not make it.
    """
    host: dict[str, object] = {
        "NetworkMode": "none" if spec.network == "none" else "bridge",
        "CapDrop": ["ALL"],
        "CapAdd": sorted({*CAPABILITIES, *(name.removeprefix("CAP_") for name in spec.cap_add)}),
        "SecurityOpt": ["no-new-privileges"],
        "LogConfig": {"Type": "none", "Config": {}},
        "AutoRemove": not script,
        "Init": False,
    }
    if spec.memory is not None:
        host |= {"Memory": spec.memory, "MemorySwap": spec.memory}
    if spec.pids is not None:
        host["PidsLimit"] = spec.pids
    if spec.cpus is not None:
        host["NanoCpus"] = round(spec.cpus * 1e9)
    if spec.disk is not None:
        host["StorageOpt"] = {"size": str(spec.disk)}
    if script and user not in ("", "0", "root", "0:0"):
        host["Tmpfs"] = {"/swe-pytest": "rw,exec,mode=1777"}
    return {
        "Image": spec.image,
        "Entrypoint": ["/bin/sh", "-c", command, *arguments],
        "Cmd": [],
        "User": user if script else "0:0",
        "Env": [f"{name}={value}" for name, value in spec.env.items()],
        "WorkingDir": spec.workdir,
        "Healthcheck": {"Test": ["NONE"]},
        "OpenStdin": script,
        "StdinOnce": script,
        "AttachStdin": script,
        "AttachStdout": script,
        "AttachStderr": script,
        "HostConfig": host,
    }


@dataclass(slots=True)
class Claim:
    """One container that the engine has been asked for; `id` is "" as long as it has not told one.

    `refused` means that it answered the request and will not carry it out later.
    """

    name: str
    labels: Mapping[str, str] = field(repr=False)
    id: str = ""
    refused: bool = False


class Holding:
    """Makes containers; leaving the context removes every one of them, also those that nobody saw arrive.

    A claim is noted before the engine is asked, so it does not matter where an exception (or a signal
    that raises one) strikes.
    """

    def __init__(self, api: DockerApi, ownership: Ownership, lanes: Lanes | None) -> None:
        self._api = api
        self._ownership = ownership
        self._lanes = lanes
        self._claims: list[Claim] = []

    def __enter__(self) -> Holding:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        failure: SandboxError | None = None
        for claim in list(self._claims):
            try:
                self.remove(claim)
            except SandboxError as left:
                failure = failure or left
            except BaseException:
                # A second signal: one last word to the engine, without waiting for what comes of it.
                for rest in self._claims:
                    with suppress(Refused, SandboxError):
                        if rest.id:
                            self._api.remove(rest.id)
                raise
        if failure is not None:
            if error is None:
                raise failure
            error.add_note(f"and its clean-up failed too: {failure}")

    def _lane(self) -> AbstractContextManager[None]:
        return self._lanes.lane() if self._lanes is not None else nullcontext()

    def bring_up(
        self,
        spec: SandboxSpec,
        config: Mapping[str, object],
        before_start: Callable[[Claim], None] = lambda claim: None,
    ) -> Claim:
        """Create and start a container: under a new name and with new labels at each attempt.

        Raises: ImageMissing, CreateFailed, EngineUnreachable.
        """
        failure: SandboxError | None = None
        for attempt in range(ATTEMPTS):
            if attempt:
                time.sleep(0.2 * attempt)  # an engine that refused names no event to await
            labels = self._ownership.labels(spec.role, spec.case_id, time.time() + spec.ttl_s)
            claim = Claim(self._ownership.name(spec.role), labels)
            self._claims.append(claim)
            try:
                with self._lane():
                    if not self._create(claim, config):
                        failure = self._failed(spec, claim, "the engine did not create it when asked")
                        continue
                    before_start(claim)
                    self._start(claim)
                return claim
            except Refused as refused:
                failure = self._failed(spec, claim, refused.reason)
                if refused.status == CONFLICT and not claim.id:
                    self._claims.remove(claim)  # the name is somebody else's
                    continue
                self.remove(claim)
                if refused.status < SERVER_ERROR or failure.limit:
                    break
        assert failure is not None
        raise failure

    def _create(self, claim: Claim, config: Mapping[str, object]) -> bool:
        """Whether the claim's container is there now. Raises: Refused, EngineUnreachable."""
        try:
            claim.id = self._api.create(claim.name, {**config, "Labels": dict(claim.labels)})
        except EngineUnreachable:
            return self._look(claim)
        except Refused as refused:
            # The name may be in use by the very container that an unanswered request has made.
            claim.refused = True
            if refused.status != CONFLICT or not self._look(claim):
                raise
        return True

    def _look(self, claim: Claim) -> bool:
        """Learn the id of the claim's container, if it is there and really the claim's own.

        Raises: EngineUnreachable when the engine still does not answer after PATIENCE_S.
        """
        state = self._patiently(lambda: self._api.state(claim.id or claim.name))
        if state is None or state.labels.get(NONCE) != claim.labels[NONCE]:
            return False
        claim.id = state.id
        return True

    def _start(self, claim: Claim) -> None:
        """Raises: Refused, EngineUnreachable."""
        try:
            self._api.start(claim.id)
        except EngineUnreachable:
            # To start a started container changes nothing, so it can be asked for again.
            self._patiently(lambda: self._api.start(claim.id))

    def _patiently(self, ask: Callable[[], T]) -> T | None:
        """Ask until there is an answer; None when the engine knows no such container."""
        give_up = time.monotonic() + PATIENCE_S
        pause = 0.1
        while True:
            try:
                return ask()
            except Refused as refused:
                if refused.status == NOT_FOUND:
                    return None
                raise
            except EngineUnreachable:
                if time.monotonic() + pause > give_up:
                    raise
                time.sleep(pause)  # an engine that does not answer cannot tell when it will
                pause *= 2

    def _failed(self, spec: SandboxSpec, claim: Claim, reason: str) -> SandboxError:
        lower = reason.lower()
        if "no such image" in lower or "image not known" in lower:
            return ImageMissing(
                f"image {spec.image} is not on this host: {reason}", remedy=f"`docker pull {spec.image}`"
            )
        if spec.disk is not None and ("storage-opt" in lower or "storage opt" in lower):
            return CreateFailed(
                f"this engine's storage cannot limit the disk of a container: {reason}",
                container=claim.name,
                limit=f"disk {spec.disk} bytes",
                remedy="leave `disk` out of the config, or keep the engine's data on xfs with pquota",
            )
        return CreateFailed(
            f"the engine would not create or start the {spec.role} container from {spec.image}: {reason}",
            container=claim.name,
            remedy="the image must have /bin/sh and sleep; else see the engine's log",
        )

    def remove(self, claim: Claim) -> None:
        """Remove the claim's container and confirm that it is gone. Idempotent.

        Raises: Leaked after REMOVE_S, EngineUnreachable.
        """
        if claim not in self._claims:
            return
        with self._lane():
            if claim.id or self._arrives(claim):
                self._remove(claim)
        self._claims.remove(claim)

    def _arrives(self, claim: Claim) -> bool:
        """Whether a container whose request got no answer is there, or comes within LATE_S."""
        give_up = time.monotonic() + LATE_S
        pause = 0.05
        while not self._look(claim):
            if claim.refused or time.monotonic() + pause > give_up:
                return False  # should it come still later, the run's sweep finds it by its labels
            time.sleep(pause)  # the create may have been lost: then no event ever comes
            pause *= 2
        return True

    def _remove(self, claim: Claim) -> None:
        give_up = time.monotonic() + REMOVE_S
        pause = 0.05
        while True:
            try:
                if self._gone(claim.id):
                    return
                problem: Refused | EngineUnreachable | None = None
            except (Refused, EngineUnreachable) as error:
                problem = error
            if time.monotonic() + pause > give_up:
                break
            time.sleep(pause)  # after a refusal; a removal under way is awaited by `_gone`
            pause = min(2 * pause, 2.0)
        if isinstance(problem, EngineUnreachable):
            raise problem
        raise Leaked(
            f"could not be removed: {problem.reason if problem else 'it is still there'}",
            container=claim.name,
            limit=f"{REMOVE_S:g} s",
            remedy=f"`swe-pytest gc`, or `docker rm -f {claim.name}`",
        )

    def _gone(self, container: str) -> bool:
        try:
            self._api.remove(container)
        except Refused as refused:
            if refused.status == NOT_FOUND:
                return True
            if refused.status != CONFLICT:
                raise
            # Somebody (the engine itself, say) is removing it already.
            with suppress(Refused):
                self._api.wait_removed(container)
        return not self._api.exists(container)
