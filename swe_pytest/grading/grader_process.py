"""The grader's own process: swebench's parsers and rules, loaded without the package's front door.

Run as a script by `official.Grader`, never imported by a worker. The log is hostile: it may send a
parser's regular expressions into a loop, ask for all memory, or make a parser raise. Here that ends
one process. Requests and answers are JSON lines; the shapes are `Request` and `Answer`.

The front doors of `swebench` and `swebench.harness` import datasets, modal and pandas, none of which
grading needs: bare packages with nothing but a path stand in for the two, in this process only.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.machinery
import importlib.metadata
import importlib.util
import json
import os
import resource
import signal
import sys
import tempfile
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO, TypedDict

MEMORY_LIMIT = 4 * 1024**3


class Request(TypedDict):
    """One log to grade. `deadline_s` ends this process even when nobody is left to do it."""

    log: str
    instance_id: str
    image: str
    repo: str
    version: str
    fail_to_pass: list[str]
    pass_to_pass: list[str]
    log_parser: str
    eval_type: str
    deadline_s: float


class Answer(TypedDict):
    """The official report. `outside` says that statuses came from outside the marked part of the log."""

    resolved: bool
    found: bool
    infra_failure: bool
    infra_reason: str
    tests: dict[str, dict[str, list[str]]]
    parsed: int
    outside: bool


@dataclass
class _Parsed:
    """What the parser was asked and last answered for the log at hand."""

    calls: int = 0
    statuses: int = 0


def main() -> int:
    # A parser that prints must not be able to break the protocol.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for pytest; we end with our standard input
    try:
        version = importlib.metadata.version("swebench")
        grading = _load_grading()
    except ImportError as error:
        _answer(answers, {"missing": f"{type(error).__name__}: {error}"})
        return 1
    _answer(answers, {"version": version, "parsers": sorted(grading.PARSER_REGISTRY)})
    for line in sys.stdin:
        request: Request = json.loads(line)
        # The default action ends the process also inside a regular expression, where no handler runs.
        signal.setitimer(signal.ITIMER_REAL, request["deadline_s"])
        try:
            _answer(answers, grade(grading, request))
        except Exception as error:  # noqa: BLE001 - whatever official code does is an answer about this log
            _answer(answers, {"error": f"{type(error).__name__}: {error}"[:2000]})
        signal.setitimer(signal.ITIMER_REAL, 0)
    return 0


def _load_grading() -> Any:
    found = importlib.util.find_spec("swebench")
    if found is None or not found.submodule_search_locations:
        raise ModuleNotFoundError("No module named 'swebench'")
    root = Path(next(iter(found.submodule_search_locations)))
    for name, path in (("swebench", root), ("swebench.harness", root / "harness")):
        spec = importlib.machinery.ModuleSpec(name, None, is_package=True)
        spec.submodule_search_locations = [str(path)]
        sys.modules[name] = importlib.util.module_from_spec(spec)
    return importlib.import_module("swebench.harness.grading")


def grade(grading: Any, request: Request) -> Answer:
    """Return `get_eval_report`'s word on a log, read as UTF-8 with bad bytes replaced."""
    instance_id = request["instance_id"]
    # The report reads these few fields of a test specification, nothing else of it.
    specification = types.SimpleNamespace(
        instance_id=instance_id,
        image=request["image"],
        repo=request["repo"],
        version=request["version"],
        FAIL_TO_PASS=request["fail_to_pass"],
        PASS_TO_PASS=request["pass_to_pass"],
        log_parser=request["log_parser"],
        eval_type=request["eval_type"],
    )
    prediction = {"instance_id": instance_id, "model_name_or_path": "swe_pytest", "model_patch": "given"}
    with _valid_text(Path(request["log"])) as log, _watched_parser(grading, request["log_parser"]) as parsed:
        report = grading.get_eval_report(specification, prediction, str(log), include_tests_status=True)
    facts = report[instance_id]
    tests = facts.get("tests_status", {})
    return {
        "resolved": facts["resolved"],
        "found": facts["patch_successfully_applied"],
        "infra_failure": facts["infra_failure"],
        "infra_reason": facts.get("infra_failure_reason", ""),
        "tests": {key: tests[key] for key in ("FAIL_TO_PASS", "PASS_TO_PASS") if key in tests},
        "parsed": parsed.statuses,
        "outside": parsed.calls > 1 and parsed.statuses > 0,
    }


@contextlib.contextmanager
def _valid_text(log: Path) -> Iterator[Path]:
    """Official code opens the log as strict text and would stop at the first bad byte."""
    content = log.read_bytes()
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        with tempfile.NamedTemporaryFile(prefix="swe-pytest-log-") as copy:
            copy.write(content.decode("utf-8", "replace").encode("utf-8"))
            copy.flush()
            del content
            yield Path(copy.name)
        return
    del content
    yield log


@contextlib.contextmanager
def _watched_parser(grading: Any, name: str) -> Iterator[_Parsed]:
    """Official code asks the parser a second time, with the whole log, when the marked part gives nothing."""
    registry: dict[str, Callable[[str, object], dict[str, str]]] = grading.PARSER_REGISTRY
    parse = registry[name]
    parsed = _Parsed()

    def watched(log: str, specification: object) -> dict[str, str]:
        statuses = parse(log, specification)
        parsed.calls += 1
        parsed.statuses = len(statuses)
        return statuses

    registry[name] = watched
    try:
        yield parsed
    finally:
        registry[name] = parse


def _answer(answers: TextIO, answer: object) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


if __name__ == "__main__":
    raise SystemExit(main())
