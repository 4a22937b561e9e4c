"""The base of models that people fill in by hand, and how mistakes are told: with place and remedy."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sized
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, WithJsonSchema
from pydantic_core import ErrorDetails, PydanticCustomError

from swe_pytest.problem import Problem
from swe_pytest.suites.near import one_of
from swe_pytest.suites.node import Node, Place, Plain, type_names

SIZED = TypeVar("SIZED", bound=Sized)
MODEL = TypeVar("MODEL", bound="Written")
Step = str | int

_WANTED = {
    "string": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "list": "a list",
    "tuple": "a list",
    "dict": "a mapping",
    "model": "a mapping",
    "model_attributes": "a mapping",
    "finite_number": "a finite number",
    "int_from_float": "a whole number",
}
_SENTENCE_END = re.compile(r"\.\s+(?=[A-Z])")
_SIZE = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]+)?) ?(?P<unit>B|kB|MB|GB|TB|KiB|MiB|GiB|TiB)")
_UNITS = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNITS |= {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


class Written(BaseModel):
    """A part of a file: unknown keys and values of another type are refused, never guessed.

    `tag` is the discriminating word of a member of a union, "" elsewhere.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)
    tag: ClassVar[str] = ""


def wrong(message: str, remedy: str) -> PydanticCustomError:
    """Return the error a validator raises, in our words."""
    return PydanticCustomError("wrong", "{message}", {"message": message, "remedy": remedy})


def not_empty(value: SIZED) -> SIZED:
    """Refuse a list without entries: it is never what somebody meant."""
    if not value:
        raise wrong("an empty list", "name at least one, or leave the key out where it has a default")
    return value


def parse_size(value: object) -> object:
    """Turn "4GiB" into bytes; leave other types to the check of the type."""
    if not isinstance(value, str):
        return value
    match = _SIZE.fullmatch(value)
    if match is None:
        raise wrong(f"not a size: {value!r}", "write bytes, or a number with a unit, e.g. 512MiB or 4GiB")
    return int(float(match["number"]) * _UNITS[match["unit"]])


Size = Annotated[
    int,
    BeforeValidator(parse_size),
    WithJsonSchema(
        {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "pattern": f"^{_SIZE.pattern}$"}]}
    ),
]


def checked(model: type[MODEL], node: Node, problems: list[Problem]) -> MODEL | None:
    """Return the model of a mapping, or None after adding everything wrong with it to `problems`.

    Where a text is wanted, an unquoted scalar is the text that was typed: 1e3, 007 and 1.10 stay as they are.
    """
    plain = node.plain()
    while True:
        try:
            return model.model_validate(plain)
        except ValidationError as error:
            details = error.errors(include_url=False, include_input=False)
        if not _retype(plain, node, model, details):
            problems.extend(_problems(model, node, details))
            return None


def _retype(plain: Plain, node: Node, model: type[Written], details: Iterable[ErrorDetails]) -> bool:
    changed = False
    for detail in details:
        if detail["type"] != "string_type":
            continue
        steps, _ = _walk(model, detail["loc"])
        target = _descend(node, steps)
        if (
            target is not None
            and target.text
            and not isinstance(target.value, str)
            and target.value is not None
        ):
            changed |= _put(plain, steps, target.text)
    return changed


def _put(plain: Plain, steps: list[Step], text: str) -> bool:
    """Replace one value inside; False when it is that text already."""
    holder: Any = plain
    for step in steps[:-1]:
        holder = holder[step]
    before = holder[steps[-1]]
    holder[steps[-1]] = text
    return bool(before != text)


def _descend(node: Node, steps: Iterable[Step]) -> Node | None:
    for step in steps:
        if isinstance(node.value, dict) and step in node.value:
            node = node.value[str(step)]
        elif isinstance(node.value, list) and isinstance(step, int) and step < len(node.value):
            node = node.value[step]
        else:
            return None
    return node


def _walk(model: type[Written], loc: Iterable[Step]) -> tuple[list[Step], type[Written]]:
    """Follow a location through the types; return it without union tags, and the model its end is a key of."""
    steps: list[Step] = []
    kind: Any = model
    holder = inside = model
    for step in loc:
        kind = _bare(kind)
        members = _members(kind)
        if members:
            kind = inside = next((member for member in members if member.tag == step), members[0])
            continue
        steps.append(step)
        holder = inside
        kind = _bare(_inner(kind, step))
        if isinstance(kind, type) and issubclass(kind, Written):
            inside = kind
    return steps, holder


def _bare(kind: Any) -> Any:
    """Strip Annotated and Optional."""
    while True:
        if get_origin(kind) is Annotated:
            kind = get_args(kind)[0]
            continue
        if get_origin(kind) in (Union, UnionType):
            rest = [arm for arm in get_args(kind) if arm is not NoneType]
            if len(rest) == 1:
                kind = rest[0]
                continue
        return kind


