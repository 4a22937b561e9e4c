"""Ends when a container engine answers: one that is there, else Docker, which it installs and starts."""

from __future__ import annotations

import os
import select
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

from host import NotInstalled, alone, install, may_install, tail

from swe_pytest.sandbox.engine import DEFAULT_SOCKET, Engine, find_engine
from swe_pytest.sandbox.errors import EngineUnreachable

START_S = 60.0
LOG = Path("/var/log/swe-pytest-dockerd.log")
DOCKERD_PID = Path("/var/run/docker.pid")
PID_FILES = {
    DOCKERD_PID: "dockerd",
    Path("/var/run/docker/containerd/containerd.pid"): "containerd",
}


def main() -> None:
    try:
        engine = find_engine()
    except EngineUnreachable as error:
        give_up_unless_ours_to_start(error)
        with alone("engine"):
            engine = found_or_started()
    print(f"engine: {engine.host} ({engine.source})")


def found_or_started() -> Engine:
    try:
        return find_engine()  # another set-up started it while this one waited
    except EngineUnreachable:
        began = time.monotonic()
    if shutil.which("dockerd", path=search_path()) is None:
        print("engine: none found, installing docker.io (about a minute)", flush=True)
        try:
            install("docker.io", "iptables")
        except NotInstalled as error:
            raise SystemExit(f"{error}\nengine: mend that, then run the same command again") from error
    start()
    try:
        engine = find_engine()
    except EngineUnreachable as error:
        raise SystemExit(f"engine: dockerd was started, but: {error}") from error
    print(f"engine: up after {time.monotonic() - began:.0f} s", flush=True)
    return engine


def give_up_unless_ours_to_start(error: EngineUnreachable) -> None:
    """Raises: SystemExit that says what to do, where an engine cannot or must not be started from here."""
    if is_named():
        raise SystemExit(f"engine: {error}")
    again = "then run the same command again"
    if sys.platform == "darwin":
        steps = f"start Docker Desktop (or `colima start`, `podman machine start`), {again}"
    elif os.environ.get("SWE_PYTEST_INSTALL", "1") == "0":
        steps = f"SWE_PYTEST_INSTALL=0 forbids to start one from here: start one yourself, {again}"
    elif sys.platform == "linux" and os.geteuid() != 0:
        steps = (
            "only root can install and start one. Either\n"
            f"  sudo {sys.executable} {Path(__file__).resolve()}   # on Debian or Ubuntu\n"
            "  sudo usermod -aG docker $USER   # then log in again: this user may then use it\n"
            f"or start a rootless engine (`systemctl --user start docker` or `podman.socket`); {again}"
        )
    elif may_install() or shutil.which("dockerd", path=search_path()):
        return
    else:
        steps = f"install Docker (or podman) in the way of this system, start it, {again}"
    raise SystemExit(f"engine: {error}\nengine: {steps}")


def is_named() -> bool:
    """Whether DOCKER_HOST or a docker context names an engine: one started here would not be used."""
    from swe_pytest.sandbox.engine import named_engine

    try:
        return named_engine(os.environ) is not None
    except EngineUnreachable:
        return True


def search_path() -> str:
    # `su` leaves the sbin folders out, and both dockerd and the iptables that it calls are there.
    return os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin"])


def start() -> None:
    """Start dockerd and return when it serves. Raises: SystemExit with the end of its log."""
    if Path("/run/systemd/system").is_dir():
        run = subprocess.run(["systemctl", "enable", "--now", "docker"], check=False)
        if run.returncode != 0:
            raise SystemExit("engine: systemd could not start docker: see journalctl -u docker -n 50")
        return
    running = pid_in(DOCKERD_PID)
    if running is not None and runs("dockerd", running):
        await_answer(running)
        return
    remove_stale(PID_FILES)
    said = spawn(search_path())
    # A kernel may support only one of the two kinds of packet filter, and not the one that is the default.
    for kind in ("iptables-legacy", "iptables-nft"):
        if said is not None and "iptables" in said and shutil.which(kind, path=search_path()):
            print(f"engine: dockerd could not use iptables, trying {kind}", flush=True)
            said = spawn(f"{only(kind)}{os.pathsep}{search_path()}")
    if said is not None:
        raise SystemExit(
            f"{tail(said)}\nengine: dockerd did not start (above; all of it: {LOG}). It needs root with the"
            " right to mount, cgroups under /sys/fs/cgroup, and iptables. Where it cannot run, name another"
            " engine in DOCKER_HOST"
        )


