"""setup/base_image.py on the real engine: pulled, proven, and what happens when a registry is no help."""

from __future__ import annotations

import importlib
import io
import os
import secrets
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import docker
import docker.errors
import pytest

from swe_pytest.sandbox.engine import DEFAULT_SOCKET, Engine, find_engine
from swe_pytest.sandbox.errors import EngineUnreachable
from tests.setup.registry import registry

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def script(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The script as a module; it imports its neighbours by their bare names."""
    monkeypatch.syspath_prepend(str(root / "setup"))
    yield importlib.import_module("base_image")
    for name in ("base_image", "host"):
        sys.modules.pop(name, None)


@pytest.fixture
def engine() -> Engine:
    try:
        return find_engine()
    except EngineUnreachable as error:
        pytest.skip(f"no container engine: {error}")


@pytest.fixture
def client(engine: Engine) -> Iterator[docker.APIClient]:
    client = engine.client()
    yield client
    client.close()


@pytest.fixture
def name(client: docker.APIClient) -> Iterator[str]:
    """A name for an image, which is gone after the test."""
    reference = f"swe-pytest/test-{secrets.token_hex(4)}:base"
    yield reference
    drop(client, reference)


def drop(client: docker.APIClient, reference: str) -> None:
    try:
        client.remove_image(reference, force=True)
    except docker.errors.ImageNotFound:
        return


def local(engine: Engine) -> None:
    if sys.platform != "linux" or engine.host != f"unix://{DEFAULT_SOCKET}":
        pytest.skip(
            "the registry of the test is on loopback, which only an engine of this very machine reaches"
        )


def test_a_registry_that_answers_is_pulled_from(
    script: ModuleType, engine: Engine, client: docker.APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a registry has the upstream image, that is what the base is made from."""
    local(engine)
    with registry("serves") as address:
        upstream = f"{address}/{secrets.token_hex(4)}:3.11"
        monkeypatch.setattr(script, "UPSTREAM", upstream)
        try:
            assert script.pulled(client) == upstream
            assert client.images(upstream)
        finally:
            drop(client, upstream)


@pytest.mark.parametrize(
    ("behaviour", "told"), [("silent", "the registry gave no answer for 1 s"), ("refuses", "over your limit")]
)
def test_a_registry_that_is_no_help_is_given_up_soon(
    script: ModuleType,
    engine: Engine,
    client: docker.APIClient,
    monkeypatch: pytest.MonkeyPatch,
    behaviour: str,
    told: str,
) -> None:
    """A registry that hangs or refuses costs the time limit at most, and the reason is told."""
    local(engine)
    monkeypatch.setattr(script, "REGISTRY_S", 1.0)
    with registry(behaviour) as address:
        monkeypatch.setattr(script, "UPSTREAM", f"{address}/python:3.11")
        began = time.monotonic()
        with pytest.raises(script.Unavailable, match=told):
            script.pulled(client)
        assert time.monotonic() - began < 10


def test_a_root_that_lacks_something_is_refused(
    script: ModuleType, engine: Engine, client: docker.APIClient, base_image: str, name: str
) -> None:
    """An image without git never becomes the base, and the lack is told; the whole one does, labelled."""
    poor = f"swe-pytest/test-{secrets.token_hex(4)}:poor"
    recipe = f"FROM {base_image}\nRUN rm /usr/bin/git\n".encode()
    try:
        for _ in client.build(fileobj=io.BytesIO(recipe), tag=poor, rm=True, forcerm=True, decode=True):
            pass
        with pytest.raises(script.Unavailable, match="git"):
            script.finish(client, poor, name)
        assert not script.is_there(engine, name)
    finally:
        drop(client, poor)
    script.finish(client, base_image, name)
    assert script.is_there(engine, name)


def test_an_image_of_another_recipe_is_made_anew(
    script: ModuleType, engine: Engine, base_image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A raised recipe number makes every older base image stale, but never one that the user named."""
    monkeypatch.setattr(script, "RECIPE", "another")
    assert not script.is_there(engine, base_image)
    assert script.is_there(engine, base_image, any_recipe=True)


def test_without_any_way_the_next_step_is_told(
    script: ModuleType, client: docker.APIClient, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No registry and no mmdebstrap: both reasons, and the two ways out."""
    monkeypatch.setattr(script, "UPSTREAM", "127.0.0.1:9/python:3.11-bookworm")
    monkeypatch.setenv("SWE_PYTEST_INSTALL", "0")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SystemExit) as told:
        script.make(client, name)
    for part in ("cannot be pulled", "mmdebstrap", "docker pull", "SWE_PYTEST_BASE_IMAGE=NAME"):
        assert part in str(told.value)


def test_a_named_base_image_that_is_not_there_is_an_error(
    script: ModuleType, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What SWE_PYTEST_BASE_IMAGE names is never made by set-up under the user's name."""
    monkeypatch.setenv("SWE_PYTEST_BASE_IMAGE", "swe-pytest/nowhere:x")
    with pytest.raises(SystemExit, match="swe-pytest/nowhere:x, which SWE_PYTEST_BASE_IMAGE names"):
        script.main()


def test_an_apt_that_fails_is_one_of_the_reasons(
    script: ModuleType, client: docker.APIClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where mmdebstrap cannot be installed, what apt said is told, and the way of the registry stays named."""
    if os.geteuid() != 0 or sys.platform != "linux":
        pytest.skip("only root on Linux installs packages")
    # A machine whose package mirror is down, which must not be had here.
    (tmp_path / "apt-get").write_text("#!/bin/sh\necho 'E: the mirror is down'\nexit 100\n")
    (tmp_path / "apt-get").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("SWE_PYTEST_INSTALL", raising=False)
    with pytest.raises(
        script.Unavailable, match=r"the mirror is down\n(.*\n)*apt could not install mmdebstrap"
    ):
        script.bootstrapped(client)
