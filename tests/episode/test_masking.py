"""Which episodes say something about the agent, and which do not."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from bench import trivial
from swe_pytest.agents.contract import Agent, AgentEnd, AgentResult, AgentSession
from swe_pytest.agents.gold import GoldAgent
from swe_pytest.benchmarks.task import Task
from swe_pytest.episode import lifecycle
from swe_pytest.episode.run import Run
from swe_pytest.results.record import EpisodeRecord, Outcome, Stage
from swe_pytest.sandbox.contract import Sandbox
from swe_pytest.suites.plan import Case
from tests.episode.conftest import Maker

Play = Callable[[Case], EpisodeRecord]


def stages(record: EpisodeRecord) -> list[str]:
    return [entry.event.removesuffix(".begin") for entry in record.journal if entry.event.endswith(".begin")]


@dataclass
class ScriptedAgent(Agent):
    """Solves the task and says how its turn ended. A stand-in: no agent of this version has such ends."""

    gold: GoldAgent
    ends: list[AgentEnd]
    kills: int = 0
    name: str = "scripted"
    version: str = "1"

    def open(self, sandbox: Sandbox, task: Task) -> AgentSession:
        return ScriptedSession(self, sandbox, self.gold.open(sandbox, task))


@dataclass
class ScriptedSession(AgentSession):
    agent: ScriptedAgent
    sandbox: Sandbox
    inner: AgentSession

    def respond(self, prompt: str, timeout_s: float) -> AgentResult:
        self.inner.respond(prompt, timeout_s)
        if self.agent.kills:
            self.agent.kills -= 1
            self.sandbox.kill()
        return AgentResult(self.agent.ends[0], turns=3)

    def close(self) -> None:
        self.inner.close()


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> ScriptedAgent:
    agent = ScriptedAgent(GoldAgent(b""), [AgentEnd.NORMAL])

    def make_agent(harness: str, settings: object, gold_patch: bytes) -> Agent:
        agent.gold = GoldAgent(gold_patch)
        return agent

    monkeypatch.setattr(lifecycle, "make_agent", make_agent)
    return agent


@pytest.mark.parametrize("end", [AgentEnd.ITERATION_LIMIT, AgentEnd.CONTEXT_EXHAUSTED])
def test_an_accidental_pass_is_masked(
    make: Maker, play: Play, scripted: ScriptedAgent, end: AgentEnd
) -> None:
    """Resolved although the agent ran out of iterations or context: no reward, but all is on record."""
    scripted.ends = [end]
    record = play(make())
    assert record.outcome is Outcome.MASKED and record.reward is None
    assert record.failure is not None and record.failure.failure_class == "accidental_pass"
    assert record.verdict is not None and record.patch is not None and record.agent.end == end


def test_an_accidental_pass_can_count(make: Maker, play: Play, scripted: ScriptedAgent) -> None:
    """A config can say that such a pass is a pass."""
    scripted.ends = [AgentEnd.ITERATION_LIMIT]
    assert play(make({"mask": {"accidental_pass": False}})).reward == 1.0


def test_an_agent_that_could_not_work_is_masked(make: Maker, play: Play, scripted: ScriptedAgent) -> None:
    """A launch that failed or a model that did not answer says nothing about the agent, and is not verified."""
    scripted.ends = [AgentEnd.MODEL_ERROR]
    record = play(make())
    assert record.failure is not None and record.failure.failure_class == "agent_model_error"
    assert str(Stage.VERIFY) not in stages(record)


@pytest.mark.parametrize(
    "config",
    [
        {"agent": {"harness": "command", "command": "true"}, "sandbox": {"user": "nobody-here"}},
        {"agent": {"harness": "command", "command": "true # " + "x" * 200_000}},
    ],
    ids=["no-such-user", "too-long"],
)
def test_an_agent_that_was_never_started_is_masked(make: Maker, play: Play, config: dict) -> None:
    """What the engine could not even begin is no empty patch of an agent."""
    record = play(make(config))
    assert record.outcome is Outcome.MASKED and record.reward is None
    assert record.failure is not None and record.failure.failure_class == "agent_launch_failed"


def test_infrastructure_is_tried_again(make: Maker, play: Play, scripted: ScriptedAgent) -> None:
    """A failure that is not terminal is tried again up to max_attempts, and stays on record."""
    scripted.kills = 1
    record = play(make({"max_attempts": 2}))
    assert record.reward == 1.0 and record.attempts == 2
    assert [failure.failure_class for failure in record.earlier_failures] == ["sandbox_gone"]
    assert [box.role for box in record.sandboxes] == ["task", "task", "verifier"]
    scripted.kills = 2
    record = play(make({"max_attempts": 2}))
    assert record.outcome is Outcome.MASKED and record.attempts == 2


def test_what_cannot_help_is_not_tried_again(make: Maker, play: Play) -> None:
    """A terminal failure ends the episode at its first attempt."""
    record = play(make({"max_attempts": 3}, image="swe-pytest/none:1"))
    assert record.attempts == 1 and record.failure is not None and record.failure.terminal


def test_a_checkout_that_cannot_be_seeded_is_masked_before_the_agent(make: Maker, play: Play) -> None:
    """Where the purge cannot be proven, or there is no checkout, no agent is started."""
    record = play(make(workdir="/etc"))
    assert record.failure is not None
    assert (record.failure.failure_class, record.failure.stage) == ("seed_failed", "session.seed")
    assert stages(record) == [Stage.SEED, Stage.CLOSE]


def test_a_configs_workdir_outranks_the_rows(make: Maker, play: Play) -> None:
    """The agent works, and the patch is graded, where the config says the checkout is."""
    config = {"sandbox": {"workdir": "/testbed"}}
    assert play(make(config, workdir="/etc")).reward == 1.0


def test_a_hanging_test_is_a_measured_zero(make: Maker, play: Play) -> None:
    """Tests that the candidate's code makes hang are its own fault."""
    script = "#!/bin/bash\n: '>>>>> Start Test Output'\necho '>>>>> Start Test Output'\nsleep 300\n"
    record = play(make({"verifier": {"network": "none", "timeout_s": 2}}, eval_script=script, test_patch=""))
    assert record.outcome is Outcome.MEASURED and record.reward == 0.0
    assert record.verdict is not None and "timed out" in record.verdict.reason


