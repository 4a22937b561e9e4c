"""The case: pair x instance x repeat, one pytest parameter. Imported by every worker, so it stays light."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from swe_pytest.benchmarks.task import RowRef

if TYPE_CHECKING:
    from swe_pytest.suites.config import Config

Check = Literal["rollout", "interrupted", "gold", "noop"]
Expectation = Literal["any", "resolved", "unresolved", "masked"]

CHECKS: tuple[Check, ...] = ("rollout", "interrupted", "gold", "noop")

MAX_ID = 120
_HEAD = 96  # leaves room for the hash and the number of a repeat
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]")
_CHECK_ENDING = tuple(f".{check}" for check in CHECKS)


@dataclass(frozen=True, slots=True)
class Fault:
    """What is broken on purpose, and after which command in the task sandbox (0 = before the first)."""

    action: Literal["kill", "pause", "refuse"]
    target: Literal["task", "verifier", "engine"]
    after_command: int = 1


@dataclass(frozen=True, slots=True, eq=False)  # a case is itself; `case_id` compares cases
class Case:
    """One planned episode of one check. `repeat` counts from 1; `id` is the parameter's name in pytest.

    `config` and the texts are shared between cases. `fault` is set in the check `interrupted` only,
    `expect` says something in `rollout` only.
    """

    suite: str
    check: Check
    benchmark: str
    config: Config
    ref: RowRef
    repeat: int
    fault: Fault | None
    id: str
    config_digest: str
    suite_digest: str
    expect: Expectation = "any"

    @property
    def case_id(self) -> str:
        """The name of the case in its run: unique over suites and checks, safe as the name of a directory."""
        name = f"{self.suite}.{self.id}"
        return name if self.check == "rollout" else f"{name}.{self.check}"

    @property
    def instance_id(self) -> str:
        return self.ref.instance_id


def safe_name(text: str, limit: int = 60) -> str:
    """Return a text in the alphabet [A-Za-z0-9_-]; a changed one ends in a hash that keeps it unique."""
    safe = _UNSAFE.sub("_", text).replace(".", "_")[:limit].lstrip("-")
    return safe if safe == text else f"{safe}+{_hash(text)}"


def pair_id(config: str, instance_id: str, longer: tuple[str, ...] = ()) -> str:
    """Return the id of a pair without its repeat: `<config>-<instance_id>` in the alphabet [A-Za-z0-9_.-].

    An id that had to be changed, or that could be read in two ways, ends in "+" and a hash of both names.
    `longer` are the endings that make another config of the suite out of this one, each with its "-"
    (("mini-",) for "claude" next to "claude-mini"). The result depends on nothing else, so that narrowing
    a run never renames a case.
    """
    plain = f"{config}-{instance_id}"
    unsafe = _UNSAFE.search(plain) is not None or len(plain) > _HEAD
    ambiguous = f"{instance_id}-".startswith(longer) or instance_id.endswith(_CHECK_ENDING)
    if not (unsafe or ambiguous):
        return plain
    return f"{_UNSAFE.sub('_', plain)[:_HEAD]}+{_hash(config, instance_id)}"


def _hash(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:10]
