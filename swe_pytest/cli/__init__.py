"""The command line: swe-pytest validate | resolve | schema | prepare | images | regrade | report | gc | doctor."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

import swe_pytest
from swe_pytest.sandbox.errors import SandboxError

# Each module has add_parser(subparsers) and run(args) -> exit status.
_COMMANDS = ("validate", "resolve", "schema", "prepare", "images", "regrade", "report", "gc", "doctor")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status: 0 fine, 1 found wanting, 2 misused."""
    parser = argparse.ArgumentParser(
        prog="swe-pytest", description=(swe_pytest.__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--version", action="version", version=f"swe_pytest {swe_pytest.__version__}")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    modules = {name: importlib.import_module(f"swe_pytest.cli.{name}") for name in _COMMANDS}
    for module in modules.values():
        module.add_parser(subparsers)
    args = parser.parse_args(argv)
    try:
        status: int = modules[args.command].run(args)
    except SandboxError as error:
        print(error, file=sys.stderr)
        return 1
    except BrokenPipeError:
        # The reader of our output has gone (`| head`): that is its right, not our failure.
        sys.stderr.close()
        return 0
    return status
