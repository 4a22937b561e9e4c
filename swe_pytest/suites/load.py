"""Loading: from the files people wrote to a suite that can be planned, or to all that is wrong with them."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from swe_pytest.benchmarks.contract import Benchmark
from swe_pytest.benchmarks.registry import UnknownBenchmark, benchmark, benchmark_names
from swe_pytest.benchmarks.task import RowRef
from swe_pytest.problem import InvalidFiles, Problem
from swe_pytest.suites.case import safe_name
from swe_pytest.suites.config import Config, config_digest, digest
from swe_pytest.suites.inheritance import inherited
from swe_pytest.suites.near import one_of
from swe_pytest.suites.node import Node, Place, read_mapping
from swe_pytest.suites.plan import LoadedSuite
from swe_pytest.suites.search import Scope
from swe_pytest.suites.suite import EVERY_CONFIG, Select, Suite
from swe_pytest.suites.written import checked

_HINTED = 20  # near matches are costly on long lists: only the first unknown ids get some


@dataclass(frozen=True, slots=True)
class ResolvedConfig:
    """A config after inheritance, and the mapping it was made from: each value there has its place."""

    config: Config
    node: Node


def resolve_config(path: Path, scope: Scope) -> ResolvedConfig:
    """Read a config file with all it extends. A file named `_….yaml` only serves others, so needs no agent.

    Raises: InvalidFiles.
    """
    problems: list[Problem] = []
    config, node = _config(read_mapping(path), path, scope, problems)
    if problems or config is None:
        raise InvalidFiles(problems)
    return ResolvedConfig(config, node)


def load_suite(path: Path, root: Path, *, rows_required: bool = True) -> LoadedSuite:
    """Read a suite with its configs and the index of its rows. See plan.load_suite."""
    node = read_mapping(path)
    problems: list[Problem] = []
    name = node.child("benchmark")
    source = known_benchmark(name.word() or "", name.place, problems) if name and name.word() else None
    scope = Scope(root, name.word() or "" if name else "")
    configs, named = _configs(node, scope, problems)
    suite = checked(Suite, named, problems)
    rows: list[RowRef] = []
    others: frozenset[str] = frozenset()
    warnings: list[Problem] = []
    if suite:
        _check_config_names(suite, node, [config.name for config in configs], problems)
        _check_faults(suite, node, configs, problems)
        if source:
            rows, others = _rows(suite, node, source, problems, warnings if not rows_required else problems)
    if problems or suite is None:
        raise InvalidFiles(problems)
    warnings.extend(_deprecations(node, configs))
    return LoadedSuite(
        path=path,
        name=suite.name or _default_name(path, root),
        suite=suite,
        configs=tuple(configs),
        rows=tuple(rows),
        unselected=others,
        digest=suite_digest(suite, configs),
        warnings=tuple(warnings),
    )


def suite_digest(suite: Suite, configs: Iterable[Config]) -> str:
    """Return the sha256 (hex) of what a suite runs and demands: its configs included, its rows not."""
    facts = suite.model_dump(mode="json", exclude={"name", "description", "configs"})
    facts["configs"] = [[config.name, config.repeats, config_digest(config)] for config in configs]
    return digest(facts)


def known_benchmark(name: str, place: Place, problems: list[Problem]) -> Benchmark | None:
    """Return a benchmark by name; None after adding the problem of an unknown one."""
    try:
        return benchmark(name)
    except UnknownBenchmark:
        problems.append(place.problem(f"unknown benchmark '{name}'", one_of(name, benchmark_names())))
        return None


def _config(
    node: Node, file: Path | None, scope: Scope, problems: list[Problem]
) -> tuple[Config | None, Node]:
    before = len(problems)
    merged = inherited(node, file, scope, problems)
    if file is not None:
        merged = _named_as_file(merged, file, problems)
        if file.stem.startswith("_") and merged.child("agent") is None:
            merged = _with(merged, "agent", Node(merged.place, {"harness": Node(merged.place, "noop")}))
    if len(problems) > before:
        merged_problems: list[Problem] = []
        checked(Config, merged, merged_problems)
        # A base that could not be read explains every missing key.
        problems.extend(p for p in merged_problems if not p.message.startswith("missing key"))
        return None, merged
    return checked(Config, merged, problems), merged


def _with(node: Node, key: str, child: Node) -> Node:
    assert isinstance(node.value, dict)
    return replace(node, value={key: child, **node.value}, keys={key: child.place, **node.keys})


def _named_as_file(node: Node, file: Path, problems: list[Problem]) -> Node:
    said = node.child("name")
    if said is None:
        return _with(node.without("name"), "name", Node(Place(file, 1, 1), file.stem))
    if said.word() != file.stem:
        message = f"'name' is '{said.word()}', but the file is {file.name}"
        problems.append(said.place.problem(message, "leave `name` out, or rename the file"))
    return node


def _configs(node: Node, scope: Scope, problems: list[Problem]) -> tuple[list[Config], Node]:
    """Read the configs of a suite; return them, and the suite's mapping with names in their place."""
    listed = node.child("configs")
    if listed is None or not isinstance(listed.value, list):
        return [], node
    configs: list[Config] = []
    names: list[Node] = []
    seen: dict[str, Place] = {}
    for entry in listed.value:
        config, name = _entry(entry, scope, problems)
        if name is None:
            continue
        if name in seen:
            remedy = "give each config of a suite a name of its own"
            problems.append(
                entry.place.problem(f"config '{name}' again (first on line {seen[name].line})", remedy)
            )
        seen.setdefault(name, entry.place)
        names.append(Node(entry.place, name))
        if config:
            configs.append(config)
    if listed.value and not names:
        names = [Node(listed.place, "unreadable")]  # told already: the list is not empty
    assert isinstance(node.value, dict)
    return configs, replace(node, value={**node.value, "configs": replace(listed, value=names)})


