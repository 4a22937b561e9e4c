"""Totals of a run: what was planned, what became of it, and the rates that follow. Masked is never a zero."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist, fmean

from swe_pytest.results.cases import Books, CaseResult, read_books
from swe_pytest.results.codec import Json, encode, json_document, json_line
from swe_pytest.results.durable import write_durably
from swe_pytest.results.gates import Violation, check_gates
from swe_pytest.results.junit import junit_xml
from swe_pytest.results.record import Failure, Outcome
from swe_pytest.results.run_dir import RunDir

ROLLOUT = "rollout"
_CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Interval:
    """A 95 % confidence interval."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class PassAtK:
    """The chance that at least one of k repeats resolves, averaged over `instances`.

    Those are the instances with at least k measured repeats; `value` is None when there are none.
    """

    k: int
    value: float | None
    instances: int


@dataclass(frozen=True, slots=True)
class Counts:
    """How cases came out: planned = measured + masked + not_run, and measured = resolved + unresolved."""

    planned: int
    measured: int
    masked: int
    not_run: int
    resolved: int
    unresolved: int


@dataclass(frozen=True, slots=True)
class CheckResults:
    """All cases of one check of one suite.

    `masked_as_expected` are those of the masked whose check wanted just that, `rejected` all those whose
    check did not pass.
    """

    suite: str
    check: str
    planned: int
    measured: int
    masked: int
    not_run: int
    resolved: int
    unresolved: int
    masked_as_expected: int
    rejected: int


@dataclass(frozen=True, slots=True)
class PairResults:
    """The rollout episodes of a benchmark and a config in one suite. Rates are None where nothing bears them.

    `resolve_rate` and `mean_reward` are over measured episodes only; the interval is Wilson's and takes
    episodes as independent. `resolve_rate_over_all` divides by all planned ones. `mask_rate` is over
    episodes that ended. `pass_at_k` is there where instances are repeated, from measured repeats only.
    """

    suite: str
    benchmark: str
    config: str
    planned: int
    measured: int
    masked: int
    not_run: int
    resolved: int
    unresolved: int
    instances: int
    instances_measured: int
    resolve_rate: float | None
    resolve_rate_95: Interval | None
    resolve_rate_over_all: float | None
    mean_reward: float | None
    mask_rate: float | None
    pass_at_k: tuple[PassAtK, ...]
    failure_classes: dict[str, int]


@dataclass(frozen=True, slots=True)
class MaskedCase:
    """A case that says nothing about the agent, and why. `expected` by its check, or not."""

    case_id: str
    nodeid: str
    check: str
    failure_class: str
    stage: str
    reason: str
    expected: bool


@dataclass(frozen=True, slots=True)
class RunFacts:
    """The run itself. `complete` means that it came to its own end; times are epoch seconds."""

    run_id: str
    argv: tuple[str, ...]
    versions: dict[str, str]
    host: dict[str, str]
    started_at: float | None
    ended_at: float | None
    exit_status: int | None
    complete: bool


@dataclass(frozen=True, slots=True)
class RunResults:
    """results.json. `balanced`: every planned case is accounted for and nothing of the plan is lost."""

    run: RunFacts
    totals: Counts
    balanced: bool
    pairs: tuple[PairResults, ...]
    by_check: tuple[CheckResults, ...]
    failure_classes: dict[str, int]
    masked_cases: tuple[MaskedCase, ...]
    rejected_cases: tuple[str, ...]
    violations: tuple[Violation, ...]
    problems: tuple[str, ...]


def summarise(run_dir: RunDir) -> RunResults:
    """Return the totals of a run that is over, judged by the gates that its ledger holds.

    Raises: OSError when there is no ledger.
    """
    return _summary(read_books(run_dir))


def write_results(run_dir: RunDir) -> RunResults:
    """Write results.json, failures.jsonl and junit.xml from ledger and records, and return the results.

    The same ledger and records give the same bytes; each file is replaced whole. Raises: OSError.
    """
    books = read_books(run_dir)
    results = _summary(books)
    write_durably(run_dir.failures, b"".join(json_line(row) for row in _failure_rows(books.cases)))
    write_durably(run_dir.junit, junit_xml(books))
    write_durably(run_dir.results, json_document(encode(results)))
    return results


def wilson(successes: int, trials: int) -> Interval | None:
    """Return Wilson's 95 % interval of a rate, None without trials."""
    if trials == 0:
        return None
    z = NormalDist().inv_cdf(0.5 + _CONFIDENCE / 2)
    rate = successes / trials
    scale = 1 + z * z / trials
    centre = (rate + z * z / (2 * trials)) / scale
    reach = z / scale * math.sqrt(rate * (1 - rate) / trials + z * z / (4 * trials * trials))
    # At the ends the exact bounds are 0 and 1, which floating point misses by a hair.
    low = 0.0 if successes == 0 else max(0.0, centre - reach)
    high = 1.0 if successes == trials else min(1.0, centre + reach)
    return Interval(low, high)


def pass_at_k(repeats: Iterable[tuple[int, int]], k: int) -> PassAtK:
    """Return the unbiased pass@k from (measured, resolved) of each instance."""
    chances = [1 - math.comb(n - c, k) / math.comb(n, k) for n, c in repeats if n >= k]
    return PassAtK(k, fmean(chances) if chances else None, len(chances))


