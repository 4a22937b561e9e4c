"""Facts of a case as name and text: JUnit properties, and the plugin's user_properties."""

from __future__ import annotations

from swe_pytest.results.events import EpisodeEnd, PlannedCase
from swe_pytest.results.record import EpisodeRecord, Failure, Outcome

Property = tuple[str, str]


def properties_of(record: EpisodeRecord) -> list[Property]:
    """Return the facts of an episode. There is a reward only if the outcome is measured."""
    planned = PlannedCase(
        record.case_id,
        "",
        record.suite,
        record.check,
        record.benchmark,
        record.config,
        record.instance_id,
        record.repeat,
    )
    found = _facts(
        planned, record.outcome, record.reward, record.resolved, record.mask_reason, record.failure
    )
    found.append(("attempts", str(record.attempts)))
    if record.agent.end is not None:
        found.append(("agent_end", record.agent.end))
    if record.patch is not None:
        found += [("patch_bytes", str(record.patch.bytes)), ("patch_sha256", record.patch.sha256)]
    if record.verdict is not None:
        found.append(("official", _word(record.verdict.official)))
        if record.verdict.reason:
            found.append(("verdict_reason", record.verdict.reason))
    return found


def properties_of_planned(case: PlannedCase, end: EpisodeEnd | None) -> list[Property]:
    """Return the facts of a case without a record: how it ended by the ledger, or that it was not run."""
    if end is None:
        return _facts(case, Outcome.NOT_RUN, None, None, "", None)
    return _facts(case, end.outcome, end.reward, end.resolved, end.mask_reason, end.failure)


def _facts(
    case: PlannedCase,
    outcome: Outcome,
    reward: float | None,
    resolved: bool | None,
    mask_reason: str,
    failure: Failure | None,
) -> list[Property]:
    found = [
        ("case_id", case.case_id),
        ("instance_id", case.instance_id),
        ("suite", case.suite),
        ("benchmark", case.benchmark),
        ("config", case.config),
        ("repeat", str(case.repeat)),
        ("check", case.check),
        ("outcome", str(outcome)),
    ]
    if outcome is Outcome.MEASURED and reward is not None and resolved is not None:
        found += [("reward", repr(float(reward))), ("resolved", _word(resolved))]
    if mask_reason:
        found.append(("mask_reason", mask_reason))
    if failure is not None:
        found += [
            ("failure_class", failure.failure_class),
            ("failure_stage", failure.stage),
            ("failure_terminal", _word(failure.terminal)),
        ]
    return found


def _word(value: bool) -> str:
    return "true" if value else "false"
