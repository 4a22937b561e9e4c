"""`swe-pytest prepare`: put a benchmark's rows, and images that must be made here, where suites find them."""

from __future__ import annotations

import argparse
import hashlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]
    from swe_pytest.benchmarks.swebench import Row


def add_parser(subparsers: Subparsers) -> None:
    """Register the command."""
    parser = subparsers.add_parser("prepare", help="prepare the rows of a benchmark")
    parser.add_argument(
        "benchmark", help="pypi_fixes, swebench:verified, or in short: verified, lite, full …"
    )
    parser.add_argument(
        "--rows", type=Path, metavar="FILE", help="take these rows (JSON lines), not the hub's"
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="write here; default: where suites look")
    parser.add_argument("--limit", type=int, metavar="N", help="only the first N rows")
    parser.add_argument("--instance", action="append", metavar="ID", help="only this one; repeatable")
    parser.add_argument(
        "--dataset", metavar="NAME", help="another dataset on the hub, or a local folder of one"
    )
    parser.add_argument(
        "--revision", metavar="COMMIT", help="another revision of the dataset than the pinned one"
    )


def run(args: argparse.Namespace) -> int:
    """Prepare. Returns 1, with every problem told, when something stands in the way."""
    from swe_pytest.benchmarks.classic import UpgradeFailed
    from swe_pytest.benchmarks.hub import DatasetUnavailable
    from swe_pytest.benchmarks.registry import UnknownBenchmark, benchmark_names
    from swe_pytest.problem import InvalidFiles

    name = args.benchmark
    if f"swebench:{name}" in benchmark_names():
        name = f"swebench:{name}"
    try:
        return _prepare_pypi_fixes(args) if name == "pypi_fixes" else _prepare_swebench(name, args)
    except (UnknownBenchmark, UpgradeFailed, DatasetUnavailable, InvalidFiles, OSError) as error:
        print(error, file=sys.stderr)
        return 1


def _prepare_swebench(name: str, args: argparse.Namespace) -> int:
    from swe_pytest.benchmarks.classic import GENERATOR, is_classic, upgrade
    from swe_pytest.benchmarks.registry import benchmark
    from swe_pytest.benchmarks.rows_file import write_rows

    prepared = benchmark(name)
    rows, facts = _rows_and_facts(name, args)
    if args.instance:
        rows = [row for row in rows if row.get("instance_id") in args.instance]
        absent = sorted(set(args.instance) - {str(row.get("instance_id")) for row in rows})
        if absent:
            print(f"{name} has no instance {', '.join(absent)}", file=sys.stderr)
            return 1
    rows = rows[: args.limit]
    classic = [row for row in rows if is_classic(row)]
    if classic:
        print(f"{len(classic)} classic rows: upgrading them with {GENERATOR}", flush=True)
        upgraded = iter(upgrade(classic))
        rows = [next(upgraded) if is_classic(row) else row for row in rows]
        facts["upgraded_with"] = GENERATOR
    out: Path = args.out or prepared.prepared_rows()
    write_rows(out, rows, facts)
    refs, problems = prepared.index(out)
    for problem in problems:
        print(problem, file=sys.stderr)
    print(f"{out}: {len(refs)} of {len(rows)} rows can be run")
    return 1 if problems else 0


def _rows_and_facts(name: str, args: argparse.Namespace) -> tuple[list[Row], dict[str, str]]:
    from swe_pytest.benchmarks.hub import hub_rows, source_of

    facts = {"benchmark": name}
    if args.rows is not None:
        digest = hashlib.sha256(args.rows.read_bytes()).hexdigest()
        return _rows_of_file(args.rows), facts | {"source": args.rows.name, "source_sha256": digest}
    source = source_of(name, dataset=args.dataset, revision=args.revision)
    print(f"loading {source.dataset} ({source.split}) at {source.revision or 'no revision'}", flush=True)
    facts |= {"dataset": source.dataset, "revision": source.revision, "split": source.split}
    return list(hub_rows(source)), facts


def _rows_of_file(path: Path) -> list[Row]:
    from swe_pytest.benchmarks.swebench import parse_row
    from swe_pytest.problem import InvalidFiles, Problem

    rows: list[Row] = []
    problems: list[Problem] = []
    with path.open("rb") as file:
        for number, raw in enumerate(file, start=1):
            if raw.strip():
                row = parse_row(path, number, raw)
                if isinstance(row, Problem):
                    problems.append(row)
                else:
                    rows.append(row)
    if problems:
        raise InvalidFiles(problems)
    return rows


def _prepare_pypi_fixes(args: argparse.Namespace) -> int:
    from swe_pytest.benchmarks.pypi_fixes import prepare_pypi_fixes
    from swe_pytest.benchmarks.pypi_fixes.archive import UnsafeArchive
    from swe_pytest.benchmarks.pypi_fixes.distribution import DistributionUnavailable
    from swe_pytest.benchmarks.pypi_fixes.preparation import UnknownInstance
    from swe_pytest.benchmarks.pypi_fixes.repository import GitFailed
    from swe_pytest.benchmarks.pypi_fixes.row import NoDifference
    from swe_pytest.sandbox.engine import find_engine
    from swe_pytest.sandbox.errors import SandboxError

    for option in ("rows", "limit", "dataset", "revision"):
        if getattr(args, option) is not None:
            print(f"pypi_fixes takes no --{option}: its tasks come with this package", file=sys.stderr)
            return 2
    try:
        path = prepare_pypi_fixes(find_engine(), instances=args.instance, rows_path=args.out)
    except (
        UnknownInstance,
        DistributionUnavailable,
        UnsafeArchive,
        NoDifference,
        GitFailed,
        SandboxError,
    ) as error:
        print(error, file=sys.stderr)
        return 1
    print(path)
    return 0