def _summary(books: Books) -> RunResults:
    cases = books.cases
    totals = _counts(cases)
    summed = totals.measured + totals.masked + totals.not_run
    accounted = totals.planned == summed == len(books.ledger.planned)
    pairs: dict[tuple[str, str, str], list[CaseResult]] = defaultdict(list)
    checks: dict[tuple[str, str], list[CaseResult]] = defaultdict(list)
    for result in cases:
        case = result.case
        checks[case.suite, case.check].append(result)
        if case.check == ROLLOUT:
            pairs[case.suite, case.benchmark, case.config].append(result)
    results = RunResults(
        run=_run_facts(books),
        totals=totals,
        balanced=accounted and not books.unbalanced,
        pairs=tuple(_pair(*key, group) for key, group in sorted(pairs.items())),
        by_check=tuple(_check(*key, group) for key, group in sorted(checks.items())),
        failure_classes=_failure_classes(cases),
        masked_cases=tuple(_masked(result) for result in cases if result.outcome is Outcome.MASKED),
        rejected_cases=tuple(result.case.case_id for result in cases if result.check_passed is False),
        violations=(),
        problems=books.problems,
    )
    return replace(results, violations=tuple(check_gates(results, books.ledger.gates)))


def _run_facts(books: Books) -> RunFacts:
    begin, end = books.ledger.run, books.ledger.run_end
    return RunFacts(
        run_id="" if begin is None else begin.run_id,
        argv=() if begin is None else begin.argv,
        versions={} if begin is None else begin.versions,
        host={} if begin is None else begin.host,
        started_at=None if begin is None else begin.at,
        ended_at=None if end is None else end.at,
        exit_status=None if end is None else end.exit_status,
        complete=end is not None and end.complete,
    )


def _counts(cases: Sequence[CaseResult]) -> Counts:
    by_outcome = Counter(result.outcome for result in cases)
    resolved = sum(result.resolved is True for result in cases)
    measured = by_outcome[Outcome.MEASURED]
    return Counts(
        planned=len(cases),
        measured=measured,
        masked=by_outcome[Outcome.MASKED],
        not_run=by_outcome[Outcome.NOT_RUN],
        resolved=resolved,
        unresolved=measured - resolved,
    )


def _pair(suite: str, benchmark: str, config: str, cases: Sequence[CaseResult]) -> PairResults:
    counts = _counts(cases)
    rewards = [result.reward for result in cases if result.reward is not None]
    repeats: dict[str, list[bool]] = defaultdict(list)
    for result in cases:
        measured = repeats[result.case.instance_id]
        if result.resolved is not None:
            measured.append(result.resolved)
    most = max(Counter(result.case.instance_id for result in cases).values())
    tallies = [(len(measured), sum(measured)) for measured in repeats.values()]
    ended = counts.measured + counts.masked
    return PairResults(
        suite=suite,
        benchmark=benchmark,
        config=config,
        planned=counts.planned,
        measured=counts.measured,
        masked=counts.masked,
        not_run=counts.not_run,
        resolved=counts.resolved,
        unresolved=counts.unresolved,
        instances=len(repeats),
        instances_measured=sum(n > 0 for n, _ in tallies),
        resolve_rate=counts.resolved / counts.measured if counts.measured else None,
        resolve_rate_95=wilson(counts.resolved, counts.measured),
        resolve_rate_over_all=counts.resolved / counts.planned if counts.planned else None,
        mean_reward=fmean(rewards) if rewards else None,
        mask_rate=counts.masked / ended if ended else None,
        pass_at_k=tuple(pass_at_k(tallies, k) for k in range(1, most + 1)) if most > 1 else (),
        failure_classes=_failure_classes(cases),
    )


def _check(suite: str, check: str, cases: Sequence[CaseResult]) -> CheckResults:
    counts = _counts(cases)
    return CheckResults(
        suite=suite,
        check=check,
        planned=counts.planned,
        measured=counts.measured,
        masked=counts.masked,
        not_run=counts.not_run,
        resolved=counts.resolved,
        unresolved=counts.unresolved,
        masked_as_expected=sum(result.masked_as_expected for result in cases),
        rejected=sum(result.check_passed is False for result in cases),
    )


def _failure_classes(cases: Iterable[CaseResult]) -> dict[str, int]:
    found = Counter(result.failure.failure_class for result in cases if result.failure is not None)
    return dict(sorted(found.items()))


def _masked(result: CaseResult) -> MaskedCase:
    failure = result.failure
    return MaskedCase(
        case_id=result.case.case_id,
        nodeid=result.case.nodeid,
        check=result.case.check,
        failure_class="" if failure is None else failure.failure_class,
        stage="" if failure is None else failure.stage,
        reason=result.mask_reason,
        expected=result.masked_as_expected,
    )


def _failure_rows(cases: Iterable[CaseResult]) -> Iterable[dict[str, Json]]:
    """Yield one row for each attempt that failed, also where a later attempt was measured."""
    for result in cases:
        attempts: list[Failure] = [*result.earlier_failures]
        if result.failure is not None:
            attempts.append(result.failure)
        for attempt, failure in enumerate(attempts, start=1):
            yield {
                **encode(failure),
                "attempt": attempt,
                "outcome": str(result.outcome) if attempt > len(result.earlier_failures) else "tried_again",
                **encode(result.case),
            }
