"""The prologue: what the first process of a sandbox runs before it idles."""

from __future__ import annotations

import threading
import time

import pytest

from swe_pytest.sandbox.contract import Prologue, SandboxSpec
from swe_pytest.sandbox.docker import DockerProvider
from swe_pytest.sandbox.engine import Engine
from swe_pytest.sandbox.errors import CommandTimeout, SandboxGone
from swe_pytest.sandbox.ownership import Ownership
from swe_pytest.sandbox.sweep import list_ours, sweep_run


@pytest.fixture
def provider(engine: Engine, ownership: Ownership) -> DockerProvider:
    return DockerProvider(engine, ownership)


def test_prologue_has_run_when_the_sandbox_is_there(provider: DockerProvider, base_image: str) -> None:
    """A prologue's output and status are whole, it runs as root without input, and the sandbox idles afterwards."""
    script = "cat; id -u; printf '%s' \"$1\"; head -c 3000000 /dev/zero; echo bad >&2; exit 7"
    prologue = Prologue(("/bin/sh", "-c", script, "x", "a b"), 30)
    with provider.open(SandboxSpec(base_image, "task", "case", user="65534"), prologue) as sandbox:
        told = sandbox.prologue
        assert told is not None
        assert (told.exit_code, told.stderr) == (7, b"bad\n")
        assert told.stdout == b"0\na b" + bytes(3000000)
        assert sandbox.exec("id -u", timeout_s=10).stdout == b"65534\n"


@pytest.mark.parametrize("script", ["sleep 300", "printf '\\n%032d 0\\n' 0 | tee /dev/stderr; sleep 300"])
def test_prologue_past_its_deadline(
    provider: DockerProvider, base_image: str, engine: Engine, ownership: Ownership, script: str
) -> None:
    """A prologue that does not end in time is CommandTimeout, whatever it says, and its sandbox is gone."""
    prologue = Prologue(("/bin/sh", "-c", script), 1)
    with pytest.raises(CommandTimeout), provider.open(SandboxSpec(base_image, "task", "case"), prologue):
        pass
    assert list_ours(engine, ownership.run_id) == []


def test_death_during_the_prologue(
    provider: DockerProvider, base_image: str, engine: Engine, ownership: Ownership
) -> None:
    """A sandbox that is removed in its prologue is SandboxGone, at once, and never a prologue that ended."""
    threading.Timer(1.0, lambda: sweep_run(engine, ownership.run_id, within_s=10)).start()
    began = time.monotonic()
    prologue = Prologue(("sleep", "300"), 60)
    with pytest.raises(SandboxGone), provider.open(SandboxSpec(base_image, "task", "case"), prologue):
        pass
    assert time.monotonic() - began < 10
