"""From a suite to its cases: which, in which order, under which names."""

from __future__ import annotations

import re
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swe_pytest.benchmarks.task import RowRef
from swe_pytest.suites.case import MAX_ID, Fault, pair_id, safe_name
from swe_pytest.suites.config import Config, config_digest
from swe_pytest.suites.plan import LoadedSuite, Plan, UnknownConfig, UnknownInstance, load_suite, plan
from swe_pytest.suites.suite import Suite
from tests.suites.conftest import Write, rows

Loaded = Callable[..., LoadedSuite]

PAIR = "benchmark: toy:box\nconfigs: [gold, noop]\n"


def ids(planned: Plan, check: str = "rollout") -> list[str]:
    return [case.id for case in planned.cases(check)]  # type: ignore[arg-type]


def test_rollouts_are_instances_by_configs_by_repeats(loaded: Loaded) -> None:
    """Cases come instance by instance, so that an image is used while it is warm; repeats count from 1."""
    text = "benchmark: toy:box\nconfigs:\n- gold\n- {name: twice, agent: {harness: noop}, repeats: 2}\n"
    planned = plan(loaded(text, "a", "b"))
    assert ids(planned) == ["gold-a", "twice-a-r1", "twice-a-r2", "gold-b", "twice-b-r1", "twice-b-r2"]
    assert [case.case_id for case in planned.cases("rollout")][:2] == ["mine.gold-a", "mine.twice-a-r1"]
    assert [case.repeat for case in planned.cases("rollout")][:3] == [1, 1, 2]
    assert planned.images() == ["toy/a", "toy/b"]


def test_only_the_checks_of_the_suite_have_cases(loaded: Loaded) -> None:
    """A check that the suite does not name plans nothing."""
    planned = plan(loaded(PAIR))
    assert [len(planned.cases(check)) for check in ("rollout", "interrupted", "gold", "noop")] == [6, 0, 0, 0]


def test_gold_and_noop_prove_each_instance_once_in_the_first_configs_sandbox(loaded: Loaded) -> None:
    """The proofs take sandbox, verifier and limits of the first config, and their own agent and name."""
    text = (
        "benchmark: toy:box\nchecks: [gold, noop]\nconfigs:\n"
        "- {name: big, agent: {harness: command, command: ls}, sandbox: {memory: 8GiB}, repeats: 3}\n- gold\n"
    )
    planned = plan(loaded(text, "a", "b"))
    cases = [*planned.cases("gold"), *planned.cases("noop")]
    assert [case.case_id for case in cases] == [
        "mine.gold-a.gold",
        "mine.gold-b.gold",
        "mine.noop-a.noop",
        "mine.noop-b.noop",
    ]
    assert {case.config.sandbox.memory for case in cases} == {8 * 2**30}
    assert [case.config.agent.harness for case in cases] == ["gold", "gold", "noop", "noop"]
    assert cases[0].config_digest == config_digest(cases[0].config)


def test_interrupted_takes_its_faults_in_turn(loaded: Loaded) -> None:
    """Every config meets every fault, and a narrowed run breaks a case in the same way again."""
    text = (
        PAIR
        + "checks: [interrupted]\n"
        + "faults: [{kill: task}, {kill: verifier}, {refuse: engine, after_command: 2}]\n"
    )
    whole = plan(loaded(text, "a", "b", "c")).cases("interrupted")
    by_config = {
        name: [case.fault for case in whole if case.config.name == name] for name in ("gold", "noop")
    }
    kill, verifier, refuse = Fault("kill", "task"), Fault("kill", "verifier"), Fault("refuse", "engine", 2)
    assert by_config["gold"] == [kill, verifier, refuse]
    assert set(by_config["noop"]) == {kill, refuse}, "noop makes no patch, so its verifier cannot be killed"
    narrow = plan(loaded(text, "a", "b", "c"), instances=["c"], config="gold").cases("interrupted")
    assert [(case.id, case.fault) for case in narrow] == [("gold-c", refuse)]