def _entry(entry: Node, scope: Scope, problems: list[Problem]) -> tuple[Config | None, str | None]:
    if isinstance(entry.value, dict):
        config, merged = _config(entry, None, scope, problems)
        named = merged.child("name")
        return config, config.name if config else named.word() if named else None
    word = entry.word()
    if not word:
        message = f"'configs' wants names, paths or mappings, found {entry.kind()}"
        problems.append(entry.place.problem(message, "write e.g. `- gold`"))
        return None, None
    file = scope.find(word, entry.place.path.parent)
    if file is None:
        problems.append(scope.unknown(entry.place, word))
        return None, None
    if file.stem.startswith("_"):
        message = f"'{word}' only serves other configs: its name begins with an underscore"
        problems.append(entry.place.problem(message, "name a config that extends it"))
        return None, None
    try:
        config, _ = _config(read_mapping(file), file, scope, problems)
    except InvalidFiles as error:
        problems.extend(error.problems)
        return None, None
    return config, file.stem


def _check_config_names(suite: Suite, node: Node, names: list[str], problems: list[Problem]) -> None:
    """Every config that `expect` and `gates` speak of must be one of the suite's."""
    known = dict.fromkeys([*names, *suite.configs])
    for told, mapping in (
        ([name for name in suite.expect if name != EVERY_CONFIG], node.child("expect")),
        (list(suite.gates.configs), (node.child("gates") or node).child("configs")),
    ):
        for name in told:
            if name not in known:
                place = mapping.keys.get(name, mapping.place) if mapping else node.place
                problems.append(place.problem(f"'{name}' is no config of this suite", one_of(name, known)))


def _check_faults(suite: Suite, node: Node, configs: Iterable[Config], problems: list[Problem]) -> None:
    for config in configs:
        if "interrupted" in suite.checks and not suite.faults_for(config):
            message = f"no fault can happen to config '{config.name}': without a patch no verifier is started"
            problems.append(node.place_of("faults").problem(message, "add {kill: task} to faults"))


