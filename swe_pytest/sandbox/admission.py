"""Admission: how many lifecycle operations may run at once on a host, whatever the number of workers.

Creating and removing containers is bound by CPU: beyond two per core more of them at once only make each
one slower. Waiting for an agent or for tests costs nothing, so it needs no lane.
"""

from __future__ import annotations

import fcntl
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Lanes:
    """`size` lanes shared by all processes that use the same directory. Thread-safe.

    A lane is a locked file, so the kernel frees the lane of a process that is killed.
    """

    def __init__(self, directory: Path, size: int) -> None:
        if size < 1:
            raise ValueError(f"there must be at least one lane, not {size}")
        directory.mkdir(parents=True, exist_ok=True)
        self._paths = [directory / f"lane-{number}.lock" for number in range(size)]

    @contextmanager
    def lane(self) -> Iterator[None]:
        """Hold one lane, waiting for it as long as needed."""
        held = self._take()
        try:
            yield
        finally:
            os.close(held)

    def _take(self) -> int:
        # In random order, so that those who find every lane taken spread over them and queue evenly.
        for path in random.sample(self._paths, len(self._paths)):
            held = _lock(path, wait=False)
            if held is not None:
                return held
        held = _lock(random.choice(self._paths), wait=True)
        assert held is not None
        return held


def _lock(path: Path, *, wait: bool) -> int | None:
    """Return a descriptor that holds the lock until it is closed; None if it is taken and `wait` is false."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        os.close(descriptor)
        return None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
