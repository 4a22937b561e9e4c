"""The tool for those who add tasks: `python -m swe_pytest.benchmarks.pypi_fixes measure INSTANCE`."""

from __future__ import annotations

import argparse
import sys

from swe_pytest.benchmarks.pypi_fixes.measure import RUNS, evaluate, measure, write_lists
from swe_pytest.benchmarks.pypi_fixes.preparation import choose, open_workshop
from swe_pytest.benchmarks.pypi_fixes.recipe import load_recipes
from swe_pytest.sandbox.engine import find_engine


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m swe_pytest.benchmarks.pypi_fixes", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    lists = commands.add_parser("measure", help="find out which tests a task requires")
    lists.add_argument("instance", nargs="+")
    lists.add_argument("--runs", type=int, default=RUNS, help="runs before and after the gold patch")
    lists.add_argument("--write", action="store_true", help="write the lists into the task's file")
    log = commands.add_parser("log", help="print the log of one evaluation")
    log.add_argument("instance", nargs=1)
    log.add_argument("--gold", action="store_true", help="with the gold patch")
    arguments = parser.parse_args()

    recipes = choose(load_recipes(measured=False), arguments.instance)
    with open_workshop(find_engine(), echo=_say) as workshop:
        workshop.fetch(recipes)
        for recipe in recipes:
            row = workshop.task(recipe)
            if arguments.command == "log":
                print(evaluate(workshop.maker, row, gold=arguments.gold))
                continue
            found = measure(workshop.maker, row, recipe.not_required, arguments.runs)
            counts = f"{len(found.fail_to_pass)} fail to pass, {len(found.pass_to_pass)} pass to pass"
            print(f"{recipe.instance_id}: {counts}")
            for name in found.fail_to_pass:
                print(f"  {name}")
            if found.unsteady:
                print(f"  left out because runs differ: {', '.join(found.unsteady)}")
            if arguments.write:
                write_lists(recipe.instance_id, found)
    return 0


def _say(message: str) -> None:
    print(message, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
