"""Gates: rates within their bounds, and never met by what was not shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from swe_pytest.results.aggregate import RunResults, summarise
from swe_pytest.results.gates import Bounds, Gates, PairGates, check_gates
from tests.results.making import MadeRun, planned, record_of


def _results(path: Path, outcomes: dict[str, str]) -> RunResults:
    """Results of configs by letters: r resolved, u unresolved, m masked, e masked as expected, n not run."""
    rewards = {"r": 1.0, "u": 0.0, "m": None, "e": None}
    cases = [
        (planned(f"i{n}", config=config), letter)
        for config, letters in outcomes.items()
        for n, letter in enumerate(letters)
    ]
    made = MadeRun(path, [case for case, _ in cases])
    for case, letter in cases:
        if letter != "n":
            made.end(record_of(case, rewards[letter]), passed=True if letter == "e" else None)
    return summarise(made.run_dir)


RESOLVE = Gates(resolve_rate=Bounds(min=0.5, max=0.75))
MASK = Gates(mask_rate=Bounds(max=0.25))


@pytest.mark.parametrize(
    ("letters", "gates", "texts"),
    [
        ("ru", RESOLVE, []),
        ("rrru", RESOLVE, []),
        ("ruu", RESOLVE, ["smoke: resolve_rate is 33.3% (1 of 3 measured), at least 50.0% is demanded"]),
        ("rr", RESOLVE, ["smoke: resolve_rate is 100.0% (2 of 2 measured), at most 75.0% is allowed"]),
        ("rummmnnn", RESOLVE, []),
        ("nn", RESOLVE, ["smoke: resolve_rate cannot be shown: no rollout episode measured"]),
        ("nn", MASK, ["smoke: mask_rate cannot be shown: no rollout episode ended"]),
        ("rrrm", MASK, []),
        ("rrmnnnn", MASK, ["smoke: mask_rate is 33.3% (1 of 3 ended), at most 25.0% is allowed"]),
        ("mm", Gates(), ["smoke: every episode of rollout that ran was masked (2)"]),
        ("mn", Gates(mask_rate=Bounds(max=1.0)), ["smoke: every episode of rollout that ran was masked (1)"]),
        ("ee", Gates(), []),
        ("em", Gates(), ["smoke: every episode of rollout that ran was masked (2)"]),
        ("nn", Gates(), []),
    ],
)
def test_suite_gates(tmp_path: Path, letters: str, gates: Gates, texts: list[str]) -> None:
    """A suite's bounds are inclusive; what cannot be shown is not met; all masked is never fine."""
    results = _results(tmp_path, {"gold": letters})
    assert [found.text for found in check_gates(results, {"smoke": gates})] == texts


def test_gates_of_single_configs(tmp_path: Path) -> None:
    """A config's gates look at its own episodes only; the suite's at all of them together."""
    results = _results(tmp_path, {"gold": "rr", "noop": "uu"})
    gates = Gates(
        resolve_rate=Bounds(min=0.5),
        configs={
            "gold": PairGates(resolve_rate=Bounds(min=1.0)),
            "noop": PairGates(resolve_rate=Bounds(min=0.1)),
            "not_selected": PairGates(resolve_rate=Bounds(min=1.0)),
        },
    )
    (found,) = check_gates(results, {"smoke": gates, "another": gates})
    assert (
        found.text == "smoke, config noop: resolve_rate is 0.0% (0 of 2 measured), at least 10.0% is demanded"
    )
    assert (found.suite, found.gate, found.value) == ("smoke", "resolve_rate", 0.0)