def test_without_fault_plans_the_task_sandbox_is_killed(loaded: Loaded) -> None:
    """The default fault is a kill of the task sandbox after the first command."""
    (case, *_) = plan(loaded(PAIR + "checks: [interrupted]\n")).cases("interrupted")
    assert case.fault == Fault("kill", "task", 1)
    assert case.case_id == "mine.gold-a__a-1.interrupted"


def test_expectations_go_by_config(loaded: Loaded) -> None:
    """`expect` names configs, and * stands for all others."""
    planned = plan(loaded(PAIR + "expect: {gold: resolved, '*': unresolved}\n", "a"))
    assert [case.expect for case in planned.cases("rollout")] == ["resolved", "unresolved"]


def test_options_narrow_a_plan(loaded: Loaded) -> None:
    """Exact instances, one config, another number of repeats, a limit of instances."""
    suite = loaded(PAIR, "i-1", "i-11", "i-2")
    assert ids(plan(suite, instances=["i-1"])) == ["gold-i-1", "noop-i-1"]
    assert ids(plan(suite, instances=["i-2", "i-1"], config="noop")) == ["noop-i-1", "noop-i-2"]
    assert ids(plan(suite, config="gold", repeats=2, limit=1)) == ["gold-i-1-r1", "gold-i-1-r2"]
    assert plan(suite, limit=0).cases("rollout") == []
    with pytest.raises(ValueError, match="repeats must be at least 1"):
        plan(suite, repeats=0)


def test_unknown_names_are_told_with_near_matches(loaded: Loaded) -> None:
    """A misspelt option says what was meant, and whether the suite left the instance out."""
    suite = loaded(
        PAIR + "select: {limit: 2}\n", "django__django-11099", "django__django-1109", "flask__flask-1"
    )
    with pytest.raises(
        UnknownInstance, match="unknown instance 'django__django-1199': did you mean"
    ) as caught:
        plan(suite, instances=["django__django-1199", "flask__flask-1"])
    assert caught.value.names == ("django__django-1199", "flask__flask-1")
    assert "django__django-11099" in caught.value.near["django__django-1199"]
    assert "flask__flask-1: in the rows, but not selected by this suite" in str(caught.value)
    with pytest.raises(UnknownConfig, match="unknown config 'glod': did you mean 'gold'"):
        plan(suite, config="glod")


def test_selection_filters_shuffles_and_limits(loaded: Loaded) -> None:
    """Instances keep the order of the list; a seed gives one order for good, whatever is left out."""
    many = [f"r__r-{number}" for number in range(50)]
    assert loaded(PAIR + "select: {instances: [r__r-7, r__r-3]}\n", *many).instance_ids() == [
        "r__r-7",
        "r__r-3",
    ]
    shuffled = loaded(PAIR + "select: {shuffle_seed: 1}\n", *many).instance_ids()
    assert sorted(shuffled) == sorted(many)
    assert shuffled != many
    assert loaded(PAIR + "select: {shuffle_seed: 1, limit: 9}\n", *many).instance_ids() == shuffled[:9]
    assert loaded(PAIR + "select: {shuffle_seed: 2}\n", *many).instance_ids() != shuffled
    fewer = loaded(PAIR + "select: {shuffle_seed: 1}\n", *many[:-1]).instance_ids()
    assert fewer == [name for name in shuffled if name != many[-1]]
    assert shuffled[:3] == ["r__r-0", "r__r-23", "r__r-27"], "the order of a seed must never change"


def test_an_instance_may_be_named_by_half_a_character(loaded: Loaded) -> None:
    """JSON allows lone surrogates: they are hashed into safe ids like any other odd name."""
    planned = plan(loaded(PAIR + "select: {shuffle_seed: 1}\n", "a\ud800", "b"))
    assert len({case.id.encode("ascii") for case in planned.cases("rollout")}) == 4


