"""The lifeline: how the processes of a run learn, at once, that one of them (its controller, say) is dead.

A process holds a lock on a file for as long as it lives, and the kernel lets go of it for a process that
is killed. Nothing is polled: whoever watches is blocked on the same lock.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from swe_pytest.sandbox.ownership import current_owner, owner_state

_private: set[int] = set()


def keep_from_forks(descriptor: int) -> None:
    """See to it that no forked child keeps this descriptor open: that would hide the death of its parent.

    (Python gives it to no program that is started by exec.)
    """
    _private.add(descriptor)


def close_private(descriptor: int) -> None:
    """Close a descriptor given to `keep_from_forks`. In a forked child it is closed already: nothing is done."""
    if descriptor in _private:
        _private.discard(descriptor)
        os.close(descriptor)


def _close_in_child() -> None:
    while _private:
        with suppress(OSError):
            os.close(_private.pop())


os.register_at_fork(after_in_child=_close_in_child)


@contextmanager
def hold_lock(path: Path) -> Iterator[None]:
    """Hold the lock of this process; to be entered before anybody who watches it is started.

    Raises: RuntimeError if another process holds it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    keep_from_forks(descriptor)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RuntimeError(
                f"{path} is held by process {holder_pid(path) or 'unknown'}: another run uses this "
                "directory; wait for its end or choose another one"
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, current_owner().encode(), 0)
        yield
    finally:
        close_private(descriptor)


def holder_pid(path: Path) -> int | None:
    """The pid of the process that holds a lock; None if it is dead, or cannot be seen from here."""
    try:
        owner = path.read_text()
    except FileNotFoundError:
        return None
    return int(owner.split("/")[2]) if owner_state(owner) == "alive" else None


@contextmanager
def watch_lock(path: Path, on_death: Callable[[], None]) -> Iterator[None]:
    """Call `on_death`, in a thread of its own, as soon as the holder of a lock has let go of it.

    That is when it died, or ended before this context did. Leaving the context first cancels the call.
    Raises: FileNotFoundError if nobody ever held the lock.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    cancelled = threading.Event()

    def watch() -> None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH)
        finally:
            os.close(descriptor)
        if not cancelled.is_set():
            on_death()

    # Daemon: nothing but the holder's end or this process's can wake it.
    threading.Thread(target=watch, name="swe-pytest-lifeline", daemon=True).start()
    try:
        yield
    finally:
        cancelled.set()
