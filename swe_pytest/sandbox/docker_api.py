"""The engine's calls that sandboxes need, typed, over the docker package's low-level client.

Exactly two things can go wrong with a call: the engine answered and refused (`Refused`), or there was no
answer (`EngineUnreachable`; what was asked for may have been done all the same).
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, cast

from swe_pytest.sandbox.engine import Engine
from swe_pytest.sandbox.errors import EngineUnreachable
from swe_pytest.sandbox.stream import Closeable, Stream

if TYPE_CHECKING:
    import docker

BAD_REQUEST = 400
NOT_FOUND = 404
CONFLICT = 409
SERVER_ERROR = 500


class Refused(Exception):
    """The engine answered and would not. `reason` is its own text."""

    def __init__(self, status: int, reason: str) -> None:
        self.status = status
        self.reason = reason.strip()
        super().__init__(f"{status}: {self.reason}")


@dataclass(frozen=True, slots=True)
class ContainerState:
    """A container as the engine sees it now."""

    id: str
    labels: Mapping[str, str]
    status: str
    running: bool
    paused: bool
    exit_code: int
    oom_killed: bool
    error: str

    def __str__(self) -> str:
        how = f"{self.status} with status {self.exit_code}" if self.status == "exited" else self.status
        return f"{how} ({self.error})" if self.error else how


@dataclass(frozen=True, slots=True)
class ExecState:
    """A command in a container. `exit_code` is None while it runs; `pid` is 0 if it never began."""

    running: bool
    exit_code: int | None
    pid: int


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """What the engine knows of an image. `digests` are full references, `user` is the image's default."""

    id: str
    digests: tuple[str, ...]
    user: str


