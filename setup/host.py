"""The machine that set-up works on: what may be installed there, and one set-up at a time."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class NotInstalled(Exception):
    """apt could not install a package; the text is the end of what it said."""


def may_install() -> bool:
    """Whether set-up may install system packages: root on Debian, Ubuntu or their like, and not forbidden."""
    return (
        sys.platform == "linux"
        and os.geteuid() == 0
        and shutil.which("apt-get") is not None
        and os.environ.get("SWE_PYTEST_INSTALL", "1") != "0"
    )


def install(*packages: str) -> None:
    """Install system packages. Raises: NotInstalled."""
    environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    apt = ["apt-get", "-q", "-o", "DPkg::Lock::Timeout=300"]
    # A source that cannot be reached fails the update though the others are fine: the install decides.
    said = [_said([*apt, "update"], environ)]
    said.append(_said([*apt, "install", "-y", "--no-install-recommends", *packages], environ))
    if said[-1].returncode != 0:
        text = "\n".join(run.stdout for run in said)
        names = " ".join(packages)
        raise NotInstalled(f"{tail(text)}\napt could not install {names} (above)")


def _said(command: list[str], environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )


def tail(text: str, lines: int = 20) -> str:
    return "\n".join(text.rstrip().splitlines()[-lines:])


@contextmanager
def alone(task: str) -> Iterator[None]:
    """Within it, no other set-up of this user on this machine, in whatever clone, does the same task."""
    folder = Path.home() / ".cache" / "swe-pytest"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"setup-{task}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"{task}: another set-up is at it, waiting for its end", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
