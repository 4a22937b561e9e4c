"""Benchmarks in swebench's row format: `swebench:verified`, `lite`, `full`, `multilingual` and `custom`.

A row is one line of JSON with the fields of a swebench 5 row. Two optional keys are ours: `workdir`
(the checkout in the image, default /testbed) and `network` ("none" or "open": what the evaluation may
reach). The default is "open", because the official evaluation scripts install packages.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from swe_pytest.benchmarks.cache import cache_dir
from swe_pytest.benchmarks.contract import Benchmark
from swe_pytest.benchmarks.task import Gold, RowRef, Task
from swe_pytest.grading.evaluation import Evaluation
from swe_pytest.grading.official import GraderUnavailable, parser_names
from swe_pytest.grading.unified_diff import patched_paths
from swe_pytest.problem import InvalidFiles, Problem
from swe_pytest.sandbox.contract import Network

DEFAULT_WORKDIR = "/testbed"
VARIANTS = ("verified", "lite", "full", "multilingual", "custom")

# Fields that only the official release 5 has: without all of them a row is a classic one.
UPGRADED = ("image", "eval_script", "log_parser", "eval_type")

_FILLED = ("instance_id", "repo", "base_commit", "problem_statement", *UPGRADED)
_STRINGS = (*_FILLED, "version", "patch", "test_patch")
_TESTS = ("FAIL_TO_PASS", "PASS_TO_PASS")
_EVAL_TYPES: dict[str, Literal["pass_and_fail", "fail_only"]] = {
    "pass_and_fail": "pass_and_fail",
    "fail_only": "fail_only",
}
_NETWORKS: dict[str, Network] = {"none": "none", "open": "open"}

Row = dict[str, object]


class SwebenchBenchmark(Benchmark):
    """Rows in the format of swebench 5. `network` holds for rows that do not say it themselves."""

    def __init__(self, name: str, network: Network = "open") -> None:
        self.name = name
        self.network = network

    def prepared_rows(self) -> Path:
        return cache_dir("rows", self.name.replace(":", "_") + ".jsonl")

    def index(self, path: Path) -> tuple[list[RowRef], list[Problem]]:
        """As the contract says. A row is refused when both lists of required tests are empty.

        One empty list is right: of the public rows, one has no FAIL_TO_PASS and 44 have no PASS_TO_PASS.
        """
        if not path.is_file():
            return [], [Problem(path, 0, 0, f"{self.name} has no rows here", self._how_to_get_rows())]
        refs: list[RowRef] = []
        problems: list[Problem] = []
        try:
            parsers = parser_names()
        except GraderUnavailable as error:
            return [], [Problem(path, 0, 0, f"log parsers cannot be checked: {error}")]
        first_seen: dict[str, int] = {}
        repos: dict[str, str] = {}
        classic: list[int] = []
        offset = 0
        with path.open("rb") as file:
            for number, raw in enumerate(file, start=1):
                start, offset = offset, offset + len(raw)
                if not raw.strip():
                    continue
                row = parse_row(path, number, raw)
                if isinstance(row, Problem):
                    problems.append(row)
                    continue
                if "eval_script" not in row and "test_patch" in row:
                    classic.append(number)
                    continue
                faults = [_problem(path, number, raw, *fault) for fault in _faults(row, parsers)]
                if not faults:
                    instance_id = str(row["instance_id"])
                    earlier = first_seen.setdefault(instance_id, number)
                    if earlier != number:
                        message = f"{instance_id} stands in line {earlier} already"
                        remedy = "remove one of the two rows"
                        faults = [_problem(path, number, raw, "instance_id", message, remedy)]
                if faults:
                    problems.extend(faults)
                    continue
                repo = str(row["repo"])
                refs.append(
                    RowRef(
                        path=path,
                        line=number,
                        offset=start,
                        length=len(raw),
                        instance_id=str(row["instance_id"]),
                        repo=repos.setdefault(repo, repo),
                        image=str(row["image"]),
                    )
                )
        if classic:
            problems.append(_classic(path, classic, self.name))
        elif not refs and not problems:
            problems.append(Problem(path, 0, 0, "there is no row in this file", self._how_to_get_rows()))
        return refs, problems

    def load(self, ref: RowRef) -> tuple[Task, Gold]:
        try:
            with ref.path.open("rb") as file:
                file.seek(ref.offset)
                raw = file.read(ref.length)
        except OSError as error:
            raise InvalidFiles([Problem(ref.path, 0, 0, f"cannot be read: {error.strerror}")]) from error
        row = parse_row(ref.path, ref.line, raw)
        if (
            isinstance(row, Problem)
            or (row.get("instance_id"), row.get("image")) != (ref.instance_id, ref.image)
            or any(_faults(row, parser_names()))
        ):
            message = f"the row of {ref.instance_id} is not here any more: the file changed since collection"
            raise InvalidFiles([Problem(ref.path, ref.line, 1, message, "run pytest again")])
        try:
            return self._task(row), self._gold(row, raw)
        except UnicodeEncodeError as error:
            message = f"{ref.instance_id}: half a surrogate pair in a patch: {error.reason}"
            raise InvalidFiles([Problem(ref.path, ref.line, 1, message)]) from error

    def _task(self, row: Row) -> Task:
        text = _texts(row)
        return Task(
            benchmark=self.name,
            instance_id=text["instance_id"],
            repo=text["repo"],
            version=text["version"],
            image=text["image"],
            workdir=text.get("workdir", DEFAULT_WORKDIR),
            base_commit=text["base_commit"],
            problem_statement=text["problem_statement"],
        )

    def _gold(self, row: Row, raw: bytes) -> Gold:
        text = _texts(row)
        patch = text["patch"].encode("utf-8", "surrogateescape")
        return Gold(
            patch=patch,
            evaluation=Evaluation(
                instance_id=text["instance_id"],
                image=text["image"],
                workdir=text.get("workdir", DEFAULT_WORKDIR),
                base_commit=text["base_commit"],
                repo=text["repo"],
                version=text["version"],
                eval_script=text["eval_script"],
                log_parser=text["log_parser"],
                eval_type=_EVAL_TYPES[text["eval_type"]],
                fail_to_pass=_names(row["FAIL_TO_PASS"]) or (),
                pass_to_pass=_names(row["PASS_TO_PASS"]) or (),
                test_patch=text["test_patch"].encode("utf-8", "surrogateescape"),
                gold_paths=patched_paths(patch),
                network=_NETWORKS[text.get("network", self.network)],
            ),
            row_digest=hashlib.sha256(raw.rstrip(b"\r\n")).hexdigest(),
        )

    def _how_to_get_rows(self) -> str:
        if self.name == "swebench:custom":
            return "name them in the suite: `rows: FILE`, relative to the suite file"
        return f"run `swe-pytest prepare {self.name}`, or name rows in the suite: `rows: FILE`"


def parse_row(path: Path, number: int, raw: bytes) -> Row | Problem:
    """Return the JSON object in a line of a rows file, or what is wrong with it as JSON."""
    try:
        row: object = json.loads(raw)
    except json.JSONDecodeError as error:
        return Problem(path, number, error.colno, f"no JSON: {error.msg}", "write one JSON object a line")
    except UnicodeDecodeError as error:
        return Problem(path, number, error.start + 1, "no UTF-8 text", "write the file as UTF-8")
    except ValueError as error:  # a number of thousands of digits
        return Problem(path, number, 1, f"no row: {error}", "write one JSON object a line")
    except RecursionError:
        return Problem(path, number, 1, "nested too deeply to be a row", "write one flat JSON object a line")
    if not isinstance(row, dict):
        message = f"a row is a JSON object, this is {_kind(row)}"
        return Problem(path, number, 1, message, "write one JSON object a line")
    return row


def _faults(row: Row, parsers: frozenset[str]) -> Iterator[tuple[str, str, str]]:
    """Yield key, message and remedy of each thing that is wrong with a row."""
    named = row.get("instance_id")
    who = f"{named}: " if isinstance(named, str) and named else ""
    for key in _STRINGS:
        value = row.get(key)
        if value is None:
            yield key, f"{who}{key} is missing", f"give {key} as a string"
        elif not isinstance(value, str):
            yield key, f"{who}{key} is {_kind(value)}", f"give {key} as a string"
        elif not value and key in _FILLED:
            yield key, f"{who}{key} is empty", f"give {key}"
    lists = {}
    for key in _TESTS:
        lists[key] = _names(row.get(key))
        if lists[key] is None:
            what = "missing" if row.get(key) is None else f"{_kind(row[key])} that holds no list of strings"
            yield key, f"{who}{key} is {what}", "give a list of test names, or JSON text of one"
    if all(names == () for names in lists.values()):
        yield (
            _TESTS[0],
            f"{who}no required tests: FAIL_TO_PASS and PASS_TO_PASS are both empty",
            "name at least one test, or leave the row out: any patch would resolve it",
        )
    parser = row.get("log_parser")
    if isinstance(parser, str) and parser and parser not in parsers:
        near = difflib.get_close_matches(parser, parsers, 3)
        remedy = f"did you mean {' or '.join(near)}?" if near else "use a name of swebench's parser registry"
        yield "log_parser", f"{who}unknown log_parser {parser!r}", remedy
    kind = row.get("eval_type")
    if isinstance(kind, str) and kind and kind not in _EVAL_TYPES:
        yield "eval_type", f"{who}unknown eval_type {kind!r}", "use pass_and_fail or fail_only"
    if "workdir" in row and not (isinstance(row["workdir"], str) and row["workdir"].startswith("/")):
        yield (
            "workdir",
            f"{who}workdir is no absolute path",
            "give the checkout in the image, or leave it out",
        )
    if "network" in row and row["network"] not in _NETWORKS:
        yield "network", f"{who}unknown network {row['network']!r}", 'use "none" or "open", or leave it out'
    if _has_test_assets(row.get("image_assets")):
        yield (
            "image_assets",
            f"{who}its tests need binary files that are fetched from elsewhere (image_assets)",
            "leave the row out: such tasks are not supported",
        )


def _problem(path: Path, number: int, raw: bytes, key: str, message: str, remedy: str) -> Problem:
    found = re.search(rb'"%s"\s*:' % re.escape(key.encode()), raw)
    column = len(raw[: found.start()].decode("utf-8", "replace")) + 1 if found else 1
    return Problem(path, number, column, message, remedy)


def _classic(path: Path, numbers: list[int], name: str) -> Problem:
    count = "a classic row" if len(numbers) == 1 else f"{len(numbers)} classic rows, the first here"
    return Problem(
        path,
        numbers[0],
        1,
        f"{count}: no eval_script, as in swebench 4 and earlier",
        f"upgrade the file: swe-pytest prepare {name} --rows {path}",
    )


def _names(value: object) -> tuple[str, ...] | None:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return None
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        return None
    return tuple(value)


def _has_test_assets(value: object) -> bool:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return False
    return isinstance(value, dict) and bool(value.get("test_patch"))


def _texts(row: Row) -> dict[str, str]:
    return {key: value for key, value in row.items() if isinstance(value, str)}


def _kind(value: object) -> str:
    words = {
        "dict": "an object",
        "list": "a list",
        "str": "a string",
        "NoneType": "null",
        "bool": "a boolean",
    }
    return words.get(type(value).__name__, "a number")
