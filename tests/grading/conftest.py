"""Fixtures for the parts of grading that happen in containers: a real engine and a run of the module's own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from swe_pytest.sandbox.contract import Sandbox, SandboxProvider, SandboxSpec
from swe_pytest.sandbox.docker import DockerProvider
from swe_pytest.sandbox.engine import find_engine
from swe_pytest.sandbox.ownership import Ownership, current_owner, new_run_id
from swe_pytest.sandbox.sweep import sweep_run


@pytest.fixture(scope="module")
def provider(base_image: str) -> Iterator[SandboxProvider]:
    """A provider whose containers are all gone in the end (base_image skips where there is no engine)."""
    engine = find_engine()
    mark = Ownership(new_run_id(), current_owner(), "main")
    yield DockerProvider(engine, mark)
    swept = sweep_run(engine, mark.run_id, within_s=30)
    assert not swept.left


@pytest.fixture(scope="module")
def sandbox(provider: SandboxProvider, base_image: str) -> Iterator[Sandbox]:
    """One task sandbox for a whole module: every test works in a directory of its own."""
    spec = SandboxSpec(image=base_image, role="task", case_id="grading", ttl_s=900, pids=256)
    with provider.open(spec) as opened:
        yield opened
