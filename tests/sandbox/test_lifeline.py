"""The lifeline: a process's death is an event for those who watch it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from swe_pytest.sandbox.lifeline import hold_lock, holder_pid, watch_lock

HOLDER = """
import os, sys
from pathlib import Path
from swe_pytest.sandbox.lifeline import hold_lock
with hold_lock(Path(sys.argv[1])):
    if sys.argv[2] == "fork" and os.fork() == 0:
        sys.stdin.read()
        os._exit(0)
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def holder(lock: Path, how: str = "plain") -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(lock), how],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def test_a_killed_holder_is_noticed_at_once(tmp_path: Path) -> None:
    """SIGKILL of the holder calls on_death of its watcher within a second, and not before."""
    lock, died = tmp_path / "lock", threading.Event()
    with holder(lock) as process, watch_lock(lock, died.set):
        assert not died.wait(0.3)
        killed = time.monotonic()
        process.kill()
        assert died.wait(5)
        assert time.monotonic() - killed < 1.0


def test_every_watcher_learns_of_it(tmp_path: Path) -> None:
    """Several watchers of one lock are all told; they do not wait for one another."""
    lock = tmp_path / "lock"
    first, second = threading.Event(), threading.Event()
    still_busy = threading.Event()

    def slow() -> None:
        first.set()
        still_busy.wait(10)

    with holder(lock) as process, watch_lock(lock, slow), watch_lock(lock, second.set):
        process.kill()
        assert first.wait(5) and second.wait(5)
        still_busy.set()


def test_a_forked_child_does_not_keep_its_parent_alive(tmp_path: Path) -> None:
    """A child that the holder forked without exec does not hide the holder's death."""
    lock, died = tmp_path / "lock", threading.Event()
    # The child reads its input to the end, which comes when the holder is left.
    with holder(lock, "fork") as process, watch_lock(lock, died.set):
        process.kill()
        assert died.wait(2)


def test_after_leaving_nobody_is_called(tmp_path: Path) -> None:
    """A watch that was left before the holder's end stays silent."""
    lock, died = tmp_path / "lock", threading.Event()
    with holder(lock), watch_lock(lock, died.set):
        pass
    assert not died.wait(0.5)


def test_two_cannot_hold_one_lock(tmp_path: Path) -> None:
    """A second run in the same directory is refused, and the message names the process that is there."""
    lock = tmp_path / "lock"
    with holder(lock) as process:
        with pytest.raises(RuntimeError, match=f"held by process {process.pid}"), hold_lock(lock):
            pass
        assert holder_pid(lock) == process.pid


def test_the_holder_of_a_lock_is_nobody_when_it_is_dead(tmp_path: Path) -> None:
    """A dead holder's pid is not given out: by now it may belong to somebody else."""
    lock = tmp_path / "lock"
    assert holder_pid(lock) is None
    with holder(lock) as process:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert holder_pid(lock) is None
    with hold_lock(lock):  # and the lock can be taken again
        assert holder_pid(lock) == os.getpid()