class DockerApi:
    """Thread-safe. `timeout_s` bounds each wait for an answer."""

    def __init__(self, engine: Engine, timeout_s: float = 60.0) -> None:
        self.engine = engine
        self.timeout_s = timeout_s

    @cached_property
    def _client(self) -> docker.APIClient:
        return self.engine.client(self.timeout_s)

    def close(self) -> None:
        if "_client" in self.__dict__:
            self._client.close()

    def image(self, reference: str) -> ImageFacts:
        with self._asking(f"image {reference}"):
            told = self._client.inspect_image(reference)  # type: ignore[no-untyped-call]  # not typed by the library
            config = told.get("Config") or {}
            return ImageFacts(
                str(told["Id"]), tuple(told.get("RepoDigests") or ()), str(config.get("User") or "")
            )

    def create(self, name: str, config: Mapping[str, object]) -> str:
        """Return the id of the new container."""
        with self._asking(f"create {name}"):
            made = self._client.create_container_from_config(dict(config), name)  # type: ignore[no-untyped-call]  # not typed by the library
            return str(made["Id"])

    def start(self, container: str) -> None:
        with self._asking(f"start {container}"):
            self._client.start(container)

    def state(self, container: str) -> ContainerState:
        with self._asking(f"inspect {container}"):
            told = self._client.inspect_container(container)
            state = told["State"]
            return ContainerState(
                id=str(told["Id"]),
                labels=cast("Mapping[str, str]", told["Config"].get("Labels") or {}),
                status=str(state["Status"]),
                running=bool(state["Running"]),
                paused=bool(state["Paused"]),
                exit_code=int(state["ExitCode"]),
                oom_killed=bool(state["OOMKilled"]),
                error=str(state.get("Error") or ""),
            )

    def exists(self, container: str) -> bool:
        try:
            self.state(container)
        except Refused as refused:
            if refused.status != NOT_FOUND:
                raise
            return False
        return True

    def wait(self, container: str) -> int:
        """Return the exit code as soon as the container does not run."""
        with self._asking(f"wait for {container}"):
            return int(self._client.wait(container, timeout=round(self.timeout_s))["StatusCode"])

    def wait_removed(self, container: str) -> None:
        """Return as soon as a removal that is under way has been done."""
        with self._asking(f"wait for the removal of {container}"):
            self._client.wait(container, timeout=round(self.timeout_s), condition="removed")

    def kill(self, container: str, signal: str = "KILL") -> None:
        with self._asking(f"kill {container}"):
            self._client.kill(container, signal)

    def pause(self, container: str) -> None:
        with self._asking(f"pause {container}"):
            self._client.pause(container)

    def remove(self, container: str) -> None:
        """Kill and remove, with the volumes that came with the image."""
        with self._asking(f"remove {container}"):
            self._client.remove_container(container, v=True, force=True)

    def exec_create(
        self,
        container: str,
        argv: Sequence[str],
        *,
        stdin: bool,
        env: Mapping[str, str],
        workdir: str,
        user: str,
    ) -> str:
        with self._asking(f"exec in {container}"):
            made = self._client.exec_create(
                container, list(argv), stdin=stdin, environment=dict(env), workdir=workdir, user=user
            )
            return str(made["Id"])

    def exec_start(self, exec_id: str) -> Stream:
        with self._asking(f"start exec {exec_id[:12]}"):
            return _stream(self._client.exec_start(exec_id, socket=True))

    def exec_state(self, exec_id: str) -> ExecState:
        with self._asking(f"inspect exec {exec_id[:12]}"):
            told = self._client.exec_inspect(exec_id)
            code = told.get("ExitCode")
            return ExecState(
                bool(told["Running"]), None if code is None else int(code), int(told.get("Pid") or 0)
            )

    def attach(self, container: str) -> Stream:
        """Attach to the first process's three streams, also before it is started."""
        with self._asking(f"attach to {container}"):
            params = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
            return _stream(self._client.attach_socket(container, params))

    def pull(self, repository: str, tag: str) -> Iterator[Mapping[str, object]]:
        """Pull an image and yield the engine's progress messages; each wait for one is bounded."""
        from docker import auth

        with self._asking(f"pull {repository}"):
            registry, _ = auth.resolve_repository_name(repository)
            login = auth.get_config_header(self._client, registry)
            # The client's own pull waits for ever for the next message.
            answer = self._client.post(
                f"{self._client.base_url}/v{self._client.api_version}/images/create",
                params={"fromImage": repository, "tag": tag},
                headers={"X-Registry-Auth": login} if login else {},
                stream=True,
                timeout=self.timeout_s,
            )
            with answer:
                if not answer.ok:
                    raise Refused(answer.status_code, str(_message(answer.content).get("message", "")))
                for line in answer.iter_lines(chunk_size=None):
                    yield _message(line)

    @contextmanager
    def _asking(self, what: str) -> Iterator[None]:
        """Sort whatever the client library raises into the two things that can go wrong."""
        import docker.errors
        import requests
        import urllib3

        try:
            yield
        except docker.errors.APIError as error:
            answer = error.response
            status = answer.status_code if answer is not None else SERVER_ERROR
            raise Refused(status, str(error.explanation or error)) from error
        except (
            docker.errors.DockerException,
            requests.exceptions.RequestException,
            urllib3.exceptions.HTTPError,
            OSError,
        ) as error:
            # A wait that ends in the middle of an answer is wrapped once more by the library.
            inner = error.args[0] if error.args else None
            if isinstance(error, requests.exceptions.Timeout) or isinstance(
                inner, urllib3.exceptions.ReadTimeoutError
            ):
                raise self._unreachable(what, f"did not answer within {self.timeout_s:g} s") from error
            raise self._unreachable(what, f"broke off ({type(error).__name__}: {error})") from error
        except (KeyError, TypeError, ValueError) as error:
            raise self._unreachable(what, f"gave an answer that makes no sense ({error!r})") from error

    def _unreachable(self, what: str, how: str) -> EngineUnreachable:
        return EngineUnreachable(
            f"the engine at {self.engine.host} ({self.engine.source}), asked to {what}, {how}",
            remedy="look whether `docker ps` answers, and at the engine's log",
        )


def _message(line: bytes) -> Mapping[str, object]:
    told = json.loads(line)
    return told if isinstance(told, dict) else {}


def _stream(raw: object) -> Stream:
    """Make a Stream of what the client library returns for a switched connection.

    Bytes that came together with the engine's answer sit in the buffer of the HTTP response, which the
    library goes past; they belong to the stream.
    """
    connection = cast("socket.socket", getattr(raw, "_sock", raw))
    connection.settimeout(0.0)
    response = getattr(raw, "_response", None)
    early = b""
    if response is not None:
        buffered = response.raw._fp.fp
        # Not blocking: with an empty buffer this asks the connection once and finds nothing, or finds
        # the very bytes that would have come next.
        early = bytes(buffered.peek(1)) if buffered is not None else b""
    # The response first: its buffer lies around the very object that `raw` is.
    wrappers = [cast("Closeable", part) for part in (response, raw) if part is not None]
    return Stream(connection, early, owners=tuple(wrappers))