def _members(kind: Any) -> list[type[Written]]:
    if get_origin(kind) not in (Union, UnionType):
        return []
    arms = [_bare(arm) for arm in get_args(kind)]
    return [arm for arm in arms if isinstance(arm, type) and issubclass(arm, Written)]


def _inner(kind: Any, step: Step) -> Any:
    if isinstance(kind, type) and issubclass(kind, Written):
        return kind.model_fields[str(step)].annotation if step in kind.model_fields else None
    arguments = get_args(kind)
    if get_origin(kind) is tuple and arguments:
        return arguments[int(step)] if isinstance(step, int) and Ellipsis not in arguments else arguments[0]
    return arguments[-1] if arguments and isinstance(get_origin(kind), type) else None


def _problems(model: type[Written], node: Node, details: Iterable[ErrorDetails]) -> Iterable[Problem]:
    for detail in details:
        if detail["type"] == "default_factory_not_called":
            continue  # follows from another problem
        of_key = detail["loc"][-1] == "[key]"
        steps, owner = _walk(model, detail["loc"][:-1] if of_key else detail["loc"])
        if detail["type"] == "union_tag_invalid":
            steps.append(str(detail["ctx"]["discriminator"]).strip("'"))
        place, found = _where(node, steps, of_key or detail["type"] == "extra_forbidden")
        message, remedy = _told(detail, steps, owner, found)
        yield place.problem(message, remedy)


def _where(node: Node, steps: list[Step], key: bool) -> tuple[Place, Node]:
    """Return the place of a location and the last value that exists on the way."""
    place = node.place
    for position, step in enumerate(steps):
        inner = _descend(node, [step])
        if inner is None:
            break
        last = position == len(steps) - 1
        place = node.keys[str(step)] if key and last else inner.place
        node = inner
    return place, node


def _told(detail: ErrorDetails, steps: list[Step], owner: type[Written], found: Node) -> tuple[str, str]:
    kind = detail["type"]
    context: Mapping[str, Any] = detail.get("ctx", {})
    name = next((step for step in reversed(steps) if isinstance(step, str)), "")
    field = next((step for step in reversed(steps) if step in owner.model_fields), name)
    about = _description(owner, steps)
    if kind == "wrong":
        return context["message"], context["remedy"]
    if kind == "extra_forbidden":
        return f"unknown key '{name}'", one_of(name, owner.model_fields)
    if kind == "missing":
        return f"missing key '{name}'", about
    if kind == "literal_error":
        return _not_one_of(str(field), found, _literals(owner, str(field)))
    if kind == "union_tag_invalid":
        tags = [tag.strip("' ") for tag in str(context["expected_tags"]).split(",")]
        return f"unknown {steps[-2]} '{context['tag']}'", one_of(str(context["tag"]), tags)
    if kind == "union_tag_not_found":
        return f"'{name}' lacks {context['discriminator']}", about
    if kind == "string_pattern_mismatch":
        word = name if detail["loc"][-1] == "[key]" else found.word()
        return f"cannot be called '{word}'", f"{about}; it must match {context['pattern']}"
    wanted = _WANTED.get(kind.removesuffix("_type"))
    if wanted:
        return f"'{name}' wants {wanted}, found {found.kind()}", about
    return f"'{name}': {_lower(detail['msg'])}, found {found.kind()}", about


def _not_one_of(name: str, found: Node, choices: list[str]) -> tuple[str, str]:
    word = found.word()
    if word is None:
        return (
            f"'{name}' wants one of {', '.join(choices)}, found {found.kind()}",
            f"write one of {', '.join(choices)}",
        )
    return f"'{name}' cannot be '{word}'", one_of(word, choices)


def _literals(owner: type[Written], name: str) -> list[str]:
    """Return the words a field may take, also inside a list or a mapping."""
    kind = _bare(owner.model_fields[name].annotation) if name in owner.model_fields else None
    while kind is not None and get_origin(kind) is not Literal:
        kind = _bare(_inner(kind, 0))
    words = get_args(kind) if kind is not None else ()
    return [word if isinstance(word, str) else str(word).lower() for word in words]


def _description(owner: type[Written], steps: Iterable[Step]) -> str:
    """Return the first sentence about the field that a location is in."""
    fields = owner.model_fields
    inside = [fields[step].description or "" for step in steps if isinstance(step, str) and step in fields]
    return _lower(_SENTENCE_END.split(inside[-1])[0].rstrip(".")) if inside else ""


def _lower(text: str) -> str:
    text = text.replace("Input should", "should").replace("Value should", "should")
    return text[:1].lower() + text[1:]


__all__ = ["MODEL", "Size", "Written", "checked", "not_empty", "parse_size", "type_names", "wrong"]
