"""Ownership: who made a thing in an engine, and whether that one still lives."""

from __future__ import annotations

import os
import re
import secrets
import subprocess
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

NAME_PREFIX = "swe-pytest-"
RUN = "swe-pytest.run"
CASE = "swe-pytest.case"
ROLE = "swe-pytest.role"
OWNER = "swe-pytest.owner"
PROCESS = "swe-pytest.process"
EXPIRES = "swe-pytest.expires"
NONCE = "swe-pytest.nonce"

OwnerState = Literal["alive", "dead", "foreign"]

# Any such id makes a valid container name, label value and directory name.
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,47}")


def valid_run_id(text: str) -> bool:
    """Whether text may be a run id: 1 to 48 of letters, digits, `_`, `.`, `-`, first a letter or digit."""
    return _RUN_ID.fullmatch(text) is not None


def new_run_id() -> str:
    """A run id that sorts by time (UTC) and is unique, e.g. 20261129-172915-9f3a1c."""
    return time.strftime("%Y%m%d-%H%M%S", time.gmtime()) + "-" + secrets.token_hex(3)


@dataclass(frozen=True, slots=True)
class Ownership:
    """Marks what one process of a run makes in an engine.

    `owner` is the identity (see `current_owner`) of the run's controller, also for what workers make:
    things belong to the run. `process` tells the run's processes apart and is free text.
    """

    run_id: str
    owner: str
    process: str

    def __post_init__(self) -> None:
        if not valid_run_id(self.run_id):
            raise ValueError(
                f"{self.run_id!r} is no run id: 1 to 48 of A-Z a-z 0-9 _ . -, and first a letter or digit"
            )

    def name(self, role: str) -> str:
        """A new name; no two calls give the same."""
        return f"{NAME_PREFIX}{self.run_id}-{role}-{secrets.token_hex(4)}"

    def labels(self, role: str, case_id: str, expires: float) -> dict[str, str]:
        """All labels of one thing; `expires` in epoch seconds. The nonce differs with every call."""
        return {
            RUN: self.run_id,
            CASE: case_id,
            ROLE: role,
            OWNER: self.owner,
            PROCESS: self.process,
            EXPIRES: f"{expires:.0f}",
            NONCE: secrets.token_hex(8),
        }


def current_owner() -> str:
    """The identity of this process: boot id, pid namespace, pid and start time, joined by slashes."""
    pid = os.getpid()
    return "/".join((_boot_id(), _pid_namespace(), str(pid), _start_time(pid)))


def owner_state(text: str) -> OwnerState:
    """Whether the process that `text` names lives.

    "foreign": of another boot, machine or pid namespace, or unreadable, so that nobody here can tell.
    A process with the same pid and another start time is another process, and a zombie is dead.
    """
    match text.split("/"):
        case [boot, namespace, pid_text, start] if pid_text.isdecimal():
            pid = int(pid_text)
        case _:
            return "foreign"
    if "" in (boot, start) or (boot, namespace) != (_boot_id(), _pid_namespace()) or pid == 0:
        return "foreign"
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return "dead"
    except PermissionError:
        pass  # another user's: alive, but is it the same process?
    found = _start_time(pid)
    if found == "":
        # Ended since the check above, or hidden from this user, which is no proof of death.
        return "foreign"
    return "alive" if found == start else "dead"


@cache
def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return _told("sysctl", "-n", "kern.bootsessionuuid")  # macOS


@cache
def _pid_namespace() -> str:
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return "none"


def _start_time(pid: int) -> str:
    """When a process started, in the system's own unit; "zombie" for a dead one, "" if it cannot be seen."""
    if not Path("/proc/self/stat").exists():
        return re.sub(r"\W+", "_", _told("ps", "-o", "lstart=", "-p", str(pid)))
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return ""
    fields = stat.rpartition(")")[2].split()  # the command's name, in brackets, may hold anything
    return "zombie" if fields[0] in "ZX" else fields[19]


def _told(*command: str) -> str:
    environment = {**os.environ, "LC_ALL": "C", "TZ": "UTC"}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment, check=False, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()
