"""Interrupted is never zero, and nothing is left: real signals to real pytest processes on real containers."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from swe_pytest.sandbox.sweep import list_ours
from tests.plugin.conftest import Project, properties

SLEEPER = "echo begun; sleep 300"


def wait_for(condition: Callable[[], bool], within_s: float, what: str) -> float:
    """Wait until something outside this process is so; return the seconds it took."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < within_s, f"not within {within_s} s: {what}"
        time.sleep(0.05)  # the condition is another process's; it has no event for us
    return time.monotonic() - began


def running(project: Project, run_id: str) -> list[str]:
    return [thing.name for thing in list_ours(project.engine, run_id) if thing.kind == "container"]


def process_alive(marker: str) -> list[int]:
    """Pids of processes whose command line or environment mentions a text."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                if marker.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
    return found


@pytest.mark.parametrize("workers", [[], ["-n", "2"]], ids=["alone", "n2"])
def test_sigterm_tells_every_case_within_15_s(project: Project, workers: list[str]) -> None:
    """After TERM: XML, JSON and ledger are complete, running cases masked, waiting ones not run, nothing left."""
    rows = [project.row(f"toy__toy-{n}") for n in range(6)]
    project.suite(rows=rows, configs=[project.command(SLEEPER)])
    process, done = project.start("suites", *workers)
    expected = 2 if workers else 1
    wait_for(lambda: len(running(project, project.run_ids[-1])) >= expected, 40, "sandboxes are up")
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=30)
    assert time.monotonic() - began < 15
    assert process.returncode == 2, out
    assert len(done.junit) == 6
    told = {name: properties(case) for name, case in done.junit.items()}
    outcomes = sorted(each["outcome"] for each in told.values())
    assert outcomes == ["masked"] * expected + ["not_run"] * (6 - expected)
    assert all("reward" not in each for each in told.values())
    totals = done.results["totals"]
    assert (totals["planned"], totals["masked"], totals["not_run"]) == (6, expected, 6 - expected)
    classes = [record["failure"]["class"] for record in done.records.values()]
    assert classes == ["interrupted"] * expected, "each process wrote down what it was at"
    assert running(project, project.run_ids[-1]) == []


def test_sigkill_of_the_whole_tree_leaves_nothing(project: Project) -> None:
    """After KILL to pytest and its workers: no container within 10 s, the guardian gone, a neighbour untouched."""
    rows = [project.row(f"toy__toy-{n}") for n in range(4)]
    project.suite(rows=rows, configs=[project.command(SLEEPER)])
    neighbour, _ = project.start("suites", "--swe-limit", "1")
    neighbour_id = project.run_ids[-1]
    process, done = project.start("suites", "-n", "2")
    victim_id = project.run_ids[-1]
    try:
        wait_for(lambda: len(running(project, victim_id)) >= 2, 40, "both workers have a sandbox")
        wait_for(lambda: len(running(project, neighbour_id)) == 1, 40, "the neighbour has one")
        assert process_alive(victim_id), "the guardian is there"
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=10)
        wait_for(lambda: running(project, victim_id) == [], 10, "no container of the killed run")
        wait_for(lambda: process_alive(victim_id) == [], 12, "its guardian is gone too")
        assert len(running(project, neighbour_id)) == 1
        report = subprocess.run(
            [sys.executable, "-m", "swe_pytest.cli", "report", str(done.run_dir), "--json"],
            capture_output=True,
            text=True,
            check=False,
        )
        totals = json.loads((done.run_dir / "results.json").read_text())["totals"]
        assert (totals["planned"], totals["masked"], totals["not_run"]) == (4, 2, 2), (
            report.stdout + report.stderr
        )
        assert (done.run_dir / "junit.xml").exists()
        assert report.returncode != 0
    finally:
        neighbour.send_signal(signal.SIGTERM)
        neighbour.communicate(timeout=30)


def test_sigkill_of_the_controller_alone_ends_its_workers(project: Project) -> None:
    """Workers notice the controller's death at once; they do not finish their item first."""
    project.suite(rows=[project.row(f"toy__toy-{n}") for n in range(4)], configs=[project.command(SLEEPER)])
    process, _ = project.start("suites", "-n", "2")
    run_id = project.run_ids[-1]
    wait_for(lambda: len(running(project, run_id)) >= 2, 40, "both workers have a sandbox")
    process.kill()
    process.communicate(timeout=20)
    wait_for(lambda: running(project, run_id) == [], 10, "no container of the run")
    wait_for(lambda: process_alive(run_id) == [], 12, "no process of the run")


def test_two_runs_on_one_engine_do_not_meet(project: Project) -> None:
    """Runs that start together both end well: the sweep at start touches only dead owners' things."""
    project.suite(rows=[project.row(f"toy__toy-{n}") for n in range(3)])
    first, one = project.start("suites")
    second, two = project.start("suites", "-n", "2")
    for process, done in ((first, one), (second, two)):
        out, _ = process.communicate(timeout=120)
        assert process.returncode == 0, out
        assert done.results["totals"]["measured"] == 3


