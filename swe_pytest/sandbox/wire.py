"""The wire to an engine: HTTP over a unix socket or TCP, by the standard library alone.

The guardian must start in tens of milliseconds and without site-packages, and a sweep that finds nothing
must cost nothing: neither can afford a client library. Everything else uses `Engine.client`.
"""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlencode, urlsplit


@dataclass(frozen=True, slots=True)
class Tls:
    """Paths of PEM files for a TCP engine; "" where there is none. Without `verify` any server will do."""

    ca: str = ""
    cert: str = ""
    key: str = ""
    verify: bool = True


@dataclass(frozen=True, slots=True)
class Answer:
    """What the engine answered. `date` is its own clock, in whole epoch seconds, rounded down."""

    status: int
    body: bytes
    date: float

    def json(self) -> object:
        return json.loads(self.body)

    @property
    def message(self) -> str:
        """The engine's reason for a refusal."""
        with suppress(ValueError):
            told = self.json()
            if isinstance(told, dict) and told.get("message"):
                return str(told["message"])
        return self.body[:500].decode("utf-8", "replace").strip()


class Stream:
    """An answer without an end, line by line. `close` may be called from any thread and ends `lines`."""

    def __init__(self, response: http.client.HTTPResponse, raw: socket.socket) -> None:
        self._response = response
        self._raw = raw

    def lines(self) -> Iterator[bytes]:
        """Yield lines until the engine or `close` ends the stream. Raises: OSError, HTTPException."""
        while line := self._response.readline():
            yield line

    def close(self) -> None:
        # Only a shutdown wakes a thread that is blocked in a read; a mere close would leave it there.
        with suppress(OSError):
            self._raw.shutdown(socket.SHUT_RDWR)

    def release(self) -> None:
        """Close for good; only for the thread that reads, since nobody may be in `lines` any more."""
        self.close()
        with suppress(OSError):
            self._response.close()
        self._raw.close()


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def _connection(host: str, tls: Tls | None, timeout_s: float) -> http.client.HTTPConnection:
    if host.startswith("unix://"):
        return _UnixConnection(host.removeprefix("unix://"), timeout_s)
    address = urlsplit(host)
    name, port = address.hostname or "localhost", address.port
    if tls is None:
        return http.client.HTTPConnection(name, port or 2375, timeout=timeout_s)
    import ssl

    context = ssl.create_default_context(cafile=tls.ca or None)
    if not tls.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if tls.cert:
        context.load_cert_chain(tls.cert, tls.key or None)
    return http.client.HTTPSConnection(name, port or 2376, timeout=timeout_s, context=context)


def _target(path: str, query: Mapping[str, str]) -> str:
    return f"{path}?{urlencode(query)}" if query else path


def _date(response: http.client.HTTPResponse) -> float:
    from email.utils import parsedate_to_datetime

    return parsedate_to_datetime(response.headers["Date"]).timestamp() if response.headers["Date"] else 0.0


def call(
    host: str, tls: Tls | None, method: str, path: str, query: Mapping[str, str], *, timeout_s: float
) -> Answer:
    """Ask once, on a connection of its own (so any thread may). Raises: OSError, HTTPException."""
    connection = _connection(host, tls, timeout_s)
    try:
        connection.request(method, _target(path, query))
        response = connection.getresponse()
        return Answer(response.status, response.read(), _date(response))
    finally:
        connection.close()


def stream(
    host: str, tls: Tls | None, path: str, query: Mapping[str, str], *, timeout_s: float
) -> Stream | Answer:
    """Open an endless answer; `timeout_s` bounds only its beginning. A refusal comes back as an Answer.

    Raises: OSError, HTTPException.
    """
    connection = _connection(host, tls, timeout_s)
    try:
        connection.request("GET", _target(path, query))
        raw = connection.sock  # kept: a response that ends its connection takes it away from `connection`
        response = connection.getresponse()
        if response.status != 200:
            answer = Answer(response.status, response.read(), _date(response))
            connection.close()
            return answer
        raw.settimeout(None)
        if raw.family != socket.AF_UNIX:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    except BaseException:
        connection.close()
        raise
    return Stream(response, raw)
