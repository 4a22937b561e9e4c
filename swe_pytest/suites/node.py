"""A YAML file as a tree whose every value knows where it was written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import yaml

from swe_pytest.problem import InvalidFiles, Problem

type_names = {"str": "a text", "int": "a whole number", "float": "a number", "bool": "true or false"}

_Loader: type = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MAX_BYTES = 16 * 1024 * 1024
_MAX_DEPTH = 50
_MAX_NODES = 200_000
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_TEXT_TAG = "tag:yaml.org,2002:str"

# The core schema of YAML 1.2. The library's own resolver follows YAML 1.1, in which `no` is false, `1:30` is
# 90 and `1e3` is a text: none of that is what people who write suites mean.
_NULL = {"", "~", "null", "Null", "NULL"}
_BOOL = {word: word.lower() == "true" for word in ("true", "True", "TRUE", "false", "False", "FALSE")}
_INT = re.compile(r"[-+]?[0-9]+")
_INT_BASED = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(
    r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
)
_MAX_DIGITS = 4000  # beyond it Python refuses the conversion; such a thing is a text

Scalar = str | int | float | bool | None
Plain = Scalar | list["Plain"] | dict[str, "Plain"]


class Place(NamedTuple):
    """Where something stands; line and column count from 1."""

    path: Path
    line: int
    column: int

    def problem(self, message: str, remedy: str = "") -> Problem:
        return Problem(self.path, self.line, self.column, message, remedy)


@dataclass(frozen=True, slots=True)
class Node:
    """A value of a file. `text` is what was typed, for an unquoted scalar; `keys` are the places of a
    mapping's keys. `replaces` marks a mapping that takes nothing from what it is merged onto. `size`
    counts values, aliases written out.
    """

    place: Place
    value: Scalar | list[Node] | dict[str, Node]
    text: str | None = None
    keys: dict[str, Place] = field(default_factory=dict)
    replaces: bool = False
    size: int = 1

    def plain(self) -> Plain:
        """Return the value without places; keys whose value is null are left out of mappings."""
        if isinstance(self.value, dict):
            return {key: child.plain() for key, child in self.value.items() if child.value is not None}
        if isinstance(self.value, list):
            return [child.plain() for child in self.value]
        return self.value

    def child(self, key: str) -> Node | None:
        """Return a mapping's value for a key, None when it is absent, null, or this is no mapping."""
        found = self.value.get(key) if isinstance(self.value, dict) else None
        return None if found is None or found.value is None else found

    def place_of(self, *keys: str) -> Place:
        """Return the place of a value inside, or of the last that exists on the way to it."""
        node = self
        for key in keys:
            node = node.child(key) or node
        return node.place

    def items(self) -> list[Node]:
        """Return a list's values; a single value counts as a list of one."""
        return self.value if isinstance(self.value, list) else [self]

    def word(self) -> str | None:
        """Return the scalar as text: as it was typed, or its value; None for lists, mappings and null."""
        if self.value is None or isinstance(self.value, list | dict):
            return None
        return self.value if isinstance(self.value, str) else self.text

    def kind(self) -> str:
        """Return what this is, for messages."""
        if self.value is None:
            return "nothing"
        if isinstance(self.value, dict):
            return "a mapping"
        if isinstance(self.value, list):
            return "a list"
        shown = self.word() or ""
        shown = shown if len(shown) <= 40 else shown[:37] + "..."
        return f"{type_names[type(self.value).__name__]} ({shown!r})" if shown else "an empty text"

    def without(self, *keys: str) -> Node:
        """Return this mapping without some of its keys."""
        if not isinstance(self.value, dict):
            return self
        return replace(self, value={key: child for key, child in self.value.items() if key not in keys})


def read_mapping(path: Path) -> Node:
    """Read a YAML file whose top is a mapping.

    Raises: InvalidFiles with every problem that can be told apart (the first one only, where the
    text cannot be parsed further).
    """
    text = _read_text(path)
    problems: list[Problem] = []
    try:
        node = _Builder(path, problems).document(yaml.parse(text, Loader=_Loader))
    except yaml.MarkedYAMLError as error:
        problems.append(_syntax_problem(path, text, error))
        raise InvalidFiles(problems) from error
    except yaml.YAMLError as error:
        problems.append(Problem(path, 0, 0, f"not YAML: {error}", "correct the text"))
        raise InvalidFiles(problems) from error
    if not problems and not isinstance(node.value, dict):
        problems.append(
            node.place.problem(f"expected a mapping, found {node.kind()}", "begin with `key: value`")
        )
    if problems:
        raise InvalidFiles(problems)
    return node


def _read_text(path: Path) -> str:
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise InvalidFiles(
            [Problem(path, 0, 0, f"cannot be read: {error.strerror}", "check the path")]
        ) from error
    if len(raw) > _MAX_BYTES:
        remedy = f"keep such files under {_MAX_BYTES} bytes; rows belong into a .jsonl file"
        raise InvalidFiles([Problem(path, 0, 0, f"too large: {len(raw)} bytes", remedy)])
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = raw[: error.start].decode("utf-8", "replace")
        place = _place_after(path, before)
        message = f"not UTF-8: byte 0x{raw[error.start]:02x}"
        raise InvalidFiles([place.problem(message, "save the file in the encoding UTF-8")]) from error
    bad = _UNPRINTABLE.search(text)
    if bad:
        message = f"control character U+{ord(bad.group()):04X}"
        raise InvalidFiles([_place_after(path, text[: bad.start()]).problem(message, "remove it")])
    return text


def _place_after(path: Path, before: str) -> Place:
    last_break = max(before.rfind("\n"), before.rfind("\r"))
    line = len(re.findall(r"\r\n|\r|\n", before)) + 1
    return Place(path, line, len(before) - last_break)


