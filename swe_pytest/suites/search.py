"""Where configs are found by name."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from swe_pytest.problem import Problem
from swe_pytest.suites.near import one_of
from swe_pytest.suites.node import Place

BUILTIN = Path(__file__).parent / "builtin"
SUFFIXES = (".yaml", ".yml")


@dataclass(frozen=True, slots=True)
class Scope:
    """Where a run looks for configs: under `root` (pytest's rootdir), for one benchmark ("" = for none).

    A name is looked up next to the file that uses it when that file is itself a config, then in
    `configs/<benchmark>/` and `configs/` of each folder from there up to the root, then among the
    built-in ones.
    """

    root: Path
    benchmark: str = ""

    def find(self, reference: str, near: Path) -> Path | None:
        """Return the file of a config that is named in a file of the folder `near`, or None."""
        if reference.endswith(SUFFIXES):
            path = _normal(near / reference)
            return path if path.is_file() else None
        if reference.startswith("/") or ".." in reference.split("/"):
            return None
        for folder in self._folders(near):
            for suffix in SUFFIXES:
                path = folder / f"{reference}{suffix}"
                if path.is_file():
                    return path
        return None

    def unknown(self, place: Place, reference: str) -> Problem:
        """Return the problem of a reference that leads nowhere."""
        if reference.endswith(SUFFIXES):
            return place.problem(
                f"no config file '{reference}'", f"paths are relative to {self.shown(place.path.parent)}"
            )
        looked = ", ".join(
            dict.fromkeys(self.shown(f) for f in self._folders(place.path.parent) if f.is_dir())
        )
        remedy = f"{one_of(reference, self.names(place.path.parent))} (looked in {looked})"
        return place.problem(f"unknown config '{reference}'", remedy)

    def names(self, near: Path) -> list[str]:
        """Return every config name that can be used in a file of the folder `near`."""
        found: dict[str, None] = {}
        for folder in self._folders(near):
            for path in sorted(folder.rglob("*.y*ml")) if folder.is_dir() else []:
                if path.suffix in SUFFIXES and not path.stem.startswith("_"):
                    found[path.relative_to(folder).with_suffix("").as_posix()] = None
        return list(found)

    def shown(self, path: Path) -> str:
        """Return a path as people know it: relative to the root where it lies below."""
        if path.is_relative_to(BUILTIN):
            return "built-in" if path == BUILTIN else f"built-in {path.name}"
        return str(path.relative_to(self.root)) if path.is_relative_to(self.root) else str(path)

    def _folders(self, near: Path) -> Iterator[Path]:
        near = _normal(near)
        root = _normal(self.root)
        if near.is_relative_to(root) and "configs" in near.relative_to(root).parts:
            yield near
        parents = [near, *near.parents]
        upwards = parents[: parents.index(root) + 1] if root in parents else [near, root]
        for folder in upwards:
            for name in benchmark_folders(self.benchmark):
                yield folder / "configs" / name
            yield folder / "configs"
        yield BUILTIN


def benchmark_folders(benchmark: str) -> list[str]:
    """Return the folder names under configs/ that belong to a benchmark, the most special one first."""
    if not benchmark:
        return []
    return list(dict.fromkeys([benchmark.replace(":", "_").replace("/", "_"), benchmark.partition(":")[0]]))


def _normal(path: Path) -> Path:
    """Make a path absolute without following links, so that a linked configs/ stays where people see it."""
    return Path(os.path.abspath(path))  # noqa: PTH100 (Path.absolute keeps "..")
