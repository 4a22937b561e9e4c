"""All that is wrong with suites and configs is told at once, each with its place and what would be right."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from swe_pytest.problem import InvalidFiles
from swe_pytest.suites.load import resolve_config
from swe_pytest.suites.plan import load_suite, plan
from swe_pytest.suites.search import Scope
from tests.suites.conftest import Write, complaints, rows, told

HEAD = "benchmark: toy:box\nconfigs: [gold]\n"

# What stands in suites/mine/suite.yaml -> exactly the problems, without the file's name.
SUITES = {
    "unknown key": (
        HEAD + "confgs: [noop]\n",
        ["3:1: unknown key 'confgs'; did you mean 'configs'?"],
    ),
    "unknown key deep inside": (
        HEAD + "select:\n  instances: [a__a-1]\n  limits: 3\n",
        ["5:3: unknown key 'limits'; did you mean 'limit'?"],
    ),
    "unknown key unlike any other": (
        HEAD + "select: {zzz: 1}\n",
        ["3:10: unknown key 'zzz'; known are: instances, repos, limit, shuffle_seed"],
    ),
    "missing keys": (
        "description: nothing\n",
        [
            "1:1: missing key 'benchmark'; a benchmark's name, e.g. swebench:verified or pypi_fixes",
            "1:1: missing key 'configs'; config names, paths to config files, or configs written inline",
        ],
    ),
    "null is absent": (
        "benchmark: toy:box\nconfigs:\n",
        ["2:9: missing key 'configs'; config names, paths to config files, or configs written inline"],
    ),
    "wrong types": (
        HEAD + "select: {limit: many, shuffle_seed: 1.5, instances: a__a-1}\nchecks: rollout\nname: [x]\n",
        [
            "3:17: 'limit' wants a whole number, found a text ('many'); keep at most so many instances",
            "3:37: 'shuffle_seed' wants a whole number, found a number ('1.5'); "
            "shuffle by a hash of seed and instance id: the same choice on every machine",
            "3:53: 'instances' wants a list, found a text ('a__a-1'); exact instance ids, run in this order",
            "4:9: 'checks' wants a list, found a text ('rollout'); "
            "which checks to run: rollout, interrupted, gold, noop",
            "5:7: 'name' wants a text, found a list; "
            "name in case ids and reports; absent = the folder's path under suites/",
        ],
    ),
    "switch for a number": (
        HEAD + "select: {limit: true}\n",
        ["3:17: 'limit' wants a whole number, found true or false ('true'); keep at most so many instances"],
    ),
    "out of range": (
        HEAD + "select: {limit: 0}\ngates: {mask_rate: {max: 1.5}}\n",
        [
            "3:17: 'limit': should be greater than or equal to 1, found a whole number ('0'); "
            "keep at most so many instances",
            "4:26: 'max': should be less than or equal to 1, found a number ('1.5'); "
            "the share must be at most this, 0 to 1",
        ],
    ),
    "huge number": (
        HEAD + f"select: {{shuffle_seed: {'9' * 30}}}\n",
        [
            "3:24: 'shuffle_seed': should be less than 9223372036854775808, found a whole number "
            f"('{'9' * 30}'); shuffle by a hash of seed and instance id: the same choice on every machine"
        ],
    ),
    "no finite number": (
        HEAD + "gates: {mask_rate: {max: .nan}}\n",
        [
            "3:26: 'max' wants a finite number, found a number ('.nan'); "
            "the share must be at most this, 0 to 1"
        ],
    ),
    "bounds the wrong way round": (
        HEAD + "gates: {mask_rate: {min: 0.5, max: 0.1}}\n",
        ["3:36: 'max' (0.1) is below 'min' (0.5); swap them, or drop one"],
    ),
    "unknown check": (
        HEAD + "checks:\n- rollout\n- interupted\n",
        ["5:3: 'checks' cannot be 'interupted'; did you mean 'interrupted'?"],
    ),
    "check twice": (
        HEAD + "checks: [rollout, rollout]\n",
        ["3:9: check 'rollout' is named more than once; name each check once"],
    ),
    "unknown expectation": (
        HEAD + "expect: solved\n",
        ["3:9: 'expect' cannot be 'solved'; did you mean 'resolved' or 'unresolved'?"],
    ),
    "expectation of a stranger": (
        HEAD
        + "expect:\n  gould: resolved\ngates:\n  configs:\n    noop: {mask_rate: {max: 0}}\n    '*': {}\n",
        [
            "4:3: 'gould' is no config of this suite; did you mean 'gold'?",
            "7:5: 'noop' is no config of this suite; known are: gold",
            "8:5: '*' is no config of this suite; known are: gold",
        ],
    ),
    "unknown benchmark": (
        "benchmark: toy:bx\nconfigs: [gold]\n",
        ["1:12: unknown benchmark 'toy:bx'; did you mean 'toy:box'?"],
    ),
    "unknown config": (
        "benchmark: toy:box\nconfigs:\n- gold\n- golt\n",
        ["4:3: unknown config 'golt'; did you mean 'gold'? (looked in configs/toy, configs, built-in)"],
    ),
    "config file missing": (
        "benchmark: toy:box\nconfigs: [../x.yaml]\n",
        ["2:11: no config file '../x.yaml'; paths are relative to suites/mine"],
    ),
    "config twice": (
        "benchmark: toy:box\nconfigs:\n- gold\n- noop\n- {name: gold, agent: {harness: noop}}\n",
        ["5:3: config 'gold' again (first on line 3); give each config of a suite a name of its own"],
    ),
    "config of a wrong type": (
        "benchmark: toy:box\nconfigs: [[gold]]\n",
        ["2:11: 'configs' wants names, paths or mappings, found a list; write e.g. `- gold`"],
    ),
    "configs empty": (
        "benchmark: toy:box\nconfigs: []\n",
        ["2:10: an empty list; name at least one, or leave the key out where it has a default"],
    ),
    "inline config": (
        "benchmark: toy:box\nconfigs:\n- {agent: {harness: comand, command: ls}}\n",
        [
            "3:3: missing key 'name'; "
            "name in case ids and reports: letters, digits, _ . -; in a file it is the file's name",
            "3:21: unknown agent 'comand'; did you mean 'command'?",
        ],
    ),
    "keys inside a command agent": (
        "benchmark: toy:box\nconfigs:\n- name: x\n  agent:\n    harness: command\n"
        "    env: {A-B: 1}\n    comand: ls\n",
        [
            "5:5: missing key 'command'; a script for /bin/sh -c, run in the checkout of the task sandbox",
            "6:11: cannot be called 'A-B'; added to the sandbox's environment for the script; "
            "it must match ^[A-Za-z_][A-Za-z0-9_]*$",
            "7:5: unknown key 'comand'; did you mean 'command'?",
        ],
    ),
    "no harness": (
        "benchmark: toy:box\nconfigs:\n- {name: x, agent: {command: ls}}\n",
        ["3:20: 'agent' lacks 'harness'; who solves the task: {harness: gold | noop | command, ...}"],
    ),
    "a model": (
        "benchmark: toy:box\nconfigs:\n- {name: x, agent: {harness: gold}, model: {name: m}}\n",
        ["3:44: 'model' is reserved: it comes with agents that call a model; leave the key out"],
    ),
    "sizes, capabilities, paths": (
        "benchmark: toy:box\nconfigs:\n- name: x\n  agent: {harness: gold}\n"
        "  sandbox: {memory: 4g, disk: 4, cap_add: [SYS_PTRAC], workdir: app, provider: dokcer}\n",
        [
            "5:21: not a size: '4g'; write bytes, or a number with a unit, e.g. 512MiB or 4GiB",
            "5:31: 'disk': should be greater than or equal to 6291456, found a whole number ('4'); "
            "size of the writable layer, where the engine's storage can limit it",
            "5:43: unknown capability 'SYS_PTRAC'; did you mean 'SYS_PTRACE', 'SYS_PACCT' or 'SYS_RAWIO'?",
            "5:65: cannot be called 'app'; "
            "absolute path of the checkout; absent = as the benchmark's row says; it must match ^/",
            "5:80: 'provider' cannot be 'dokcer'; did you mean 'docker'?",
        ],
    ),
    "limits that contradict one another": (
        "benchmark: toy:box\nconfigs:\n- name: x\n  agent: {harness: gold}\n"
        "  limits: {episode_s: 600, agent_s: 601, sandbox_ttl_s: 600}\n  verifier: {timeout_s: 900}\n",
        [
            "5:37: 'agent_s' (601) is longer than the episode (600); lower agent_s or raise episode_s",
            "5:57: 'sandbox_ttl_s' (600) must be longer than the episode (600); "
            "a container must not end itself during its episode: leave sandbox_ttl_s out",
        ],
    ),
    "verification longer than the episode": (
        "benchmark: toy:box\nconfigs:\n- name: x\n  agent: {harness: gold}\n"
        "  limits: {episode_s: 600}\n  verifier: {timeout_s: 900}\n",
        [
            "6:13: 'timeout_s' (900) is longer than the episode (600); "
            "lower timeout_s or raise limits.episode_s"
        ],
    ),
    "switch words": (
        "benchmark: toy:box\nconfigs:\n"
        "- {name: x, agent: {harness: gold}, mask: {agent_timeout: off}, deprecated: no}\n",
        [
            "3:59: 'agent_timeout' wants true or false, found a text ('off'); "
            "mask an episode whose agent was stopped by agent_s",
            "3:77: 'deprecated' wants true, false or a sentence; write true, or what to use instead",
        ],
    ),
    "faults": (
        HEAD + "checks: [interrupted]\nfaults:\n- {kill: tsk}\n- {after_command: 2}\n"
        "- {kill: verifier, after_command: 2}\n- {pause: task, kill: task}\n",
        [
            "5:10: 'kill' cannot be 'tsk'; did you mean 'task'?",
            "6:3: 'faults': should have one of kill, pause, refuse, found a mapping; what the check "
            "`interrupted` breaks, in turn over its cases; absent = kill the task sandbox after the first command",
            "7:35: a verifier has no command 2; leave after_command out",
            "8:4: unknown key 'pause'; known are: kill, after_command",
        ],
    ),
    "faults that nothing uses": (
        HEAD + "faults: [{kill: task}]\n",
        ["3:9: 'faults' without the check 'interrupted'; add interrupted to checks, or drop faults"],
    ),
    "faults that cannot happen": (
        "benchmark: toy:box\nconfigs: [noop]\nchecks: [interrupted]\nfaults: [{kill: verifier}]\n",
        [
            "4:9: no fault can happen to config 'noop': without a patch no verifier is started; "
            "add {kill: task} to faults"
        ],
    ),
    "unknown instances and repos": (
        HEAD + "select:\n  instances:\n  - a__a-2\n  - a__b-1\n  - a__a-2\n  repos: [toys/bx]\n",
        [
            "6:5: unknown instance 'a__b-1'; did you mean 'b__b-1', 'a__a-1' or 'a__a-2'?",
            "7:5: instance 'a__a-2' again (first on line 5); name it once",
            "8:11: unknown repo 'toys/bx'; did you mean 'toys/box'?",
        ],
    ),
    "rows file missing": (
        HEAD + "rows: none.jsonl\n",
        ["3:7: no rows file 'none.jsonl'; the path is relative to suites/mine"],
    ),
}


@pytest.mark.parametrize("name", SUITES)
def test_a_wrong_suite_is_told_exactly(name: str, project: Path, write: Write) -> None:
    """Each mistake has file, line, column and remedy; all of a file come together."""
    text, expected = SUITES[name]
    write("configs/toy/other.yaml", "agent: {harness: noop}\n")
    write("prepared.jsonl", rows("a__a-1", "a__a-2", "b__b-1"))
    found = complaints(project, write("suites/mine/suite.yaml", text))
    assert found == [f"suites/mine/suite.yaml:{line}" for line in expected]


def test_a_right_suite_has_no_problems(project: Path, write: Write) -> None:
    """The example of the documentation is right, so that the table above means something."""
    write("suites/mine/rows.jsonl", rows("a__a-1", "a__a-2"))
    text = """