def _syntax_problem(path: Path, text: str, error: yaml.MarkedYAMLError) -> Problem:
    mark = error.problem_mark or error.context_mark
    if mark is None:
        return Problem(path, 0, 0, f"not YAML: {error.problem}", "correct the text")
    lines = text.splitlines()
    line = lines[mark.line] if mark.line < len(lines) else ""
    if line[mark.column : mark.column + 1] == "\t":
        return Problem(
            path, mark.line + 1, mark.column + 1, "a tab where YAML wants spaces", "indent by spaces"
        )
    context = (
        f" {error.context} (line {error.context_mark.line + 1})"
        if error.context and error.context_mark
        else ""
    )
    remedy = "look at quotes, brackets and indentation here and just above"
    return Problem(path, mark.line + 1, mark.column + 1, f"not YAML: {error.problem}{context}", remedy)


class _Builder:
    """Builds nodes from parser events: unlike composed nodes, these keep what was typed and cannot recur."""

    def __init__(self, path: Path, problems: list[Problem]) -> None:
        self.path = path
        self.problems = problems
        self.anchors: dict[str, Node | None] = {}

    def document(self, events: Iterator[yaml.Event]) -> Node:
        node = Node(Place(self.path, 1, 1), None)
        documents = 0
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents == 2:
                    self._complain(event, "a second document in one file", "keep one document a file")
            elif isinstance(event, yaml.NodeEvent):
                built = self._node(event, events, 0)
                node = built if documents == 1 else node
        return node

    def _place(self, event: yaml.Event) -> Place:
        assert event.start_mark is not None
        return Place(self.path, event.start_mark.line + 1, event.start_mark.column + 1)

    def _complain(self, event: yaml.Event, message: str, remedy: str) -> None:
        self.problems.append(self._place(event).problem(message, remedy))

    def _node(self, event: yaml.Event, events: Iterator[yaml.Event], depth: int) -> Node:
        if depth > _MAX_DEPTH:
            problem = self._place(event).problem(f"nested more than {_MAX_DEPTH} deep", "flatten it")
            raise InvalidFiles([*self.problems, problem])
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event)
        tag, anchor = getattr(event, "tag", None), getattr(event, "anchor", None)
        if tag not in (None, "!", _TEXT_TAG):
            self._complain(event, f"tag {tag} has no meaning here", "leave the tag out")
        if anchor:
            self.anchors[anchor] = None
        if isinstance(event, yaml.ScalarEvent):
            node = self._scalar(event)
        elif isinstance(event, yaml.SequenceStartEvent):
            node = self._sequence(event, events, depth)
        else:
            node = self._mapping(event, events, depth)
        if node.size > _MAX_NODES:
            problem = node.place.problem(f"more than {_MAX_NODES} values, aliases written out", "use fewer")
            raise InvalidFiles([*self.problems, problem])
        if anchor:
            self.anchors[anchor] = node
        return node

    def _alias(self, event: yaml.AliasEvent) -> Node:
        name = event.anchor or ""
        found = self.anchors.get(name)
        if found is not None:
            return found
        if name in self.anchors:
            self._complain(event, f"alias *{name} contains itself", "write the value out")
        else:
            self._complain(event, f"alias *{name} has no anchor", f"put &{name} before a value above")
        return Node(self._place(event), None)

    def _scalar(self, event: yaml.ScalarEvent) -> Node:
        if not event.implicit[0]:
            return Node(self._place(event), event.value)
        return Node(self._place(event), _resolve(event.value), text=event.value)

    def _sequence(self, event: yaml.Event, events: Iterator[yaml.Event], depth: int) -> Node:
        children: list[Node] = []
        for inner in events:
            if isinstance(inner, yaml.SequenceEndEvent):
                break
            children.append(self._node(inner, events, depth + 1))
        return Node(self._place(event), children, size=1 + sum(child.size for child in children))

    def _mapping(self, event: yaml.Event, events: Iterator[yaml.Event], depth: int) -> Node:
        children: dict[str, Node] = {}
        keys: dict[str, Place] = {}
        merged: list[Node] = []
        for inner in events:
            if isinstance(inner, yaml.MappingEndEvent):
                break
            key_node = self._node(inner, events, depth + 1)
            value = self._node(next(events), events, depth + 1)
            key = key_node.text if key_node.text is not None else key_node.value
            if not isinstance(key, str):
                self._complain(inner, f"expected a text as key, found {key_node.kind()}", "use a plain word")
            elif key == "<<" and key_node.text is not None:
                merged.append(value)
            elif key in children:
                self._complain(
                    inner, f"key '{key}' again (first on line {keys[key].line})", "keep one of the two"
                )
            else:
                children[key], keys[key] = value, self._place(inner)
        for source in (node for value in merged for node in value.items()):
            if not isinstance(source.value, dict):
                self.problems.append(
                    source.place.problem(f"`<<` wants a mapping, found {source.kind()}", "alias one")
                )
                continue
            for key, child in source.value.items():
                if key not in children:
                    children[key], keys[key] = child, source.keys[key]
        size = 1 + sum(child.size for child in children.values())
        return Node(self._place(event), children, keys=keys, size=size)


def _resolve(text: str) -> Scalar:
    if text in _NULL:
        return None
    if text in _BOOL:
        return _BOOL[text]
    if len(text) > _MAX_DIGITS:
        return text
    if _INT.fullmatch(text):
        return int(text)
    if _INT_BASED.fullmatch(text):
        return int(text, 0)
    return (
        float(text.lower().replace(".inf", "inf").replace(".nan", "nan")) if _FLOAT.fullmatch(text) else text
    )
