"""Configs laid over one another: what wins, what is removed, and where each value came from."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swe_pytest.problem import InvalidFiles
from swe_pytest.suites.config import Config, config_digest
from swe_pytest.suites.inheritance import merge
from swe_pytest.suites.load import ResolvedConfig, resolve_config
from swe_pytest.suites.node import Node, Place
from swe_pytest.suites.search import Scope
from tests.suites.conftest import Write, complaints, rows, told


def resolved(write: Write, project: Path, text: str, name: str = "configs/mine.yaml") -> ResolvedConfig:
    return resolve_config(write(name, text), Scope(project, "toy:box"))


def origin(found: ResolvedConfig, project: Path, *keys: str) -> str:
    node = found.node
    for key in keys:
        child = node.child(key)
        assert child is not None, key
        node = child
    return f"{node.place.path.relative_to(project)}:{node.place.line}:{node.place.column}"


def test_mappings_are_merged_lists_replaced_and_null_removes(project: Path, write: Write) -> None:
    """The three rules of inheritance, each with the place of the value that won."""
    write(
        "configs/base.yaml",
        "agent: {harness: command, command: ls, env: {A: a, B: b}}\n"
        "sandbox:\n  cpus: 2\n  memory: 4GiB\n  cap_add: [KILL, CHOWN]\n",
    )
    found = resolved(
        write, project, "extends: base\nsandbox: {cpus: ~, cap_add: [SYSLOG]}\nagent:\n  env: {B: ~, C: c}\n"
    )
    assert found.config.agent.model_dump()["env"] == {"A": "a", "C": "c"}
    assert (found.config.sandbox.cpus, found.config.sandbox.memory) == (None, 4 * 2**30)
    assert found.config.sandbox.cap_add == ("SYSLOG",)
    assert origin(found, project, "agent", "env", "A") == "configs/base.yaml:1:49"
    assert origin(found, project, "agent", "env", "C") == "configs/mine.yaml:4:18"
    assert origin(found, project, "sandbox", "memory") == "configs/base.yaml:4:11"


def test_another_harness_is_another_agent(project: Path, write: Write) -> None:
    """Settings of the base's agent do not reach an agent of another harness, but all the rest does."""
    write("configs/base.yaml", "agent: {harness: command, command: ls}\nrepeats: 3\n")
    config = resolved(write, project, "extends: base\nagent: {harness: gold}\n").config
    assert (config.agent.model_dump(), config.repeats) == ({"harness": "gold"}, 3)


def test_card_like_keys_are_not_inherited(project: Path, write: Write) -> None:
    """A config built on a deprecated one is not deprecated itself, and has its own name and description."""
    write(
        "configs/base.yaml", "agent: {harness: gold}\ndescription: base\ndeprecated: use mine\nrepeats: 3\n"
    )
    config = resolved(write, project, "extends: base\n").config
    assert (config.name, config.description, config.deprecated, config.repeats) == ("mine", "", False, 3)


def test_in_a_diamond_the_value_set_in_between_wins(project: Path, write: Write) -> None:
    """A base reached in two ways counts once, before both."""
    write("configs/root.yaml", "agent: {harness: gold}\nrepeats: 1\nmax_attempts: 1\n")
    write("configs/left.yaml", "extends: root\nrepeats: 2\n")
    write("configs/right.yaml", "extends: root\nmax_attempts: 3\n")
    config = resolved(write, project, "extends: [left, right]\n").config
    assert (config.repeats, config.max_attempts) == (2, 3)


def test_names_are_found_from_near_to_far(project: Path, write: Write) -> None:
    """A benchmark's own config wins over a general one, a project's over the built-in, a path over all."""
    write("configs/toy_box/a.yaml", "agent: {harness: gold}\nrepeats: 1\n")
    write("configs/toy/a.yaml", "agent: {harness: gold}\nrepeats: 2\n")
    write("configs/a.yaml", "agent: {harness: gold}\nrepeats: 3\n")
    write("suites/configs/a.yaml", "agent: {harness: gold}\nrepeats: 4\n")

    def repeats(reference: str, benchmark: str, near: str = "suites") -> int:
        path = Scope(project, benchmark).find(reference, project / near)
        assert path is not None
        return resolve_config(path, Scope(project, benchmark)).config.repeats

    assert repeats("a", "toy:box", "elsewhere") == 1
    assert repeats("a", "toy:chest", "elsewhere") == 2
    assert repeats("a", "other", "elsewhere") == 3
    assert repeats("a", "toy:box", "suites/x") == 4
    assert repeats("toy/a", "", "elsewhere") == 2
    assert repeats("../configs/a.yaml", "toy:box") == 3
    assert Scope(project).find("gold", project) is not None
    assert Scope(project).find("../a", project) is None


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"a": "extends: a\n"}, ["configs/a.yaml:1:10: a cycle: configs/a.yaml extends configs/a.yaml"]),
        (
            {"a": "extends: b\n", "b": "extends: [c]\n", "c": "\nextends: b\n"},
            ["configs/c.yaml:2:10: a cycle: configs/b.yaml extends configs/c.yaml extends configs/b.yaml"],
        ),
        (
            {"a": "extends: [b, [x]]\n", "b": "extends: ctypo\nagent: {harness: gold}\n", "ctype": ""},
            [
                "configs/a.yaml:1:14: 'extends' wants names or paths, found a list",
                "configs/b.yaml:1:10: unknown config 'ctypo'; did you mean 'ctype'?",
            ],
        ),
        ({"a": "extends: b\n", "b": "x: [\n"}, ["configs/b.yaml:2:1: not YAML"]),
        (
            {"a": "extends: {b: 1}\n"},
            ["configs/a.yaml:1:10: 'extends' wants names or paths, found a mapping"],
        ),
    ],
)
def test_bad_references_are_told(
    files: dict[str, str], expected: list[str], project: Path, write: Write
) -> None:
    """Cycles are shown in full; what follows from a base that cannot be read is not told again."""
    for name, text in files.items():
        write(f"configs/{name}.yaml", text)
    with pytest.raises(InvalidFiles) as caught:
        resolve_config(project / "configs/a.yaml", Scope(project))
    found = told(project, caught.value.problems)
    assert len(found) == len(expected)
    for line, start in zip(found, expected, strict=True):
        assert line.startswith(start)


