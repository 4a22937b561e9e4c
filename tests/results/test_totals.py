"""Totals: planned = measured + masked + not run, rates from what was measured, masked never a zero."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from dataclasses import replace
from math import comb
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from swe_pytest.results.aggregate import RunResults, pass_at_k, summarise, wilson, write_results
from swe_pytest.results.cases import read_books
from swe_pytest.results.codec import decode
from swe_pytest.results.encoding import RECORD_FILE, write_record
from swe_pytest.results.schema import results_schema
from tests.results.making import MadeRun, failed, planned, record_of


@pytest.fixture
def mixed(tmp_path: Path) -> MadeRun:
    """Six rollouts: two resolved, one unresolved, one masked, one never ended, one not run; one interrupted."""
    cases = [planned(name) for name in ("r1", "r2", "u1", "m1", "x1", "n1")]
    fault = planned("f1", check="interrupted")
    made = MadeRun(tmp_path, [*cases, fault])
    made.end(record_of(cases[0]), passed=True)
    made.end(record_of(cases[1], earlier=(failed("engine_unreachable"),)), passed=True)
    made.end(record_of(cases[2], 0.0), passed=True)
    made.end(record_of(cases[3], None, earlier=(failed("create_failed"),)), passed=False, message="masked")
    made.begin(cases[4])
    made.end(record_of(fault, None), passed=True)
    return made


def test_every_case_is_counted_once(mixed: MadeRun) -> None:
    """Each planned case is measured, masked or not run; the sum is the plan."""
    results = summarise(mixed.run_dir)
    totals = results.totals
    assert (totals.planned, totals.measured, totals.masked, totals.not_run) == (7, 3, 3, 1)
    assert (totals.resolved, totals.unresolved) == (2, 1)
    assert results.balanced
    assert results.failure_classes == {"interrupted": 1, "sandbox_gone": 2}


def test_rates_are_over_what_bears_them(mixed: MadeRun) -> None:
    """Resolve rate and mean reward are over measured, mask rate over ended, and other checks are in neither."""
    (pair,) = summarise(mixed.run_dir).pairs
    assert (pair.planned, pair.measured, pair.masked, pair.not_run) == (6, 3, 2, 1)
    assert pair.resolve_rate == pytest.approx(2 / 3)
    assert pair.resolve_rate_over_all == pytest.approx(2 / 6)
    assert pair.mean_reward == pytest.approx(2 / 3)
    assert pair.mask_rate == pytest.approx(2 / 5)
    assert pair.pass_at_k == ()
    assert pair.failure_classes == {"interrupted": 1, "sandbox_gone": 1}


def test_begun_and_never_ended_is_masked(mixed: MadeRun) -> None:
    """An episode that began and has no end is masked as interrupted, with its process named, and has no reward."""
    mixed.ledger.worker_died("gw0", "signal 9")
    (case,) = [case for case in read_books(mixed.run_dir).cases if case.case.instance_id == "x1"]
    assert case.outcome == "masked"
    assert case.reward is None
    assert case.resolved is None
    assert case.failure is not None
    assert case.failure.failure_class == "interrupted"
    assert "worker gw0 died" in case.mask_reason
    assert "reward" not in dict(case.properties)


def test_masked_as_its_check_expects_is_told_apart(mixed: MadeRun) -> None:
    """What the interrupted check masked on purpose is masked, but is not what somebody has to look at."""
    results = summarise(mixed.run_dir)
    told = {case.case_id: case.expected for case in results.masked_cases}
    assert told == {"smoke.gold-m1-1": False, "smoke.gold-x1-1": False, "smoke.gold-f1-1.interrupted": True}
    checks = {check.check: check for check in results.by_check}
    assert checks["interrupted"].masked_as_expected == 1
    assert checks["rollout"].masked_as_expected == 0
    assert results.rejected_cases == ("smoke.gold-m1-1",)


def test_nothing_measured_has_no_rate(tmp_path: Path) -> None:
    """Where everything is masked there is no rate and no mean, never a confident zero; and it is a violation."""
    cases = [planned(name) for name in "ab"]
    made = MadeRun(tmp_path, cases)
    for case in cases:
        made.end(record_of(case, None))
    results = summarise(made.run_dir)
    (pair,) = results.pairs
    assert pair.resolve_rate is None
    assert pair.resolve_rate_95 is None
    assert pair.mean_reward is None
    assert pair.mask_rate == 1.0
    assert [found.gate for found in results.violations] == ["all_masked"]


@settings(max_examples=20, deadline=None)
@given(st.lists(st.sampled_from([0.0, 1.0, None]), min_size=1, max_size=12))
def test_masked_never_moves_the_mean(rewards: list[float | None]) -> None:
    """Adding or removing masked episodes changes neither mean reward nor resolve rate."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as directory:
        cases = [planned(f"i{n}") for n in range(len(rewards))]
        made = MadeRun(Path(directory), cases)
        for case, reward in zip(cases, rewards, strict=True):
            made.end(record_of(case, reward))
        (pair,) = summarise(made.run_dir).pairs
    known = [reward for reward in rewards if reward is not None]
    expected = sum(known) / len(known) if known else None
    assert pair.mean_reward == pytest.approx(expected)
    assert pair.resolve_rate == pytest.approx(expected)
    assert pair.measured == len(known)
    assert pair.masked == len(rewards) - len(known)


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [
        # Wilson's formula in decimal arithmetic of 40 digits; 81 of 263 is Newcombe's published example.
        (0, 10, 0.0, 0.2775327999),
        (10, 10, 0.7224672001, 1.0),
        (5, 10, 0.2365930905, 0.7634069095),
        (1, 1, 0.2065493144, 1.0),
        (492, 500, 0.9687488915, 0.9918707470),
        (81, 263, 0.2552885199, 0.3662095770),
    ],
)
def test_wilson_interval(successes: int, trials: int, low: float, high: float) -> None:
    """The interval is Wilson's at 95 %, within 0 and 1 and exact at the ends."""
    found = wilson(successes, trials)
    assert found is not None
    assert found.low == pytest.approx(low, abs=1e-9)
    assert found.high == pytest.approx(high, abs=1e-9)


