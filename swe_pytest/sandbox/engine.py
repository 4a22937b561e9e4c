"""The container engine: found as the docker CLI would find it, one endpoint object for everything."""

from __future__ import annotations

import http.client
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, cast

from swe_pytest.sandbox import wire
from swe_pytest.sandbox.errors import EngineUnreachable
from swe_pytest.sandbox.wire import Answer, Stream, Tls

if TYPE_CHECKING:
    import docker

DEFAULT_SOCKET = "/var/run/docker.sock"
SYSTEM_PODMAN_SOCKET = "/run/podman/podman.sock"
PING_TIMEOUT_S = 10.0
_SPEAKABLE = ("unix://", "tcp://", "http://", "https://")


@dataclass(frozen=True, slots=True)
class Engine:
    """Where an engine listens and how it was found.

    `host` is a URL as in DOCKER_HOST (unix://, tcp://); `source` says in words where it came from.
    It holds no connection: it can be copied into any process by `dump` and `load`.
    """

    host: str
    source: str
    tls: Tls | None = None

    def dump(self) -> str:
        """One line of text from which `load` makes the same engine in another process."""
        return json.dumps(asdict(self))

    @staticmethod
    def load(text: str) -> Engine:
        told = json.loads(text)
        return Engine(told["host"], told["source"], Tls(**told["tls"]) if told["tls"] else None)

    def ping(self, timeout_s: float = PING_TIMEOUT_S) -> None:
        """Return when the engine has answered. Raises: EngineUnreachable."""
        self._expect("/_ping", timeout_s)

    def client(self, timeout_s: float = 60.0) -> docker.APIClient:
        """A low-level client of the docker package; `timeout_s` bounds each wait for an answer.

        Raises: EngineUnreachable.
        """
        version = cast("dict[str, str]", self._expect("/version", PING_TIMEOUT_S).json())["ApiVersion"]
        import docker
        import docker.errors
        import docker.tls

        tls = self.tls and docker.tls.TLSConfig(
            client_cert=(self.tls.cert, self.tls.key) if self.tls.cert else None,
            ca_cert=self.tls.ca or None,
            verify=self.tls.verify,
        )
        try:
            client = docker.APIClient(
                base_url=self.host, version=version, timeout=max(1, round(timeout_s)), tls=tls or False
            )
        except docker.errors.DockerException as error:
            raise EngineUnreachable(
                f"the engine at {self.host} ({self.source}) answers, but: {error}",
                remedy="look whether `docker version` works with it",
            ) from error
        # Else a CA bundle or proxy meant for the web (REQUESTS_CA_BUNDLE, HTTP_PROXY) would be used here.
        client.trust_env = False
        return client

    def call(
        self, method: str, path: str, query: Mapping[str, str] | None = None, *, timeout_s: float = 60.0
    ) -> Answer:
        """Ask the engine's HTTP interface without a client library. Any status is an answer.

        Raises: EngineUnreachable.
        """
        try:
            return wire.call(self.host, self.tls, method, path, query or {}, timeout_s=timeout_s)
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error, f"{method} {path}", timeout_s) from error

    def stream(self, path: str, query: Mapping[str, str] | None = None, *, timeout_s: float = 60.0) -> Stream:
        """Open an endless answer, such as that of /events. Raises: EngineUnreachable, also on a refusal."""
        try:
            answer = wire.stream(self.host, self.tls, path, query or {}, timeout_s=timeout_s)
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error, f"GET {path}", timeout_s) from error
        if isinstance(answer, Answer):
            raise EngineUnreachable(
                f"the engine at {self.host} refused GET {path}: {answer.status} {answer.message}",
                remedy="look at the engine's log",
            )
        return answer

    def _expect(self, path: str, timeout_s: float) -> Answer:
        answer = self.call("GET", path, timeout_s=timeout_s)
        if answer.status != 200:
            raise EngineUnreachable(
                f"what listens at {self.host} ({self.source}) answered {path} with {answer.status}"
                f" {answer.message}",
                remedy="look whether it is a container engine, and at its log",
            )
        return answer

    def _unreachable(self, error: Exception, request: str, timeout_s: float) -> EngineUnreachable:
        place = f"the engine at {self.host} ({self.source})"
        if isinstance(error, PermissionError):
            return EngineUnreachable(f"permission denied to {place}", remedy=_join_group(self.host))
        if isinstance(error, FileNotFoundError):
            if str(error.filename or "").endswith(".pem"):
                return EngineUnreachable(f"{place} needs {error.filename}, which does not exist")
            return EngineUnreachable(f"{place} is not running: there is no such socket", remedy=_START)
        if isinstance(error, ConnectionRefusedError):
            return EngineUnreachable(f"{place} is not running: connection refused", remedy=_START)
        if isinstance(error, TimeoutError):
            return EngineUnreachable(
                f"{place} did not answer {request}",
                limit=f"{timeout_s:g} s",
                remedy="look whether `docker ps` answers; restart the engine if it does not",
            )
        return EngineUnreachable(
            f"{place} broke off {request}: {type(error).__name__}: {error}", remedy="look at the engine's log"
        )


_START = "start it (`systemctl start docker`, or open Docker Desktop), or name another one in DOCKER_HOST"


def _join_group(host: str) -> str:
    import grp

    try:
        group = grp.getgrgid(Path(host.removeprefix("unix://")).stat().st_gid).gr_name
    except (OSError, KeyError):
        group = "docker"
    if group == "root":  # joining that one would be too high a price
        return "run as root, give the socket to a group of its own, or use a rootless engine"
    return f"join its group (`sudo usermod -aG {group} $USER`, then log in again), or use a rootless engine"


