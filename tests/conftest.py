"""Fixtures for tests that need the real engine."""

from __future__ import annotations

import os

import pytest

BASE_IMAGE = "swe-pytest/base:bookworm"


@pytest.fixture(scope="session")
def base_image() -> str:
    """The base image of locally built tasks, made by `make setup`."""
    from swe_pytest.sandbox.engine import find_engine
    from swe_pytest.sandbox.errors import EngineUnreachable
    from swe_pytest.sandbox.images import missing_images

    reference = os.environ.get("SWE_PYTEST_BASE_IMAGE", BASE_IMAGE)
    try:
        missing = missing_images(find_engine(), [reference])
    except EngineUnreachable as error:
        pytest.skip(f"no container engine answers ({error}): `make setup` starts one")
    if missing:
        pytest.skip(f"the engine has no image {reference}: `make setup` makes it")
    return reference
