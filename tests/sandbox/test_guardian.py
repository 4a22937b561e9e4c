"""The guardian: outlives a killed controller, cleans up after it, and ends itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from faulty_engine import FaultyEngine

from swe_pytest.sandbox.engine import Engine
from swe_pytest.sandbox.guardian import QUIET_S, guard
from swe_pytest.sandbox.ownership import Ownership, current_owner, new_run_id
from swe_pytest.sandbox.sweep import list_ours, sweep_run
from swe_pytest.sandbox.witness import Witness

Start = Callable[..., tuple[str, str]]

CONTROLLER = """
import os, sys, threading
from swe_pytest.sandbox.engine import Engine
from swe_pytest.sandbox.guardian import guard
from swe_pytest.sandbox.ownership import Ownership

engine_text, run_id, owner, image, within_s, what = sys.argv[1:]
engine = Engine.load(engine_text)
guardian = guard(engine, run_id, within_s=float(within_s))
mark = Ownership(run_id, owner, "main")
client = engine.client()

def create():
    name, labels = mark.name("task"), mark.labels("task", "case", 2e9)
    made = client.create_container(image, ["sleep", "300"], name=name, labels=labels)
    client.start(made["Id"])

if what == "three":
    for _ in range(3):
        create()
    client.create_network(mark.name("net"), labels=mark.labels("net", "case", 2e9))
    client.create_volume(mark.name("vol"), labels=mark.labels("vol", "case", 2e9))
elif what == "in-flight":
    threading.Thread(target=create, daemon=True).start()
elif what == "fork":
    create()
    if os.fork() == 0:
        sys.stdin.read()
        os._exit(0)
