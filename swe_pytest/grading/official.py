"""The official verdict on a log: the pinned swebench's parsers and rules, in a process of their own."""

from __future__ import annotations

import ast
import contextlib
import functools
import importlib.metadata
import importlib.util
import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, ClassVar, Self, cast

from swe_pytest.grading.evaluation import Evaluation
from swe_pytest.results.record import TestStatuses

GRADER_VERSION = "5.0.2"
START_DEADLINE_S = 60.0
GRADE_DEADLINE_S = 60.0
_LARGEST_ANSWER = 64 * 1024 * 1024


class GraderError(Exception):
    """No official verdict could be had. `kind` is the failure class written into records."""

    kind: ClassVar[str] = "grader_failed"


class GraderUnavailable(GraderError):
    """The pinned swebench is not installed here, or its grader cannot start. There is no other grader."""

    kind = "grader_missing"


class UnknownParser(GraderError):
    """The row names a log parser that the pinned swebench does not have. There is no fallback parser."""

    kind = "unknown_parser"


class GraderFailed(GraderError):
    """The grader raised on this log, ran out of time or memory, or died: the log stays ungraded."""


@dataclass(frozen=True, slots=True)
class OfficialVerdict:
    """What `get_eval_report` of the pinned swebench says about one log.

    `found` is its `patch_successfully_applied`: the log holds the markers and a test run's results.
    `parsed` counts the statuses read, `outside` says that they came from outside the marked part.
    `infra_hint` is its advisory guess at an environment fault ("" for none); it never decides.
    """

    resolved: bool
    found: bool
    tests: TestStatuses
    parsed: int = 0
    outside: bool = False
    infra_hint: str = ""


@functools.cache
def parser_names() -> frozenset[str]:
    """Return the names in the pinned registry, read from its source text: about a millisecond, no import.

    Raises: GraderUnavailable.
    """
    _require_pinned(installed_version())
    spec = importlib.util.find_spec("swebench")
    if spec is None or not spec.submodule_search_locations:
        raise GraderUnavailable(_how_to_install("it is not installed"))
    source = Path(next(iter(spec.submodule_search_locations))) / "harness" / "log_parsers" / "__init__.py"
    for statement in ast.parse(source.read_bytes()).body:
        match statement:
            case ast.Assign(targets=[ast.Name(id="PARSER_REGISTRY")], value=ast.Dict(keys=keys)):
                return frozenset(str(key.value) for key in keys if isinstance(key, ast.Constant))
    raise GraderUnavailable(_how_to_install(f"{source.name} of its log_parsers holds no PARSER_REGISTRY"))


def official_grade(evaluation: Evaluation, log: bytes | Path) -> OfficialVerdict:
    """Grade one log with a grader of its own; use `Grader` for more than one. Raises: GraderError."""
    with Grader() as grader:
        return grader.grade(evaluation, log)


