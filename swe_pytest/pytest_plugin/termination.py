"""SIGTERM unwinds a process like Ctrl-C does, so that every clean-up on the way runs."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def sigterm_unwinds() -> Iterator[None]:
    """While inside, the first SIGTERM raises Terminated in the main thread; later ones change nothing.

    Outside the main thread (where signals cannot be handled) nothing is changed.
    """
    from swe_pytest.episode.failure import Terminated

    received = False

    def unwind(number: int, frame: FrameType | None) -> None:
        nonlocal received
        if not received:
            received = True
            raise Terminated("SIGTERM")

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, unwind)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
