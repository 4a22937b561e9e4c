"""Frozen dataclasses to plain JSON and back, exactly and strictly: the dataclass is the only description.

Every text that comes out is JSON that any reader takes: code points that UTF-8 has no bytes for (lone
surrogates) are spelled out as backslash escapes; all else, NUL and control characters too, comes back as
it was.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import TypeVar, cast, get_args, get_origin, get_type_hints

from swe_pytest.results.record import TestStatuses

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
T = TypeVar("T")
_Encode = Callable[[object], Json]
_Decode = Callable[[object], object]

SCALARS: tuple[type, ...] = (bool, int, float, str, NoneType)
# Field names that Python does not allow as they are written.
_KEYS = {"failure_class": "class"}


class Malformed(ValueError):
    """A JSON value is not of the shape that its dataclass describes. `where` is the path of keys to it."""

    def __init__(self, message: str, where: tuple[str, ...] = ()) -> None:
        self.message = message
        self.where = where
        super().__init__(f"{'.'.join(where)}: {message}" if where else message)

    def within(self, step: str) -> Malformed:
        return Malformed(self.message, (step, *self.where))


@dataclass(frozen=True, slots=True)
class Statuses:
    """Required tests of one kind, by what became of them."""

    success: tuple[str, ...]
    failure: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NestedStatuses:
    """TestStatuses as it is written: nested, as graders of this family write it."""

    fail_to_pass: Statuses
    pass_to_pass: Statuses


def encode(value: object) -> dict[str, Json]:
    """Return a dataclass instance as plain JSON. Raises: ValueError for a number that is not finite."""
    return cast("dict[str, Json]", _encoder(cast("Hashable", type(value)))(value))


def decode(shape: type[T], value: object) -> T:
    """Return the instance that `encode` made the value of. Raises: Malformed."""
    return cast("T", _decoder(cast("Hashable", shape))(value))


def json_line(value: Mapping[str, Json]) -> bytes:
    """Return one line of ASCII JSON with its line feed. No text can break the line."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode("ascii") + b"\n"


def json_document(value: Mapping[str, Json]) -> bytes:
    """Return ASCII JSON for people and diffs: indented, keys sorted."""
    return json.dumps(value, indent=2, sort_keys=True, allow_nan=False).encode("ascii") + b"\n"


def clean(text: str) -> str:
    """Return text that has UTF-8 bytes: lone surrogates are spelled out, all else is kept."""
    if text.isascii():
        return text
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def key_of(name: str) -> str:
    """Return the JSON key of a dataclass field."""
    return _KEYS.get(name, name)


@cache
def field_types(shape: type) -> dict[str, object]:
    """Return the types of a dataclass's fields, in order."""
    hints = get_type_hints(shape)
    return {field.name: hints[field.name] for field in fields(shape)}


def _nest(value: object) -> object:
    tests = cast("TestStatuses", value)
    return NestedStatuses(
        Statuses(tests.fail_to_pass_success, tests.fail_to_pass_failure),
        Statuses(tests.pass_to_pass_success, tests.pass_to_pass_failure),
    )


def _flatten(value: object) -> object:
    nested = cast("NestedStatuses", value)
    to_pass, kept = nested.fail_to_pass, nested.pass_to_pass
    return TestStatuses(to_pass.success, to_pass.failure, kept.success, kept.failure)


# Dataclasses that are written in another shape than they have.
WRITTEN_AS: dict[type, type] = {TestStatuses: NestedStatuses}


@cache
def _encoder(shape: object) -> _Encode:
    """Build the encoder of a type once, so that thousands of values cost no look-ups."""
    if shape is str:
        return cast("_Encode", clean)
    if shape is float:
        return _encode_float
    if shape in SCALARS:
        return lambda value: cast("Json", value)
    if isinstance(shape, type) and issubclass(shape, StrEnum):
        return lambda value: str(value)
    if shape in WRITTEN_AS:
        nested = _encoder(NestedStatuses)
        return lambda value: nested(_nest(value))
    if isinstance(shape, type) and is_dataclass(shape):
        return _dataclass_encoder(shape)
    arguments = get_args(shape)
    if isinstance(shape, UnionType):
        if all(argument in SCALARS for argument in arguments) and len(arguments) > 2:
            return _encode_scalar
        inner = _encoder(next(argument for argument in arguments if argument is not NoneType))
        return lambda value: None if value is None else inner(value)
    if get_origin(shape) is tuple:
        inner = _encoder(arguments[0])
        return lambda value: [inner(item) for item in cast("tuple[object, ...]", value)]
    if get_origin(shape) is dict:
        inner = _encoder(arguments[1])
        return lambda value: {
            clean(key): inner(item) for key, item in cast("dict[str, object]", value).items()
        }
    raise TypeError(f"{shape} cannot be written as JSON")


