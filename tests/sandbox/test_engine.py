"""Finding the engine: as the docker CLI does, and never another one than the one that was named."""

from __future__ import annotations

import grp
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from faulty_engine import FaultyEngine, _pump

from swe_pytest.sandbox import engine as engine_module
from swe_pytest.sandbox.engine import Engine, find_engine
from swe_pytest.sandbox.errors import EngineUnreachable
from swe_pytest.sandbox.wire import Tls

ROOT = Path(__file__).parents[2]


@pytest.fixture
def faulty(engine: Engine, tmp_path: Path) -> Iterator[FaultyEngine]:
    with FaultyEngine(engine, tmp_path / "far.sock") as proxy:
        yield proxy


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """An environment in which no engine is named and no well-known socket exists."""
    monkeypatch.setattr(engine_module, "DEFAULT_SOCKET", str(tmp_path / "default.sock"))
    monkeypatch.setattr(engine_module, "SYSTEM_PODMAN_SOCKET", str(tmp_path / "system-podman.sock"))
    return {"HOME": str(tmp_path / "home"), "XDG_RUNTIME_DIR": str(tmp_path / "runtime")}


def make_context(folder: Path, name: str, host: str, *, current: bool, pem: tuple[str, ...] = ()) -> None:
    """Write a docker context as `docker context create` does."""
    digest = sha256(name.encode()).hexdigest()
    meta = folder / "contexts" / "meta" / digest / "meta.json"
    meta.parent.mkdir(parents=True)
    endpoints = {"docker": {"Host": host, "SkipTLSVerify": False}}
    meta.write_text(json.dumps({"Name": name, "Metadata": {}, "Endpoints": endpoints}))
    for file in pem:
        path = folder / "contexts" / "tls" / digest / "docker" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("pem")
    if current:
        (folder / "config.json").write_text(json.dumps({"currentContext": name}))


def test_docker_host_wins_over_a_context(
    faulty: FaultyEngine, nowhere: dict[str, str], tmp_path: Path
) -> None:
    """DOCKER_HOST is taken before any docker context, as by the docker CLI."""
    make_context(tmp_path / "cfg", "other", "unix:///nonexistent.sock", current=True)
    environ = {
        **nowhere,
        "DOCKER_CONFIG": str(tmp_path / "cfg"),
        "DOCKER_CONTEXT": "other",
        "DOCKER_HOST": faulty.engine.host,
    }
    found = find_engine(environ)
    assert (found.host, found.source) == (faulty.engine.host, "DOCKER_HOST")


def test_an_engine_that_was_named_is_never_replaced(engine: Engine, tmp_path: Path) -> None:
    """When DOCKER_HOST does not answer that is the error, although the default socket would answer."""
    dead = f"unix://{tmp_path}/dead.sock"
    with pytest.raises(EngineUnreachable, match=r"dead\.sock \(DOCKER_HOST\).*no such socket.*next: start"):
        find_engine({**os.environ, "DOCKER_HOST": dead})


def test_the_current_context_is_used(faulty: FaultyEngine, nowhere: dict[str, str], tmp_path: Path) -> None:
    """The current docker context of the configuration directory names the engine."""
    make_context(tmp_path / "cfg", "far", faulty.engine.host, current=True)
    found = find_engine({**nowhere, "DOCKER_CONFIG": str(tmp_path / "cfg")})
    assert found.host == faulty.engine.host
    assert "far" in found.source


def test_the_cli_agrees_on_the_context(faulty: FaultyEngine, nowhere: dict[str, str], tmp_path: Path) -> None:
    """The docker CLI itself, given the same configuration directory, goes to the same engine."""
    docker = shutil.which("docker")
    if docker is None:
        pytest.skip("no docker CLI to compare with")
    make_context(tmp_path / "cfg", "far", faulty.engine.host, current=True)
    environ = {**nowhere, "DOCKER_CONFIG": str(tmp_path / "cfg"), "PATH": os.environ["PATH"]}
    subprocess.run([docker, "ps", "-q"], env=environ, check=True, capture_output=True)
    by_cli = len(faulty.requests)
    assert by_cli > 0
    find_engine(environ)
    assert len(faulty.requests) > by_cli


