"""The lifeline: how the other processes of a run learn, at once, that its controller is dead.

The controller holds a lock on a file for as long as it lives, and the kernel lets go of it for a process
that is killed. Nothing is polled: whoever watches is blocked on the same lock.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_private: set[int] = set()


def keep_from_forks(descriptor: int) -> None:
    """See to it that no forked child keeps this descriptor open: that would hide the death of its parent.

    (Python gives it to no program that is started by exec.)
    """
    _private.add(descriptor)


def close_private(descriptor: int) -> None:
    """Close a descriptor given to `keep_from_forks`."""
    _private.discard(descriptor)
    os.close(descriptor)


def _close_in_child() -> None:
    while _private:
        with suppress(OSError):
            os.close(_private.pop())


os.register_at_fork(after_in_child=_close_in_child)


@contextmanager
def hold_controller_lock(lock_path: Path) -> Iterator[None]:
    """Hold the controller's lock; to be entered before any worker is started.

    Raises: RuntimeError if another controller holds it.
    """
    lock_path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    keep_from_forks(descriptor)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RuntimeError(
                f"another run is going on in {lock_path.parent} (it holds {lock_path.name}): "
                "wait for its end or choose another run directory"
            ) from None
        yield
    finally:
        close_private(descriptor)


@contextmanager
def watch_controller(lock_path: Path, on_death: Callable[[], None]) -> Iterator[None]:
    """Call `on_death`, in a thread of its own, as soon as the controller has let go of its lock.

    That is when it died, or ended before this context did. Leaving the context first cancels the call.
    Raises: FileNotFoundError if no controller ever held the lock.
    """
    descriptor = os.open(lock_path, os.O_RDWR | os.O_CLOEXEC)
    cancelled = threading.Event()

    def watch() -> None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH)
        finally:
            os.close(descriptor)
        if not cancelled.is_set():
            on_death()

    # Daemon: nothing but the controller's end or this process's can wake it.
    threading.Thread(target=watch, name="swe-pytest-lifeline", daemon=True).start()
    try:
        yield
    finally:
        cancelled.set()
