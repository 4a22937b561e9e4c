"""`swe-pytest validate`: every problem in suites, configs and manifests, before anything is started."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from swe_pytest.problem import InvalidFiles, Problem

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

_DEFAULT_FOLDERS = ("suites", "configs", "manifests")
_ROOT_MARKS = ("pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg", ".git")
_YAML = (".yaml", ".yml")

Kind = str
Finding = tuple[list[Problem], list[Problem]]  # problems, warnings


def add_parser(subparsers: Subparsers) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "validate", help="tell everything that is wrong with suites, configs and manifests"
    )
    parser.add_argument(
        "paths",
        nargs="*",
        type=Path,
        metavar="PATH",
        help="files or folders; absent = suites/ configs/ manifests/",
    )
    parser.add_argument(
        "--root", type=Path, help="where configs/ is searched up to; absent = the project's root"
    )
    parser.add_argument(
        "--strict", action="store_true", help="count warnings, such as unprepared rows, as problems"
    )
    parser.add_argument("--json", action="store_true", help="print JSON: files, problems, warnings")


def run(args: argparse.Namespace) -> int:
    """Return 0 when all is right, 1 for problems, 2 when there is nothing to validate."""
    here = Path.cwd()
    root = args.root.absolute() if args.root else project_root(here)
    paths: list[Path] = args.paths or [root / name for name in _DEFAULT_FOLDERS if (root / name).is_dir()]
    missing = [path for path in paths if not path.exists()]
    files = dict(entry for path in paths if path.exists() for entry in _files(path))
    unclear = [path for path, kind in files.items() if not kind]
    for path in missing:
        print(f"{path}: no such file or folder", file=sys.stderr)
    for path in unclear:
        print(f"{path}: neither named suite.yaml nor below configs/ or manifests/", file=sys.stderr)
    if missing or unclear:
        return 2
    if not files:
        print(f"nothing to validate in {', '.join(map(str, paths)) or root}", file=sys.stderr)
        return 2
    problems, warnings = _validated(files, root)
    if args.strict:
        problems, warnings = problems | warnings, set()
    _tell(
        files,
        [_from_here(p, here) for p in sorted(problems)],
        [_from_here(p, here) for p in sorted(warnings)],
        args,
    )
    return 1 if problems else 0


def project_root(here: Path) -> Path:
    """Return the nearest folder upwards that pytest would take for a root, else the folder itself."""
    for folder in (here, *here.parents):
        if any((folder / mark).exists() for mark in _ROOT_MARKS):
            return folder
    return here


def _files(path: Path) -> Iterator[tuple[Path, Kind]]:
    """Yield the files under a path with what they are; only one that was named itself can be unclear ("")."""
    if path.is_file():
        yield path.absolute(), _kind(path.absolute())
        return
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            file = Path(folder, name).absolute()
            if file.suffix in _YAML and (kind := _kind(file)):
                yield file, kind


def _kind(file: Path) -> Kind:
    if file.name in ("suite.yaml", "suite.yml"):
        return "suite"
    nearest = next((part for part in reversed(file.parts[:-1]) if part in _DEFAULT_FOLDERS), "")
    return {"configs": "config", "manifests": "manifest"}.get(nearest, "")


def _validated(files: dict[Path, Kind], root: Path) -> tuple[set[Problem], set[Problem]]:
    from swe_pytest.suites.load import resolve_config
    from swe_pytest.suites.manifest import load_manifest
    from swe_pytest.suites.plan import LoadedSuite, load_suite
    from swe_pytest.suites.search import Scope

    suites: dict[str, LoadedSuite] = {}
    problems: set[Problem] = set()
    warnings: set[Problem] = set()

    def suite(path: Path) -> None:
        loaded = load_suite(path, root, rows_required=False)
        warnings.update(loaded.warnings)
        if loaded.name in suites:
            message = f"the suite's name '{loaded.name}' is taken by {suites[loaded.name].path}"
            problems.add(Problem(path, 0, 0, message, "give one of them another `name`"))
        suites[loaded.name] = loaded

    checks: dict[Kind, Callable[[Path], object]] = {
        "suite": suite,
        "config": lambda path: resolve_config(path, Scope(root)),
        "manifest": lambda path: load_manifest(path, Scope(root)),
    }
    for path, kind in files.items():
        try:
            checks[kind](path)
        except InvalidFiles as invalid:
            problems.update(invalid.problems)
    return problems, warnings


def _from_here(problem: Problem, here: Path) -> Problem:
    inside = problem.path.is_relative_to(here)
    return replace(problem, path=problem.path.relative_to(here)) if inside else problem


def _tell(
    files: dict[Path, Kind], problems: list[Problem], warnings: list[Problem], args: argparse.Namespace
) -> None:
    if args.json:
        facts = {
            "files": len(files),
            "problems": list(map(_facts, problems)),
            "warnings": list(map(_facts, warnings)),
        }
        print(json.dumps(facts, indent=2, ensure_ascii=False))
        return
    for problem in problems:
        print(problem)
    for warning in warnings:
        print(f"warning: {warning}")
    counted = [(list(files.values()).count(kind), kind) for kind in ("suite", "config", "manifest")]
    told = ", ".join(f"{number} {kind}{'s' if number > 1 else ''}" for number, kind in counted if number)
    print(f"{told}: {len(problems)} problems" if problems else f"{told}: all right")


def _facts(problem: Problem) -> dict[str, object]:
    return {
        "path": str(problem.path),
        "line": problem.line,
        "column": problem.column,
        "message": problem.message,
        "remedy": problem.remedy,
    }