def find_engine(environ: Mapping[str, str] = os.environ) -> Engine:
    """Return the engine that the docker CLI would use, else a rootless, Docker Desktop or podman one.

    Order: DOCKER_HOST; DOCKER_CONTEXT or the current docker context; the default socket; then the other
    well-known sockets. An engine that was named (the first two) must answer: no other is tried in its
    place. Whatever is returned has answered a ping.

    Raises: EngineUnreachable, naming everything that was tried, and the next step.
    """
    named = named_engine(environ)
    if named is not None:
        named.ping()
        return named
    tried: list[str] = []
    remedy = ""
    for host, source in _well_known(environ):
        path = Path(host.removeprefix("unix://"))
        engine = Engine(host, source)
        try:
            if not path.exists():
                tried.append(f"{host} ({source}): no such socket")
                continue
            engine.ping()
        except PermissionError:  # of a directory on the way to the socket
            tried.append(f"{host} ({source}): permission denied")
        except EngineUnreachable as error:
            tried.append(error.message)
            # The first engine that is there but cannot be used is the one to repair.
            remedy = remedy or error.remedy
        else:
            return engine
    raise EngineUnreachable(
        "no container engine answers. Tried: DOCKER_HOST (not set); docker context (none but the default); "
        + "; ".join(tried),
        remedy=remedy or f"`make setup` installs and starts one; or {_START}",
    )


def named_engine(environ: Mapping[str, str]) -> Engine | None:
    """The engine that environment or docker configuration name, reachable or not; None if they name none."""
    host = environ.get("DOCKER_HOST", "").strip()
    if host:
        return _speakable(host, "DOCKER_HOST", _environment_tls(environ))
    folder = _docker_folder(environ)
    context, source = environ.get("DOCKER_CONTEXT", ""), "DOCKER_CONTEXT"
    if not context:
        context, source = _current_context(folder), f"currentContext of {folder / 'config.json'}"
    if context in ("", "default"):
        return None
    digest = sha256(context.encode()).hexdigest()
    meta = folder / "contexts" / "meta" / digest / "meta.json"
    source = f"docker context {context!r}, from {source}"
    try:
        endpoint = json.loads(meta.read_bytes())["Endpoints"]["docker"]
        host, skip_verify = str(endpoint["Host"]), bool(endpoint.get("SkipTLSVerify", False))
    except FileNotFoundError:
        raise EngineUnreachable(
            f"{source}: there is no such context ({meta} does not exist)",
            remedy="see `docker context ls`, choose one by `docker context use NAME`, or set DOCKER_HOST",
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EngineUnreachable(
            f"{source}: {meta} cannot be used ({type(error).__name__}: {error})",
            remedy="make the context again by `docker context create`, or set DOCKER_HOST",
        ) from error
    pem = folder / "contexts" / "tls" / digest / "docker"
    tls = _tls_of(pem, verify=not skip_verify) if skip_verify or pem.is_dir() else None
    return _speakable(host, source, tls)


def _docker_folder(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("DOCKER_CONFIG") or _home(environ) / ".docker")


def _home(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("HOME") or Path("~").expanduser())


def _current_context(folder: Path) -> str:
    try:
        told = json.loads((folder / "config.json").read_bytes())
    except (OSError, ValueError):
        return ""  # the docker CLI also goes on without a configuration that it cannot read
    return str(told.get("currentContext") or "") if isinstance(told, dict) else ""


def _environment_tls(environ: Mapping[str, str]) -> Tls | None:
    verify = environ.get("DOCKER_TLS_VERIFY", "") != ""
    if not verify and not environ.get("DOCKER_TLS"):
        return None
    return _tls_of(Path(environ.get("DOCKER_CERT_PATH") or _docker_folder(environ)), verify=verify)


def _tls_of(folder: Path, *, verify: bool) -> Tls:
    ca, cert, key = (
        str(folder / name) if (folder / name).is_file() else "" for name in ("ca.pem", "cert.pem", "key.pem")
    )
    return Tls(ca, cert, key, verify)


def _speakable(host: str, source: str, tls: Tls | None) -> Engine:
    if "://" not in host:
        host = f"tcp://{host}"
    if host == "unix://":
        host += DEFAULT_SOCKET
    if not host.startswith(_SPEAKABLE):
        scheme = host.split("://")[0]
        remedy = {
            "ssh": "forward its socket (`ssh -nNT -L /run/far.sock:/var/run/docker.sock HOST`)"
            " and set DOCKER_HOST=unix:///run/far.sock",
            "npipe": "run pytest inside WSL 2, where Docker Desktop has a unix socket",
        }.get(scheme, "set DOCKER_HOST to a unix:// or tcp:// address")
        raise EngineUnreachable(f"{source} names {host}, and {scheme}:// is not spoken here", remedy=remedy)
    if tls is None and host.startswith("https://"):
        tls = Tls()
    return Engine(host, source, None if host.startswith("unix://") else tls)


def _well_known(environ: Mapping[str, str]) -> list[tuple[str, str]]:
    runtime = Path(environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}")
    desktop = _home(environ) / ".docker"
    return [
        (f"unix://{DEFAULT_SOCKET}", "default socket"),
        (f"unix://{runtime / 'docker.sock'}", "rootless docker"),
        (f"unix://{desktop / 'run' / 'docker.sock'}", "Docker Desktop"),
        (f"unix://{desktop / 'desktop' / 'docker.sock'}", "Docker Desktop on Linux"),
        (f"unix://{runtime / 'podman' / 'podman.sock'}", "rootless podman"),
        (f"unix://{SYSTEM_PODMAN_SOCKET}", "podman"),
    ]
