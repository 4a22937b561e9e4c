"""Gates: what a suite demands of its results, and whether they meet it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from swe_pytest.results.aggregate import PairResults, RunResults


@dataclass(frozen=True, slots=True)
class Bounds:
    """The least and the greatest rate allowed, from 0 to 1, both inclusive; None is no bound."""

    min: float | None = None
    max: float | None = None


@dataclass(frozen=True, slots=True)
class PairGates:
    """What is demanded of one config's rollout episodes; None is no demand."""

    resolve_rate: Bounds | None = None
    mask_rate: Bounds | None = None


@dataclass(frozen=True, slots=True)
class Gates:
    """What a suite demands of all its rollout episodes together, and of single configs by name."""

    resolve_rate: Bounds | None = None
    mask_rate: Bounds | None = None
    configs: dict[str, PairGates] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Violation:
    """A demand that is not met. `value` is the rate found, None where there is nothing to take it from."""

    suite: str
    gate: str
    value: float | None
    text: str


def check_gates(results: RunResults, gates: Mapping[str, Gates]) -> list[Violation]:
    """Return the demands that are not met, by suite.

    A rate that cannot be shown, for want of episodes that came to something, is not met; a suite or config
    of which the run planned nothing (`--swe-config`) is not judged. Whatever the suite demands, a check
    whose every outcome was masked against its expectation is a violation: nothing has been measured.
    """
    found: list[Violation] = []
    for suite, demands in sorted(gates.items()):
        pairs = [pair for pair in results.pairs if pair.suite == suite]
        found += _judge(suite, suite, demands, pairs)
        for config, demanded in sorted(demands.configs.items()):
            theirs = [pair for pair in pairs if pair.config == config]
            found += _judge(suite, f"{suite}, config {config}", demanded, theirs)
    for check in results.by_check:
        if check.measured == 0 and check.masked > check.masked_as_expected:
            text = f"{check.suite}: every episode of {check.check} that ran was masked ({check.masked})"
            found.append(Violation(check.suite, "all_masked", None, text))
    return found


def _judge(suite: str, who: str, demands: Gates | PairGates, pairs: Sequence[PairResults]) -> list[Violation]:
    if not any(pair.planned for pair in pairs):
        return []
    measured = sum(pair.measured for pair in pairs)
    masked = sum(pair.masked for pair in pairs)
    resolved = sum(pair.resolved for pair in pairs)
    rates = (
        ("resolve_rate", demands.resolve_rate, resolved, measured, "measured"),
        ("mask_rate", demands.mask_rate, masked, measured + masked, "ended"),
    )
    found = []
    for gate, bounds, count, of, what in rates:
        broken = _broken(bounds, count, of, what)
        if broken:
            rate = count / of if of else None
            found.append(Violation(suite, gate, rate, f"{who}: {gate} {broken}"))
    return found


def _broken(bounds: Bounds | None, count: int, of: int, what: str) -> str:
    """Return in words how a rate breaks its bounds, "" if it does not."""
    if bounds is None or (bounds.min is None and bounds.max is None):
        return ""
    if of == 0:
        return f"cannot be shown: no rollout episode {what}"
    found = f"is {count / of:.1%} ({count} of {of} {what})"
    if bounds.min is not None and count / of < bounds.min:
        return f"{found}, at least {bounds.min:.1%} is demanded"
    if bounds.max is not None and count / of > bounds.max:
        return f"{found}, at most {bounds.max:.1%} is allowed"
    return ""
