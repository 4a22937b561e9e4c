"""What must hold of an episode's record, as assertions. The journal is compared with the engine's own witness."""

from __future__ import annotations

from itertools import pairwise

from swe_pytest.results.cases import result_of
from swe_pytest.results.events import PlannedCase
from swe_pytest.results.junit import case_element
from swe_pytest.results.record import EpisodeRecord, Outcome, Stage

_ORDER = [str(stage) for stage in Stage]


def assert_order(record: EpisodeRecord) -> None:
    """Stages began in the order of the lifecycle, none twice, the session was closed, and last."""
    begun = [entry.event.removesuffix(".begin") for entry in record.journal if entry.event.endswith(".begin")]
    assert begun == [stage for stage in _ORDER if stage in begun], f"stages out of order: {begun}"
    assert begun[-1:] == [str(Stage.CLOSE)], f"the session was not closed: {begun}"
    times = [entry.t for entry in record.journal]
    assert times == sorted(times), "the journal's clock ran backwards"


def assert_measured(record: EpisodeRecord) -> None:
    """All stages ran, the evaluation was completed, and the reward is a number from a verdict."""
    begun = [entry.event.removesuffix(".begin") for entry in record.journal if entry.event.endswith(".begin")]
    assert begun == _ORDER, f"a measured episode runs every stage; this one ran {begun}"
    assert record.outcome is Outcome.MEASURED
    assert record.evaluation_completed
    assert not record.mask_sample
    assert record.failure is None
    assert record.verdict is not None
    assert record.reward == record.verdict.reward
    assert record.reward in (0.0, 1.0)
    assert record.resolved == (record.reward == 1.0)


def assert_masked(record: EpisodeRecord) -> None:
    """There is a reason and a failure, and no reward: interrupted is never zero."""
    assert record.outcome is Outcome.MASKED
    assert record.mask_sample
    assert record.mask_reason
    assert record.failure is not None
    assert record.reward is None
    assert record.resolved is None


def assert_junit_error(record: EpisodeRecord) -> None:
    """Told in JUnit, the episode is an <error> without a reward, unless a check says that it wanted that."""
    case = PlannedCase(
        record.case_id,
        f"suite.yaml::test_{record.check}[{record.case_id}]",
        record.suite,
        record.check,
        record.benchmark,
        record.config,
        record.instance_id,
        record.repeat,
    )
    element = case_element(result_of(case, record))
    assert element.find("error") is not None and element.find("failure") is None
    names = [item.get("name") for item in element.iter("property")]
    assert "mask_reason" in names and "reward" not in names, f"JUnit properties: {names}"


def assert_fresh_verifier(record: EpisodeRecord) -> None:
    """By the engine's events: one task sandbox an attempt, and no two of the episode's containers alive at once."""
    lives = sorted(record.sandboxes, key=lambda life: life.created or 0.0)
    for earlier, later in pairwise(lives):
        assert earlier.removed is not None and later.created is not None, f"{earlier.name} was still there"
        assert earlier.removed <= later.created, f"{earlier.name} and {later.name} lived together"
    if record.outcome is Outcome.MEASURED:
        roles = [life.role for life in lives][-2:]
        expected = ["task", "verifier"] if record.patch is not None and record.patch.bytes else ["task"]
        assert roles[-len(expected) :] == expected, f"the engine saw {[life.role for life in lives]}"


def assert_nothing_left(record: EpisodeRecord) -> None:
    """By the engine's events: every container of the episode has been removed."""
    left = [life.name for life in record.sandboxes if life.removed is None]
    assert not left, f"containers left: {left}"