@given(st.integers(1, 3000).flatmap(lambda trials: st.tuples(st.integers(0, trials), st.just(trials))))
def test_wilson_solves_its_equation(case: tuple[int, int]) -> None:
    """Each inner bound p is where the observed rate is just z standard errors of p away; the rate is inside."""
    successes, trials = case
    found = wilson(successes, trials)
    assert found is not None
    rate = successes / trials
    assert 0 <= found.low <= rate <= found.high <= 1
    for bound in {found.low, found.high} - {0.0, 1.0}:
        distance = abs(rate - bound) / (bound * (1 - bound) / trials) ** 0.5
        assert distance == pytest.approx(1.959963985, rel=1e-6)


def test_no_trials_have_no_interval() -> None:
    """Nothing measured has no interval."""
    assert wilson(0, 0) is None


@pytest.mark.parametrize(
    ("n", "c", "k"), [(n, c, k) for n in range(1, 6) for c in range(n + 1) for k in range(1, n + 1)]
)
def test_pass_at_k_is_what_brute_force_finds(n: int, c: int, k: int) -> None:
    """pass@k of an instance is the share of all choices of k of its n repeats that hold a resolved one."""
    outcomes = [True] * c + [False] * (n - c)
    choices = list(itertools.combinations(range(n), k))
    share = sum(any(outcomes[i] for i in choice) for choice in choices) / len(choices)
    assert len(choices) == comb(n, k)
    found = pass_at_k([(n, c)], k)
    assert found.value == pytest.approx(share)
    assert found.instances == 1


def test_pass_at_k_uses_measured_repeats_only(tmp_path: Path) -> None:
    """A masked repeat is neither a try nor a failure; an instance with too few measured ones does not count."""
    outcomes: dict[str, list[float | None]] = {
        "a": [1.0, 0.0, 0.0],
        "b": [0.0, None, 0.0],
        "c": [None, None, 1.0],
    }
    cases = [(planned(name, repeat=n), r) for name, rs in outcomes.items() for n, r in enumerate(rs, start=1)]
    made = MadeRun(tmp_path, [case for case, _ in cases])
    for case, reward in cases:
        made.end(record_of(case, reward))
    (pair,) = summarise(made.run_dir).pairs
    assert (pair.instances, pair.instances_measured) == (3, 3)
    assert [(found.k, found.instances) for found in pair.pass_at_k] == [(1, 3), (2, 2), (3, 1)]
    assert pair.pass_at_k[0].value == pytest.approx((1 / 3 + 0 + 1) / 3)
    assert pair.pass_at_k[1].value == pytest.approx((2 / 3 + 0) / 2)
    assert pair.pass_at_k[2].value == 1.0


def test_pairs_are_kept_apart(tmp_path: Path) -> None:
    """Configs and suites have their own rows, in a fixed order."""
    cases = [
        planned("a", config=config, suite=suite) for suite in ("s2", "s1") for config in ("noop", "gold")
    ]
    made = MadeRun(tmp_path, cases)
    for case in cases:
        made.end(record_of(case, 0.0 if case.config == "noop" else 1.0))
    pairs = summarise(made.run_dir).pairs
    assert [(pair.suite, pair.config, pair.resolve_rate) for pair in pairs] == [
        ("s1", "gold", 1.0),
        ("s1", "noop", 0.0),
        ("s2", "gold", 1.0),
        ("s2", "noop", 0.0),
    ]


def test_results_fit_their_schema_and_come_back(mixed: MadeRun) -> None:
    """results.json is valid by its committed schema and is the results that were returned."""
    results = write_results(mixed.run_dir)
    written = json.loads(mixed.run_dir.results.read_bytes())
    Draft202012Validator(results_schema()).validate(written)
    assert decode(RunResults, written) == results


