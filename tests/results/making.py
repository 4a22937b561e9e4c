"""Made-up records and ledgers, and strategies for hostile ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hypothesis import strategies as st

from swe_pytest.results.encoding import write_record
from swe_pytest.results.events import EpisodeEnd, PlannedCase
from swe_pytest.results.ledger import Ledger
from swe_pytest.results.record import (
    AgentFacts,
    EpisodeRecord,
    Failure,
    Finding,
    JournalEntry,
    Outcome,
    PatchFacts,
    PatchFile,
    SandboxFacts,
    Stage,
    TestStatuses,
    Verdict,
)
from swe_pytest.results.run_dir import RunDir


def planned(
    name: str = "a",
    *,
    repeat: int = 1,
    config: str = "gold",
    check: str = "rollout",
    suite: str = "smoke",
    instance_id: str | None = None,
) -> PlannedCase:
    case_id = f"{suite}.{config}-{name}-{repeat}" + ("" if check == "rollout" else f".{check}")
    return PlannedCase(
        case_id=case_id,
        nodeid=f"suites/{suite}/suite.yaml::test_{check}[{config}-{name}-{repeat}]",
        suite=suite,
        check=check,
        benchmark="toy",
        config=config,
        instance_id=name if instance_id is None else instance_id,
        repeat=repeat,
    )


def failed(kind: str = "sandbox_gone", message: str = "the container died") -> Failure:
    return Failure(kind, str(Stage.AGENT_RESPOND), False, message, "OSError: gone")


def record_of(
    case: PlannedCase,
    reward: float | None = 1.0,
    *,
    failure: Failure | None = None,
    earlier: tuple[Failure, ...] = (),
) -> EpisodeRecord:
    """A record of a measured episode, or of a masked one when `reward` is None."""
    measured = reward is not None
    if not measured and failure is None:
        failure = failed()
    reason = "" if failure is None else f"{failure.failure_class}: {failure.message}"
    verdict = (
        None if reward is None else Verdict(reward == 1.0, reward, "", TestStatuses(("t1",), (), (), ()))
    )
    return EpisodeRecord(
        case_id=case.case_id,
        suite=case.suite,
        check=case.check,
        benchmark=case.benchmark,
        config=case.config,
        instance_id=case.instance_id,
        repeat=case.repeat,
        outcome=Outcome.MEASURED if measured else Outcome.MASKED,
        reward=reward,
        mask_sample=not measured,
        mask_reason=reason,
        evaluation_completed=measured,
        resolved=None if reward is None else reward == 1.0,
        failure=failure,
        verdict=verdict,
        patch=PatchFacts(3, "ab" * 32, (PatchFile("a.py", "M"),), "s", "f"),
        agent=AgentFacts("gold", "1", "normal", 0, None),
        journal=(JournalEntry(0.0, 10.0, "session.seed.begin", {"limit_s": 2.5, "exit": -9}),),
        sandboxes=(SandboxFacts("task", "1", "swe-pytest-x", "img", "", 10.0, None),),
        verifier_network="none",
        durations={"verify": 1.5},
        versions={"swe_pytest": "0"},
        digests={"row": "0"},
        started_at=10.0,
        ended_at=12.5,
        attempts=len(earlier) + 1,
        earlier_failures=earlier,
    )


class MadeRun:
    """A run directory written as a run writes it, a case at a time."""

    def __init__(self, path: Path, cases: Sequence[PlannedCase]) -> None:
        self.run_dir = RunDir.create(path)
        self.ledger = Ledger(self.run_dir.ledger)
        self.ledger.run_begin("r1", ["pytest", "suites"], {"swe_pytest": "0"})
        self.ledger.plan(cases)

    def begin(self, case: PlannedCase, process: str = "gw0") -> None:
        self.ledger.episode_begin(case.case_id, process)

    def end(self, record: EpisodeRecord, *, passed: bool | None = None, message: str = "") -> None:
        """Begin and end an episode, its record first, as the harness does."""
        self.ledger.episode_begin(record.case_id, "gw0")
        write_record(self.run_dir.episode_dir(record.case_id), record)
        self.ledger.episode_end(record)
        if passed is not None:
            self.ledger.check_end(record.case_id, passed, message)

    def mask(self, case: PlannedCase, failure: Failure) -> None:
        """End an episode that has no record."""
        self.ledger.append(EpisodeEnd.masked(case.case_id, failure))


# -- strategies ---------------------------------------------------------------------------------------

# Everything Python can hold, lone surrogates, NUL and control characters included.
ANY_TEXT = st.text(st.characters(codec=None), max_size=12) | st.sampled_from(
    ["\x00", "\x1b[31m", "\ud800", "\udc80x", "]]>", "<&'\"", "\u2028", "\ufffe", "\x85", "\r\n", "é", "😀"]
)
# What UTF-8 can hold: such text must come back exactly.
UTF8_TEXT = st.text(st.characters(codec="utf-8"), max_size=12)


def failures(text: st.SearchStrategy[str]) -> st.SearchStrategy[Failure]:
    stage = st.sampled_from([str(stage) for stage in Stage])
    return st.builds(
        Failure, st.from_regex("[a-z][a-z0-9_]{0,20}", fullmatch=True), stage, st.booleans(), text, text
    )


@st.composite
def records(draw: st.DrawFn, text: st.SearchStrategy[str]) -> EpisodeRecord:
    """Any record that can be true, with any text in it."""
    outcome = draw(st.sampled_from(Outcome))
    number = st.floats(allow_nan=False, allow_infinity=False)
    names = st.lists(text, max_size=3).map(tuple)
    reward = draw(st.sampled_from([0.0, 1.0]))
    verdict = st.builds(
        Verdict,
        st.booleans(),
        st.just(reward),
        text,
        st.builds(TestStatuses, names, names, names, names),
        text,
        st.lists(st.builds(Finding, text, text, st.booleans()), max_size=2).map(tuple),
    )
    measured, masked = outcome is Outcome.MEASURED, outcome is Outcome.MASKED
    data = st.dictionaries(text, st.none() | st.booleans() | st.integers() | number | text, max_size=3)
    files = st.lists(st.builds(PatchFile, text, st.sampled_from("AMDT")), max_size=2).map(tuple)
    patch = st.builds(PatchFacts, st.integers(0, 10**9), text, files, text, text, names)
    sandbox = st.builds(SandboxFacts, text, text, text, text, text, st.none() | number, st.none() | number)
    return EpisodeRecord(
        case_id=draw(text),
        suite=draw(text),
        check=draw(text),
        benchmark=draw(text),
        config=draw(text),
        instance_id=draw(text),
        repeat=draw(st.integers(1, 99)),
        outcome=outcome,
        reward=reward if measured else None,
        mask_sample=masked,
        mask_reason="m" + draw(text) if masked else "",
        evaluation_completed=measured or draw(st.booleans()),
        resolved=reward == 1.0 if measured else None,
        failure=draw(failures(text)) if masked else None,
        verdict=draw(verdict if measured else st.none() | verdict),
        patch=draw(st.none() | patch),
        agent=draw(
            st.builds(
                AgentFacts,
                text,
                text,
                st.none() | text,
                st.none() | st.integers(),
                st.none() | st.integers(),
                text,
            )
        ),
        journal=tuple(draw(st.lists(st.builds(JournalEntry, number, number, text, data), max_size=2))),
        sandboxes=tuple(draw(st.lists(sandbox, max_size=2))),
        verifier_network=draw(text),
        durations=draw(st.dictionaries(text, number, max_size=2)),
        versions=draw(st.dictionaries(text, text, max_size=2)),
        digests=draw(st.dictionaries(text, text, max_size=2)),
        started_at=draw(number),
        ended_at=draw(number),
        attempts=draw(st.integers(1, 9)),
        earlier_failures=tuple(draw(st.lists(failures(text), max_size=2))),
    )