def test_suites_are_named_by_their_folder(loaded: Loaded) -> None:
    """The folder's path below suites/ names a suite, so two smoke suites in two folders differ."""
    names = {
        "suites/smoke/suite.yaml": "smoke",
        "suites/a/smoke/suite.yaml": "a-smoke",
        "odd/suite.yaml": "odd",
        "suites/x.y z/suite.yaml": f"{safe_name('x.y z')}",
    }
    assert {path: loaded(PAIR, name=path).name for path in names} == names
    assert loaded(PAIR + "name: mine-own\n").name == "mine-own"


NAMES = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,20}", fullmatch=True) | st.sampled_from(
    ["a", "a-b", "a-b-c", "r1"]
)
ODD = st.text(min_size=1, max_size=200) | st.sampled_from(
    [
        "b-c",
        "c",
        "b",
        "r1",
        "x-r1",
        "x",
        "x.gold",
        "x.interrupted",
        "é",
        "e",
        "a b",
        "a_b",
        "a" * 150,
        "a" * 151,
        "../..",
        "b-x",
    ]
)


@given(
    configs=st.lists(NAMES, min_size=1, max_size=4, unique=True),
    instances=st.lists(ODD, min_size=1, max_size=6, unique=True),
    repeats=st.lists(st.integers(1, 3), min_size=4, max_size=4),
    override=st.none() | st.integers(1, 2),
)
def test_case_ids_are_unique_and_safe_for_any_names(
    configs: list[str], instances: list[str], repeats: list[int], override: int | None
) -> None:
    """However odd names are, ids are short, in a safe alphabet, and no two cases share a directory."""
    suite = Suite(
        benchmark="toy:box",
        configs=tuple(configs),
        checks=("rollout", "interrupted", "gold", "noop"),
        name="s",
    )
    made = [
        Config.model_validate({"name": name, "agent": {"harness": "gold"}, "repeats": count})
        for name, count in zip(configs, repeats, strict=False)
    ]
    refs = tuple(RowRef(Path("r"), 1, 0, 1, name, "r", "i") for name in instances)
    whole = plan(LoadedSuite(Path("s"), "s", suite, tuple(made), refs, frozenset(), ""), repeats=override)
    cases = whole.all_cases()
    for case in cases:
        assert re.fullmatch(r"[A-Za-z0-9_.+-]+", case.id)
        assert len(case.id) <= MAX_ID
        assert len(case.case_id) < 255
    assert len({case.case_id for case in cases}) == len(cases)
    for check in suite.checks:
        assert len(set(ids(whole, check))) == len(ids(whole, check))
    # Narrowing never renames.
    narrowed = plan(whole.loaded, instances=instances[:1], config=configs[-1], repeats=override)
    assert {case.id for case in narrowed.cases("rollout")} <= {case.id for case in whole.cases("rollout")}


def test_ordinary_ids_are_not_touched() -> None:
    """Only names that need it get a hash."""
    assert pair_id("opencode", "django__django-11099") == "opencode-django__django-11099"
    assert pair_id("a", "b-c", ("b-",)).startswith("a-b-c+")
    assert pair_id("a", "x y").startswith("a-x_y+")
    assert pair_id("a", "x" * 500).startswith("a-xxx")


def test_twenty_thousand_cases_are_planned_in_a_moment(project: Path, write: Write) -> None:
    """Planning shares what cases have in common: well under a second and under 20 MB for 20,000 cases."""
    names = [f"organisation__repository-{number}" for number in range(10_000)]
    write("prepared.jsonl", rows(*names))
    suite = load_suite(write("suites/s/suite.yaml", PAIR), project)
    begin = time.perf_counter()
    cases = plan(suite).cases("rollout")
    took = time.perf_counter() - begin
    assert len(cases) == 20_000
    assert took < 1.0
    assert len({id(case.config) for case in cases}) == 2
    tracemalloc.start()
    cases = plan(suite).cases("rollout")
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert used < 20 * 2**20


def test_workers_pay_for_models_only_with_a_suite() -> None:
    """Importing the plan loads neither pydantic nor a YAML parser."""
    code = (
        "import sys, swe_pytest.suites.plan, swe_pytest.suites.case\n"
        "print(sorted({'pydantic', 'yaml', 'docker', 'swebench'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
