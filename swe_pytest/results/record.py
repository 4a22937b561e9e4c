"""The record of one episode: the only source of every report. `schemas/record.schema.json` is its schema."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Outcome(StrEnum):
    """How a case came out. The three are never mixed: planned = measured + masked + not run."""

    MEASURED = "measured"
    MASKED = "masked"
    NOT_RUN = "not_run"


class Stage(StrEnum):
    """The stages of an episode, in their order."""

    SEED = "session.seed"
    AGENT_OPEN = "agent.open"
    AGENT_RESPOND = "agent.respond"
    AGENT_CLOSE = "agent.close"
    CAPTURE = "patch.capture"
    VERIFY = "verify"
    CLOSE = "session.close"


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an episode says nothing about the agent.

    `failure_class` is a lower-case word with underscores (written as "class" in JSON); `terminal` means
    that trying again cannot help; `cause` is the first cause as an exception type and text, "" if none.
    """

    failure_class: str
    stage: str
    terminal: bool
    message: str
    cause: str = ""


@dataclass(frozen=True, slots=True)
class PatchFile:
    """One path of a patch. `status` is git's letter: A, M, D, T."""

    path: str
    status: str


@dataclass(frozen=True, slots=True)
class PatchFacts:
    """The captured patch, without its bytes (they are in patch.diff). `notes` tell what was not captured."""

    bytes: int
    sha256: str
    files: tuple[PatchFile, ...]
    start_tree: str
    final_tree: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TestStatuses:
    """Required tests, sorted by what became of them. Names are those of the row."""

    fail_to_pass_success: tuple[str, ...] = ()
    fail_to_pass_failure: tuple[str, ...] = ()
    pass_to_pass_success: tuple[str, ...] = ()
    pass_to_pass_failure: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that the integrity checks noticed; `decisive` ones made the reward differ from official."""

    rule: str
    detail: str
    decisive: bool


@dataclass(frozen=True, slots=True)
class Verdict:
    """What grading found: `official` is the pinned grader's word, `reward` ours, `reason` why a zero is one.

    `apply_step` is the step of the ladder that worked ("" when none did or none was needed).
    """

    official: bool
    reward: float
    reason: str
    tests: TestStatuses
    apply_step: str = ""
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One thing that happened. `t` is monotonic seconds since the episode began, `at` epoch seconds.

    `event` is "<stage>.begin", "<stage>.end", "<stage>.failed" or "fault"; `data` are plain JSON values.
    """

    t: float
    at: float
    event: str
    data: dict[str, str | int | float | bool | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SandboxFacts:
    """A container of the episode as the engine's events witnessed it (not as the harness believes)."""

    role: str
    id: str
    name: str
    image: str
    image_digest: str
    created: float | None
    removed: float | None


@dataclass(frozen=True, slots=True)
class AgentFacts:
    """What is known of the agent's turn; None is not known."""

    harness: str
    version: str
    end: str | None
    exit_code: int | None
    turns: int | None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class EpisodeRecord:
    """One episode. `reward` is None whenever `outcome` is not measured; `mask_sample` is outcome == masked.

    `case_id` is unique in the run; `check` is the check that asked for the episode; `attempts` counts
    tries, earlier ones are kept as `earlier_failures`. Durations are seconds by stage. `versions` and
    `digests` say what produced this: swe_pytest, git head, grader, engine, agent; suite, config, row,
    dataset.
    """

    case_id: str
    suite: str
    check: str
    benchmark: str
    config: str
    instance_id: str
    repeat: int
    outcome: Outcome
    reward: float | None
    mask_sample: bool
    mask_reason: str
    evaluation_completed: bool
    resolved: bool | None
    failure: Failure | None
    verdict: Verdict | None
    patch: PatchFacts | None
    agent: AgentFacts
    journal: tuple[JournalEntry, ...]
    sandboxes: tuple[SandboxFacts, ...]
    verifier_network: str
    durations: dict[str, float]
    versions: dict[str, str]
    digests: dict[str, str]
    started_at: float
    ended_at: float
    attempts: int = 1
    earlier_failures: tuple[Failure, ...] = ()