def test_the_same_ledger_gives_the_same_files(mixed: MadeRun) -> None:
    """Writing the reports again gives the same bytes and leaves nothing else behind."""
    write_results(mixed.run_dir)
    directory = mixed.run_dir
    files = (directory.results, directory.failures, directory.junit)
    first = [path.read_bytes() for path in files]
    names = sorted(path.name for path in directory.path.iterdir())
    write_results(directory)
    assert [path.read_bytes() for path in files] == first
    assert sorted(path.name for path in directory.path.iterdir()) == names


def test_one_row_for_each_failed_attempt(mixed: MadeRun) -> None:
    """failures.jsonl has the earlier attempts too, also of an episode that was measured in the end."""
    write_results(mixed.run_dir)
    rows = [json.loads(line) for line in mixed.run_dir.failures.read_text().splitlines()]
    told = [(row["instance_id"], row["attempt"], row["class"], row["outcome"]) for row in rows]
    assert told == [
        ("r2", 1, "engine_unreachable", "tried_again"),
        ("m1", 1, "create_failed", "tried_again"),
        ("m1", 2, "sandbox_gone", "masked"),
        ("x1", 1, "interrupted", "masked"),
        ("f1", 1, "sandbox_gone", "masked"),
    ]
    assert {"stage", "terminal", "message", "cause", "nodeid", "case_id"} <= rows[0].keys()


def test_the_record_counts_where_the_ledger_lacks_the_end(tmp_path: Path) -> None:
    """KILL between record and ledger loses nothing: the record says how the episode came out."""
    case = planned()
    made = MadeRun(tmp_path, [case])
    made.begin(case)
    write_record(made.run_dir.episode_dir(case.case_id), record_of(case, 0.0))
    totals = summarise(made.run_dir).totals
    assert (totals.measured, totals.unresolved, totals.masked) == (1, 1, 0)


def test_a_regraded_record_counts_and_the_difference_is_told(tmp_path: Path) -> None:
    """Where record and ledger differ the record counts, and it is said."""
    case = planned()
    made = MadeRun(tmp_path, [case])
    made.end(record_of(case, 0.0))
    write_record(made.run_dir.episode_dir(case.case_id), record_of(case, 1.0))
    results = summarise(made.run_dir)
    assert results.totals.resolved == 1
    assert any("by its record, which counts" in problem for problem in results.problems)


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b"\xff", b'{"case_id": 1}'])
def test_a_damaged_record_is_told_and_the_ledger_counts(tmp_path: Path, damage: bytes) -> None:
    """A record that cannot be read is a problem; the ledger's own word on the episode is taken."""
    case = planned()
    made = MadeRun(tmp_path, [case])
    made.end(record_of(case))
    (made.run_dir.episode_dir(case.case_id) / RECORD_FILE).write_bytes(damage)
    results = summarise(made.run_dir)
    assert results.totals.resolved == 1
    assert any("record.json cannot be used" in problem for problem in results.problems)


def test_another_cases_record_is_not_taken(tmp_path: Path) -> None:
    """A record that names another case never gives this case its reward."""
    case = planned()
    made = MadeRun(tmp_path, [case])
    made.begin(case)
    write_record(made.run_dir.episode_dir(case.case_id), replace(record_of(case), instance_id="other"))
    results = summarise(made.run_dir)
    assert results.totals.masked == 1
    assert any("of another case" in problem for problem in results.problems)


def test_an_end_without_a_plan_unbalances(tmp_path: Path) -> None:
    """When something was run that no plan holds, the results say that they do not balance."""
    made = MadeRun(tmp_path, [planned("a")])
    made.end(record_of(planned("a")))
    assert summarise(made.run_dir).balanced
    made.end(record_of(planned("stranger")))
    assert not summarise(made.run_dir).balanced


def test_twenty_thousand_cases_take_little(tmp_path: Path) -> None:
    """The reports of 20,000 planned cases, few of them run, take a process under 150 MB and a few seconds."""
    made = MadeRun(tmp_path, cases := [planned(f"django__django-{n}") for n in range(20_000)])
    for case in cases[:20]:
        made.end(record_of(case))
    code = """
import sys, time
from pathlib import Path
from swe_pytest.results.aggregate import write_results
from swe_pytest.results.run_dir import RunDir
began = time.process_time()
totals = write_results(RunDir.open(Path(sys.argv[1]))).totals
print(totals.planned, totals.not_run, time.process_time() - began)
# Not ru_maxrss: that is never less than what the parent had when it forked.
status = Path("/proc/self/status")
lines = status.read_text().splitlines() if status.exists() else ["VmHWM: 0"]
print(sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")))
"""
    command = [sys.executable, "-c", code, str(tmp_path)]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert told[:2] == ["20000", "19980"]
    assert float(told[2]) < 6, told  # processor time; about 1.4 s where this was written
    assert int(told[3]) < 150e6, told
