"""A script run on Docker: a container that lives for one script and ends with it."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass

from swe_pytest.sandbox import programs
from swe_pytest.sandbox.archive import tar_of
from swe_pytest.sandbox.contract import SandboxSpec, ScriptResult
from swe_pytest.sandbox.docker_api import DockerApi, Refused
from swe_pytest.sandbox.docker_container import Claim, Holding, container_config
from swe_pytest.sandbox.errors import CreateFailed, OutOfMemory, SandboxGone
from swe_pytest.sandbox.stream import Capture, Stream

# After a kill the streams end at once; for so long what they still hold is read.
REST_S = 5.0
# The streams end when the first process does; in so long the engine must say so too.
SETTLE_S = 2.0
# The closing word must never fall into the gap of a capture.
SMALLEST_CONTROL = 4096


@dataclass(frozen=True, slots=True)
class _Closing:
    """What the first process said last, and what stood on its stderr before that."""

    before: bytes
    status: int
    memory_kills: int


class ScriptRun:
    """One script run. Its container belongs to `holding`, which removes it whatever happens here."""

    def __init__(
        self, api: DockerApi, holding: Holding, spec: SandboxSpec, *, user: str, max_output: int
    ) -> None:
        self._api = api
        self._holding = holding
        self._spec = spec
        self._user = user
        self._output = Capture(max_output)
        self._control = Capture(max(max_output, SMALLEST_CONTROL))
        self._nonce = secrets.token_hex(16)
        self._seen_ended = False

    def run(self, script: str, files: Mapping[str, bytes], timeout_s: float) -> ScriptResult:
        """See SandboxProvider.run_script."""
        stdin = self._archive(script, files)
        config = container_config(
            self._spec, programs.run_script(self._spec.ttl_s), user=self._user, script=True
        )
        with ExitStack() as attached:
            streams: list[Stream] = []

            def attach(claim: Claim) -> None:
                # Before the start, or the first words of the script would be lost.
                streams.append(attached.enter_context(self._api.attach(claim.id)))

            claim = self._holding.bring_up(self._spec, config, attach)
            began = time.monotonic()
            end = streams[-1].converse(
                self._output,
                self._control,
                deadline=began + timeout_s,
                stdin=stdin,
                silent=lambda: self._over(claim),
            )
            if end == "deadline":
                self._kill(claim, streams[-1])
            duration_s = time.monotonic() - began
        closing = self._closing_word()
        if closing is None and end != "deadline":
            self._explain(claim)
        if closing is not None and closing.memory_kills:
            raise self._out_of_memory(claim)
        self._holding.remove(claim)
        return ScriptResult(
            container=claim.name,
            exit_code=closing.status if closing is not None else None,
            output=self._output.value(),
            control=closing.before if closing is not None else self._control.value(),
            truncated=self._output.truncated or self._control.truncated,
            timed_out=closing is None,
            duration_s=duration_s,
        )

    def _archive(self, script: str, files: Mapping[str, bytes]) -> bytes:
        members = {f"{programs.FOLDER}/{programs.BEGIN}": f"{self._nonce}\n{script}".encode()}
        for path, content in files.items():
            if path.startswith("/") or ".." in path.split("/") or path in ("", programs.BEGIN):
                raise ValueError(f"{path!r} is no path below /{programs.FOLDER}")
            members[f"{programs.FOLDER}/{path}"] = content
        return tar_of(members, 0o755)

    def _over(self, claim: Claim) -> bool:
        """Whether a silent stream is to be left. Raises: SandboxGone when the container is paused or gone."""
        try:
            state = self._api.state(claim.id)
        except Refused as refused:
            raise self._gone(claim, f"it was removed meanwhile ({refused.reason})") from refused
        if state.paused:
            raise self._gone(claim, "it was paused")
        over, self._seen_ended = self._seen_ended, not state.running
        return over and self._seen_ended

    def _kill(self, claim: Claim, stream: Stream) -> None:
        with suppress(Refused):  # it ended, or was removed, at this very moment
            self._api.kill(claim.id)
        stream.converse(self._output, self._control, deadline=time.monotonic() + REST_S)

    def _closing_word(self) -> _Closing | None:
        control = self._control.value()
        before, found, word = control.rpartition(f"\n{self._nonce} ".encode())
        numbers = word.split(b"\n")[0].split()
        if not found or len(numbers) != 2 or not all(number.isdigit() for number in numbers):
            return None
        return _Closing(before, int(numbers[0]), int(numbers[1]))

    def _explain(self, claim: Claim) -> None:
        """Say why the streams ended without the closing word. Always raises."""
        give_up = time.monotonic() + SETTLE_S
        try:
            state = self._api.state(claim.id)
            while state.running and time.monotonic() < give_up:
                time.sleep(0.02)  # milliseconds; a wait by the engine could not be bounded so tightly
                state = self._api.state(claim.id)
        except Refused as refused:
            raise self._gone(claim, f"it was removed meanwhile ({refused.reason})") from refused
        if state.oom_killed:
            raise self._out_of_memory(claim)
        if state.running:
            raise self._gone(claim, f"its output broke off, and it is {state}")
        if state.exit_code == programs.UNPACK_FAILED:
            reason = self._control.value().decode("utf-8", "replace").strip()
            raise CreateFailed(
                f"the {self._spec.role} container could not unpack its files: {reason}",
                container=claim.name,
                remedy=f"the image {self._spec.image} must have tar, cat and rm; and the disk must have room",
            )
        raise self._gone(claim, f"it was ended by another hand than its own or ours: {state}")

    def _gone(self, claim: Claim, why: str) -> SandboxGone:
        return SandboxGone(
            why,
            container=claim.name,
            remedy="look for who or what did it: the host's memory, an operator",
        )

    def _out_of_memory(self, claim: Claim) -> OutOfMemory:
        limit = f"memory {self._spec.memory} bytes" if self._spec.memory is not None else "host memory"
        return OutOfMemory(
            "the kernel ended a process of the script for want of memory, so what it says is not complete",
            container=claim.name,
            limit=limit,
            remedy="raise the memory limit in the config",
        )
