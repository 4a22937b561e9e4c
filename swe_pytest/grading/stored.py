"""What a verdict rests on, as files in an episode's directory: enough to judge again without a container.

evaluation.json   the grader-only half of the row (see `evaluation_to_json`)
trace.json        what the verifier did, told outside the log's reach, and how its script ended
test_output.txt   the log, bytes as they came
patch.diff        the candidate's patch, bytes
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from swe_pytest.grading.evaluate import Trace
from swe_pytest.grading.evaluation import Evaluation, evaluation_from_json, evaluation_to_json
from swe_pytest.grading.verdict import ScriptRun
from swe_pytest.results.codec import Malformed, decode, encode
from swe_pytest.results.durable import write_durably

EVALUATION_FILE = "evaluation.json"
TRACE_FILE = "trace.json"
LOG_FILE = "test_output.txt"
PATCH_FILE = "patch.diff"


@dataclass(frozen=True, slots=True)
class TracedRun:
    """The content of trace.json. `exit_code` is None when the script timed out."""

    trace: Trace
    exit_code: int | None
    timed_out: bool
    truncated: bool


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that was stored of one verifier run. It is a `ScriptRun`."""

    evaluation: Evaluation
    trace: Trace
    output: bytes
    timed_out: bool
    truncated: bool
    patch: bytes


class NoEvidence(Exception):
    """A directory does not hold what a verdict could be computed from; the message says what is missing."""


def write_evaluation(directory: Path, evaluation: Evaluation) -> None:
    """Store the grader-only half of the row. Raises: OSError."""
    write_durably(directory / EVALUATION_FILE, json.dumps(evaluation_to_json(evaluation)).encode())


def write_run(directory: Path, trace: Trace, run: ScriptRun, exit_code: int | None) -> None:
    """Store the log and the trace of a verifier run. Raises: OSError."""
    write_durably(directory / LOG_FILE, run.output)
    traced = TracedRun(trace, exit_code, run.timed_out, run.truncated)
    write_durably(directory / TRACE_FILE, json.dumps(encode(traced)).encode())


def read_evidence(directory: Path) -> Evidence:
    """Return what was stored of a verifier run. Raises: NoEvidence."""
    try:
        evaluation = evaluation_from_json(json.loads((directory / EVALUATION_FILE).read_bytes()))
        traced = decode(TracedRun, json.loads((directory / TRACE_FILE).read_bytes()))
        log, patch = (directory / LOG_FILE).read_bytes(), (directory / PATCH_FILE).read_bytes()
    except FileNotFoundError as error:
        raise NoEvidence(f"{Path(error.filename).name} is not there") from None
    except (Malformed, ValueError) as error:
        raise NoEvidence(f"what was stored cannot be read: {error}") from error
    return Evidence(evaluation, traced.trace, log, traced.timed_out, traced.truncated, patch)