class Grader:
    """A grader process: started at the first log, kept for the next, ended and replaced when it hangs.

    It ends with its standard input, hence with this process, and by its own alarm when it is stuck.
    Not thread-safe. Memory of a log is spent there, not here.
    """

    def __init__(self, *, deadline_s: float = GRADE_DEADLINE_S) -> None:
        self._deadline_s = deadline_s
        self._process: subprocess.Popen[bytes] | None = None
        self._complaints: IO[bytes] | None = None
        self._unread = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def pid(self) -> int | None:
        """The grader's process id, None while there is none."""
        return self._process.pid if self._process else None

    def grade(self, evaluation: Evaluation, log: bytes | Path) -> OfficialVerdict:
        """Return the official verdict on a log.

        Raises: GraderUnavailable, UnknownParser, GraderFailed. After each of them the grader is usable.
        """
        if evaluation.log_parser not in parser_names():
            raise UnknownParser(
                f"{evaluation.instance_id}: swebench {GRADER_VERSION} has no log parser "
                f"{evaluation.log_parser!r}; next: correct `log_parser` in the row"
            )
        with _as_file(log) as path:
            answer = self._ask(evaluation, path)
        if "error" in answer:
            raise GraderFailed(f"{evaluation.instance_id}: {evaluation.log_parser} raised {answer['error']}")
        return _verdict(answer)

    def close(self) -> None:
        """End the grader process and wait for its end. Idempotent."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with contextlib.suppress(BrokenPipeError):
                        pipe.close()
        if self._complaints is not None:
            self._complaints.close()
            self._complaints = None
        self._unread = b""

    def _ask(self, evaluation: Evaluation, log: Path) -> dict[str, object]:
        process = self._process if self._process and self._process.poll() is None else self._start()
        request = {
            "log": str(log.absolute()),
            "instance_id": evaluation.instance_id,
            "image": evaluation.image,
            "repo": evaluation.repo,
            "version": evaluation.version,
            "fail_to_pass": evaluation.fail_to_pass,
            "pass_to_pass": evaluation.pass_to_pass,
            "log_parser": evaluation.log_parser,
            "eval_type": evaluation.eval_type,
            "deadline_s": self._deadline_s + 5.0,
        }
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
            return self._answer(process, self._deadline_s)
        except TimeoutError:
            self.close()
            raise GraderFailed(
                f"{evaluation.instance_id}: grading with {evaluation.log_parser} did not end within "
                f"{self._deadline_s:g} s"
            ) from None
        except (EOFError, BrokenPipeError, ValueError) as error:
            last_words = self._last_words()
            self.close()
            raise GraderFailed(
                f"{evaluation.instance_id}: the grader process died ({error}) {last_words}"
            ) from None

    def _start(self) -> subprocess.Popen[bytes]:
        self.close()
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        self._process = process = subprocess.Popen(
            # By path, so that neither the working directory nor this package is imported there.
            [sys.executable, "-P", "-X", "utf8", str(Path(__file__).with_name("grader_process.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
        )
        try:
            greeting = self._answer(process, START_DEADLINE_S)
        except (TimeoutError, EOFError, ValueError) as error:
            last_words = self._last_words()
            self.close()
            raise GraderUnavailable(f"the grader process did not start ({error!r}) {last_words}") from None
        try:
            if "missing" in greeting:
                raise GraderUnavailable(_how_to_install(str(greeting["missing"])))
            _require_pinned(str(greeting["version"]))
        except GraderUnavailable:
            self.close()
            raise
        return process

    def _answer(self, process: subprocess.Popen[bytes], deadline_s: float) -> dict[str, object]:
        """Raises: TimeoutError, EOFError, ValueError (no JSON)."""
        assert process.stdout is not None
        end = time.monotonic() + deadline_s
        with selectors.DefaultSelector() as readable:
            readable.register(process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._unread:
                if not readable.select(max(0.0, end - time.monotonic())):
                    raise TimeoutError
                chunk = os.read(process.stdout.fileno(), 1 << 20)
                if not chunk:
                    raise EOFError(f"exit status {process.wait()}")
                if len(self._unread) > _LARGEST_ANSWER:
                    raise ValueError("its answer has no end")
                self._unread += chunk
        line, _, self._unread = self._unread.partition(b"\n")
        return cast("dict[str, object]", json.loads(line))

    def _last_words(self) -> str:
        if self._complaints is None:
            return ""
        size = self._complaints.seek(0, os.SEEK_END)
        self._complaints.seek(max(0, size - 500))
        return self._complaints.read().decode(errors="replace").strip()


@contextlib.contextmanager
def _as_file(log: bytes | Path) -> Iterator[Path]:
    if isinstance(log, Path):
        yield log
        return
    with tempfile.NamedTemporaryFile(prefix="swe-pytest-log-") as file:
        file.write(log)
        file.flush()
        yield Path(file.name)


def _verdict(answer: dict[str, object]) -> OfficialVerdict:
    tests = cast("dict[str, dict[str, list[str]]]", answer["tests"])

    def names(category: str, end: str) -> tuple[str, ...]:
        return tuple(tests.get(category, {}).get(end, ()))

    return OfficialVerdict(
        resolved=bool(answer["resolved"]),
        found=bool(answer["found"]),
        tests=TestStatuses(
            fail_to_pass_success=names("FAIL_TO_PASS", "success"),
            fail_to_pass_failure=names("FAIL_TO_PASS", "failure"),
            pass_to_pass_success=names("PASS_TO_PASS", "success"),
            pass_to_pass_failure=names("PASS_TO_PASS", "failure"),
        ),
        parsed=cast(int, answer["parsed"]),
        outside=bool(answer["outside"]),
        infra_hint=str(answer["infra_reason"]) if answer["infra_failure"] else "",
    )


def installed_version() -> str:
    """Return the version of the grader's package. Raises: GraderUnavailable."""
    try:
        return importlib.metadata.version("swebench")
    except importlib.metadata.PackageNotFoundError:
        raise GraderUnavailable(_how_to_install("it is not installed")) from None


def _require_pinned(version: str) -> None:
    if version != GRADER_VERSION:
        raise GraderUnavailable(_how_to_install(f"version {version} is installed"))


def _how_to_install(why: str) -> str:
    return (
        f"the official grader needs swebench {GRADER_VERSION} and {why}; "
        f"next: pip install swebench=={GRADER_VERSION}"
    )
