"""The committed lock: complete, hashed, and free of any address."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ENTRY = re.compile(r"^(?P<name>[a-z0-9.-]+)==(?P<version>\S+)(?: ;[^\\]*)? \\\n(?P<rest>(?:    .*\n)+)", re.M)


@pytest.fixture
def lock(root: Path) -> str:
    return (root / "requirements.lock").read_text()


def test_every_requirement_is_pinned_and_hashed(lock: str) -> None:
    """Each entry is an exact version with sha256 hashes, and the lock holds nothing but entries."""
    entries = list(ENTRY.finditer(lock))
    assert len(entries) > 50
    assert [
        entry["name"] for entry in entries if not re.search("--hash=sha256:[0-9a-f]{64}", entry["rest"])
    ] == []
    assert [line for line in ENTRY.sub("", lock).splitlines() if not line.startswith("#")] == []


def test_the_lock_names_no_address(lock: str) -> None:
    """Whoever installs decides where from: no URL, index option, file path or host name in the lock."""
    assert re.findall(r"://|--(?:extra-)?index|--find-links|file:|\.(?:org|com|io|net)\b", lock) == []


def test_the_lock_satisfies_pyproject(root: Path, lock: str) -> None:
    """All that pyproject.toml asks for, for work and for development, is in the lock in a fitting version."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    asked = [*project["dependencies"], *extras["dev"], *extras["pypi_fixes"]]
    locked: dict[str, set[str]] = {}
    for entry in ENTRY.finditer(lock):
        locked.setdefault(canonicalize_name(entry["name"]), set()).add(entry["version"])
    assert locked
    for requirement in map(Requirement, asked):
        versions = locked.get(canonicalize_name(requirement.name), set())
        assert versions, f"{requirement}: not in the lock; run make lock"
        assert all(requirement.specifier.contains(version) for version in versions), (
            f"{requirement}: run make lock"
        )
