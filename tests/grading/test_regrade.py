"""Regrading: stored episodes give their verdicts again, without a container."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from swe_pytest.grading.evaluation import Evaluation
from swe_pytest.grading.official import Grader
from swe_pytest.grading.regrade import regrade, write_regraded
from swe_pytest.grading.stored import write_evaluation, write_run
from swe_pytest.grading.verdict import empty_patch_verdict, judge
from swe_pytest.results.encoding import read_record, write_record
from swe_pytest.results.record import (
    AgentFacts,
    EpisodeRecord,
    Failure,
    Outcome,
    PatchFacts,
    PatchFile,
    Stage,
    Verdict,
)
from tests.grading.examples import ALL_PASS, EVALUATION, ONE_FAILS, log_of
from tests.grading.test_verdict import GOOD, PATCH, Run
from tests.public_data import golds_of, needs_public_data, official_runs


def record_of(
    case_id: str, verdict: Verdict | None, patch: bytes, failure: Failure | None = None
) -> EpisodeRecord:
    measured = failure is None
    return EpisodeRecord(
        case_id=case_id,
        suite="mine",
        check="rollout",
        benchmark="swebench:custom",
        config="gold",
        instance_id=EVALUATION.instance_id,
        repeat=0,
        outcome=Outcome.MEASURED if measured else Outcome.MASKED,
        reward=verdict.reward if measured and verdict else None,
        mask_sample=not measured,
        mask_reason="" if failure is None else failure.message,
        evaluation_completed=verdict is not None,
        resolved=verdict.reward == 1.0 if measured and verdict else None,
        failure=failure,
        verdict=verdict,
        patch=PatchFacts(len(patch), hashlib.sha256(patch).hexdigest(), (PatchFile("calc.py", "M"),), "", ""),
        agent=AgentFacts("gold", "", "normal", 0, None),
        journal=(),
        sandboxes=(),
        verifier_network="none",
        durations={},
        versions={},
        digests={},
        started_at=0.0,
        ended_at=0.0,
    )


def store(
    run_dir: Path,
    case_id: str,
    verdict: Verdict | None,
    log: bytes | None,
    *,
    evaluation: Evaluation = EVALUATION,
    patch: bytes = PATCH,
    failure: Failure | None = None,
) -> Path:
    """An episode's directory as the harness leaves it."""
    home = run_dir / "episodes" / case_id
    home.mkdir(parents=True)
    write_record(home, record_of(case_id, verdict, patch, failure))
    write_evaluation(home, evaluation)
    (home / "patch.diff").write_bytes(patch)
    if log is not None:
        write_run(home, GOOD, Run(log), 0)
    return home


@pytest.fixture(scope="module")
def verdicts() -> dict[str, Verdict]:
    with Grader() as grader:
        return {
            "resolved": judge(EVALUATION, GOOD, Run(log_of(*ALL_PASS)), PATCH, grader),
            "unresolved": judge(EVALUATION, GOOD, Run(log_of(*ONE_FAILS)), PATCH, grader),
        }


def test_an_unchanged_run_stays_as_it_is(tmp_path: Path, verdicts: dict[str, Verdict]) -> None:
    """Verdicts that were right are found again, in the order of the directories."""
    store(tmp_path, "b", verdicts["resolved"], log_of(*ALL_PASS))
    store(tmp_path, "a", verdicts["unresolved"], log_of(*ONE_FAILS))
    found = regrade(tmp_path)
    assert [(episode.case_id, episode.changed) for episode in found] == [("a", False), ("b", False)]


def test_a_wrong_verdict_is_found_and_put_right(tmp_path: Path, verdicts: dict[str, Verdict]) -> None:
    """A verdict that its log does not bear out is told, and written only when asked."""
    home = store(tmp_path, "a", verdicts["resolved"], log_of(*ONE_FAILS))
    [episode] = regrade(tmp_path)
    assert episode.changed
    assert episode.after == verdicts["unresolved"]
    before = read_record(home)
    assert before is not None and before.reward == 1.0
    write_regraded(episode)
    after = read_record(home)
    assert after is not None
    assert (after.reward, after.resolved, after.verdict) == (0.0, False, verdicts["unresolved"])
    assert [episode.changed for episode in regrade(tmp_path)] == [False]


def test_a_run_that_measured_nothing_is_masked(tmp_path: Path, verdicts: dict[str, Verdict]) -> None:
    """A zero whose log shows that the environment broke becomes a masked episode without a reward."""
    log = log_of("Could not resolve host: x")
    home = store(tmp_path, "a", verdicts["unresolved"], log, evaluation=replace(EVALUATION, network="open"))
    [episode] = regrade(tmp_path)
    assert (episode.after, episode.changed) == (None, True)
    write_regraded(episode)
    record = read_record(home)
    assert record is not None and record.failure is not None
    assert (record.outcome, record.reward, record.failure.failure_class) == (
        Outcome.MASKED,
        None,
        "environment_failed",
    )


