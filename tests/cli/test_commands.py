"""The command line's own manners."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


def swe_pytest(*args: str, **environ: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "swe_pytest.cli", *args]
    return subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **environ}, timeout=60, check=False
    )


@pytest.mark.parametrize("command", [("gc",), ("prepare", "pypi_fixes"), ("doctor",)])
def test_without_an_engine_commands_say_what_to_do(command: tuple[str, ...]) -> None:
    """A command that needs an engine and finds none ends with status 1 and a sentence, never a traceback."""
    done = swe_pytest(*command, DOCKER_HOST="unix:///nonexistent/engine.sock")
    assert done.returncode == 1
    told = done.stdout + done.stderr
    assert "unix:///nonexistent/engine.sock" in told and "Traceback" not in told


def test_misuse_is_status_2() -> None:
    """An unknown command or none is misuse."""
    assert swe_pytest("nope").returncode == 2
    assert swe_pytest().returncode == 2


def test_gc_shows_before_it_removes() -> None:
    """`gc --dry-run` removes nothing and says so."""
    done = swe_pytest("gc", "--dry-run")
    if done.returncode == 1:
        pytest.skip(f"no container engine answers: {done.stderr.strip()[:200]}")
    assert done.returncode == 0 and "nothing removed" in done.stdout
