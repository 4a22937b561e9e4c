"""Fixtures for tests that need the real engine."""

from __future__ import annotations

import os

import pytest

BASE_IMAGE = "swe-pytest/base:bookworm"


@pytest.fixture(scope="session")
def base_image() -> str:
    """The base image of locally built tasks, made by `make setup`."""
    import docker
    import docker.errors

    reference = os.environ.get("SWE_PYTEST_BASE_IMAGE", BASE_IMAGE)
    try:
        client = docker.from_env(timeout=60)
        client.images.get(reference)
    except docker.errors.ImageNotFound:
        pytest.skip(f"the engine has no image {reference}: `make setup` makes it")
    except docker.errors.DockerException as error:
        pytest.skip(f"no container engine answers ({error}): `make setup` starts one")
    client.close()
    return reference
