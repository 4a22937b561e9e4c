"""Lanes: a cap across processes that a killed process cannot keep."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

from swe_pytest.sandbox.admission import Lanes

WORKER = """
import sys, threading, time
from pathlib import Path
from swe_pytest.sandbox.admission import Lanes
lanes, spans = Lanes(Path(sys.argv[1]), 3), []
def work():
    for _ in range(5):
        with lanes.lane():
            begun = time.monotonic()
            time.sleep(0.01)
            spans.append((begun, time.monotonic()))
threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
for span in spans: print(*span)
"""

HOLDER = """
import sys
from pathlib import Path
from swe_pytest.sandbox.admission import Lanes
with Lanes(Path(sys.argv[1]), 1).lane():
    print("held", flush=True)
    sys.stdin.read()
"""


def test_never_more_at_once_than_lanes(tmp_path: Path) -> None:
    """Threads of several processes never hold more lanes than there are, and all lanes get used."""
    workers = [
        subprocess.Popen([sys.executable, "-c", WORKER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    spans = [
        tuple(map(float, line.split())) for worker in workers for line in worker.communicate()[0].splitlines()
    ]
    assert len(spans) == 3 * 3 * 5  # nobody starved
    # An end at the very moment of a begin is no overlap, so ends sort first.
    moments = sorted([(end, -1) for _, end in spans] + [(begin, 1) for begin, _ in spans])
    held, most = 0, 0
    for _, step in moments:
        held += step
        most = max(most, held)
    assert most == 3


def test_a_killed_holder_frees_its_lane(tmp_path: Path) -> None:
    """Who waits for the lane of a process gets it at once when that process is killed."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    entered = threading.Event()

    def wait_for_lane() -> None:
        with Lanes(tmp_path, 1).lane():
            entered.set()

    waiting = threading.Thread(target=wait_for_lane, daemon=True)
    waiting.start()
    assert not entered.wait(0.3)
    killed = time.monotonic()
    holder.kill()
    assert entered.wait(5)
    assert time.monotonic() - killed < 1.0
    holder.communicate()


def test_a_lane_is_free_again_after_an_error(tmp_path: Path) -> None:
    """An exception inside a lane gives the lane back."""
    lanes = Lanes(tmp_path, 1)
    for _ in range(2):
        try:
            with lanes.lane():
                raise ZeroDivisionError
        except ZeroDivisionError:
            pass
