"""`swe-pytest doctor`: what this machine has, and what to do about what it lacks."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]


def add_parser(subparsers: Subparsers) -> None:
    """Register the command."""
    subparsers.add_parser("doctor", help="say what is there: engine, grader, leftovers")


def run(args: argparse.Namespace) -> int:
    """Print one line a finding. Returns 1 when no episode could run here."""
    from swe_pytest.grading.official import GraderUnavailable, installed_version
    from swe_pytest.sandbox.engine import find_engine
    from swe_pytest.sandbox.errors import EngineUnreachable
    from swe_pytest.sandbox.sweep import list_ours

    well = True
    try:
        engine = find_engine()
        version = engine.client().version()
        print(
            f"engine: {engine.host} ({engine.source}), {version['Version']}, {version['Os']}/{version['Arch']}"
        )
        print(f"ours in the engine: {len(list_ours(engine))}; swe-pytest gc removes what dead runs left")
    except EngineUnreachable as error:
        well = False
        print(f"engine: {error}")
    try:
        print(f"grader: swebench {installed_version()}")
    except GraderUnavailable as error:
        well = False
        print(f"grader: {error}")
    return 0 if well else 1
