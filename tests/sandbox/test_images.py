"""Images: one clear error when there is none, one pull however many want it. The engine pulls for real."""

from __future__ import annotations

import gzip
import hashlib
import http.server
import io
import json
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from swe_pytest.sandbox.engine import Engine
from swe_pytest.sandbox.errors import EngineUnreachable, ImageMissing
from swe_pytest.sandbox.images import _digest, ensure_image, missing_images
from tests.sandbox.faulty_engine import FaultyEngine

PULL = r"/images/create$"
# Nothing listens there: a registry that refuses connections, by the engine's own experience.
ABSENT = "127.0.0.1:1/swe-pytest/absent:1"
ASK = """
import sys, time
from swe_pytest.sandbox.engine import Engine
from swe_pytest.sandbox.errors import SandboxError
from swe_pytest.sandbox.images import ensure_image
print("asking", flush=True)
try:
    print(ensure_image(Engine(sys.argv[1], "test"), sys.argv[2]).digest)
except SandboxError as error:
    print(type(error).__name__, error)
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Locks of this test alone."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def faulty(engine: Engine, tmp_path: Path) -> Iterator[FaultyEngine]:
    with FaultyEngine(engine, tmp_path / "faulty.sock") as proxy:
        yield proxy


def pulls(faulty: FaultyEngine) -> int:
    return sum("/images/create" in target for _, target in faulty.requests)


class Registry:
    """A real registry, as far as pulling one tiny image goes; the engine may talk plainly to 127.0.0.1."""

    def __init__(self) -> None:
        layer_tar = io.BytesIO()
        with tarfile.open(fileobj=layer_tar, mode="w") as archive:
            archive.addfile(tarfile.TarInfo("swe-pytest-was-here"))
        layer = gzip.compress(layer_tar.getvalue(), mtime=0)
        config = json.dumps(
            {
                "architecture": "amd64",
                "os": "linux",
                "config": {"User": "1234", "Labels": {"swe-pytest.made": str(time.time_ns())}},
                "rootfs": {"type": "layers", "diff_ids": [self._sha(layer_tar.getvalue())]},
                "history": [{"created": "2020-01-01T00:00:00Z"}],
            }
        ).encode()
        docker = "application/vnd.docker"
        manifest = json.dumps(
            {
                "schemaVersion": 2,
                "mediaType": f"{docker}.distribution.manifest.v2+json",
                "config": self._described(config, f"{docker}.container.image.v1+json"),
                "layers": [self._described(layer, f"{docker}.image.rootfs.diff.tar.gzip")],
            }
        ).encode()
        self.digest = self._sha(manifest)
        self.blobs = {self._sha(content): content for content in (config, layer)}
        self.manifest = manifest
        self.manifests_asked = 0
        self.stall = threading.Event()
        self.stall.set()
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.reference = f"127.0.0.1:{self.server.server_port}/swe-pytest/tiny:1"

    @staticmethod
    def _sha(content: bytes) -> str:
        return f"sha256:{hashlib.sha256(content).hexdigest()}"

    def _described(self, content: bytes, kind: str) -> dict[str, object]:
        return {"mediaType": kind, "size": len(content), "digest": self._sha(content)}

    def _handler(self) -> type[http.server.BaseHTTPRequestHandler]:
        registry = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_HEAD(self) -> None:
                self.do_GET()

            def do_GET(self) -> None:
                kind, body = "application/json", b"{}"
                if "/manifests/" in self.path:
                    registry.manifests_asked += self.command == "GET"
                    kind, body = "application/vnd.docker.distribution.manifest.v2+json", registry.manifest
                elif "/blobs/" in self.path:
                    registry.stall.wait(60)
                    kind, body = "application/octet-stream", registry.blobs[self.path.rpartition("/")[2]]
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Docker-Content-Digest", registry.digest)
                self.end_headers()
                if self.command == "GET":
                    self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        return Handler


@pytest.fixture
def registry(engine: Engine) -> Iterator[Registry]:
    registry = Registry()
    yield registry
    registry.stall.set()
    engine.call("DELETE", f"/images/{registry.reference}", {"force": "1"})
    registry.server.shutdown()
    registry.server.server_close()


@pytest.fixture
def ask(faulty: FaultyEngine) -> Iterator[Callable[[str], subprocess.Popen[str]]]:
    """Start another process that wants an image."""
    started: list[subprocess.Popen[str]] = []

    def start(reference: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", ASK, faulty.engine.host, reference]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "asking\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def until(true: Callable[[], bool], within_s: float = 15) -> None:
    give_up = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < give_up
        time.sleep(0.02)


def test_an_image_that_is_here_is_not_pulled(faulty: FaultyEngine, engine: Engine, base_image: str) -> None:
    """A present image is returned with the engine's id for it; no registry is asked. A local one has no digest."""
    image = ensure_image(faulty.engine, base_image)
    told = engine.call("GET", f"/images/{base_image}/json").json()
    assert isinstance(told, dict)
    assert (image.reference, image.id, image.digest) == (base_image, told["Id"], "")
    assert pulls(faulty) == 0


def test_missing_images(faulty: FaultyEngine, base_image: str) -> None:
    """Exactly the absent ones are told, each once, and nothing is pulled."""
    assert missing_images(faulty.engine, [base_image, ABSENT, base_image, ABSENT]) == [ABSENT]
    assert pulls(faulty) == 0


