"""Fixtures for tests of the sandbox room: a real engine, and a run whose remains are always removed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from swe_pytest.sandbox.engine import Engine, find_engine
from swe_pytest.sandbox.ownership import Ownership, current_owner, new_run_id
from swe_pytest.sandbox.sweep import sweep_run

IDLE = ["sh", "-c", "while :; do sleep 86400; done"]


@pytest.fixture(scope="session")
def engine(base_image: str) -> Engine:
    """The engine of this machine (base_image skips the test where there is none)."""
    return find_engine()


@pytest.fixture
def ownership(engine: Engine) -> Iterator[Ownership]:
    """The mark of a run of this test alone; whatever carries it is removed in the end."""
    mark = Ownership(new_run_id(), current_owner(), "main")
    yield mark
    swept = sweep_run(engine, mark.run_id, within_s=30)
    assert not swept.left


@pytest.fixture
def start(engine: Engine, base_image: str) -> Iterator[Callable[..., tuple[str, str]]]:
    """start(ownership, …) starts an idle container labelled as that run's and returns its name and id."""
    client = engine.client()

    def start_one(
        mark: Ownership,
        *,
        case_id: str = "case",
        command: list[str] = IDLE,
        expires: float | None = None,
        memory: int | None = None,
    ) -> tuple[str, str]:
        name = mark.name("task")
        labels = mark.labels("task", case_id, time.time() + 600 if expires is None else expires)
        limits = {} if memory is None else {"mem_limit": memory, "memswap_limit": memory}
        host = client.create_host_config(network_mode="none", **limits)
        made = client.create_container(base_image, command, name=name, labels=labels, host_config=host)
        client.start(made["Id"])
        return name, made["Id"]

    yield start_one
    client.close()
