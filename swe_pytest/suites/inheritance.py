"""Inheritance: configs laid over one another, each value keeping the place it was written at."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from swe_pytest.problem import InvalidFiles, Problem
from swe_pytest.suites.node import Node, Place, read_mapping
from swe_pytest.suites.search import Scope

NOT_INHERITED = ("name", "extends", "description", "deprecated")


def merge(below: Node, above: Node) -> Node:
    """Lay one value over another: mappings are merged key by key, anything else is replaced.

    A null stays in the result, so that it still removes what lies further below: merging is associative.
    """
    if not isinstance(above.value, dict) or above.replaces:
        return above
    if not isinstance(below.value, dict):
        return replace(above, replaces=True)
    value = dict(below.value)
    for key, child in above.value.items():
        value[key] = merge(value[key], child) if key in value else child
    return replace(above, value=value, keys={**below.keys, **above.keys}, replaces=below.replaces)


def inherited(node: Node, file: Path | None, scope: Scope, problems: list[Problem]) -> Node:
    """Return a config's mapping laid over all that it extends.

    Bases come first, each file once however many ways lead to it, so that in a diamond a value set in
    between wins over one from the common base. `file` is None for a config inside a suite.
    """
    order: list[Node] = []
    _collect(node, file, scope, problems, order, trail=[], done=set())
    result = order[0]
    for above in order[1:]:
        dropped = ("agent",) if _changes_harness(result, above) else ()
        result = merge(result.without(*NOT_INHERITED, *dropped), above)
    return result.without("extends")


def _changes_harness(below: Node, above: Node) -> bool:
    """Another harness is another agent: the settings of the one below mean nothing to it."""
    words = [agent.child("harness") for node in (below, above) if (agent := node.child("agent"))]
    return len(words) == 2 and all(words) and len({word.word() for word in words if word}) == 2


def _collect(
    node: Node,
    file: Path | None,
    scope: Scope,
    problems: list[Problem],
    order: list[Node],
    trail: list[Path],
    done: set[Path],
) -> None:
    if file is not None:
        trail = [*trail, file]
    extends = node.child("extends")
    for reference in extends.items() if extends else []:
        word = reference.word()
        if not word:
            message = f"'extends' wants names or paths, found {reference.kind()}"
            problems.append(reference.place.problem(message, "write extends: name, or a list of names"))
            continue
        base = scope.find(word, node.place.path.parent)
        if base is None:
            problems.append(scope.unknown(reference.place, word))
        elif base in trail:
            problems.append(_cycle(reference.place, [*trail[trail.index(base) :], base], scope))
        elif base not in done:
            done.add(base)
            try:
                inner = read_mapping(base)
            except InvalidFiles as error:
                problems.extend(error.problems)
                continue
            _collect(inner, base, scope, problems, order, trail, done)
    order.append(node)


def _cycle(place: Place, files: list[Path], scope: Scope) -> Problem:
    shown = " extends ".join(scope.shown(file) for file in files)
    return place.problem(f"a cycle: {shown}", "drop one of these `extends`")
