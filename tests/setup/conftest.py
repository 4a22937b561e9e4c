"""Where the tests of the set-up find it."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def root() -> Path:
    """The clone that these tests are in."""
    return Path(__file__).parents[2]