def _dataclass_encoder(shape: type) -> _Encode:
    parts = [(name, key_of(name), _encoder(kind)) for name, kind in field_types(shape).items()]
    return lambda value: {key: part(getattr(value, name)) for name, key, part in parts}


def _encode_float(value: object) -> Json:
    number = cast("float", value)
    if not math.isfinite(number):
        raise ValueError(f"{number} is not a number that JSON can hold")
    return number


def _encode_scalar(value: object) -> Json:
    """A free value of a journal entry: infinite limits exist there, and become words."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return cast("Json", value)


@cache
def _decoder(shape: object) -> _Decode:
    if shape in SCALARS:
        return _scalar_decoder((shape,))
    if isinstance(shape, type) and issubclass(shape, StrEnum):
        return _enum_decoder(shape)
    if shape in WRITTEN_AS:
        nested = _decoder(NestedStatuses)
        return lambda value: _flatten(nested(value))
    if isinstance(shape, type) and is_dataclass(shape):
        return _dataclass_decoder(shape)
    arguments = get_args(shape)
    if isinstance(shape, UnionType):
        if all(argument in SCALARS for argument in arguments):
            return _scalar_decoder(arguments)
        inner = _decoder(next(argument for argument in arguments if argument is not NoneType))
        return lambda value: None if value is None else inner(value)
    if get_origin(shape) is tuple:
        return _list_decoder(_decoder(arguments[0]))
    if get_origin(shape) is dict:
        return _dict_decoder(_decoder(arguments[1]))
    raise TypeError(f"{shape} cannot be read from JSON")


def _scalar_decoder(allowed: tuple[type, ...]) -> _Decode:
    # JSON has one kind of number, Python has three: true is not 1 here, but 1 is a float.
    exact = set(allowed) | ({int} if float in allowed else set())
    names = " or ".join(sorted("null" if kind is NoneType else kind.__name__ for kind in allowed))

    def read(value: object) -> object:
        if type(value) not in exact:
            raise Malformed(f"{names} expected, found {type(value).__name__}")
        return value

    return read


def _enum_decoder(shape: type[StrEnum]) -> _Decode:
    members = {str(member): member for member in shape}

    def read(value: object) -> object:
        if not isinstance(value, str) or value not in members:
            raise Malformed(f"one of {', '.join(members)} expected, found {value!r}")
        return members[value]

    return read


def _dataclass_decoder(shape: type) -> _Decode:
    parts = [(key_of(name), _decoder(kind)) for name, kind in field_types(shape).items()]
    keys = {key for key, _ in parts}

    def read(value: object) -> object:
        if not isinstance(value, dict):
            raise Malformed(f"object expected, found {type(value).__name__}")
        if value.keys() != keys:
            missing, unknown = sorted(keys - value.keys()), sorted(value.keys() - keys)
            raise Malformed("; ".join(_named("missing", missing) + _named("unknown", unknown)))
        arguments = []
        for key, part in parts:
            try:
                arguments.append(part(value[key]))
            except Malformed as error:
                raise error.within(key) from None
        return shape(*arguments)

    return read


def _named(what: str, keys: list[str]) -> list[str]:
    return [f"{what} {', '.join(keys)}"] if keys else []


def _list_decoder(inner: _Decode) -> _Decode:
    def read(value: object) -> object:
        if not isinstance(value, list):
            raise Malformed(f"array expected, found {type(value).__name__}")
        items = []
        for position, item in enumerate(value):
            try:
                items.append(inner(item))
            except Malformed as error:
                raise error.within(str(position)) from None
        return tuple(items)

    return read


def _dict_decoder(inner: _Decode) -> _Decode:
    def read(value: object) -> object:
        if not isinstance(value, dict):
            raise Malformed(f"object expected, found {type(value).__name__}")
        found = {}
        for key, item in value.items():
            try:
                found[key] = inner(item)
            except Malformed as error:
                raise error.within(key) from None
        return found

    return read
