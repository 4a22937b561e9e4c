"""The config: how an agent is run. `configs/<benchmark>/<name>.yaml`, or inline in a suite."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    StringConstraints,
    WithJsonSchema,
    field_validator,
)
from pydantic_core.core_schema import ValidationInfo

from swe_pytest.suites.near import one_of
from swe_pytest.suites.written import Size, Written, not_empty, wrong

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,59}")
MIN_MEMORY = 6 * 1024 * 1024
_DAY = 86400.0
_SWITCH_WORDS = {"yes", "no", "on", "off", "y", "n", "true", "false"}
# The kernel's capability names, without CAP_: a misspelt one would else fail only at the first container.
_CAPABILITIES = frozenset(
    [
        "AUDIT_CONTROL",
        "AUDIT_READ",
        "AUDIT_WRITE",
        "BLOCK_SUSPEND",
        "BPF",
        "CHECKPOINT_RESTORE",
        "CHOWN",
        "DAC_OVERRIDE",
        "DAC_READ_SEARCH",
        "FOWNER",
        "FSETID",
        "IPC_LOCK",
        "IPC_OWNER",
        "KILL",
        "LEASE",
        "LINUX_IMMUTABLE",
        "MAC_ADMIN",
        "MAC_OVERRIDE",
        "MKNOD",
        "NET_ADMIN",
        "NET_BIND_SERVICE",
        "NET_BROADCAST",
        "NET_RAW",
        "PERFMON",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYSLOG",
        "SYS_ADMIN",
        "SYS_BOOT",
        "SYS_CHROOT",
        "SYS_MODULE",
        "SYS_NICE",
        "SYS_PACCT",
        "SYS_PTRACE",
        "SYS_RAWIO",
        "SYS_RESOURCE",
        "SYS_TIME",
        "SYS_TTY_CONFIG",
        "WAKE_ALARM",
    ]
)

NOT_EMPTY = AfterValidator(not_empty)
Text = Annotated[str, StringConstraints(min_length=1)]
Texts = Annotated[tuple[Text, ...], Field(strict=False)]
Name = Annotated[str, StringConstraints(pattern=f"^{NAME.pattern}$")]
Seconds = Annotated[float, Field(gt=0, le=30 * _DAY, allow_inf_nan=False)]
Cpus = Annotated[float, Field(gt=0, le=1024, allow_inf_nan=False)]
Memory = Annotated[Size, Field(ge=MIN_MEMORY)]
Pids = Annotated[int, Field(ge=1, le=4_194_304)]
Env = dict[Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], str]


def one_or_more(value: object) -> object:
    """Let a single text stand for a list of one."""
    return [value] if isinstance(value, str) else value


OneOrMore = Annotated[
    tuple[Text, ...],
    Field(strict=False),
    BeforeValidator(one_or_more),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
]


class GoldAgent(Written):
    """Applies the benchmark's own solution: proves that a task can be solved and graded."""

    tag: ClassVar[str] = "gold"
    harness: Literal["gold"] = Field(description="The agent's name in the registry.")


class NoopAgent(Written):
    """Changes nothing: proves that a task is not solved from the start."""

    tag: ClassVar[str] = "noop"
    harness: Literal["noop"] = Field(description="The agent's name in the registry.")


class CommandAgent(Written):
    """Runs a script in the task sandbox as its one turn."""

    tag: ClassVar[str] = "command"
    harness: Literal["command"] = Field(description="The agent's name in the registry.")
    command: Text = Field(description="A script for /bin/sh -c, run in the checkout of the task sandbox.")
    env: Env = Field(default_factory=dict, description="Added to the sandbox's environment for the script.")
    version: Text | None = Field(
        default=None, description="Recorded as the agent's version; absent = unknown."
    )


AgentConfig = Annotated[GoldAgent | NoopAgent | CommandAgent, Field(discriminator="harness")]