def test_docker_context_overrides_the_current_one(
    faulty: FaultyEngine, nowhere: dict[str, str], tmp_path: Path
) -> None:
    """DOCKER_CONTEXT is taken before the configuration's currentContext."""
    make_context(tmp_path / "cfg", "wrong", "unix:///nonexistent.sock", current=True)
    make_context(tmp_path / "cfg", "far", faulty.engine.host, current=False)
    environ = {**nowhere, "DOCKER_CONFIG": str(tmp_path / "cfg"), "DOCKER_CONTEXT": "far"}
    assert find_engine(environ).host == faulty.engine.host


def test_a_missing_context_is_named(nowhere: dict[str, str], tmp_path: Path) -> None:
    """A context that does not exist is an error that names it and says how to see which there are."""
    environ = {**nowhere, "DOCKER_CONFIG": str(tmp_path / "cfg"), "DOCKER_CONTEXT": "lost"}
    with pytest.raises(EngineUnreachable, match=r"'lost'.*no such context.*docker context ls"):
        find_engine(environ)


def test_the_default_context_is_the_default_socket(
    engine: Engine, nowhere: dict[str, str], tmp_path: Path
) -> None:
    """The context called default stands for the default socket."""
    with FaultyEngine(engine, tmp_path / "default.sock") as proxy:
        assert find_engine({**nowhere, "DOCKER_CONTEXT": "default"}).host == proxy.engine.host