print(guardian.pid, flush=True)
sys.stdin.read()
"""


@contextmanager
def controller(
    engine: Engine, run_id: str, image: str, what: str, within_s: float = 10.0
) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A process, in a group of its own, that controls a run; and the pid of its guardian.

    Its things are labelled as this test's, which lives on: else the start of any other run on this engine
    might sweep them before the guardian does.
    """
    arguments = [engine.dump(), run_id, current_owner(), image, str(within_s), what]
    process = subprocess.Popen(
        [sys.executable, "-c", CONTROLLER, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        yield process, int(process.stdout.readline())
    finally:
        process.kill()
        process.communicate()


def alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def paths(faulty: FaultyEngine) -> set[tuple[str, str]]:
    return {(method, path.split("?")[0]) for method, path in faulty.requests}


def wait_until(rule: Callable[[], bool], within_s: float) -> float:
    """Wait for another process's deed, which sends no event here; return how long it took."""
    begun = time.monotonic()
    while not rule():
        assert time.monotonic() - begun < within_s, f"not within {within_s} s"
        time.sleep(0.02)
    return time.monotonic() - begun


def test_a_killed_controllers_things_are_removed_and_the_guardian_goes(
    engine: Engine, base_image: str, start: Start, ownership: Ownership
) -> None:
    """KILL to the controller's whole group: containers, network, volume and guardian are gone in 10 s.

    A neighbour run's container stays.
    """
    _, neighbour = start(ownership)
    run_id = new_run_id()
    try:
        with controller(engine, run_id, base_image, "three") as (process, guardian):
            assert len(list_ours(engine, run_id)) == 5
            os.killpg(process.pid, signal.SIGKILL)
            killed = time.monotonic()
            wait_until(lambda: not list_ours(engine, run_id), 10)
            wait_until(lambda: not alive(guardian), 10 - (time.monotonic() - killed))
        assert [thing.id for thing in list_ours(engine, ownership.run_id)] == [neighbour]
    finally:
        sweep_run(engine, run_id, within_s=30)


def test_a_create_under_way_when_the_controller_dies_is_removed(
    engine: Engine, base_image: str, tmp_path: Path
) -> None:
    """A container that the engine makes only after its controller was killed does not stay."""
    run_id = new_run_id()
    mark = Ownership(run_id, "?", "main")
    with FaultyEngine(engine, tmp_path / "slow.sock") as slow, Witness(engine, mark) as witness:
        held = slow.when("POST", "/containers/create$", slow.HANG)
        try:
            with controller(slow.engine, run_id, base_image, "in-flight") as (process, guardian):
                assert held.reached.wait(10)
                process.kill()
                process.wait()
                wait_until(lambda: ("GET", "/volumes") in paths(slow), 5)  # the guardian's first look is over
                assert list_ours(engine, run_id) == []
                held.release()
                wait_until(lambda: not alive(guardian), 10)
            assert list_ours(engine, run_id) == []
            (life,) = witness.lives("case")
            assert life.created is not None and life.removed is not None
        finally:
            sweep_run(engine, run_id, within_s=30)


def test_signals_do_not_end_the_guardian(engine: Engine, base_image: str) -> None:
    """INT, TERM and HUP leave it standing, and it still does its work."""
    run_id = new_run_id()
    try:
        with controller(engine, run_id, base_image, "fork") as (process, guardian):
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                os.kill(guardian, number)
            time.sleep(0.2)  # nothing is to happen
            assert alive(guardian)
            # Its forked child lives on and must not hide the controller's death.
            process.kill()
            wait_until(lambda: not list_ours(engine, run_id), 10)
            wait_until(lambda: not alive(guardian), 10)
    finally:
        sweep_run(engine, run_id, within_s=30)


def test_the_guardian_ends_though_the_engine_hangs(engine: Engine, base_image: str, tmp_path: Path) -> None:
    """With an engine that takes requests and never answers, the guardian still ends soon after its time."""
    run_id = new_run_id()
    with FaultyEngine(engine, tmp_path / "hung.sock") as hung:
        with controller(hung.engine, run_id, base_image, "none", within_s=1.0) as (process, guardian):
            hung.when("GET", "^/containers/json", hung.HANG)
            process.kill()
            assert wait_until(lambda: not alive(guardian), 5) > 0.5
        assert ("GET", "/containers/json") in paths(hung)


def test_the_guardian_does_not_keep_the_controllers_output_open(
    engine: Engine, base_image: str, tmp_path: Path
) -> None:
    """Whoever reads pytest's output sees its end when pytest is killed, not when the guardian goes."""
    run_id = new_run_id()
    with controller(engine, run_id, base_image, "none") as (process, guardian):
        killed = time.monotonic()
        process.kill()
        assert process.stdout is not None
        process.stdout.read()  # returns only when every holder of the pipe has closed it
        assert time.monotonic() - killed < QUIET_S  # the guardian watches for creates at least as long
        wait_until(lambda: not alive(guardian), 10)


def test_a_dismissed_guardian_goes_at_once_and_leaves_no_zombie(engine: Engine, ownership: Ownership) -> None:
    """After a normal end the guardian costs less than half a second and is reaped."""
    took = []
    for _ in range(3):
        guardian = guard(engine, ownership.run_id)
        assert guardian.alive
        time.sleep(0.3)  # past its start-up, as in any run
        begun = time.monotonic()
        assert guardian.close() == ""
        took.append(time.monotonic() - begun)
        assert not Path(f"/proc/{guardian.pid}").exists()
        assert guardian.close() == ""  # again does nothing
    assert min(took) < 0.5  # the least of three: others may be busy on this machine


def test_what_was_left_at_dismissal_is_removed(
    engine: Engine, start: Start, ownership: Ownership, tmp_path: Path
) -> None:
    """The guardian's last look removes what the controller overlooked, and its log says so."""
    name, _ = start(ownership)
    log = tmp_path / "guardian.log"
    with guard(engine, ownership.run_id, log=log) as guardian:
        pass
    assert guardian.trouble == ""
    assert list_ours(engine, ownership.run_id) == []
    assert name in log.read_text()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_guardian_that_died_is_reported(engine: Engine, ownership: Ownership, how: signal.Signals) -> None:
    """A guardian that was killed, or does not answer, is told at close: the run was unguarded."""
    guardian = guard(engine, ownership.run_id)
    os.kill(guardian.pid, how)
    if how == signal.SIGKILL:
        wait_until(lambda: not guardian.alive, 5)
    told = guardian.close(timeout_s=0.5)
    assert told == guardian.trouble
    assert ownership.run_id in told
    assert ("died before the end" if how == signal.SIGKILL else "did not end within 0.5 s") in told
    assert not Path(f"/proc/{guardian.pid}").exists()


def test_a_guardian_that_cannot_start_is_reported(
    engine: Engine, ownership: Ownership, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A guardian whose Python fails is told at close, with the log that says why."""
    monkeypatch.setattr("swe_pytest.sandbox.guardian._ROOT", tmp_path)
    log = tmp_path / "guardian.log"
    guardian = guard(engine, ownership.run_id, log=log)
    wait_until(lambda: not guardian.alive, 10)
    assert str(log) in guardian.close()
    assert "ModuleNotFoundError" in log.read_text()


def test_the_guardian_needs_no_site_packages(engine: Engine) -> None:
    """The guardian's modules come from the standard library and this package alone, and start fast."""
    code = (
        "import sys; sys.path.append(sys.argv[1]); import swe_pytest.sandbox.guardian\n"
        "print(*(name for name in sys.modules if name.startswith('swe_pytest.')))\n"
    )
    root = str(Path(__file__).parents[2])
    before = os.times()
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, root], capture_output=True, text=True, check=True
    )
    after = os.times()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    assert spent < 0.5  # seconds of CPU; 0.08 when this was written
    rooms = {name for name in done.stdout.split() if name != "swe_pytest.sandbox"}
    assert rooms == {
        f"swe_pytest.sandbox.{part}"
        for part in ("engine", "errors", "guardian", "lifeline", "ownership", "sweep", "wire")
    }


def test_workers_do_not_inherit_the_pipe(engine: Engine, ownership: Ownership) -> None:
    """A program started by the controller, as xdist starts workers, gets no descriptor of the guardian's."""
    with guard(engine, ownership.run_id) as guardian:
        assert guardian._pipe is not None
        pipe = str(Path(f"/proc/self/fd/{guardian._pipe}").readlink())
        code = (
            "import os\n"
            "for n in os.listdir('/proc/self/fd'):\n"
            " try: print(os.readlink('/proc/self/fd/' + n))\n"
            " except FileNotFoundError: pass\n"
        )
        seen = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, close_fds=False
        ).stdout.split()
        assert any(target.startswith("pipe:") for target in seen)  # its own output: it can see pipes
        assert pipe not in seen


def test_a_forked_child_does_not_dismiss_the_guardian(engine: Engine, ownership: Ownership) -> None:
    """A child that was forked by the controller and unwinds as it would leaves the guardian at its post."""
    with guard(engine, ownership.run_id) as guardian:
        child = os.fork()
        if child == 0:
            try:
                guardian.close()
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        time.sleep(0.3)  # nothing is to happen
        assert guardian.alive
    assert guardian.trouble == ""
