"""What became of each planned case, from the ledger and the records: the ground of every report."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from swe_pytest.results.codec import Malformed
from swe_pytest.results.encoding import InconsistentRecord, read_record
from swe_pytest.results.events import CheckEnd, EpisodeBegin, EpisodeEnd, PlannedCase
from swe_pytest.results.ledger import LedgerState, read_ledger
from swe_pytest.results.properties import Property, properties_of, properties_of_planned
from swe_pytest.results.record import EpisodeRecord, Failure, Outcome
from swe_pytest.results.run_dir import RunDir

INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class CaseResult:
    """A planned case and what became of it.

    `failure` is there if and only if the case is masked. `earlier_failures` are those of attempts that
    were tried again. `check_passed` is None where no check told of the case. `reason` says why a
    measured zero is one, or why a case was not run.
    """

    case: PlannedCase
    outcome: Outcome
    reward: float | None
    resolved: bool | None
    mask_reason: str
    failure: Failure | None
    earlier_failures: tuple[Failure, ...]
    check_passed: bool | None
    check_message: str
    reason: str
    duration_s: float
    properties: tuple[Property, ...]

    @property
    def masked_as_expected(self) -> bool:
        """Whether masking is what the check wanted to see, e.g. of a sandbox that it killed itself."""
        return self.outcome is Outcome.MASKED and self.check_passed is True

    @property
    def accepted(self) -> bool:
        """Whether nobody has to look at this case: measured, or masked as expected, and its check passed."""
        if self.outcome is Outcome.MEASURED:
            return self.check_passed is not False
        return self.masked_as_expected


@dataclass(frozen=True, slots=True)
class Books:
    """A run's ledger and every planned case with its outcome, in the order of the plan.

    `problems` are all that was odd, `unbalanced` those after which the sums cannot be trusted.
    """

    ledger: LedgerState
    cases: tuple[CaseResult, ...]
    problems: tuple[str, ...]
    unbalanced: tuple[str, ...]


def read_books(run_dir: RunDir) -> Books:
    """Read what became of every planned case of a run that is over.

    The record is the truth where there is one; else the ledger's word is taken. What began and has
    neither was interrupted: masked, without a reward. Raises: OSError when there is no ledger.
    """
    state = read_ledger(run_dir.ledger)
    problems = list(state.problems)
    cases = tuple(_results(run_dir, state, problems))
    if state.run_end is None:
        problems.append(f"{run_dir.ledger.name} has no run.end: the run was cut short")
    problems += [text for text in state.unbalanced if text not in problems]
    return Books(state, cases, tuple(problems), tuple(state.unbalanced))


def _results(run_dir: RunDir, state: LedgerState, problems: list[str]) -> Iterator[CaseResult]:
    not_run = _why_not_run(state)
    for case_id, case in state.planned.items():
        begun, end = state.begun.get(case_id), state.ended.get(case_id)
        if begun is None and end is None:
            yield _without_record(state, case, None, None, not_run)
            continue
        record = _record_of(run_dir, case, end, problems)
        if record is not None:
            yield result_of(case, record, state.checked.get(case.case_id))
        else:
            yield _without_record(state, case, begun, end, not_run)


def _record_of(
    run_dir: RunDir, case: PlannedCase, end: EpisodeEnd | None, problems: list[str]
) -> EpisodeRecord | None:
    case_id = case.case_id
    try:
        record = read_record(run_dir.episode_path(case_id))
    except (Malformed, InconsistentRecord, OSError) as error:
        problems.append(f"{case_id}: record.json cannot be used: {error}")
        return None
    if record is None:
        if end is not None and end.outcome is Outcome.MEASURED:
            problems.append(f"{case_id}: measured by the ledger, but record.json is missing")
        return None
    theirs = (record.case_id, record.instance_id, record.benchmark, record.config, record.repeat)
    if theirs != (case_id, case.instance_id, case.benchmark, case.config, case.repeat):
        problems.append(f"{case_id}: record.json is of another case: {' '.join(map(str, theirs))}")
        return None
    if end is not None and (record.outcome, record.reward) != (end.outcome, end.reward):
        problems.append(
            f"{case_id}: {end.outcome} with reward {end.reward} by the ledger, "
            f"{record.outcome} with reward {record.reward} by its record, which counts"
        )
    return record


def result_of(case: PlannedCase, record: EpisodeRecord, check: CheckEnd | None = None) -> CaseResult:
    """Return what became of a case that has a record; `check` is what its check made of it, if it did."""
    return CaseResult(
        case=case,
        outcome=record.outcome,
        reward=record.reward,
        resolved=record.resolved,
        mask_reason=record.mask_reason,
        failure=record.failure,
        earlier_failures=record.earlier_failures,
        check_passed=None if check is None else check.passed,
        check_message="" if check is None else check.message,
        reason="" if record.verdict is None else record.verdict.reason,
        duration_s=max(0.0, record.ended_at - record.started_at),
        properties=tuple(properties_of(record)),
    )


def _without_record(
    state: LedgerState, case: PlannedCase, begun: EpisodeBegin | None, end: EpisodeEnd | None, not_run: str
) -> CaseResult:
    if begun is not None and end is None:
        end = EpisodeEnd.masked(case.case_id, _interrupted(state, begun))
        end = replace(end, at=begun.at)  # nobody knows when; the same ledger must give the same results
    check = state.checked.get(case.case_id)
    ran = end is not None and end.outcome is not Outcome.NOT_RUN
    return CaseResult(
        case=case,
        outcome=Outcome.NOT_RUN if end is None else end.outcome,
        reward=None if end is None else end.reward,
        resolved=None if end is None else end.resolved,
        mask_reason="" if end is None else end.mask_reason,
        failure=None if end is None else end.failure,
        earlier_failures=(),
        check_passed=None if check is None else check.passed,
        check_message="" if check is None else check.message,
        reason="" if ran else not_run,
        duration_s=max(0.0, end.at - begun.at) if begun is not None and end is not None else 0.0,
        properties=tuple(properties_of_planned(case, end)),
    )


def _interrupted(state: LedgerState, begun: EpisodeBegin) -> Failure:
    death = state.died.get(begun.process)
    how = f"worker {begun.process} died" if death is not None else "the run was cut short"
    message = f"{begun.case_id}: began in {begun.process} and never ended: {how}"
    cause = death.message if death is not None else ""
    return Failure(INTERRUPTED, stage="", terminal=False, message=message, cause=cause)


def _why_not_run(state: LedgerState) -> str:
    if state.run_end is None:
        return "the run was cut short before its turn"
    if not state.run_end.complete:
        return "the run was interrupted before its turn"
    return "the run ended before its turn (-x, --maxfail), or its set-up failed"
