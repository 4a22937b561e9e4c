"""The suite: which instances of a benchmark to run with which configs, what to check and what to demand."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    StringConstraints,
    Tag,
    WithJsonSchema,
    field_validator,
)
from pydantic_core.core_schema import ValidationInfo

from swe_pytest.suites.case import Check, Expectation, Fault
from swe_pytest.suites.config import NOT_EMPTY, Config, Text, Texts
from swe_pytest.suites.written import Written, wrong

EVERY_CONFIG = "*"
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
AfterCommand = Annotated[int, Field(ge=0, le=1_000_000)]


class Select(Written):
    """Which of the rows to run. Filters apply first, then the shuffle, then the limit."""

    instances: Texts | None = Field(default=None, description="Exact instance ids, run in this order.")
    repos: Texts | None = Field(
        default=None, description="Keep the instances of these repositories, as owner/name."
    )
    limit: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="Keep at most so many instances."
    )
    shuffle_seed: Annotated[int, Field(ge=0, lt=2**63)] | None = Field(
        default=None,
        description="Shuffle by a hash of seed and instance id: the same choice on every machine.",
    )


class Rate(Written):
    """The bounds of a share, both inclusive."""

    min: Share | None = Field(default=None, description="The share must be at least this, 0 to 1.")
    max: Share | None = Field(default=None, description="The share must be at most this, 0 to 1.")

    @field_validator("max")
    @classmethod
    def _in_order(cls, value: float | None, info: ValidationInfo) -> float | None:
        low = info.data.get("min")
        if value is not None and low is not None and value < low:
            raise wrong(f"'max' ({value:g}) is below 'min' ({low:g})", "swap them, or drop one")
        return value


class PairGates(Written):
    """What must hold of the rollouts of one config."""

    resolve_rate: Rate | None = Field(default=None, description="Resolved of measured.")
    mask_rate: Rate | None = Field(default=None, description="Masked of measured and masked.")


class Gates(PairGates):
    """What must hold of all rollouts of the suite together, and of single configs."""

    configs: dict[str, PairGates] = Field(
        default_factory=dict, description="The same for single configs, by name."
    )


class KillFault(Written):
    """Kill a container from outside."""

    tag: ClassVar[str] = "kill"
    kill: Literal["task", "verifier"] = Field(description="The sandbox to kill.")
    after_command: AfterCommand = Field(
        default=1,
        description="After which command of the agent, 0 = before the first; the verifier has but one.",
    )

    @field_validator("after_command")
    @classmethod
    def _reachable(cls, value: int, info: ValidationInfo) -> int:
        if value != 1 and info.data.get("kill") == "verifier":
            raise wrong(f"a verifier has no command {value}", "leave after_command out")
        return value

    def fault(self) -> Fault:
        return Fault("kill", self.kill, self.after_command)


class PauseFault(Written):
    """Freeze a container from outside."""

    tag: ClassVar[str] = "pause"
    pause: Literal["task"] = Field(description="The sandbox to freeze.")
    after_command: AfterCommand = Field(
        default=1, description="After which command of the agent, 0 = before the first."
    )

    def fault(self) -> Fault:
        return Fault("pause", self.pause, self.after_command)


class RefuseFault(Written):
    """Make the engine refuse to work for this episode."""

    tag: ClassVar[str] = "refuse"
    refuse: Literal["engine"] = Field(description="What refuses.")
    after_command: AfterCommand = Field(
        default=1, description="After which command of the agent, 0 = before the first."
    )

    def fault(self) -> Fault:
        return Fault("refuse", self.refuse, self.after_command)


def _action(value: Any) -> str | None:
    if isinstance(value, Written):
        return value.tag
    actions = [word for word in ("kill", "pause", "refuse") if isinstance(value, dict) and word in value]
    return actions[0] if actions else None


FaultPlan = Annotated[
    Annotated[KillFault, Tag("kill")]
    | Annotated[PauseFault, Tag("pause")]
    | Annotated[RefuseFault, Tag("refuse")],
    Discriminator(
        _action,
        custom_error_type="no_action",
        custom_error_message="Input should have one of kill, pause, refuse",
    ),
]


def _for_every_config(value: object) -> object:
    return {EVERY_CONFIG: value} if isinstance(value, str) else value


_EXPECTATION: dict[str, Any] = {"enum": ["any", "resolved", "unresolved", "masked"], "type": "string"}
Expect = Annotated[
    dict[str, Expectation],
    BeforeValidator(_for_every_config),
    WithJsonSchema({"anyOf": [_EXPECTATION, {"type": "object", "additionalProperties": _EXPECTATION}]}),
]


class Suite(Written):
    """A suite. In `configs` are names by now: paths and inline configs have been read."""

    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_-]{0,59}$")] | None = Field(
        default=None, description="Name in case ids and reports; absent = the folder's path under suites/."
    )
    description: str = Field(default="", description="What this suite is for.")
    benchmark: Text = Field(description="A benchmark's name, e.g. swebench:verified or pypi_fixes.")
    rows: Text | None = Field(
        default=None,
        description="A JSON-lines file, relative to this one; absent = the benchmark's prepared rows.",
    )
    configs: Annotated[tuple[Text, ...], Field(strict=False), NOT_EMPTY] = Field(
        description="Config names, paths to config files, or configs written inline."
    )
    select: Select = Field(default_factory=Select, description="Which instances to run; absent = all.")
    checks: Annotated[tuple[Check, ...], Field(strict=False), NOT_EMPTY] = Field(
        default=("rollout",), description="Which checks to run: rollout, interrupted, gold, noop."
    )
    expect: Expect = Field(
        default_factory=dict,
        description="What every rollout must come to, or that by config name, * for all others. Default any.",
    )
    gates: Gates = Field(default_factory=Gates, description="Rates that decide whether the session passes.")
    faults: Annotated[tuple[FaultPlan, ...], Field(strict=False), NOT_EMPTY] | None = Field(
        default=None,
        description="What the check `interrupted` breaks, in turn over its cases; absent = kill the task"
        " sandbox after the first command.",
    )

    @field_validator("checks")
    @classmethod
    def _each_check_once(cls, checks: tuple[Check, ...]) -> tuple[Check, ...]:
        again = sorted({check for check in checks if checks.count(check) > 1})
        if again:
            raise wrong(f"check '{again[0]}' is named more than once", "name each check once")
        return checks

    @field_validator("faults")
    @classmethod
    def _faults_are_used(cls, faults: Any, info: ValidationInfo) -> Any:
        if faults and "interrupted" not in info.data.get("checks", ("interrupted",)):
            raise wrong(
                "'faults' without the check 'interrupted'", "add interrupted to checks, or drop faults"
            )
        return faults

    def expectation(self, config: str) -> Expectation:
        """Return what a config's rollouts must come to."""
        return self.expect.get(config, self.expect.get(EVERY_CONFIG, "any"))

    def faults_for(self, config: Config) -> tuple[Fault, ...]:
        """Return the faults that can happen to a config's episodes: without a patch there is no verifier."""
        faults = tuple(plan.fault() for plan in self.faults or ()) or (Fault("kill", "task"),)
        if config.agent.harness == "noop":
            return tuple(fault for fault in faults if fault.target != "verifier")
        return faults
