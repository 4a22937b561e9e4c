"""Run a case: its attempts, its record, its files. The record is on disk before anything else happens."""

from __future__ import annotations

import json
import time
from dataclasses import asdict

from swe_pytest.benchmarks.rows_file import dataset_of
from swe_pytest.benchmarks.task import Gold, Task
from swe_pytest.episode.fault import FaultPlan
from swe_pytest.episode.lifecycle import Attempt, instance_of, verifier_spec
from swe_pytest.episode.run import Run
from swe_pytest.grading.stored import write_evaluation, write_run
from swe_pytest.results.encoding import write_record
from swe_pytest.results.record import (
    AgentFacts,
    EpisodeRecord,
    Failure,
    Outcome,
    SandboxFacts,
)
from swe_pytest.suites.plan import Case


def run_episode(case: Case, run: Run) -> EpisodeRecord:
    """Run a case to its end and return its record, which is on disk and in the ledger by then.

    Attempts are repeated, up to `max_attempts`, only after failures that are not terminal. Whatever
    interrupts the process (Ctrl-C, SIGTERM, a test timeout) is raised again after the record is written.
    Raises: InvalidFiles when the case's row changed since collection.
    """
    task, gold = instance_of(case)
    started = time.time()
    run.ledger.episode_begin(case.case_id, run.ownership.process)
    earlier: list[Failure] = []
    while True:
        attempt = Attempt(case, run, task, gold)
        if case.fault is not None:
            attempt.plan = FaultPlan(case.fault, attempt.journal)
        interruption = attempt.go()
        failure = attempt.failure
        again = (
            interruption is None
            and failure is not None
            and not failure.terminal
            and len(earlier) + 1 < case.config.max_attempts
        )
        if not again or failure is None:
            break
        earlier.append(failure)
    record = _record(case, run, task, gold, attempt, started, earlier)
    _store(case, run, gold, attempt, record)
    if interruption is not None:
        raise interruption
    return record


def _record(
    case: Case, run: Run, task: Task, gold: Gold, attempt: Attempt, started: float, earlier: list[Failure]
) -> EpisodeRecord:
    failure, verdict = attempt.failure, attempt.verdict
    measured = failure is None and verdict is not None
    reward = verdict.reward if measured and verdict is not None else None
    lives = run.provider.lives(case.case_id)
    config, result = case.config, attempt.agent
    return EpisodeRecord(
        case_id=case.case_id,
        suite=case.suite,
        check=case.check,
        benchmark=case.benchmark,
        config=config.name,
        instance_id=task.instance_id,
        repeat=case.repeat,
        outcome=Outcome.MEASURED if measured else Outcome.MASKED,
        reward=reward,
        mask_sample=not measured,
        mask_reason="" if failure is None else f"{failure.failure_class}: {failure.message}",
        evaluation_completed=verdict is not None,
        resolved=None if reward is None else reward == 1.0,
        failure=failure,
        verdict=verdict,
        patch=attempt.patch.facts if attempt.patch is not None else None,
        agent=AgentFacts(
            harness=config.agent.harness,
            version=attempt.agent_version,
            end=str(result.end) if result is not None else None,
            exit_code=result.exit_code if result is not None else None,
            turns=result.turns if result is not None else None,
            detail=result.detail if result is not None else "",
        ),
        journal=tuple(attempt.journal.entries),
        sandboxes=tuple(
            SandboxFacts(
                life.role, life.id, life.name, life.image, life.image_digest, life.created, life.removed
            )
            for life in lives
        ),
        verifier_network=verifier_spec(case, task, gold).network,
        durations=dict(attempt.journal.durations),
        versions={
            **run.versions,
            "agent": f"{config.agent.harness} {attempt.agent_version}".strip(),
            "dataset": dataset_of(case.ref.path),
        },
        digests={
            "suite": case.suite_digest,
            "config": case.config_digest,
            "row": gold.row_digest,
            "image": attempt.image.digest or attempt.image.id if attempt.image is not None else "",
        },
        started_at=started,
        ended_at=time.time(),
        attempts=len(earlier) + 1,
        earlier_failures=tuple(earlier),
    )


def _store(case: Case, run: Run, gold: Gold, attempt: Attempt, record: EpisodeRecord) -> None:
    directory = run.directory.episode_dir(case.case_id)
    files: dict[str, bytes] = {
        "journal.jsonl": b"".join(
            json.dumps(asdict(entry), sort_keys=True).encode() + b"\n" for entry in record.journal
        )
    }
    if attempt.patch is not None:
        files["patch.diff"] = attempt.patch.data
    if attempt.agent is not None:
        files["agent.log"] = attempt.agent.log
    for name, data in files.items():
        (directory / name).write_bytes(data)
    write_evaluation(directory, gold.evaluation)
    if attempt.verification is not None:
        trace, result = attempt.verification
        write_run(directory, trace, result, result.exit_code)
    write_record(directory, record)
    run.ledger.episode_end(record)
