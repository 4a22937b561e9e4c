"""JSON Schemas (draft 2020-12) of what a run writes, made from the dataclasses and committed.

`python -m swe_pytest.results.schema` writes the committed files again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import is_dataclass
from enum import StrEnum
from pathlib import Path
from types import NoneType, UnionType
from typing import get_args, get_origin

from swe_pytest.results.aggregate import RunResults
from swe_pytest.results.codec import WRITTEN_AS, Json, field_types, json_document, key_of
from swe_pytest.results.durable import write_durably
from swe_pytest.results.events import EVENTS
from swe_pytest.results.record import EpisodeRecord, Stage

DIRECTORY = Path(__file__).parent / "schemas"
_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_SCALARS: dict[object, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    NoneType: "null",
}
# The least values of fields that count from somewhere, wherever they are.
_LEAST = {"repeat": 1, "attempts": 1, "k": 1, "bytes": 0, "announced": 0}
_Defs = dict[str, Json]


def record_schema() -> dict[str, Json]:
    """Return the schema of record.json, with the rules that `encoding.contradictions` keeps."""
    defs: _Defs = {}
    schema = _document("record", "record.json: one episode of a run", _object(EpisodeRecord, defs), defs)
    schema["allOf"] = _record_rules()
    return schema


def results_schema() -> dict[str, Json]:
    """Return the schema of results.json."""
    defs: _Defs = {}
    return _document("results", "results.json: what a run came to", _object(RunResults, defs), defs)


def ledger_schema() -> dict[str, Json]:
    """Return the schema of one line of ledger.jsonl."""
    defs: _Defs = {}
    lines: list[Json] = []
    for name, shape in EVENTS.items():
        line = _object(shape, defs)
        line["properties"] = {"event": {"const": name}, **_mapping(line["properties"])}
        line["required"] = ["event", *_list(line["required"])]
        if name == "episode.end":
            line["allOf"] = _end_rules()
        lines.append(line)
    return _document("ledger", "One line of ledger.jsonl", {"oneOf": lines}, defs)


SCHEMAS: dict[str, Callable[[], dict[str, Json]]] = {
    "record.schema.json": record_schema,
    "results.schema.json": results_schema,
    "ledger.schema.json": ledger_schema,
}


def write_schemas(directory: Path = DIRECTORY) -> None:
    """Write all schemas into a directory. Raises: OSError."""
    for name, make in SCHEMAS.items():
        write_durably(directory / name, json_document(make()))


def _document(name: str, title: str, body: dict[str, Json], defs: _Defs) -> dict[str, Json]:
    return {
        "$schema": _DIALECT,
        "$id": f"urn:swe_pytest:schema:{name}:1",
        "title": title,
        **body,
        "$defs": defs,
    }


def _object(shape: type, defs: _Defs) -> dict[str, Json]:
    kinds = {key_of(name): kind for name, kind in field_types(shape).items()}
    return {
        "type": "object",
        "description": (shape.__doc__ or "").split("\n\n")[0].replace("\n", " "),
        "properties": {key: _schema(kind, key, defs) for key, kind in kinds.items()},
        "required": list(kinds),
        "additionalProperties": False,
    }


def _schema(kind: object, key: str, defs: _Defs) -> dict[str, Json]:
    if kind in _SCALARS:
        return _scalar(kind, key)
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return {"enum": [str(member) for member in kind]}
    if isinstance(kind, type) and is_dataclass(kind):
        written = WRITTEN_AS.get(kind, kind)
        if written.__name__ not in defs:
            defs[written.__name__] = {}  # keeps its place; dataclasses here do not nest in themselves
            defs[written.__name__] = _object(written, defs)
        return {"$ref": f"#/$defs/{written.__name__}"}
    arguments = get_args(kind)
    if isinstance(kind, UnionType):
        return {"anyOf": [_schema(argument, key, defs) for argument in arguments]}
    if get_origin(kind) is tuple:
        return {"type": "array", "items": _schema(arguments[0], "", defs)}
    if get_origin(kind) is dict:
        return {"type": "object", "additionalProperties": _schema(arguments[1], "", defs)}
    raise TypeError(f"{kind} has no schema")


def _scalar(kind: object, key: str) -> dict[str, Json]:
    """Return the schema of a plain value, narrowed where the field's name fixes its values."""
    if key == "reward" and kind is float:
        return {"enum": [0, 1]}
    if key == "stage" and kind is str:
        return {"enum": [*(str(stage) for stage in Stage), ""]}
    if key == "class" and kind is str:
        return {"type": "string", "pattern": "^[a-z][a-z0-9_]*$"}
    found: dict[str, Json] = {"type": _SCALARS[kind]}
    if key in _LEAST:
        found["minimum"] = _LEAST[key]
    return found


def _rule(outcome: str, then: dict[str, Json]) -> dict[str, Json]:
    return {"if": {"properties": {"outcome": {"const": outcome}}}, "then": then}


def _record_rules() -> list[Json]:
    unrewarded: _Defs = {"reward": {"type": "null"}, "resolved": {"type": "null"}}
    measured: dict[str, Json] = {
        "properties": {
            "mask_sample": {"const": False},
            "mask_reason": {"const": ""},
            "evaluation_completed": {"const": True},
            "failure": {"type": "null"},
        },
        "oneOf": [_rewarded(1, True, verdict=True), _rewarded(0, False, verdict=True)],
    }
    masked: dict[str, Json] = {
        "properties": {
            "mask_sample": {"const": True},
            "mask_reason": {"minLength": 1},
            "failure": {"type": "object"},
            **unrewarded,
        }
    }
    not_run: dict[str, Json] = {
        "properties": {"mask_sample": {"const": False}, "mask_reason": {"const": ""}, **unrewarded}
    }
    return [_rule("measured", measured), _rule("masked", masked), _rule("not_run", not_run)]


def _end_rules() -> list[Json]:
    unrewarded: _Defs = {"reward": {"type": "null"}, "resolved": {"type": "null"}}
    measured: dict[str, Json] = {
        "properties": {"failure": {"type": "null"}, "mask_reason": {"const": ""}},
        "oneOf": [_rewarded(1, True, verdict=False), _rewarded(0, False, verdict=False)],
    }
    masked: dict[str, Json] = {
        "properties": {"mask_reason": {"minLength": 1}, "failure": {"type": "object"}, **unrewarded}
    }
    not_run: dict[str, Json] = {"properties": unrewarded}
    return [_rule("measured", measured), _rule("masked", masked), _rule("not_run", not_run)]


def _rewarded(reward: int, resolved: bool, *, verdict: bool) -> dict[str, Json]:
    found: _Defs = {"reward": {"const": reward}, "resolved": {"const": resolved}}
    if verdict:
        found["verdict"] = {"type": "object", "properties": {"reward": {"const": reward}}}
    return {"properties": found}


def _mapping(value: Json) -> dict[str, Json]:
    assert isinstance(value, dict)
    return value


def _list(value: Json) -> list[Json]:
    assert isinstance(value, list)
    return value


if __name__ == "__main__":
    write_schemas()
