"""The JSON Schemas: committed, without drift, and of one mind with the models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from swe_pytest.agents.registry import agent_names
from swe_pytest.problem import InvalidFiles
from swe_pytest.suites.load import resolve_config
from swe_pytest.suites.manifest import load_manifest
from swe_pytest.suites.node import read_mapping
from swe_pytest.suites.schema import DIRECTORY, NAMES, file_name, schema, stale
from swe_pytest.suites.search import BUILTIN, Scope
from tests.suites.conftest import Write, complaints

ROOT = Path(__file__).parents[2]


def accepts(name: str, value: object) -> bool:
    return jsonschema.Draft202012Validator(schema(name)).is_valid(value)


def test_committed_schemas_are_what_the_models_say() -> None:
    """Drift fails here; `swe-pytest schema --write swe_pytest/suites/schemas` is the cure."""
    assert list(stale()) == []


@pytest.mark.parametrize("name", NAMES)
def test_a_schema_is_valid_and_documents_every_key(name: str) -> None:
    """Schemas are draft 2020-12 with a versioned id, closed, and each of their keys has a description."""
    made = schema(name)
    jsonschema.Draft202012Validator.check_schema(made)
    assert made["$id"] == f"urn:swe-pytest:schema:{name}:1"
    objects = [part for part in [made, *made.get("$defs", {}).values()] if "properties" in part]
    assert objects
    for part in objects:
        assert part["additionalProperties"] is False
        for key, described in part["properties"].items():
            assert described.get("description"), f"{part.get('title')}.{key}"


def test_every_agent_of_the_registry_can_be_written() -> None:
    """The harness names of configs and of the agents' registry are the same."""
    tags = schema("config")["$defs"]["Config"]["properties"]["agent"]["discriminator"]["mapping"]
    assert sorted(tags) == sorted(agent_names())


SUITE = {"benchmark": "toy:box", "configs": ["gold"]}
GOLD = {"harness": "gold"}


@pytest.mark.parametrize(
    ("part", "right"),
    [
        ({}, True),
        ({"expect": "resolved"}, True),
        ({"expect": {"gold": "resolved"}}, True),
        ({"expect": "solved"}, False),
        ({"configs": []}, True),  # lengths are the loader's: schemas tell shapes
        ({"configs": [{"name": "x", "agent": GOLD, "sandbox": {"memory": "4GiB"}}]}, True),
        ({"configs": [{"name": "x", "agent": GOLD, "sandbox": {"memory": "4g"}}]}, False),
        ({"configs": [{"agent": GOLD}]}, False),
        ({"configs": [{"name": "x"}]}, False),
        ({"configs": [{"name": "x", "extends": "gold", "sandbox": {"cpus": None}}]}, True),
        ({"configs": [{"name": "x", "extends": "cmd", "agent": {"env": {"A": None}}}]}, True),
        ({"configs": [{"name": "x", "extends": "gold", "sandbox": {"cpu": 1}}]}, False),
        ({"select": {"limit": 0}}, False),
        ({"faults": [{"kill": "verifier"}], "checks": ["interrupted"]}, True),
        ({"faults": [{"pause": "verifier"}], "checks": ["interrupted"]}, False),
        ({"gates": {"configs": {"gold": {"mask_rate": {"max": 0}}}}}, True),
        ({"gates": {"mask_rate": {"most": 0}}}, False),
        ({"colour": "red"}, False),
    ],
)
def test_the_suite_schema_agrees_with_the_loader(
    part: dict[str, Any], right: bool, project: Path, write: Write
) -> None:
    """What an editor underlines is what a run refuses, and nothing else."""
    value = {**SUITE, **part}
    write("configs/cmd.yaml", "agent: {harness: command, command: ls, env: {A: a}}\n")
    write("prepared.jsonl", json.dumps({"instance_id": "a", "repo": "r", "image": "i"}) + "\n")
    found = complaints(project, write("suites/s/suite.yaml", json.dumps(value)))
    assert accepts("suite", value) is right
    if part != {"configs": []}:
        assert (found == []) is right, found