def test_a_context_brings_its_tls_material(
    nowhere: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The PEM files stored with a context come with the engine."""
    make_context(tmp_path / "cfg", "tls", "tcp://10.0.0.1:2376", current=True, pem=("ca.pem", "cert.pem"))
    monkeypatch.setattr(Engine, "ping", lambda self: None)  # there is no such host
    found = find_engine({**nowhere, "DOCKER_CONFIG": str(tmp_path / "cfg")})
    assert found.tls is not None and found.tls.verify
    assert [Path(found.tls.ca).name, Path(found.tls.cert).name, found.tls.key] == ["ca.pem", "cert.pem", ""]


def test_a_fallback_socket_must_answer(engine: Engine, nowhere: dict[str, str], tmp_path: Path) -> None:
    """A socket file behind which nothing lives is passed over, and the next engine is found."""
    (tmp_path / "runtime" / "podman").mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as corpse:
        corpse.bind(str(tmp_path / "runtime" / "docker.sock"))
    with FaultyEngine(engine, tmp_path / "runtime" / "podman" / "podman.sock") as proxy:
        found = find_engine(nowhere)
    assert (found.host, found.source) == (proxy.engine.host, "rootless podman")


def test_no_engine_names_everything_that_was_tried(nowhere: dict[str, str], tmp_path: Path) -> None:
    """Without an engine the error lists every place looked at and the next step."""
    with pytest.raises(EngineUnreachable) as caught:
        find_engine(nowhere)
    for place in ("DOCKER_HOST", "context", "default.sock", "runtime/docker.sock", ".docker/run", "podman"):
        assert place in str(caught.value)
    assert "make setup" in caught.value.remedy


@pytest.mark.parametrize(
    ("host", "remedy"), [("ssh://u@far", "ssh -nNT -L"), ("npipe:////./pipe/docker_engine", "WSL")]
)
def test_an_address_we_cannot_speak_to_says_what_to_do(host: str, remedy: str) -> None:
    """An ssh or npipe engine is refused with the way round it, not with a stack trace."""
    with pytest.raises(EngineUnreachable, match="is not spoken here") as caught:
        find_engine({"DOCKER_HOST": host})
    assert remedy in caught.value.remedy


def test_permission_denied_says_so_with_its_remedy() -> None:
    """A socket that this user may not use is told from an engine that is down, and the group is named."""
    if os.getuid() != 0:
        pytest.skip("only root can become a user who may not use the socket")
    code = (
        "import grp, os, sys; sys.path.append(sys.argv[1])\n"
        "from swe_pytest.sandbox.engine import Engine\n"
        "from swe_pytest.sandbox.errors import EngineUnreachable\n"
        "os.setuid(65534)\n"  # after the imports: root's own Python may be out of reach for others
        "try: Engine('unix://' + sys.argv[2], 'test').ping()\n"
        "except EngineUnreachable as error: print(error)\n"
    )
    # Not in tmp_path, where only its user may walk.
    with TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
        Path(folder).chmod(0o755)
        path = Path(folder) / "engine.sock"
        listener.bind(str(path))
        listener.listen()
        path.chmod(0o660)
        os.chown(path, 0, grp.getgrnam("daemon").gr_gid)
        done = subprocess.run(
            [sys.executable, "-c", code, str(ROOT), str(path)], capture_output=True, text=True, check=True
        )
    assert "permission denied" in done.stdout
    assert "usermod -aG daemon" in done.stdout


def test_an_engine_that_hangs_is_unreachable_in_time(faulty: FaultyEngine) -> None:
    """An engine that takes a request and never answers costs no more than the time given."""
    faulty.when("GET", "/_ping", faulty.HANG)
    with pytest.raises(EngineUnreachable, match=r"did not answer GET /_ping; limit 0\.3 s"):
        faulty.engine.ping(timeout_s=0.3)


def test_something_else_behind_the_socket_is_no_engine(faulty: FaultyEngine) -> None:
    """What answers with an error is not taken for an engine."""
    faulty.when("GET", "^/(_ping|version)$", faulty.refusal(503, "starting"))
    with pytest.raises(EngineUnreachable, match="503 starting"):
        faulty.engine.ping()
    with pytest.raises(EngineUnreachable, match="503 starting"):
        faulty.engine.client()


def test_the_client_speaks_to_the_engine_found(faulty: FaultyEngine) -> None:
    """The docker client made from an engine goes to that engine and no other."""
    client = faulty.engine.client()
    assert client.info()["ID"]
    client.close()
    assert any(path.endswith("/info") for _, path in faulty.requests)


def test_an_engine_travels_as_text() -> None:
    """`load` makes of `dump`'s text the same engine, TLS material included."""
    there = Engine("tcp://h:2376", "DOCKER_HOST", Tls("/ca.pem", "/cert.pem", "/key.pem", verify=False))
    assert Engine.load(there.dump()) == there
    assert Engine.load(Engine("unix:///s", "x").dump()) == Engine("unix:///s", "x")


@pytest.fixture
def tls_front(engine: Engine, tmp_path: Path) -> Iterator[tuple[int, Path]]:
    """A TCP port with mutual TLS in front of the real engine, and the directory of the PEM files."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("no openssl command to make a certificate with")
    pem = tmp_path / "pem"
    pem.mkdir()
    subprocess.run(
        f"{openssl} req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=localhost"
        " -addext subjectAltName=DNS:localhost -keyout key.pem -out cert.pem".split(),
        cwd=pem,
        check=True,
        capture_output=True,
    )
    (pem / "ca.pem").write_bytes((pem / "cert.pem").read_bytes())
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(pem / "ca.pem"))
    context.load_cert_chain(pem / "cert.pem", pem / "key.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    listener = socket.create_server(("localhost", 0))

    def serve(plain: socket.socket) -> None:
        with suppress(OSError), context.wrap_socket(plain, server_side=True) as client:
            upstream = socket.socket(socket.AF_UNIX)
            with upstream:
                upstream.connect(engine.host.removeprefix("unix://"))
                threading.Thread(target=_pump, args=(client, upstream), daemon=True).start()
                while more := upstream.recv(65536):
                    client.sendall(more)

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    yield listener.getsockname()[1], pem
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def test_tls_engines_are_spoken_to(
    tls_front: tuple[int, Path], nowhere: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """DOCKER_TLS_VERIFY with DOCKER_CERT_PATH reaches a mutual-TLS engine, by our wire and by the client."""
    port, pem = tls_front
    environ = {
        **nowhere,
        "DOCKER_HOST": f"localhost:{port}",
        "DOCKER_TLS_VERIFY": "1",
        "DOCKER_CERT_PATH": str(pem),
    }
    found = find_engine(environ)
    assert found.host == f"tcp://localhost:{port}"
    client = found.client()
    assert client.info()["ID"]
    client.close()
    with pytest.raises(EngineUnreachable):
        find_engine({**environ, "DOCKER_CERT_PATH": str(pem.parent)})  # no material: not let in