def _rows(
    suite: Suite, node: Node, source: Benchmark, problems: list[Problem], unprepared: list[Problem]
) -> tuple[list[RowRef], frozenset[str]]:
    if suite.rows is not None:
        file = node.place.path.parent / suite.rows
        try:
            there = file.is_file()
        except OSError:  # a name that no file can have
            there = False
        if not there:
            remedy = f"the path is relative to {node.place.path.parent}"
            problems.append(node.place_of("rows").problem(f"no rows file '{suite.rows[:200]}'", remedy))
            return [], frozenset()
    else:
        file = source.prepared_rows()
        if not file.is_file():
            unprepared.extend(source.index(file)[1])
            return [], frozenset()
    rows, found = source.index(file)
    problems.extend(found)
    chosen = _selected(suite.select, node, rows, problems)
    if not chosen and not problems:
        what = "the selection leaves no instance" if rows else f"no rows in {file}"
        place = node.place_of("select") if rows else node.place_of("rows")
        problems.append(place.problem(what, "widen `select`" if rows else "add rows, or name another file"))
    ids = {row.instance_id for row in chosen}
    return chosen, frozenset(row.instance_id for row in rows if row.instance_id not in ids)


def _selected(select: Select, node: Node, rows: list[RowRef], problems: list[Problem]) -> list[RowRef]:
    by_id = {row.instance_id: row for row in rows}
    chosen = rows
    if select.instances is not None:
        _check_listed("instance", select.instances, by_id, _listed(node, "instances"), problems)
        chosen = [by_id[name] for name in dict.fromkeys(select.instances) if name in by_id]
    if select.repos is not None:
        _check_listed("repo", select.repos, {row.repo for row in rows}, _listed(node, "repos"), problems)
        chosen = [row for row in chosen if row.repo in select.repos]
    if select.shuffle_seed is not None:
        chosen = sorted(chosen, key=functools.partial(_drawn, select.shuffle_seed))
    return chosen[: select.limit]


def _drawn(seed: int, row: RowRef) -> bytes:
    return hashlib.sha256(f"{seed}\0{row.instance_id}".encode("utf-8", "surrogatepass")).digest()


def _listed(node: Node, key: str) -> list[Node]:
    found = (node.child("select") or node).child(key)
    return found.items() if found else []


def _check_listed(
    what: str, words: Iterable[str], known: Iterable[str], places: list[Node], problems: list[Problem]
) -> None:
    known = set(known)
    ordered = sorted(known)
    seen: dict[str, Place] = {}
    unknown = 0
    for word, node in zip(words, places, strict=True):
        if word in seen:
            message = f"{what} '{word}' again (first on line {seen[word].line})"
            problems.append(node.place.problem(message, "name it once"))
        elif word not in known and known:
            unknown += 1
            remedy = one_of(word, ordered) if unknown <= _HINTED else "look at the first of these problems"
            problems.append(node.place.problem(f"unknown {what} '{word}'", remedy))
        seen.setdefault(word, node.place)


def _deprecations(node: Node, configs: Iterable[Config]) -> Iterable[Problem]:
    listed = node.child("configs")
    for entry, config in zip(listed.items() if listed else [], configs, strict=True):
        if config.deprecated:
            reason = config.deprecated if isinstance(config.deprecated, str) else "choose another one"
            yield entry.place.problem(f"config '{config.name}' is deprecated", reason)


def _default_name(path: Path, root: Path) -> str:
    """Name a suite by its folder's path below suites/ or the root: `suites/a/b/suite.yaml` is a-b."""
    folder = path.absolute().parent
    parts = folder.relative_to(root.absolute()).parts if folder.is_relative_to(root.absolute()) else ()
    if "suites" in parts[:-1]:
        parts = parts[parts.index("suites") + 1 :]
    return safe_name("-".join(parts) or folder.name or "suite")
