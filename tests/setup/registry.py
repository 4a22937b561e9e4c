"""A small image registry on loopback, since no real one may be reached: it answers, is silent, or refuses."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
CONFIG = "application/vnd.docker.container.image.v1+json"
LAYER = "application/vnd.docker.image.rootfs.diff.tar.gzip"


def image() -> tuple[bytes, dict[str, bytes]]:
    """An image of one file, as (manifest, blobs by digest)."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("hello"))
    layer = gzip.compress(buffer.getvalue(), mtime=0)
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {},
            "rootfs": {"type": "layers", "diff_ids": [digest(buffer.getvalue())]},
            "history": [{"created": "2026-01-01T00:00:00Z"}],
        }
    ).encode()
    blobs = {digest(blob): blob for blob in (config, layer)}
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": {"mediaType": CONFIG, "size": len(config), "digest": digest(config)},
        "layers": [{"mediaType": LAYER, "size": len(layer), "digest": digest(layer)}],
    }
    return json.dumps(manifest).encode(), blobs


def digest(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()


@contextmanager
def registry(behaviour: str) -> Iterator[str]:
    """Yield the host:port of a registry; behaviour: "serves", "silent" or "refuses". Gone at the end."""
    manifest, blobs = image()
    end = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if behaviour == "silent":
                end.wait()
                return
            last = self.path.rsplit("/", 1)[-1]
            if self.path == "/v2/":
                self.answer(200, b"{}", "application/json")
            elif behaviour == "refuses":
                told = {"errors": [{"code": "TOOMANYREQUESTS", "message": "you are over your limit"}]}
                self.answer(429, json.dumps(told).encode(), "application/json")
            elif "/manifests/" in self.path:
                self.answer(200, manifest, MANIFEST)
            elif last in blobs:
                self.answer(200, blobs[last], "application/octet-stream")
            else:
                self.answer(404, b"", "text/plain")

        do_HEAD = do_GET

        def answer(self, status: int, body: bytes, kind: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Docker-Distribution-Api-Version", "registry/2.0")
            if kind == MANIFEST:
                self.send_header("Docker-Content-Digest", digest(body))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        end.set()
        server.shutdown()
        server.server_close()
