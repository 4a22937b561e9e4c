"""The manifest: a config's card for people and catalogues. `manifests/` mirrors `configs/`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression
from pydantic import Field, StringConstraints, field_validator

from swe_pytest.benchmarks.registry import benchmark_names
from swe_pytest.problem import InvalidFiles, Problem
from swe_pytest.suites.config import NOT_EMPTY, Config, Name, Text
from swe_pytest.suites.load import known_benchmark, resolve_config
from swe_pytest.suites.node import Node, read_mapping
from swe_pytest.suites.search import SUFFIXES, Scope, benchmark_folders
from swe_pytest.suites.written import Written, checked, wrong

ANY_BENCHMARK = "any"


class Reward(Written):
    """What the numbers mean. Rewards of this project are 0.0 or 1.0, more is better."""

    range: Annotated[tuple[float, float], Field(strict=False)] = Field(
        description="Least and greatest: [0.0, 1.0]."
    )
    higher_is_better: Literal[True] = Field(description="Always true here; written out for catalogues.")

    @field_validator("range")
    @classmethod
    def _ours(cls, value: tuple[float, float]) -> tuple[float, float]:
        if value != (0.0, 1.0):
            raise wrong(f"reward range [{value[0]:g}, {value[1]:g}]", "rewards are 0 or 1: write [0.0, 1.0]")
        return value


class Manifest(Written):
    """A card. `name`, `agent` and `lifecycle` repeat what the config says and must agree with it."""

    name: Name = Field(description="The config's name.")
    version: Annotated[str, StringConstraints(pattern=r"^[0-9]+\.[0-9]+\.[0-9]+$")] = Field(
        description="Version of the card and its config, as 1.0.0."
    )
    description: Text = Field(description="One or two sentences for somebody who chooses between configs.")
    domain: Literal["coding", "agent", "other"] = Field(description="Subject, for catalogues.")
    config: Text = Field(description="Path of the config file, relative to this one.")
    benchmark: Text = Field(description="The benchmark the config is meant for; any = all of them.")
    agent: Text = Field(description="The config's agent harness.")
    reward: Reward = Field(description="What the numbers mean.")
    determinism: Literal["deterministic", "seeded", "stochastic", "unknown"] = Field(
        description="Whether a second run gives the same patch."
    )
    lifecycle: Literal["active", "deprecated"] = Field(description="Deprecated exactly when the config is.")
    authors: Annotated[tuple[Text, ...], Field(strict=False), NOT_EMPTY] = Field(
        description="Who answers for it."
    )
    licence: Text = Field(description="SPDX expression, e.g. Apache-2.0, or a LicenseRef- of your own.")

    @field_validator("authors")
    @classmethod
    def _each_author_once(cls, authors: tuple[str, ...]) -> tuple[str, ...]:
        again = sorted({author for author in authors if authors.count(author) > 1})
        if again:
            raise wrong(f"author '{again[0]}' is named more than once", "name each author once")
        return authors

    @field_validator("licence")
    @classmethod
    def _spdx(cls, licence: str) -> str:
        try:
            canonical = canonicalize_license_expression(licence)
        except InvalidLicenseExpression as error:
            raise wrong(
                f"'{licence}' is no SPDX expression", "write e.g. Apache-2.0 or LicenseRef-internal"
            ) from error
        if canonical != licence:
            raise wrong(f"'{licence}' is not how SPDX spells it", f"write {canonical}")
        return licence


def load_manifest(path: Path, scope: Scope) -> tuple[Manifest, Config]:
    """Read a manifest and the config it describes. Raises: InvalidFiles, also where the two disagree."""
    node = read_mapping(path)
    problems: list[Problem] = []
    manifest = checked(Manifest, node, problems)
    if manifest is None:
        raise InvalidFiles(problems)
    if manifest.benchmark != ANY_BENCHMARK:
        known_benchmark(manifest.benchmark, node.place_of("benchmark"), problems)
    file = scope.find(manifest.config, path.parent) if manifest.config.endswith(SUFFIXES) else None
    if file is None:
        remedy = f"write its path relative to {scope.shown(path.parent)}"
        problems.append(node.place_of("config").problem(f"no config file '{manifest.config}'", remedy))
        raise InvalidFiles(problems)
    try:
        config = resolve_config(file, scope).config
    except InvalidFiles as error:
        raise InvalidFiles([*problems, *error.problems]) from error
    problems.extend(_disagreements(manifest, node, config))
    problems.extend(_wrong_folder(manifest, node, file))
    if problems:
        raise InvalidFiles(problems)
    return manifest, config


def _disagreements(manifest: Manifest, node: Node, config: Config) -> Iterable[Problem]:
    """Tell where a card says something else than its config; the config is right by definition."""
    lifecycle = "deprecated" if config.deprecated else "active"
    for key, said, true in (
        ("name", manifest.name, config.name),
        ("agent", manifest.agent, config.agent.harness),
        ("lifecycle", manifest.lifecycle, lifecycle),
    ):
        if said != true:
            yield node.place_of(key).problem(
                f"'{key}' is '{said}', but the config says '{true}'", f"write {true}"
            )


def _wrong_folder(manifest: Manifest, node: Node, file: Path) -> Iterable[Problem]:
    folder = file.parent.name
    owners = [name for name in benchmark_names() if folder in benchmark_folders(name)]
    if owners and manifest.benchmark not in owners:
        message = f"'benchmark' is '{manifest.benchmark}', but the config is in {folder}/"
        yield node.place_of("benchmark").problem(message, f"write {' or '.join(owners)}, or move the config")
