"""`swe-pytest report RUN_DIR`: make the reports of a run again from its ledger and records, and show them.

Exit status: 0 when every planned case was measured (or masked as its check expects) and every check and
gate passed; 1 when something was masked or not run, a check or a gate did not pass, or the books do not
balance; 2 for a directory that is no run directory or belongs to a run still going on; 3 when nothing
at all was measured. Config and usage errors are 2 as everywhere.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from swe_pytest.results.aggregate import RunResults

ALL_MEASURED = 0
SOME_NOT_MEASURED = 1
USAGE = 2
NOTHING_MEASURED = 3


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command; its `run` is the default `run` of the parsed arguments."""
    parser = subparsers.add_parser(
        "report",
        help="make results.json, failures.jsonl and junit.xml of a run again, also after it was killed",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("run_dir", type=Path, metavar="RUN_DIR", help="the run's directory (--swe-run-dir)")
    parser.add_argument("--json", action="store_true", help="print results.json instead of the table")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Make the reports again and return the exit status that the module's docstring gives."""
    from swe_pytest.results.aggregate import write_results
    from swe_pytest.results.ledger import read_ledger
    from swe_pytest.results.run_dir import NotARunDir, RunDir
    from swe_pytest.results.table import table

    try:
        run_dir = RunDir.open(args.run_dir)
        if run_dir.controller_alive() and read_ledger(run_dir.ledger).run_end is None:
            print(f"{run_dir.path}: the run is still going on; wait for it or stop it", file=sys.stderr)
            return USAGE
        results = write_results(run_dir)
    except NotARunDir as error:
        print(error, file=sys.stderr)
        return USAGE
    except OSError as error:
        print(f"{args.run_dir}: the reports cannot be written: {error}", file=sys.stderr)
        return USAGE
    if args.json:
        print(run_dir.results.read_text(encoding="utf-8"), end="")
    else:
        print("\n".join(table(results)))
        print(f"reports: {run_dir.results}, {run_dir.junit.name}, {run_dir.failures.name}")
    return exit_status(results)


def exit_status(results: RunResults) -> int:
    """Return the exit status of a run's results."""
    totals = results.totals
    expected = sum(check.masked_as_expected for check in results.by_check)
    if totals.measured + expected == 0:
        return NOTHING_MEASURED
    whole = totals.measured + expected == totals.planned
    good = whole and results.balanced and not results.rejected_cases and not results.violations
    return ALL_MEASURED if good else SOME_NOT_MEASURED