def test_a_wrong_value_is_told_where_it_was_written(project: Path, write: Write) -> None:
    """A mistake in a base is told in the base, though the config that was asked for is another file."""
    write("configs/base.yaml", "agent: {harness: gold}\nlimits: {agent_s: -1}\n")
    with pytest.raises(InvalidFiles) as caught:
        resolved(write, project, "extends: base\nlimits: {episode_s: 10}\n")
    assert told(project, caught.value.problems) == [
        "configs/base.yaml:2:19: 'agent_s': should be greater than 0, found a whole number ('-1'); "
        "the agent's turn"
    ]


def test_a_part_needs_no_agent_but_cannot_be_run(project: Path, write: Write) -> None:
    """A file whose name begins with an underscore only serves other configs."""
    write("prepared.jsonl", rows("a"))
    resolved(write, project, "repeats: 2\n", "configs/_part.yaml")
    suite = write(
        "suites/s/suite.yaml",
        "benchmark: toy:box\nconfigs:\n- {name: x, extends: _part, agent: {harness: gold}}\n",
    )
    assert complaints(project, suite) == []
    suite = write("suites/s/suite.yaml", "benchmark: toy:box\nconfigs: [_part]\n")
    (found,) = complaints(project, suite)
    assert found.startswith("suites/s/suite.yaml:2:11: '_part' only serves other configs")


def test_defaults_are_those_of_the_reference_and_give_way_to_a_shorter_episode(
    project: Path, write: Write
) -> None:
    """21600 s episode, 10800 s agent, 1800 s verification, 25200 s container life; one short limit will do."""
    config = resolved(write, project, "agent: {harness: gold}\n").config
    limits = config.limits
    assert (limits.episode_s, limits.agent_s, limits.sandbox_ttl_s) == (21600, 10800, 25200)
    assert (limits.exec_s, limits.close_s, config.verifier.timeout_s) == (180, 180, 1800)
    assert (config.repeats, config.max_attempts) == (1, 1)
    assert (config.mask.accidental_pass, config.mask.agent_timeout) == (True, True)
    assert (config.sandbox.network, config.verifier.network) == ("none", "benchmark")
    short = resolved(write, project, "agent: {harness: gold}\nlimits: {episode_s: 60}\n").config.limits
    assert (short.agent_s, short.exec_s, short.seed_s, short.sandbox_ttl_s) == (60, 60, 60, 3660)


def test_a_digest_says_what_an_episode_is_made_of(project: Path, write: Write) -> None:
    """Equal after inheritance is equal; name, description and repeats change no episode, a limit does."""
    write("configs/base.yaml", "agent: {harness: gold}\nsandbox: {memory: 1GiB}\n")
    one = resolved(write, project, "extends: base\n", "configs/one.yaml").config
    same = "agent: {harness: gold}\nsandbox: {memory: 1073741824}\nrepeats: 3\ndescription: x\n"
    two = resolved(write, project, same, "configs/two.yaml").config
    three = resolved(write, project, "extends: base\nlimits: {exec_s: 5}\n", "configs/three.yaml").config
    assert config_digest(one) == config_digest(two) != config_digest(three)
    assert config_digest(Config.model_validate(one.model_dump())) == config_digest(one)


def nodes(line: int) -> st.SearchStrategy[Node]:
    """Values as a file number `line` would have them: each carries that number as its place."""
    place = Place(Path("x"), line, 1)
    scalars = st.builds(lambda value: Node(place, value), st.none() | st.integers(0, 2))
    lists = st.builds(lambda children: Node(place, children), st.lists(scalars, max_size=2))
    return st.recursive(
        scalars | lists,
        lambda inner: st.builds(
            lambda value: Node(place, value, keys=dict.fromkeys(value, place)),
            st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
        ),
        max_leaves=6,
    )


@given(nodes(1), nodes(2), nodes(3))
def test_merging_is_associative_with_its_places(one: Node, two: Node, three: Node) -> None:
    """However a chain is folded, values and places are the same: a null removes what is below for good."""
    assert merge(merge(one, two), three) == merge(one, merge(two, three))


@given(nodes(1), nodes(2))
def test_what_lies_above_always_wins(below: Node, above: Node) -> None:
    """Every value of the upper file is in the result, with its own place."""
    merged = merge(below, above)

    def holds(part: Node, whole: Node) -> bool:
        if not isinstance(part.value, dict):
            return part == whole
        assert isinstance(whole.value, dict)
        return all(holds(child, whole.value[key]) for key, child in part.value.items())

    assert holds(above, merged)