def test_a_held_out_test_patch_that_does_not_apply_is_masked(make: Maker, play: Play) -> None:
    """That the row is broken is no fault of the agent's."""
    patch = "diff --git a/gone.py b/gone.py\n--- a/gone.py\n+++ b/gone.py\n@@ -1 +1 @@\n-a\n+b\n"
    record = play(make(test_patch=patch))
    assert record.failure is not None and record.failure.failure_class == "test_patch_failed"
    assert record.failure.stage == Stage.VERIFY


def test_the_episodes_own_deadline(make: Maker, play: Play) -> None:
    """When the episode's limit has passed, the next stage does not begin, and the session is closed."""
    command = {"harness": "command", "command": "sleep 2"}
    record = play(make({"agent": command, "limits": {"episode_s": 1.5}}))
    assert record.outcome is Outcome.MASKED and record.reward is None
    assert record.failure is not None
    assert record.failure.failure_class in ("agent_timeout", "episode_timeout", "command_timeout")
    assert stages(record)[-1] == Stage.CLOSE and Stage.VERIFY not in stages(record)


def test_an_empty_patch_needs_no_verifier(make: Maker, play: Play) -> None:
    """Doing nothing is a measured zero, known without a container."""
    record = play(make({"agent": {"harness": "noop"}}))
    assert record.reward == 0.0 and record.verdict is not None and record.verdict.reason == "empty patch"
    assert [box.role for box in record.sandboxes] == ["task"]


def test_candidates_cannot_look_into_the_verifiers_first_process(make: Maker, play: Play, run: Run) -> None:
    """The tests run without the capability that would open the control channel, or its secret, to them."""
    record = play(make())
    trace = json.loads((run.directory.episode_dir(record.case_id) / "trace.json").read_text())
    assert trace["trace"]["guarded"] is True and trace["trace"]["completed"] is True


def test_the_record_says_what_produced_it(make: Maker, play: Play) -> None:
    """Versions and digests of everything that matters are in every record."""
    record = play(make())
    assert record.versions["grader"] == "swebench 5.0.2" and record.versions["agent"] == "gold 1"
    assert set(record.digests) == {"suite", "config", "row", "image"} and all(record.digests.values())
    assert record.sandboxes[0].image == trivial.IMAGE
