"""A run as one process sees it: where results go, and the means to run episodes, opened on first use."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import swe_pytest
from swe_pytest.grading.official import Grader
from swe_pytest.results.ledger import Ledger
from swe_pytest.results.run_dir import RunDir
from swe_pytest.sandbox.contract import SandboxProvider
from swe_pytest.sandbox.engine import Engine
from swe_pytest.sandbox.ownership import Ownership

# More lifecycle operations at once than this only add latency: they are bound by CPU, not by waiting.
LANES_PER_CPU = 2


@dataclass(frozen=True, slots=True)
class Run:
    """The means of a process to run episodes. `versions` goes into every record."""

    directory: RunDir
    ledger: Ledger
    ownership: Ownership
    engine: Engine
    provider: SandboxProvider
    grader: Grader
    versions: dict[str, str]


@contextmanager
def open_run(directory: RunDir, ownership: Ownership, engine: Engine) -> Iterator[Run]:
    """Open the engine's event witness, the provider and the grader; close all of them on leaving.

    Raises: EngineUnreachable.
    """
    from swe_pytest.sandbox.admission import Lanes
    from swe_pytest.sandbox.docker import DockerProvider
    from swe_pytest.sandbox.witness import Witness

    lanes = Lanes(directory.path / "locks" / "lanes", LANES_PER_CPU * (os.cpu_count() or 1))
    with Witness(engine, ownership) as witness, Grader() as grader, ExitStack() as closing:
        provider = DockerProvider(engine, ownership, lanes, witness)
        closing.callback(provider.close)
        yield Run(
            directory=directory,
            ledger=Ledger(directory.ledger),
            ownership=ownership,
            engine=engine,
            provider=provider,
            grader=grader,
            versions=versions(),
        )


def versions() -> dict[str, str]:
    """Return what produced this run: our version and git head, Python, the grader's package, the host."""
    from importlib.metadata import version

    return {
        "swe_pytest": swe_pytest.__version__,
        "git_head": _git_head(Path(swe_pytest.__file__).parent),
        "grader": f"swebench {version('swebench')}",
        "python": platform.python_version(),
        "host": f"{platform.system()} {platform.release()} {platform.machine()}, {os.cpu_count()} cpus",
        "pytest": version("pytest"),
        "executable": Path(sys.executable).name,
    }


def _git_head(directory: Path) -> str:
    """Return the commit of the checkout that a package runs from, "" for an installed one."""
    command = ["git", "-C", str(directory), "rev-parse", "--verify", "HEAD"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return found.stdout.strip() if found.returncode == 0 else ""