class SandboxConfig(Written):
    """The task sandbox, where the agent works."""

    provider: Literal["docker"] = Field(default="docker", description="The container engine.")
    network: Literal["none", "open"] = Field(
        default="none",
        description="What the agent can reach: nothing, or whatever the engine's network reaches.",
    )
    cpus: Cpus | None = Field(default=None, description="Processors, fractions allowed; absent = no limit.")
    memory: Memory | None = Field(
        default=None, description="Memory without swap, in bytes or as 512MiB or 4GiB; absent = no limit."
    )
    pids: Pids | None = Field(
        default=None, description="Processes and threads at one time; absent = no limit."
    )
    disk: Memory | None = Field(
        default=None, description="Size of the writable layer, where the engine's storage can limit it."
    )
    env: Env = Field(default_factory=dict, description="Environment of every command in the sandbox.")
    user: Text | None = Field(
        default=None, description="User or uid:gid of commands; absent = the image's own."
    )
    cap_add: Texts = Field(
        default=(), description="Linux capabilities on top of the small set every sandbox has."
    )
    workdir: Annotated[str, StringConstraints(pattern="^/")] | None = Field(
        default=None, description="Absolute path of the checkout; absent = as the benchmark's row says."
    )

    @field_validator("cap_add")
    @classmethod
    def _known_capabilities(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if name.removeprefix("CAP_") not in _CAPABILITIES:
                raise wrong(f"unknown capability '{name}'", one_of(name, sorted(_CAPABILITIES)))
        return names


class VerifierConfig(Written):
    """The verifier sandbox, where the captured patch is graded."""

    network: Literal["benchmark", "none", "open"] = Field(
        default="benchmark",
        description="What tests can reach; benchmark = what its official evaluation needs.",
    )
    timeout_s: Seconds = Field(
        default=1800.0, description="Seconds the tests may take; longer is a measured zero."
    )
    cpus: Cpus | None = Field(default=None, description="Processors, fractions allowed; absent = no limit.")
    memory: Memory | None = Field(
        default=None, description="Memory without swap, in bytes or as 512MiB or 4GiB; absent = no limit."
    )
    pids: Pids | None = Field(
        default=None, description="Processes and threads at one time; absent = no limit."
    )
    env: Env = Field(default_factory=dict, description="Added to the environment of the evaluation script.")


def _within_episode(default: float) -> Callable[[dict[str, Any]], float]:
    """Make a default that gives way to a shorter episode, so that setting `episode_s` alone is enough."""
    return lambda values: min(default, values.get("episode_s", default))


class Limits(Written):
    """Deadlines in seconds, and the size of a patch. Defaults give way to an `episode_s` that was set."""

    episode_s: Seconds = Field(default=21600.0, description="The whole episode, from seeding to closing.")
    agent_s: Seconds = Field(
        default_factory=_within_episode(10800.0),
        description="The agent's turn. Default 10800, at most episode_s.",
    )
    exec_s: Seconds = Field(
        default_factory=_within_episode(180.0),
        description="One command of the harness itself in a sandbox. Default 180, at most episode_s.",
    )
    seed_s: Seconds = Field(
        default_factory=_within_episode(1200.0),
        description="Bringing up the task sandbox with its history purged. Default 1200, at most episode_s.",
    )
    capture_s: Seconds = Field(
        default_factory=_within_episode(300.0),
        description="Capturing the patch. Default 300, at most episode_s.",
    )
    close_s: Seconds = Field(
        default_factory=_within_episode(180.0),
        description="Letting go of agent and sandboxes. Default 180, at most episode_s.",
    )
    sandbox_ttl_s: Seconds = Field(
        default_factory=lambda values: values.get("episode_s", 21600.0) + 3600.0,
        description="Life of a container that nobody removes, beyond episode_s. Default episode_s + 3600.",
    )
    patch_bytes: Annotated[Size, Field(ge=1)] = Field(
        default=16 * 1024 * 1024, description="Greatest patch that is captured, in bytes or as 16MiB."
    )

    @field_validator("agent_s", "exec_s", "seed_s", "capture_s", "close_s")
    @classmethod
    def _inside_the_episode(cls, value: float, info: ValidationInfo) -> float:
        episode: float = info.data.get("episode_s", value)
        if value > episode:
            raise wrong(
                f"'{info.field_name}' ({value:g}) is longer than the episode ({episode:g})",
                f"lower {info.field_name} or raise episode_s",
            )
        return value

    @field_validator("sandbox_ttl_s")
    @classmethod
    def _outlives_the_episode(cls, value: float, info: ValidationInfo) -> float:
        episode: float = info.data.get("episode_s", 0.0)
        if value <= episode:
            raise wrong(
                f"'sandbox_ttl_s' ({value:g}) must be longer than the episode ({episode:g})",
                "a container must not end itself during its episode: leave sandbox_ttl_s out",
            )
        return value


class Mask(Written):
    """Which rewards are withheld although everything worked."""

    accidental_pass: bool = Field(
        default=True, description="Mask a resolved episode whose agent ran out of iterations or context."
    )
    agent_timeout: bool = Field(
        default=True, description="Mask an episode whose agent was stopped by agent_s."
    )


class Config(Written):
    """How to run: agent, sandboxes, limits. After inheritance `extends` is empty."""

    name: Name = Field(
        description="Name in case ids and reports: letters, digits, _ . -; in a file it is the file's name."
    )
    extends: OneOrMore = Field(
        default=(),
        description="Configs this one is laid over, by name or path: mappings are merged, lists replaced,"
        " null removes. `name`, `description` and `deprecated` are not inherited.",
    )
    description: str = Field(default="", description="What this config is for.")
    agent: AgentConfig = Field(description="Who solves the task: {harness: gold | noop | command, ...}.")
    model: None = Field(default=None, description="Reserved for agents that call a model: leave it out.")
    sandbox: SandboxConfig = Field(default_factory=SandboxConfig, description="Where the agent works.")
    limits: Limits = Field(default_factory=Limits, description="Deadlines and bounds.")
    verifier: VerifierConfig = Field(default_factory=VerifierConfig, description="Where the patch is graded.")
    repeats: int = Field(default=1, ge=1, le=10_000, description="Episodes of each instance.")
    max_attempts: int = Field(
        default=1, ge=1, le=20, description="Tries of an episode whose failure says nothing about the agent."
    )
    mask: Mask = Field(default_factory=Mask, description="Which rewards do not count.")
    deprecated: bool | str = Field(
        default=False,
        description="true, or a sentence that says what to use instead; suites that use it are warned.",
    )

    @field_validator("model", mode="before")
    @classmethod
    def _no_model_yet(cls, value: object) -> object:
        if value is not None:
            raise wrong("'model' is reserved: it comes with agents that call a model", "leave the key out")
        return value

    @field_validator("verifier")
    @classmethod
    def _verification_fits(cls, verifier: VerifierConfig, info: ValidationInfo) -> VerifierConfig:
        limits: Limits | None = info.data.get("limits")
        if limits and "timeout_s" in verifier.model_fields_set and verifier.timeout_s > limits.episode_s:
            raise wrong(
                f"'timeout_s' ({verifier.timeout_s:g}) is longer than the episode ({limits.episode_s:g})",
                "lower timeout_s or raise limits.episode_s",
            )
        return verifier

    @field_validator("deprecated", mode="before")
    @classmethod
    def _no_switch_word(cls, value: object) -> object:
        if not isinstance(value, bool | str) or (
            isinstance(value, str) and value.lower() in _SWITCH_WORDS | {""}
        ):
            raise wrong("'deprecated' wants true, false or a sentence", "write true, or what to use instead")
        return value


# What cannot change an episode does not change the digest either.
_NOT_DIGESTED = {"name", "extends", "description", "deprecated", "repeats"}


def config_digest(config: Config) -> str:
    """Return the sha256 (hex) of what a config makes of an episode, after inheritance, defaults included."""
    return digest(config.model_dump(mode="json", exclude=_NOT_DIGESTED))


def digest(value: Mapping[str, object]) -> str:
    """Return the sha256 (hex) of plain values as JSON with sorted keys and no blanks."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