def test_a_leak_fails_the_run(project: Project) -> None:
    """A container of the run that is still there at its end fails the run, is named, and is removed."""
    project.suite()
    (project.folder / "test_leak.py").write_text(
        "import pytest\n"
        "from swe_pytest.pytest_plugin.member import member_of\n"
        "@pytest.mark.swe(suite='suites/mine')\n"
        "def test_leak(case, episode, request):\n"
        "    run = member_of(request.config)._open()\n"
        "    client = run.engine.client()\n"
        "    made = client.create_container(case.ref.image, ['sleep', '60'], name=run.ownership.name('task'),\n"
        "                                   labels=run.ownership.labels('task', case.case_id, 9e9))\n"
        "    client.start(made['Id'])\n"
    )
    done = project.run("test_leak.py")
    assert done.status == 1, done.out
    assert "leaked, and removed now: swe-pytest-" in done.out
    assert project.left() == []


def test_a_dead_worker_is_an_error_with_the_instances_properties(project: Project) -> None:
    """When a worker dies its case is masked by class worker_died, is told in JUnit, and its sandbox is removed."""
    project.suite(
        configs=[project.command("sleep 1")], rows=[project.row("toy__a-1"), project.row("toy__b-2")]
    )
    (project.folder / "conftest.py").write_text(
        "import os, pytest, threading\n"
        "@pytest.fixture(autouse=True)\n"
        "def die(request):\n"
        "    if 'toy__a-1' in request.node.nodeid and 'PYTEST_XDIST_WORKER' in os.environ:\n"
        "        timer = threading.Timer(1.0, os._exit, [9])\n"
        "        timer.daemon = True\n"
        "        timer.start()\n"
        "    yield\n"
    )
    done = project.run("suites", "-n", "2")
    assert done.status == 1, done.out
    case = done.junit["test_rollout[agent-toy__a-1]"]
    assert case.find("error") is not None
    assert done.xml.read_text().count("<testcase ") == 2, "one case an item"
    told = properties(case)
    assert told["instance_id"] == "toy__a-1" and told["outcome"] == "masked" and "reward" not in told
    assert told["failure_class"] == "worker_died"
    totals = done.results["totals"]
    assert (totals["planned"], totals["measured"], totals["masked"]) == (2, 1, 1)
    assert project.left() == []


@pytest.mark.parametrize("method", ["signal", "thread"])
def test_pytest_timeout_masks(project: Project, method: str) -> None:
    """An item that pytest-timeout ends is masked, whichever way it does it, and leaves nothing."""
    project.suite(configs=[project.command(SLEEPER)])
    done = project.run("suites", "--timeout", "5", "--timeout-method", method, "-n", "1")
    assert done.status == 1, done.out
    totals = done.results["totals"]
    assert (totals["planned"], totals["masked"]) == (1, 1)
    assert project.left() == []


def test_sigterm_while_results_are_told_loses_none(project: Project) -> None:
    """A TERM after the last test changes nothing: what was measured is written, and the status is its own."""
    project.suite()
    (project.folder / "conftest.py").write_text(
        "import os, signal, pytest\n"
        "@pytest.hookimpl(wrapper=True, tryfirst=True)\n"
        "def pytest_sessionfinish(session):\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    result = yield\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    return result\n"
    )
    done = project.run("suites")
    assert done.status == 0, done.out
    assert done.results["totals"]["measured"] == 1
    assert len(done.junit) == 1 and "1 resolved" in done.out


FAULTS = [
    {"kill": "task", "after_command": 1},
    {"kill": "task", "after_command": 0},
    {"pause": "task", "after_command": 1},
    {"kill": "verifier"},
    {"refuse": "engine", "after_command": 1},
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: "-".join(map(str, fault.values())))
def test_the_interrupted_check_holds_for_every_fault(project: Project, fault: dict) -> None:
    """Whatever the plan breaks, the check sees it masked at its stage, without a reward, nothing left."""
    script = "sed -i 's/a - b/a + b/' calc.py"
    project.suite(configs=[project.command(script)], checks=["interrupted"], faults=[fault])
    done = project.run("suites")
    assert done.status == 0, done.out
    record = done.record()
    assert record["outcome"] == "masked" and record["reward"] is None
    assert any(entry["event"] == "fault" for entry in record["journal"])
    assert project.left() == []


def test_the_interrupted_check_can_fail(project: Project) -> None:
    """A harness that took an interruption for a measurement would be caught: here the plan never comes about."""
    project.suite(configs=[project.command("true")], checks=["interrupted"], faults=[{"kill": "verifier"}])
    done = project.run("suites")
    assert done.status == 1
    assert "never came about" in done.out
