"""Gates: what a suite demands of its results, and whether they meet it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from swe_pytest.results.aggregate import RunResults


@dataclass(frozen=True, slots=True)
class Bounds:
    """The least and the greatest rate allowed, from 0 to 1, both inclusive; None is no bound."""

    min: float | None = None
    max: float | None = None


@dataclass(frozen=True, slots=True)
class Gates:
    """What a suite demands over all its rollout episodes; None is no demand."""

    resolve_rate: Bounds | None = None
    mask_rate: Bounds | None = None


@dataclass(frozen=True, slots=True)
class Violation:
    """A demand that is not met. `value` is the rate found, None where there is nothing to take it from."""

    suite: str
    gate: str
    value: float | None
    text: str


def check_gates(results: RunResults, gates: Mapping[str, Gates]) -> list[Violation]:
    """Return the demands that are not met, by suite.

    A rate that cannot be shown, for want of episodes, is never met. Whatever the suite demands, a check
    whose every outcome was masked against its expectation is a violation: nothing has been measured.
    """
    found: list[Violation] = []
    for suite, demands in sorted(gates.items()):
        pairs = [pair for pair in results.pairs if pair.suite == suite]
        measured = sum(pair.measured for pair in pairs)
        masked = sum(pair.masked for pair in pairs)
        resolved = sum(pair.resolved for pair in pairs)
        found += _judge(suite, "resolve_rate", demands.resolve_rate, resolved, measured, "measured")
        found += _judge(suite, "mask_rate", demands.mask_rate, masked, measured + masked, "ended")
    for check in results.by_check:
        if check.measured == 0 and check.masked > check.masked_as_expected:
            text = f"{check.suite}: every episode of {check.check} that ran was masked ({check.masked})"
            found.append(Violation(check.suite, "all_masked", None, text))
    return found


def _judge(suite: str, gate: str, bounds: Bounds | None, count: int, of: int, what: str) -> list[Violation]:
    if bounds is None or (bounds.min is None and bounds.max is None):
        return []
    if of == 0:
        return [Violation(suite, gate, None, f"{suite}: {gate} cannot be shown: no rollout episode {what}")]
    rate = count / of
    text = f"{suite}: {gate} is {rate:.1%} ({count} of {of} {what})"
    if bounds.min is not None and rate < bounds.min:
        return [Violation(suite, gate, rate, f"{text}, at least {bounds.min:.1%} is demanded")]
    if bounds.max is not None and rate > bounds.max:
        return [Violation(suite, gate, rate, f"{text}, at most {bounds.max:.1%} is allowed")]
    return []