benchmark: toy:box
rows: rows.jsonl
configs:
  - gold
  - noop
  - {name: fixit, agent: {harness: command, command: "sed -i 's/a - b/a + b/' calc.py"}}
select: {instances: [a__a-1, a__a-2], repos: [toys/box], limit: 5, shuffle_seed: 0}
checks: [rollout, interrupted, gold, noop]
expect: any
gates: {resolve_rate: {min: 0.5}, mask_rate: {max: 0.0}, configs: {gold: {resolve_rate: {min: 1}}}}
faults: [{kill: task}, {kill: verifier}, {pause: task, after_command: 2}, {refuse: engine, after_command: 0}]
"""
    assert complaints(project, write("suites/mine/suite.yaml", text)) == []


def test_problems_of_all_files_come_together(project: Path, write: Write) -> None:
    """Suite, config, base and rows are each wrong: one error tells all of it."""
    write("configs/base.yaml", "limts: {}\n")
    write("configs/mine.yaml", "extends: base\nagent: {harness: gold}\nrepeats: none\n")
    write("suites/s/rows.jsonl", rows("a") + '{"instance_id": "b", "repo": "r", "image": "i", "tests": []}\n')
    text = "benchmark: toy:box\nrows: rows.jsonl\nconfigs: [mine]\nselect: {instances: [c]}\n"
    assert complaints(project, write("suites/s/suite.yaml", text)) == [
        "configs/base.yaml:1:1: unknown key 'limts'; did you mean 'limits'?",
        "configs/mine.yaml:3:10: 'repeats' wants a whole number, found a text ('none'); "
        "episodes of each instance",
        "suites/s/rows.jsonl:2:1: b: no required tests; name one",
        "suites/s/suite.yaml:4:22: unknown instance 'c'; known are: a",
    ]


def test_an_empty_selection_is_a_problem(project: Path, write: Write) -> None:
    """A suite that would run nothing passes nowhere."""
    write("prepared.jsonl", rows("a", repo="x/y") + rows("b", repo="z/z"))
    text = HEAD + "select: {instances: [a], repos: [z/z]}\n"
    assert complaints(project, write("suites/s/suite.yaml", text)) == [
        "suites/s/suite.yaml:3:9: the selection leaves no instance; widen `select`"
    ]
    write("suites/t/rows.jsonl", "")
    text = HEAD + "rows: rows.jsonl\n"
    (found,) = complaints(project, write("suites/t/suite.yaml", text))
    assert found.startswith("suites/t/suite.yaml:3:7: no rows in ")


def test_rows_that_are_not_prepared_are_a_problem_only_where_they_are_needed(
    project: Path, write: Write
) -> None:
    """Running needs rows; validating a project in CI does not, and warns."""
    path = write("suites/s/suite.yaml", HEAD)
    assert complaints(project, path) == ["prepared.jsonl: not prepared; swe-pytest prepare toy:box"]
    loaded = load_suite(path, project, rows_required=False)
    assert (loaded.rows, told(project, loaded.warnings)) == (
        (),
        ["prepared.jsonl: not prepared; swe-pytest prepare toy:box"],
    )


def test_many_unknown_instances_are_told_quickly(project: Path, write: Write) -> None:
    """Near matches are searched for the first unknown ids only: a thousand of them take no minutes."""
    write("prepared.jsonl", rows(*(f"org__repo-{n}" for n in range(3000))))
    asked = ", ".join(f"org__rep-{n}" for n in range(1000))
    found = complaints(project, write("suites/s/suite.yaml", HEAD + f"select: {{instances: [{asked}]}}\n"))
    assert len(found) == 1000
    assert sum("did you mean" in line for line in found) == 20


@pytest.mark.parametrize("name", ["1e3", "no", "on", "1.10", "007", "null", "0x1F"])
def test_names_stay_what_was_typed(name: str, project: Path, write: Write) -> None:
    """An instance called 1e3, a config called no: unquoted words are taken as typed where a text is wanted."""
    write("prepared.jsonl", rows(name))
    write(
        f"configs/{name}.yaml",
        f"agent: {{harness: command, command: ls, version: {name}, env: {{A: {name}}}}}\n",
    )
    quoted = f"'{name}'" if name == "null" else name  # null alone is null in every YAML
    if name == "null":
        write(
            "configs/null.yaml", "agent: {harness: command, command: ls, version: 'null', env: {A: 'null'}}\n"
        )
    text = f"benchmark: toy:box\nconfigs: [{quoted}]\nselect: {{instances: [{quoted}]}}\n"
    text += f"expect: {{{name}: resolved}}\n"
    loaded = load_suite(write("suites/s/suite.yaml", text), project)
    (config,) = loaded.configs
    assert loaded.instance_ids() == [name]
    assert (config.name, loaded.suite.expectation(name)) == (name, "resolved")
    assert config.agent.model_dump() == {
        "harness": "command",
        "command": "ls",
        "version": name,
        "env": {"A": name},
    }


def test_a_deprecated_config_warns_where_it_is_used(project: Path, write: Write) -> None:
    """A deprecated config still runs, and says what to use instead."""
    write("prepared.jsonl", rows("a"))
    write("configs/old.yaml", "agent: {harness: gold}\ndeprecated: use gold\n")
    loaded = load_suite(write("suites/s/suite.yaml", "benchmark: toy:box\nconfigs:\n- old\n"), project)
    assert told(project, loaded.warnings) == ["suites/s/suite.yaml:3:3: config 'old' is deprecated; use gold"]


def test_a_config_is_named_as_its_file(project: Path, write: Write) -> None:
    """A copied config that kept its name is found out, and a file that cannot be a name too."""
    for file, text, expected in (
        ("configs/a.yaml", "name: b\nagent: {harness: gold}\n", "1:7: 'name' is 'b', but the file is a.yaml"),
        (
            "configs/a b.yaml",
            "agent: {harness: gold}\n",
            "1:1: cannot be called 'a b'; name in case ids and reports: letters",
        ),
    ):
        path = write(file, text)
        with pytest.raises(InvalidFiles) as caught:
            resolve_config(path, Scope(project))
        assert str(caught.value.problems[0]).startswith(f"{path}:{expected}")


WORDS = st.sampled_from(
    [
        "benchmark",
        "toy:box",
        "configs",
        "gold",
        "noop",
        "name",
        "extends",
        "agent",
        "harness",
        "command",
        "env",
        "select",
        "instances",
        "limit",
        "a__a-1",
        "checks",
        "rollout",
        "interrupted",
        "expect",
        "resolved",
        "gates",
        "mask_rate",
        "max",
        "faults",
        "kill",
        "task",
        "after_command",
        "limits",
        "episode_s",
        "agent_s",
        "sandbox",
        "memory",
        "4GiB",
        "verifier",
        "timeout_s",
        "mask",
        "deprecated",
        "model",
        "rows",
        "*",
        "<<",
    ]
)
SCALARS = WORDS | st.none() | st.booleans() | st.integers(-2, 3) | st.floats() | st.text(max_size=3)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=12,
)


@given(part=st.dictionaries(WORDS, VALUES, max_size=5), inline=st.dictionaries(WORDS, VALUES, max_size=5))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_no_shape_of_a_suite_ends_in_a_traceback(
    part: dict[str, object], inline: dict[str, object], project: Path, write: Write
) -> None:
    """Known words in unknown places: a suite can be planned, or every problem of it has a place."""
    write("prepared.jsonl", rows("a__a-1"))
    config = {"name": "x", "agent": {"harness": "gold"}, **inline}
    value = {"benchmark": "toy:box", "configs": ["gold", config], **part}
    path = write("suites/s/suite.yaml", yaml.safe_dump(value))
    try:
        assert plan(load_suite(path, project)).all_cases()
    except InvalidFiles as invalid:
        assert all(problem.line and problem.column and problem.remedy for problem in invalid.problems)
