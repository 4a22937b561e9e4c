"""The raw stream of a container's input and output: both ways at once, bounded, with our own deadline.

The client library's readers have no deadline, lose what they had buffered, and block removal when they
are abandoned; so once the engine has switched the connection over, it is read and written here.
"""

from __future__ import annotations

import select
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Literal, Protocol

STDOUT = 1
STDERR = 2

# How long a stream may say nothing before the container is looked at: a paused one is silent for ever.
SILENCE_S = 5.0

_CHUNK = 256 * 1024
_HEADER = 8
_BUSY = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
_BROKEN = (ConnectionError, ssl.SSLError)

End = Literal["eof", "cut", "deadline", "stopped"]


class Closeable(Protocol):
    def close(self) -> None: ...


class Capture:
    """Bytes of an output of any length, of which at most `limit` are kept: the first and the last half."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.total = 0
        self._head_room = (limit + 1) // 2
        self._tail_room = limit - self._head_room
        self._head = bytearray()
        self._tail = bytearray()

    def add(self, data: memoryview) -> None:
        self.total += len(data)
        room = self._head_room - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if data:
            self._tail += data
            # Trimmed only now and then, so that each byte is moved a bounded number of times.
            if len(self._tail) > 2 * self._tail_room + _CHUNK:
                del self._tail[: len(self._tail) - self._tail_room]

    @property
    def truncated(self) -> bool:
        return self.total > self.limit

    def tail(self, size: int) -> bytes:
        """The last bytes that were written, at most `size` of them."""
        return bytes((self._tail if len(self._tail) >= size else self._head + self._tail)[-size:])

    def value(self) -> bytes:
        """What was kept; where something is missing, a line in its place says how much."""
        if not self.truncated:
            return bytes(self._head + self._tail)
        gap = b"\n[swe-pytest: %d bytes left out here]\n" % (self.total - self.limit)
        return bytes(self._head) + gap + bytes(self._tail[len(self._tail) - self._tail_room :])


class Stream:
    """A connection that the engine has switched over to a container's streams. Use as a context manager.

    Leaving the context shuts the connection down before closing it: an engine that still believes in a
    reader makes the removal of the container wait for it (20 s and more when measured).
    """

    def __init__(
        self, connection: socket.socket, early: bytes = b"", owners: tuple[Closeable, ...] = ()
    ) -> None:
        """`early` came with the engine's answer already; `owners` live as long as the connection."""
        connection.settimeout(0.0)
        self._connection = connection
        self._owners = owners
        self._early = early
        self._header = bytearray()
        self._left = 0
        self._sink: Capture | None = None

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        with suppress(OSError):
            self._connection.close()
        # The library's wrappers hold the connection open as long as they are open themselves.
        for wrapper in self._owners:
            with suppress(OSError):
                wrapper.close()
        self._owners = ()

    def converse(
        self,
        stdout: Capture,
        stderr: Capture,
        *,
        deadline: float,
        stdin: bytes | None = None,
        silent: Callable[[], bool] = lambda: False,
        complete: Callable[[], bool] = lambda: False,
    ) -> End:
        """Write `stdin` and then its end, and read until the other side ends; neither waits for the other.

        `deadline` is on the monotonic clock. `silent` is called after each SILENCE_S without a byte; it
        returns True to stop, or raises; so does `complete`, after each arrival. "eof" says nothing about how
        the command ended; "cut" is an end in the middle of a frame.
        """
        sinks = {STDOUT: stdout, STDERR: stderr}
        if self._early:
            self._take(memoryview(self._early), sinks)
            self._early = b""
        unsent = memoryview(stdin) if stdin is not None else None
        poll = select.poll()
        poll.register(self._connection, select.POLLIN)
        buffer = bytearray(_CHUNK)
        whole = memoryview(buffer)
        heard = time.monotonic()
        while True:
            if unsent is not None:
                unsent = self._send(unsent)
                poll.modify(self._connection, select.POLLIN | (select.POLLOUT if unsent is not None else 0))
            try:
                count = self._connection.recv_into(buffer)
            except _BUSY:
                now = time.monotonic()
                if now >= deadline:
                    return "deadline"
                if now - heard >= SILENCE_S:
                    if silent():
                        return "stopped"
                    heard = time.monotonic()
                    continue
                wait_s = max(0.0, min(deadline - now, heard + SILENCE_S - now))
                poll.poll(wait_s * 1000 + 1)
                continue
            except _BROKEN:
                count = 0
            if count == 0:
                return "cut" if self._left or self._header else "eof"
            self._take(whole[:count], sinks)
            heard = time.monotonic()
            if complete():
                return "stopped"
            if heard >= deadline:
                return "deadline"

    def _send(self, unsent: memoryview) -> memoryview | None:
        """Send what the connection takes; return the rest, None when the end has been sent too."""
        try:
            while unsent:
                unsent = unsent[self._connection.send(unsent[:_CHUNK]) :]
        except _BUSY:
            return unsent
        except _BROKEN:
            return None  # the command does not read on; what it wrote may still be there to read
        try:
            if isinstance(self._connection, ssl.SSLSocket):
                # TLS ends one direction by a notice; waiting for the answer to it would end the other.
                with suppress(*_BUSY):
                    self._connection.unwrap()
            else:
                self._connection.shutdown(socket.SHUT_WR)
        except (OSError, ValueError):
            pass  # the other side was faster
        return None

    def _take(self, data: memoryview, sinks: dict[int, Capture]) -> None:
        """Sort the engine's frames: 8 bytes of header (stream, 3 of nothing, big-endian length), content."""
        while data:
            if self._left:
                part = data[: self._left]
                if self._sink is not None:
                    self._sink.add(part)
                self._left -= len(part)
                data = data[len(part) :]
                continue
            need = _HEADER - len(self._header)
            self._header += data[:need]
            data = data[need:]
            if len(self._header) == _HEADER:
                self._sink = sinks.get(self._header[0])
                self._left = int.from_bytes(self._header[4:], "big")
                self._header.clear()