def only(kind: str) -> Path:
    """A folder for the front of PATH in which iptables is this kind."""
    folder = Path("/run/swe-pytest") / kind
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("iptables", "ip6tables"):
        program = shutil.which(kind.replace("iptables", name), path=search_path())
        link = folder / name
        link.unlink(missing_ok=True)
        if program:
            link.symlink_to(program)
    return folder


def spawn(path: str) -> str | None:
    """Start dockerd in a session of its own, so that it outlives make.

    Returns None when it serves; if it ended or was too slow, what it logged.
    """
    assert sys.platform == "linux"
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as notices,
        LOG.open("ab") as log,
    ):
        # dockerd says READY=1 to the abstract socket of this name, as it does to systemd.
        address = f"swe-pytest-engine-{os.getpid()}"
        notices.bind(f"\0{address}")
        begin = log.tell()
        print(f"engine: starting dockerd, log in {LOG}", flush=True)
        daemon = subprocess.Popen(
            ["dockerd"],
            env={**os.environ, "PATH": path, "NOTIFY_SOCKET": f"@{address}"},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        ended = os.pidfd_open(daemon.pid)
        try:
            deadline = time.monotonic() + START_S
            while (left := deadline - time.monotonic()) > 0:
                happened, _, _ = select.select([notices.fileno(), ended], [], [], left)
                if notices.fileno() in happened and b"READY=1" in notices.recv(4096):
                    return None
                if ended in happened:
                    daemon.wait()
                    break
            else:
                daemon.terminate()
        finally:
            os.close(ended)
    return LOG.read_bytes()[begin:].decode(errors="replace") or "it said nothing"


def await_answer(pid: int) -> None:
    """Return when a dockerd that somebody else is starting serves. Raises: SystemExit."""
    assert sys.platform == "linux"
    print(f"engine: dockerd runs (pid {pid}) but does not answer yet, waiting", flush=True)
    ended = os.pidfd_open(pid)
    try:
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            try:
                return Engine(f"unix://{DEFAULT_SOCKET}", "default socket").ping()
            except EngineUnreachable:
                # It tells nobody but its parent when it is ready; its end, though, is an event.
                if select.select([ended], [], [], 0.2)[0]:
                    raise SystemExit("engine: that dockerd ended: run the same command again") from None
    finally:
        os.close(ended)
    raise SystemExit(
        f"engine: dockerd (pid {pid}) did not answer within {START_S:.0f} s:"
        " look at its log, end it, then run the same command again"
    )


def remove_stale(pid_files: dict[Path, str]) -> None:
    """Remove pid files whose process is gone or is another program by now.

    dockerd takes a living process of that number for itself or for its containerd, and then refuses to
    start or waits for a containerd that never answers.
    """
    for file, program in pid_files.items():
        pid = pid_in(file)
        if pid is None or runs(program, pid):
            continue
        file.unlink()
        print(f"engine: removed {file}: process {pid} is no {program}", flush=True)


def pid_in(file: Path) -> int | None:
    """The number in a pid file: 0 if it holds none, None if there is no such file."""
    try:
        return int(file.read_text())
    except FileNotFoundError:
        return None
    except ValueError:
        return 0


def runs(program: str, pid: int) -> bool:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()  # empty for a zombie
    except (FileNotFoundError, ProcessLookupError):
        return False
    return Path(os.fsdecode(command.split(b"\0")[0])).name == program


if __name__ == "__main__":
    main()
