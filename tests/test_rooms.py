"""The rooms of the house: imports run one way."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import swe_pytest

PACKAGE = Path(swe_pytest.__file__).parent

# Each room may import those before it. The two doors share the last place and do not know each other.
FLOORS = [
    {"problem"},
    {"sandbox"},
    {"models"},
    {"results"},
    {"grading"},
    {"benchmarks"},
    {"agents"},
    {"suites"},
    {"episode"},
    {"pytest_plugin", "cli"},
]
HEIGHT = {room: height for height, rooms in enumerate(FLOORS) for room in rooms}
FILES = sorted(PACKAGE.rglob("*.py"))


def rooms_imported(file: Path) -> Iterator[tuple[str, int]]:
    """Yield the rooms that a file imports, also inside functions and for type checking only."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}:{node.lineno}: imports are absolute"
            names = [node.module or ""]
            if node.module == "swe_pytest":
                names = [f"swe_pytest.{alias.name}" for alias in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "swe_pytest" and len(parts) > 1:
                yield parts[1], node.lineno


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_imports_run_one_way(file: Path) -> None:
    """A room imports only rooms below it, and itself."""
    room = file.relative_to(PACKAGE).parts[0].removesuffix(".py")
    if room == "__init__":
        return
    assert room in HEIGHT, f"{room} is not a room of design.md; give it a floor"
    for other, line in rooms_imported(file):
        if other in HEIGHT and other != room:
            assert HEIGHT[other] < HEIGHT[room], f"{file}:{line}: {room} imports {other}"


def test_every_file_is_short() -> None:
    """One noun a module: no file is over 400 lines."""
    long = {str(f.relative_to(PACKAGE)): n for f in FILES if (n := len(f.read_text().splitlines())) > 400}
    assert not long


def test_the_plugin_loads_light() -> None:
    """Loading the plugin imports none of the heavy packages: ordinary pytest sessions do not pay for us."""
    heavy = ["docker", "requests", "pydantic", "jsonschema", "swebench", "yaml", "datasets"]
    program = f"import swe_pytest.pytest_plugin, sys; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
