"""Measuring a task: which tests fail before the gold patch and pass after it, by the official parser."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from swe_pytest.benchmarks.pypi_fixes.archive import File
from swe_pytest.benchmarks.pypi_fixes.image import ImageMaker
from swe_pytest.benchmarks.pypi_fixes.recipe import TASKS
from swe_pytest.benchmarks.pypi_fixes.row import Row

RUNS = 3
_PASSED = {"PASSED", "XFAIL"}
_START, _END = ">>>>> Start Test Output", ">>>>> End Test Output"


@dataclass(frozen=True, slots=True)
class Measurement:
    """What several runs agree on. `unsteady` tests had different results from run to run."""

    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]
    unsteady: tuple[str, ...]


def measure(maker: ImageMaker, row: Row, not_required: Sequence[str], runs: int = RUNS) -> Measurement:
    """Run the tests `runs` times without and with the gold patch. Raises: SandboxError."""
    before = [statuses(evaluate(maker, row, gold=False), row["log_parser"]) for _ in range(runs)]
    after = [statuses(evaluate(maker, row, gold=True), row["log_parser"]) for _ in range(runs)]
    names = sorted({name for run in after for name in run})
    unsteady = [name for name in names if not (_steady(before, name) and _steady(after, name))]
    left_out = {*unsteady, *not_required}
    passing = [name for name in names if name not in left_out and after[0].get(name) in _PASSED]
    return Measurement(
        fail_to_pass=tuple(name for name in passing if before[0].get(name) not in _PASSED),
        pass_to_pass=tuple(name for name in passing if before[0].get(name) in _PASSED),
        unsteady=tuple(unsteady),
    )


def evaluate(maker: ImageMaker, row: Row, *, gold: bool) -> str:
    """Return the log of the row's evaluation in a fresh container, with or without the gold patch."""
    files = {
        "swe-pytest/eval.sh": File(row["eval_script"].encode()),
        "swe-pytest/gold.patch": File(row["patch"].encode()),
    }
    apply = f"cd {row['workdir']} && git apply --whitespace=nowarn /swe-pytest/gold.patch && " if gold else ""
    return maker.output_of(row["image"], f"{apply}exec bash /swe-pytest/eval.sh 2>&1", files)


def statuses(log: str, log_parser: str) -> dict[str, str]:
    """Return the status of each test that the official parser finds between the markers.

    Imports all of swebench, which takes seconds: for this tool, not for a pytest worker.
    """
    from swebench.harness.log_parsers import PARSER_REGISTRY

    parser = cast("Callable[[str, None], dict[str, str]]", PARSER_REGISTRY[log_parser])
    marked = log.partition(_START)[2].partition(_END)[0]
    return parser(marked, None)


def write_lists(instance_id: str, measurement: Measurement, folder: Path = TASKS) -> None:
    """Put the two lists into the recipe's file, where they are the last two keys."""
    path = folder / f"{instance_id}.yaml"
    kept = path.read_text(encoding="utf-8").partition("\nfail_to_pass:")[0]
    lists = {"fail_to_pass": measurement.fail_to_pass, "pass_to_pass": measurement.pass_to_pass}
    path.write_text(
        "\n".join([kept, *(_yaml_list(key, names) for key, names in lists.items())]), encoding="utf-8"
    )


def _yaml_list(key: str, names: Sequence[str]) -> str:
    # A JSON string is a YAML string, whatever is in it.
    lines = [f"{key}:" if names else f"{key}: []", *(f"  - {json.dumps(name)}" for name in names)]
    return "\n".join(lines) + ("\n" if key == "pass_to_pass" else "")


def _steady(runs: Sequence[dict[str, str]], name: str) -> bool:
    return len({run.get(name) in _PASSED for run in runs}) == 1