def test_absent_image_without_pulling(faulty: FaultyEngine) -> None:
    """Where pulling is not allowed an absent image is ImageMissing at once."""
    with pytest.raises(ImageMissing, match=ABSENT):
        ensure_image(faulty.engine, ABSENT, pull=False)
    assert pulls(faulty) == 0


def test_image_that_cannot_be_pulled(engine: Engine) -> None:
    """A failed pull is ImageMissing with the engine's own reason and the next step."""
    with pytest.raises(ImageMissing, match="connection refused") as raised:
        ensure_image(engine, ABSENT)
    assert "docker login" in raised.value.remedy


def test_impossible_name(engine: Engine) -> None:
    """A name that no image can have is ImageMissing too."""
    with pytest.raises(ImageMissing, match="UPPER"):
        ensure_image(engine, "swe-pytest/UPPER:1")


def test_engine_that_is_down(faulty: FaultyEngine, base_image: str) -> None:
    """An engine that does not answer is not taken for a missing image."""
    with faulty.down():
        with pytest.raises(EngineUnreachable):
            ensure_image(faulty.engine, base_image)
        with pytest.raises(EngineUnreachable):
            missing_images(faulty.engine, [base_image])


def test_engine_that_goes_down_in_a_pull(faulty: FaultyEngine) -> None:
    """An engine that goes in the middle of a pull is EngineUnreachable."""
    held = faulty.when("POST", PULL, faulty.HANG)
    down = faulty.down()

    def go_down() -> None:
        held.reached.wait(10)
        down.__enter__()

    thread = threading.Thread(target=go_down)
    thread.start()
    with pytest.raises(EngineUnreachable):
        ensure_image(faulty.engine, ABSENT)
    thread.join()
    down.__exit__(None, None, None)


def test_pull(engine: Engine, registry: Registry) -> None:
    """A pull brings the image, and its digest is the registry's."""
    assert missing_images(engine, [registry.reference]) == [registry.reference]
    image = ensure_image(engine, registry.reference)
    assert image.digest == registry.digest
    assert missing_images(engine, [registry.reference]) == []
    assert ensure_image(engine, registry.reference) == image
    assert registry.manifests_asked == 1


def test_many_processes_pull_once(
    faulty: FaultyEngine, registry: Registry, ask: Callable[[str], subprocess.Popen[str]]
) -> None:
    """Processes that want the same image at the same time all get it from one pull."""
    held = faulty.when("POST", PULL, faulty.HANG)
    processes = [ask(registry.reference) for _ in range(3)]
    assert held.reached.wait(10)
    time.sleep(0.5)
    assert pulls(faulty) == 1
    held.release()
    assert [process.communicate(timeout=30)[0] for process in processes] == [f"{registry.digest}\n"] * 3
    assert pulls(faulty) == 1
    assert registry.manifests_asked == 1


def test_many_processes_fail_once(faulty: FaultyEngine, ask: Callable[[str], subprocess.Popen[str]]) -> None:
    """Processes that waited for a pull that fails share its reason; whoever asks later tries anew."""
    held = faulty.when("POST", PULL, faulty.HANG, times=1)
    processes = [ask(ABSENT) for _ in range(2)]
    assert held.reached.wait(10)
    until(lambda: sum("/json" in target for _, target in faulty.requests) >= 3)
    time.sleep(0.3)
    held.release()
    told = [process.communicate(timeout=30)[0] for process in processes]
    assert all(text.startswith("ImageMissing") and "connection refused" in text for text in told)
    assert pulls(faulty) == 1
    assert "ImageMissing" in ask(ABSENT).communicate(timeout=30)[0]
    assert pulls(faulty) == 2


def test_a_killed_puller_holds_nobody_up(
    faulty: FaultyEngine, registry: Registry, ask: Callable[[str], subprocess.Popen[str]]
) -> None:
    """When the process that pulls is killed, the next one in line pulls."""
    held = faulty.when("POST", PULL, faulty.HANG, times=1)
    first = ask(registry.reference)
    assert held.reached.wait(10)
    second = ask(registry.reference)
    first.kill()
    assert second.communicate(timeout=30)[0] == f"{registry.digest}\n"


def test_pull_that_stalls(engine: Engine, registry: Registry) -> None:
    """A pull without progress is given up, and it is said that this was the reason."""
    registry.stall.clear()
    began = time.monotonic()
    with pytest.raises(ImageMissing, match="1 s"):
        ensure_image(engine, registry.reference, stall_s=1)
    assert time.monotonic() - began < 10


@pytest.mark.parametrize(
    ("reference", "digests", "digest"),
    [
        ("a/b:1", [], ""),
        ("a/b:1", ["a/b@sha256:1"], "sha256:1"),
        ("a/b", ["x/y@sha256:1", "a/b@sha256:2"], "sha256:2"),
        ("docker.io/library/debian:12", ["x/y@sha256:1", "debian@sha256:2"], "sha256:2"),
        ("reg:5000/a/b", ["a/b@sha256:1", "reg:5000/a/b@sha256:2"], "sha256:2"),
        ("reg:5000/a/b@sha256:3", ["reg:5000/a/b@sha256:3"], "sha256:3"),
        ("other/name:1", ["a/b@sha256:1"], "sha256:1"),
    ],
)
def test_digest_is_that_of_the_references_repository(reference: str, digests: list[str], digest: str) -> None:
    """Of several repository digests the one of the reference's own repository counts."""
    assert _digest(reference, digests) == digest
