"""`swe-pytest schema`: the JSON Schemas of suites, configs and manifests."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]


def add_parser(subparsers: Subparsers) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "schema", help="print, write or check the JSON Schemas of the files people write"
    )
    parser.add_argument(
        "name", nargs="?", metavar="NAME", help="suite, config or manifest; absent = list them"
    )
    parser.add_argument(
        "--write", type=Path, metavar="DIR", help="write all schemas, or the one named, into a folder"
    )
    parser.add_argument("--check", action="store_true", help="compare the committed schemas with the models")


def run(args: argparse.Namespace) -> int:
    """Return 0, 1 when --check finds drift, 2 for an unknown name or a folder that cannot be written."""
    from swe_pytest.suites.near import one_of
    from swe_pytest.suites.schema import DIRECTORY, NAMES, file_name, schema, schema_text, stale

    if args.name is not None and args.name not in NAMES:
        print(f"unknown schema '{args.name}'; {one_of(args.name, NAMES)}", file=sys.stderr)
        return 2
    names = [args.name] if args.name else list(NAMES)
    if args.write is not None:
        try:
            args.write.mkdir(parents=True, exist_ok=True)
            for name in names:
                (args.write / file_name(name)).write_text(schema_text(name), encoding="utf-8")
        except OSError as error:
            print(f"cannot write into {args.write}: {error.strerror}", file=sys.stderr)
            return 2
    if args.check:
        drifted = [name for name in stale(args.write or DIRECTORY) if name in names]
        for name in drifted:
            path = (args.write or DIRECTORY) / file_name(name)
            print(
                f"{path}: not what the models say; next: swe-pytest schema --write {path.parent}",
                file=sys.stderr,
            )
        return 1 if drifted else 0
    if args.write is None:
        if args.name:
            sys.stdout.write(schema_text(args.name))
        else:
            for name in names:
                print(f"{name}  {schema(name)['$id']}  {DIRECTORY / file_name(name)}")
    return 0