def test_an_episode_without_a_log_keeps_its_verdict(tmp_path: Path, verdicts: dict[str, Verdict]) -> None:
    """An empty patch, and an episode of which no log was stored, keep what they have, and say why."""
    store(tmp_path, "a", empty_patch_verdict(EVALUATION), None, patch=b"")
    store(tmp_path, "b", verdicts["resolved"], None)
    first, second = regrade(tmp_path)
    assert (first.changed, first.note) == (False, "kept: empty patch")
    assert (second.changed, second.note) == (False, "kept: trace.json is not there")


def test_a_masked_episode_stays_masked(tmp_path: Path, verdicts: dict[str, Verdict]) -> None:
    """What masked an episode is no matter of grading: a new verdict gives it no reward."""
    failure = Failure("accidental_pass", str(Stage.AGENT_RESPOND), True, "ran out of turns")
    home = store(tmp_path, "a", verdicts["resolved"], log_of(*ONE_FAILS), failure=failure)
    [episode] = regrade(tmp_path)
    write_regraded(episode)
    record = read_record(home)
    assert record is not None
    assert (record.outcome, record.reward, record.verdict) == (Outcome.MASKED, None, verdicts["unresolved"])


def test_damaged_evidence_changes_no_verdict(tmp_path: Path, verdicts: dict[str, Verdict]) -> None:
    """Where the stored trace is no longer what it was, the recorded verdict stands, with a note."""
    home = store(tmp_path, "a", verdicts["resolved"], log_of(*ALL_PASS))
    (home / "trace.json").write_text("{")
    [episode] = regrade(tmp_path)
    assert not episode.changed
    assert episode.note.startswith("kept: what was stored cannot be read")


@needs_public_data
def test_official_logs_give_official_verdicts(tmp_path: Path) -> None:
    """Official logs laid out as a run's episodes regrade to the official verdicts, five hundred in seconds."""
    runs = official_runs(tmp_path / "official")
    golds = golds_of("verified", {run.instance_id for run in runs})
    for run in runs:
        store(
            tmp_path,
            f"{run.name}-0",
            None,
            run.log.read_bytes(),
            evaluation=golds[run.instance_id].evaluation,
            patch=run.patch,
            failure=Failure("unknown", str(Stage.VERIFY), False, "not graded yet"),
        )
    for number in range(len(runs), 500):
        episodes, name = tmp_path / "episodes", runs[number % len(runs)].name
        shutil.copytree(episodes / f"{name}-0", episodes / f"{name}-{number}")
    began = time.monotonic()
    found = regrade(tmp_path)
    took = time.monotonic() - began
    resolved = {run.name: run.resolved for run in runs}
    assert len(found) == 500
    wrong = [
        episode.case_id
        for episode in found
        if episode.after is None
        or episode.after.official != resolved[episode.case_id.rpartition("-")[0]]
        or episode.after.reward != float(episode.after.official)
    ]
    assert not wrong
    assert took < 20.0, f"{took:.1f} s"


def test_the_command_prints_differences(tmp_path: Path, verdicts: dict[str, Verdict]) -> None:
    """`swe-pytest regrade` prints a line a difference and a closing count, or JSON, and writes when asked."""
    store(tmp_path, "a", verdicts["resolved"], log_of(*ONE_FAILS))
    store(tmp_path, "b", verdicts["resolved"], log_of(*ALL_PASS))
    program = (
        "import argparse, sys; from swe_pytest.cli import regrade\n"
        "parser = argparse.ArgumentParser(); regrade.add_parser(parser.add_subparsers())\n"
        "sys.exit(regrade.run(parser.parse_args(sys.argv[1:])))"
    )

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", program, "regrade", str(tmp_path), *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    lines = [json.loads(line) for line in run("--json").splitlines()]
    assert [(line["case_id"], line["changed"]) for line in lines] == [("a", True), ("b", False)]
    first, last, hint = run("--write").splitlines()
    assert first == "a: resolved -> unresolved (1 of 1 FAIL_TO_PASS did not pass)"
    assert last == "2 episodes, 2 graded again, 1 changed"
    assert "swe-pytest report" in hint
    assert run() == "2 episodes, 2 graded again, 0 changed\n"


def test_a_directory_without_episodes_is_refused(tmp_path: Path) -> None:
    """Regrading what is no run directory is an error that names what was looked for."""
    with pytest.raises(FileNotFoundError, match=r"record\.json"):
        regrade(tmp_path)


def test_equal_evidence_gives_an_equal_record(tmp_path: Path, verdicts: dict[str, Verdict]) -> None:
    """Writing an unchanged verdict leaves the record's bytes alone."""
    home = store(tmp_path, "a", verdicts["resolved"], log_of(*ALL_PASS))
    before = (home / "record.json").read_bytes()
    [episode] = regrade(tmp_path)
    write_regraded(replace(episode))
    assert (home / "record.json").read_bytes() == before
