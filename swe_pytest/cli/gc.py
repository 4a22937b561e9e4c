"""`swe-pytest gc`: show and remove what runs left in the engine."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]


def add_parser(subparsers: Subparsers) -> None:
    """Register the command."""
    parser = subparsers.add_parser("gc", help="remove what dead runs left in the engine")
    parser.add_argument("--run-id", help="remove everything of this run, even if its owner is alive")
    parser.add_argument("--dry-run", action="store_true", help="only print what there is")


def run(args: argparse.Namespace) -> int:
    """Print and remove. Returns 1 when something could not be removed."""
    from swe_pytest.sandbox.engine import find_engine
    from swe_pytest.sandbox.sweep import list_ours, sweep_dead_owners, sweep_run

    engine = find_engine()
    owned = list_ours(engine, args.run_id)
    for thing in owned:
        print(
            f"{thing.kind} {thing.name}  run {thing.run_id}  case {thing.case_id}  owner {thing.owner_state}"
        )
    if args.dry_run:
        print(f"{len(owned)} found, nothing removed")
        return 0
    swept = sweep_run(engine, args.run_id, within_s=60.0) if args.run_id else sweep_dead_owners(engine)
    removed = [*swept.containers, *swept.networks, *swept.volumes]
    print(f"{len(owned)} found, {len(removed)} removed, {len(swept.left)} could not be removed")
    return 1 if swept.left else 0
