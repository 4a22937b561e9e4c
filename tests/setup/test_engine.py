"""setup/engine.py, for real: dockerd is started in namespaces of its own, where no engine of this machine is seen.

Its own mounts (empty /run, /var/lib/docker, /var/log), its own processes (all end with the test) and its own
network (a second dockerd must not touch the first one's bridge).
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(180)

UNSHARE = ["unshare", "--mount", "--pid", "--fork", "--net", "--mount-proc", "--kill-child"]
HIDDEN = "for folder in /run /var/lib/docker /var/log; do mount -t tmpfs none $folder; done"


@functools.cache
def obstacle() -> str:
    """Why no second engine can be started here; "" if it can."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "needs root on Linux to start a second engine in namespaces of its own"
    if not Path("/usr/sbin/dockerd").exists() and shutil.which("dockerd") is None:
        return "needs dockerd on this machine"
    trial = subprocess.run([*UNSHARE, "sh", "-ec", HIDDEN], capture_output=True, text=True, check=False)
    return f"namespaces of its own are not to be had: {trial.stderr}" if trial.returncode else ""


class Apart:
    """A machine apart, as far as the engine goes."""

    def __init__(self, root: Path, home: Path) -> None:
        self._engine = f"{sys.executable} {root / 'setup' / 'engine.py'}"
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("DOCKER_", "SWE_PYTEST_", "XDG_"))}
        self._environment = {**kept, "HOME": str(home), "PYTHONPATH": str(root)}

    def run(self, script: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a bash script there, in which `engine` is setup/engine.py. Ends all that it started."""
        text = f"set -euo pipefail\n{HIDDEN}\nengine() {{ ${{AS:-}} {self._engine}; }}\n{script}"
        return subprocess.run(
            [*UNSHARE, "bash", "-c", text],
            env={**self._environment, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )


@pytest.fixture
def apart(root: Path, tmp_path: Path) -> Apart:
    if obstacle():
        pytest.skip(obstacle())
    return Apart(root, tmp_path)


# A set-up that finds the engine answering says this, and starts nothing.
ANSWERS = "[[ $(engine) == 'engine: unix:///var/run/docker.sock (default socket)' ]]"


def test_it_starts_over_stale_pid_files(apart: Apart) -> None:
    """Pid files whose numbers other programs bear by now do not stop the start, nor are those ended."""
    run = apart.run(f"""
        mkdir -p /run/docker/containerd
        tail -f /dev/null & other=$!
        echo $other >/run/docker.pid; echo $other >/run/docker/containerd/containerd.pid
        engine
        kill -0 $other
        pid=$(cat /run/docker.pid)
        {ANSWERS}
        [[ $(cat /run/docker.pid) == "$pid" ]]
    """)
    assert run.returncode == 0, run.stdout
    assert run.stdout.count("removed") == 2


def test_it_starts_again_after_everything_was_killed(apart: Apart) -> None:
    """dockerd and its containerd killed, as at the end of a session: the next set-up brings the engine up."""
    run = apart.run(f"""
        engine
        daemon=$(cat /run/docker.pid)
        containerd=$(cat /run/docker/containerd/containerd.pid)
        kill -KILL "$daemon" "$containerd"
        tail --pid="$daemon" -f /dev/null; tail --pid="$containerd" -f /dev/null
        [[ -e /run/docker.pid ]]
        engine
        {ANSWERS}
        [[ $(cat /run/docker.pid) != "$daemon" ]]
    """)
    assert run.returncode == 0, run.stdout


def test_two_at_once_start_one(apart: Apart) -> None:
    """Set-ups at the same time both end with the one engine."""
    run = apart.run(f"""
        engine >/run/first & first=$!
        engine >/run/second & second=$!
        wait $first; wait $second
        cat /run/first /run/second
        {ANSWERS}
        [[ $(cat /proc/[0-9]*/comm | grep -cx dockerd) == 1 ]]
    """)
    assert run.returncode == 0, run.stdout
    assert run.stdout.count("starting dockerd") == 1


def test_it_outlives_make_and_holds_nothing_of_it(apart: Apart) -> None:
    """The engine is in a session of its own, and a reader of make's output sees its end."""
    run = apart.run(f"""
        said=$(engine)  # hangs if dockerd holds this pipe
        grep -q up <<<"$said"
        pid=$(cat /run/docker.pid)
        [[ $(cut -d ' ' -f 6 /proc/$pid/stat) == "$pid" ]]
        {ANSWERS}
    """)
    assert run.returncode == 0, run.stdout


def test_a_packet_filter_that_does_not_work_is_replaced(apart: Apart, tmp_path: Path) -> None:
    """Where the default iptables fails, the other kinds are tried, without touching the system's choice."""
    broken = tmp_path / "broken"
    broken.mkdir()
    # The fault of a kernel without nf_tables, which cannot be had here.
    (broken / "iptables").write_text(
        '#!/bin/sh\n[ "$1" = --version ] && exec /usr/sbin/iptables "$@"\n'
        'echo "iptables: Failed to initialize nft: Protocol not supported" >&2\nexit 3\n'
    )
    (broken / "iptables").chmod(0o755)
    run = apart.run(f"engine\n{ANSWERS}", PATH=f"{broken}:{os.environ['PATH']}:/usr/sbin")
    assert run.returncode == 0, run.stdout
    assert "could not use iptables, trying iptables-" in run.stdout


def test_a_start_that_fails_shows_why(apart: Apart) -> None:
    """When dockerd cannot start, the end of its log is shown, and where all of it is, in seconds."""
    run = apart.run("mount -o remount,ro /var/lib/docker; engine")
    assert run.returncode == 1
    assert "read-only file system" in run.stdout
    assert "/var/log/swe-pytest-dockerd.log" in run.stdout and "DOCKER_HOST" in run.stdout


def test_who_is_not_root_is_told_what_to_do(apart: Apart) -> None:
    """Without root and without an engine: the exact commands, and nothing started."""
    # In a user namespace without a map, root is nobody to itself.
    run = apart.run("AS='unshare --user'; ! engine && [[ ! -e /run/docker.pid ]]")
    assert run.returncode == 0, run.stdout
    assert "sudo " in run.stdout and "setup/engine.py" in run.stdout
    assert "usermod -aG docker $USER" in run.stdout


@pytest.mark.parametrize(
    ("environment", "told"),
    [
        ({"DOCKER_HOST": "unix:///run/nowhere.sock"}, "/run/nowhere.sock"),
        ({"DOCKER_CONTEXT": "elsewhere"}, "docker context"),
        ({"SWE_PYTEST_INSTALL": "0"}, "SWE_PYTEST_INSTALL=0"),
    ],
)
def test_none_is_started_where_it_would_not_be_used_or_wanted(
    apart: Apart, environment: dict[str, str], told: str
) -> None:
    """An engine that is named must itself answer, and SWE_PYTEST_INSTALL=0 forbids: root or not."""
    run = apart.run("! engine && [[ ! -e /run/docker.pid ]]", **environment)
    assert run.returncode == 0, run.stdout
    assert told in run.stdout
