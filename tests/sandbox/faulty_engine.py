"""A real proxy in front of the real engine that can be told to fail: faults that an engine has on bad days.

    with FaultyEngine(engine, tmp_path / "faulty.sock") as faulty:
        slow = faulty.when("POST", r"/containers/create", faulty.HANG)
        ...                                  # give `faulty.engine` to the code under test
        assert slow.reached.wait(10)         # the request has come (and, for the later faults, been done)
        slow.release()                       # the fault is over: a held request goes on

Faults, for requests whose method is equal and whose path (no query) the regular expression finds:

    HANG              not forwarded before `release`; a client that waits for ever meets its own deadline
    DROP              forwarded and done by the engine, then the connection is closed without an answer
    LATE              forwarded and done by the engine, answered only after `release`
    refusal(409, "…") not forwarded, answered with that status and message

A fault applies to the first `times` matching requests (default: all) after the first `skip`. Further:
`faulty.down()` is a context in which nothing listens on the socket (connection refused) and every open
connection is cut; `faulty.cut()` only cuts; `faulty.requests` lists (method, path with query) as they came.

Everything else passes unchanged, hijacked and upgraded connections and event streams byte for byte, but
for one header: ordinary requests get `Connection: close`, so each one has a connection of its own.
"""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from swe_pytest.sandbox.engine import Engine

CHUNK = 65536


@dataclass(frozen=True)
class Kind:
    name: str
    status: int = 0
    message: str = ""


@dataclass
class Fault:
    """A fault in force. `reached` is set at the first hit, `hits` counts them; `release` ends it."""

    method: str
    path: re.Pattern[str]
    kind: Kind
    times: int
    skip: int
    hits: int = 0
    reached: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)

    def release(self) -> None:
        self.released.set()


class FaultyEngine:
    HANG = Kind("hang")
    DROP = Kind("drop")
    LATE = Kind("late")

    @staticmethod
    def refusal(status: int, message: str) -> Kind:
        return Kind("refusal", status, message)

    def __init__(self, engine: Engine, socket_path: Path) -> None:
        assert engine.host.startswith("unix://"), "the proxy stands in front of a unix socket"
        self._upstream = engine.host.removeprefix("unix://")
        self._path = socket_path
        self.engine = Engine(f"unix://{socket_path}", "faulty engine of a test")
        self.requests: list[tuple[str, str]] = []
        self._faults: list[Fault] = []
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._listener: socket.socket | None = None

    def __enter__(self) -> FaultyEngine:
        self._listen()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            faults = list(self._faults)
        for fault in faults:
            fault.release()
        self._stop_listening()
        self.cut()

    def when(self, method: str, path: str, kind: Kind, *, times: int = 1_000_000, skip: int = 0) -> Fault:
        """Put a fault in force and return it."""
        fault = Fault(method, re.compile(path), kind, times, skip)
        with self._lock:
            self._faults.append(fault)
        return fault

    @contextmanager
    def down(self) -> Iterator[None]:
        """The engine is down: connections are refused, open ones are cut."""
        self._stop_listening()
        self.cut()
        try:
            yield
        finally:
            self._listen()

    def cut(self) -> None:
        """Cut every open connection."""
        with self._lock:
            victims = list(self._open)
        for victim in victims:
            _shut(victim, socket.SHUT_RDWR)

    def _listen(self) -> None:
        self._path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(self._path))
        self._listener.listen(128)
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def _stop_listening(self) -> None:
        if self._listener is not None:
            _shut(self._listener, socket.SHUT_RDWR)  # wakes the thread in accept
            self._listener.close()
            self._listener = None

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        upstream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with self._lock:
            self._open |= {client, upstream}
        try:
            with suppress(OSError):
                self._one_request(client, upstream)
        finally:
            with self._lock:
                self._open -= {client, upstream}
            client.close()
            upstream.close()

    def _one_request(self, client: socket.socket, upstream: socket.socket) -> None:
        read = b""
        while b"\r\n\r\n" not in read:
            more = client.recv(CHUNK)
            if not more:
                return
            read += more
        head, _, rest = read.partition(b"\r\n\r\n")
        method, target, _ = head.split(b"\r\n")[0].decode("latin-1").split(" ", 2)
        fault = self._strike(method, target)
        kind = fault.kind.name if fault else ""
        if fault and kind in ("hang", "refusal"):
            # All of the request has come, so that its sender may die now and it can still be carried out.
            while len(rest) < _body_length(head) and (more := client.recv(CHUNK)):
                rest += more
            fault.reached.set()
        if fault and kind == "refusal":
            client.sendall(_refusal(fault.kind))
            _shut(client, socket.SHUT_WR)
            while client.recv(CHUNK):  # a close with anything unread would reset the connection
                pass
            return
        if fault and kind == "hang":
            fault.released.wait()
        upstream.connect(self._upstream)
        upstream.sendall(_own_connection(head) + b"\r\n\r\n" + rest)
        upward = threading.Thread(target=_pump, args=(client, upstream), daemon=True)
        upward.start()
        if fault and kind in ("drop", "late"):
            answer = b""
            while more := upstream.recv(CHUNK):
                answer += more
            fault.reached.set()
            if kind == "late":
                fault.released.wait()
                client.sendall(answer)
        else:
            _pump(upstream, client)
        # The engine has said all it had to say; nothing that the client may add can reach it.
        _shut(client, socket.SHUT_RDWR)
        upward.join()

    def _strike(self, method: str, target: str) -> Fault | None:
        with self._lock:
            self.requests.append((method, target))
            for fault in self._faults:
                if fault.released.is_set() or fault.method != method or fault.hits >= fault.times:
                    continue
                if not fault.path.search(target.split("?")[0]):
                    continue
                if fault.skip > 0:
                    fault.skip -= 1
                    continue
                fault.hits += 1
                return fault
        return None


def _body_length(head: bytes) -> int:
    found = re.search(rb"\r\ncontent-length: *(\d+)", head, re.IGNORECASE)
    return int(found[1]) if found else 0


def _own_connection(head: bytes) -> bytes:
    lines = head.split(b"\r\n")
    if any(line.lower().startswith(b"upgrade:") for line in lines):
        return head
    kept = [line for line in lines if not line.lower().startswith(b"connection:")]
    return b"\r\n".join([*kept, b"Connection: close"])


def _refusal(kind: Kind) -> bytes:
    body = json.dumps({"message": kind.message}).encode()
    return (
        f"HTTP/1.1 {kind.status} Refused\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    ).encode() + body


def _pump(source: socket.socket, sink: socket.socket) -> None:
    """Carry bytes until the source ends, then say so to the sink (only: half-closed is open)."""
    try:
        while more := source.recv(CHUNK):
            sink.sendall(more)
    except OSError:
        _shut(source, socket.SHUT_RDWR)
    _shut(sink, socket.SHUT_WR)


def _shut(end: socket.socket, how: int) -> None:
    with suppress(OSError):
        end.shutdown(how)