@pytest.mark.parametrize("folder", ["configs", "manifests", "swe_pytest/suites/builtin"])
def test_committed_files_fit_their_schemas(folder: str) -> None:
    """Every file this project ships is right by schema and by loader."""
    files = sorted((ROOT / folder).rglob("*.yaml"))
    assert files
    for file in files:
        kind = "manifest" if folder == "manifests" else "config"
        assert accepts(kind, read_mapping(file).plain()), file
        if kind == "manifest":
            load_manifest(file, Scope(ROOT))
        else:
            resolve_config(file, Scope(ROOT))


def test_every_committed_config_has_a_manifest_in_the_same_place() -> None:
    """manifests/ mirrors configs/."""
    configs = {path.relative_to(ROOT / "configs") for path in (ROOT / "configs").rglob("*.yaml")}
    manifests = {path.relative_to(ROOT / "manifests") for path in (ROOT / "manifests").rglob("*.yaml")}
    assert configs == manifests
    assert {path.name for path in BUILTIN.iterdir()} == {"gold.yaml", "noop.yaml"}


MANIFEST = """name: x
version: 1.0.0
description: d
domain: coding
config: ../configs/x.yaml
benchmark: any
agent: gold
reward: {range: [0.0, 1.0], higher_is_better: true}
determinism: deterministic
lifecycle: active
authors: [a]
licence: Apache-2.0
"""


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("name: x", "name: y", "1:7: 'name' is 'y', but the config says 'x'; write x"),
        ("agent: gold", "agent: noop", "7:8: 'agent' is 'noop', but the config says 'gold'; write gold"),
        (
            "active",
            "deprecated",
            "10:12: 'lifecycle' is 'deprecated', but the config says 'active'; write active",
        ),
        ("x.yaml", "z.yaml", "5:9: no config file '../configs/z.yaml'; write its path relative to manifests"),
        ("any", "toy:bax", "6:12: unknown benchmark 'toy:bax'; did you mean 'toy:box'?"),
        ("[0.0, 1.0]", "[0, 100]", "8:17: reward range [0, 100]; rewards are 0 or 1: write [0.0, 1.0]"),
        ("true", "false", "8:47: 'higher_is_better' cannot be 'false'; known are: true"),
        ("Apache-2.0", "Apache 2", "12:10: 'Apache 2' is no SPDX expression"),
        ("Apache-2.0", "apache-2.0", "12:10: 'apache-2.0' is not how SPDX spells it; write Apache-2.0"),
        ("[a]", "[a, a]", "11:10: author 'a' is named more than once; name each author once"),
        ("[a]", "[]", "11:10: an empty list"),
        (
            "version: 1.0.0",
            "version: 1.0",
            "2:10: cannot be called '1.0'; version of the card and its config",
        ),
        ("licence", "license", "12:1: unknown key 'license'; did you mean 'licence'?"),
    ],
)
def test_a_manifest_must_agree_with_its_config(
    before: str, after: str, expected: str, project: Path, write: Write
) -> None:
    """A card that says something else than its config, or nothing usable, is a problem with its place."""
    write("configs/x.yaml", "agent: {harness: gold}\n")
    path = write("manifests/x.yaml", MANIFEST)
    load_manifest(path, Scope(project))
    write("manifests/x.yaml", MANIFEST.replace(before, after, 1))
    with pytest.raises(InvalidFiles) as caught:
        load_manifest(path, Scope(project))
    found = [str(problem).removeprefix(f"{path}:") for problem in caught.value.problems]
    assert any(line.startswith(expected) for line in found), found


def test_a_config_in_a_benchmarks_folder_belongs_to_that_benchmark(project: Path, write: Write) -> None:
    """A card cannot promise a config of one benchmark for another."""
    write("configs/toy_box/x.yaml", "agent: {harness: gold}\n")
    text = MANIFEST.replace("../configs/x", "../../configs/toy_box/x")
    path = write("manifests/toy_box/x.yaml", text.replace("any", "toy:chest"))
    with pytest.raises(
        InvalidFiles, match="'benchmark' is 'toy:chest', but the config is in toy_box/; write toy:box"
    ):
        load_manifest(path, Scope(project))
    load_manifest(write("manifests/toy_box/x.yaml", text.replace("any", "toy:box")), Scope(project))


def test_schema_files_are_shipped() -> None:
    """The copies for editors are where `schema` says."""
    assert sorted(path.name for path in DIRECTORY.iterdir()) == sorted(file_name(name) for name in NAMES)
