"""SIGTERM unwinds a process like Ctrl-C does, so that every clean-up on the way runs."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType


class Termination:
    """A context in which the first SIGTERM raises Terminated in the main thread; later ones change nothing.

    After `disarm` none does: whoever is already ending must not be stopped from telling the results.
    Outside the main thread (where signals cannot be handled) nothing is changed.
    """

    def __init__(self) -> None:
        self._armed = True
        self._before: signal._HANDLER = None

    def disarm(self) -> None:
        """From now on SIGTERM is ignored, until the context is left. Idempotent."""
        self._armed = False

    def __enter__(self) -> Termination:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGTERM, self._unwind)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before is not None:
            signal.signal(signal.SIGTERM, self._before)

    def _unwind(self, number: int, frame: FrameType | None) -> None:
        from swe_pytest.episode.failure import Terminated

        if self._armed:
            self._armed = False
            raise Terminated("SIGTERM")
