"""`swe-pytest resolve CONFIG`: the config after inheritance, and where each value was written."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from swe_pytest.suites.node import Node
    from swe_pytest.suites.search import Scope

    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

Values = dict[str, object]

_WIDTH = 48  # a long script must not push every origin off the screen


def add_parser(subparsers: Subparsers) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "resolve", help="print a config after inheritance, with where each value came from"
    )
    parser.add_argument("config", metavar="CONFIG", help="a path, or a name under configs/")
    parser.add_argument(
        "--benchmark", default="", metavar="NAME", help="look in this benchmark's configs first"
    )
    parser.add_argument(
        "--root", type=Path, help="where configs/ is searched up to; absent = the project's root"
    )
    parser.add_argument("--json", action="store_true", help="print JSON: name, path, digest, values, origins")


def run(args: argparse.Namespace) -> int:
    """Return 0; 1 for a config with problems, told on stderr; 2 for one that does not exist."""
    from swe_pytest.cli.validate import project_root
    from swe_pytest.problem import InvalidFiles
    from swe_pytest.suites.config import config_digest
    from swe_pytest.suites.load import resolve_config
    from swe_pytest.suites.near import one_of
    from swe_pytest.suites.search import SUFFIXES, Scope

    here = Path.cwd()
    scope = Scope(args.root.absolute() if args.root else project_root(here), args.benchmark)
    path = scope.find(args.config, here)
    if path is None:
        known = [] if args.config.endswith(SUFFIXES) else scope.names(here)
        hint = one_of(args.config, known) if known else f"paths are relative to {here}"
        print(f"no config '{args.config}'; {hint}", file=sys.stderr)
        return 2
    try:
        resolved = resolve_config(path, scope)
    except InvalidFiles as invalid:
        print(invalid, file=sys.stderr)
        return 1
    values: Values = resolved.config.model_dump(mode="json", exclude={"extends", "model"})
    origins = _origins(values, resolved.node, scope)
    if args.json:
        facts = {
            "name": resolved.config.name,
            "path": scope.shown(path),
            "digest": config_digest(resolved.config),
            "values": values,
            "origins": origins,
        }
        print(json.dumps(facts, indent=2, ensure_ascii=False))
        return 0
    print(f"# {scope.shown(path)}, digest {config_digest(resolved.config)}")
    lines = list(_lines(values, origins))
    width = min(max(len(text) for text, _ in lines), _WIDTH)
    for text, origin in lines:
        print(f"{text:<{width}}  # {origin}" if origin else text)
    return 0


def _origins(values: Values, node: Node | None, scope: Scope, prefix: str = "") -> dict[str, str]:
    """Map the dotted path of each value to `file:line:column`, or to "default"."""
    found: dict[str, str] = {}
    for key, value in values.items():
        child = node.child(key) if node else None
        if isinstance(value, dict) and value:
            found |= _origins(value, child, scope, f"{prefix}{key}.")
        elif child is None:
            found[prefix + key] = "default"
        else:
            found[prefix + key] = f"{scope.shown(child.place.path)}:{child.place.line}:{child.place.column}"
    return found


def _lines(
    values: Values, origins: dict[str, str], prefix: str = "", indent: str = ""
) -> list[tuple[str, str]]:
    """Return the config as YAML, a line a value, with its origin. JSON scalars and lists are YAML too."""
    lines: list[tuple[str, str]] = []
    for key, value in values.items():
        if isinstance(value, dict) and value:
            lines.append((f"{indent}{key}:", ""))
            lines += _lines(value, origins, f"{prefix}{key}.", f"{indent}  ")
        else:
            lines.append((f"{indent}{key}: {json.dumps(value, ensure_ascii=False)}", origins[prefix + key]))
    return lines
