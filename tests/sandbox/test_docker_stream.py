"""Reading the engine's raw stream: frames, bounds and deadlines, over real sockets."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from swe_pytest.sandbox import stream
from swe_pytest.sandbox.stream import Capture, Stream


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    near, far = socket.socketpair()
    yield near, far
    near.close()
    far.close()


def frame(number: int, content: bytes) -> bytes:
    return bytes([number, 0, 0, 0]) + len(content).to_bytes(4, "big") + content


def captured(limit: int, *parts: bytes) -> Capture:
    capture = Capture(limit)
    for part in parts:
        capture.add(memoryview(part))
    return capture


@pytest.mark.parametrize("limit", [0, 1, 2, 7, 10, 1000])
@pytest.mark.parametrize("step", [1, 3, 100])
def test_capture_keeps_first_and_last_bytes(limit: int, step: int) -> None:
    """Of whatever arrives in whatever pieces, the first and the last half of the limit are kept."""
    whole = bytes(range(100))
    capture = captured(limit, *(whole[at : at + step] for at in range(0, 100, step)))
    assert capture.total == 100
    assert capture.truncated == (limit < 100)
    if limit >= 100:
        assert capture.value() == whole
    else:
        head, tail = (limit + 1) // 2, limit // 2
        gap = b"\n[swe-pytest: %d bytes left out here]\n" % (100 - limit)
        assert capture.value() == whole[:head] + gap + whole[100 - tail :]


def test_capture_is_bounded() -> None:
    """What is kept of an endless output does not grow."""
    capture = Capture(1000)
    for number in range(2000):
        capture.add(memoryview(b"%06d" % number * 500))
    assert capture.total == 2000 * 3000
    assert capture.value().endswith(b"001999")
    assert len(capture._tail) < 1_000_000


def test_tail_of_a_capture() -> None:
    """The tail is what was written last, also where it lies across both halves."""
    assert captured(10, b"abc").tail(2) == b"bc"
    assert captured(10, b"abc").tail(5) == b"abc"
    assert captured(10, b"abcdefgh").tail(5) == b"defgh"
    assert captured(4, b"abcdefgh").tail(2) == b"gh"


def test_frames_in_any_pieces(ends: tuple[socket.socket, socket.socket]) -> None:
    """Frames are put together from pieces of any size, bytes that came early included, and sorted."""
    near, far = ends
    sent = (
        frame(1, b"out1")
        + frame(2, b"err")
        + frame(1, b"")
        + frame(1, b"\x01\0\0\0\0\0\0\x09")
        + frame(9, b"?")
    )
    early, rest = sent[:5], sent[5:]

    def drip() -> None:
        for byte in rest:
            far.send(bytes([byte]))
            time.sleep(0.001)
        far.close()

    threading.Thread(target=drip).start()
    out, err = Capture(100), Capture(100)
    with Stream(near, early) as conversation:
        assert conversation.converse(out, err, deadline=time.monotonic() + 10) == "eof"
    assert out.value() == b"out1\x01\0\0\0\0\0\0\x09"
    assert err.value() == b"err"


@pytest.mark.parametrize("sent", [frame(1, b"whole") + b"\x01\0\0", frame(1, b"half")[:-1]])
def test_an_end_inside_a_frame_is_a_cut(ends: tuple[socket.socket, socket.socket], sent: bytes) -> None:
    """A connection that ends in the middle of a frame was cut."""
    near, far = ends
    far.sendall(sent)
    far.close()
    with Stream(near) as conversation:
        assert conversation.converse(Capture(9), Capture(9), deadline=time.monotonic() + 10) == "cut"


def test_deadline_holds_when_input_is_not_taken(ends: tuple[socket.socket, socket.socket]) -> None:
    """A peer that neither reads nor writes does not keep anybody past the deadline."""
    near, _ = ends
    began = time.monotonic()
    with Stream(near) as conversation:
        end = conversation.converse(Capture(9), Capture(9), deadline=began + 0.3, stdin=b"x" * 10_000_000)
    assert end == "deadline"
    assert 0.3 <= time.monotonic() - began < 2


def test_silence_is_reported(
    ends: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A silent peer is asked about again and again, until the answer is to stop."""
    monkeypatch.setattr(stream, "SILENCE_S", 0.05)
    answers = iter([False, False, True])
    with Stream(ends[0]) as conversation:
        end = conversation.converse(
            Capture(9), Capture(9), deadline=time.monotonic() + 10, silent=lambda: next(answers)
        )
    assert end == "stopped"
    assert list(answers) == []


def test_leaving_shuts_the_connection_down(ends: tuple[socket.socket, socket.socket]) -> None:
    """Leaving the context tells the other side at once, though the socket may be held elsewhere too."""
    near, far = ends
    held = near.dup()
    with Stream(near):
        pass
    far.settimeout(5)
    assert far.recv(1) == b""
    held.close()
