"""The checks that a suite can name. Ordinary test functions: `case` comes from the suite, `episode` runs it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from swe_pytest.pytest_plugin.contract import (
    assert_fresh_verifier,
    assert_junit_error,
    assert_masked,
    assert_measured,
    assert_nothing_left,
    assert_order,
)
from swe_pytest.results.record import EpisodeRecord, Outcome, Stage
from swe_pytest.suites.plan import Case

if TYPE_CHECKING:
    from swe_pytest.pytest_plugin.fixtures import EpisodeRunner

_AGENT_STAGES = (Stage.AGENT_OPEN, Stage.AGENT_RESPOND, Stage.AGENT_CLOSE)


def test_rollout(case: Case, episode: EpisodeRecord) -> None:
    """The episode's contract holds, and its outcome is what the suite expects."""
    assert_order(episode)
    assert_nothing_left(episode)
    assert_fresh_verifier(episode)
    if case.expect == "masked":
        assert_masked(episode)
        return
    assert_measured(episode)
    if case.expect in ("resolved", "unresolved"):
        found = "resolved" if episode.resolved else "unresolved"
        assert found == case.expect, f"expected {case.expect}, measured {found}: {_reason(episode)}"


def test_gold(case: Case, episode: EpisodeRecord) -> None:
    """The gold patch resolves the instance."""
    assert_order(episode)
    assert_nothing_left(episode)
    assert_measured(episode)
    assert episode.resolved, f"the gold patch does not resolve {case.ref.instance_id}: {_reason(episode)}"


def test_noop(case: Case, episode: EpisodeRecord) -> None:
    """Doing nothing does not resolve the instance."""
    assert_order(episode)
    assert_nothing_left(episode)
    assert_measured(episode)
    assert not episode.resolved, f"the untouched checkout already resolves {case.ref.instance_id}"


def test_interrupted(case: Case, run_episode: EpisodeRunner) -> None:
    """What breaks in the middle is masked at its stage, has no reward, and leaves nothing behind."""
    assert case.fault is not None
    record = run_episode(case)
    fired = [entry for entry in record.journal if entry.event == "fault"]
    assert fired, f"the fault plan never came about: {case.fault}"
    assert record.outcome is Outcome.MASKED, (
        f"an interrupted episode was {record.outcome}: reward {record.reward}"
    )
    assert_masked(record)
    assert_order(record)
    assert_nothing_left(record)
    failure = record.failure
    assert failure is not None
    wanted = "engine_unreachable" if case.fault.action == "refuse" else "sandbox_gone"
    assert failure.failure_class == wanted, failure
    begun = [entry.event for entry in record.journal]
    if case.fault.target == "verifier":
        assert failure.stage == Stage.VERIFY, failure
    else:
        assert failure.stage in _AGENT_STAGES, failure
        assert f"{Stage.VERIFY}.begin" not in begun, "an agent-stage failure reached verify"
    assert_junit_error(record)


def _reason(episode: EpisodeRecord) -> str:
    return episode.verdict.reason if episode.verdict is not None else episode.mask_reason
