"""JSON Schemas of the files people write, generated from the models. The committed copies are for editors."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DIRECTORY = Path(__file__).parent / "schemas"
NAMES = ("suite", "config", "manifest")
_MAJOR = 1  # raised when a file that was right becomes wrong; the schema of the old major is then kept
_DIALECT = "https://json-schema.org/draft/2020-12/schema"

Schema = dict[str, Any]


def schema(name: str) -> Schema:
    """Return the schema of one of NAMES, draft 2020-12. Raises: KeyError for other names."""
    makers = {"suite": _suite_schema, "config": _config_schema, "manifest": _manifest_schema}
    made = makers[name]()
    return {"$schema": _DIALECT, "$id": f"urn:swe-pytest:schema:{name}:{_MAJOR}", **made}


def file_name(name: str) -> str:
    return f"{name}.schema.json"


def schema_text(name: str) -> str:
    """Return a schema as it is committed."""
    return json.dumps(schema(name), indent=2, ensure_ascii=False) + "\n"


def stale(directory: Path = DIRECTORY) -> Iterator[str]:
    """Yield the names of schemas whose copy in a directory is not what the models say."""
    for name in NAMES:
        path = directory / file_name(name)
        if not path.is_file() or path.read_text(encoding="utf-8") != schema_text(name):
            yield name


def _manifest_schema() -> Schema:
    from swe_pytest.suites.manifest import Manifest

    return Manifest.model_json_schema()


def _config_schema() -> Schema:
    """A config that extends another may leave out and null anything; its own values have the same types."""
    from swe_pytest.suites.config import Config

    made = Config.model_json_schema()
    definitions = made.pop("$defs")
    made["required"] = ["agent"]  # a file's name is the config's name
    over = _laid_over(made)
    definitions |= {f"{name}LaidOver": _laid_over(inner) for name, inner in definitions.items()}
    definitions |= {"Config": made, "ConfigLaidOver": over}
    return {
        "title": "Config",
        "description": made["description"],
        "$defs": definitions,
        "if": {"type": "object", "required": ["extends"]},
        "then": {"$ref": "#/$defs/ConfigLaidOver"},
        "else": {"$ref": "#/$defs/Config"},
    }


def _suite_schema() -> Schema:
    from swe_pytest.suites.suite import Suite

    made = Suite.model_json_schema()
    config = _config_schema()
    made["$defs"] |= config["$defs"]
    inline = {"type": "object", "required": ["name"], **{key: config[key] for key in ("if", "then", "else")}}
    made["properties"]["configs"]["items"] = {"anyOf": [{"type": "string", "minLength": 1}, inline]}
    return made


def _laid_over(strict: Schema) -> Schema:
    """Return the schema of what may be laid over a value: nothing is required, null removes."""
    loose = copy.deepcopy(strict)
    loose.pop("required", None)
    for key, inner in loose.get("properties", {}).items():
        inner.pop("default", None)
        loose["properties"][key] = {"anyOf": [_refer(inner), {"type": "null"}]}
        if "description" in inner:
            loose["properties"][key]["description"] = inner["description"]
    return loose


def _refer(inner: Schema) -> Schema:
    """Point to the loose definitions, and let a union be any of its members, for the tag may be inherited."""
    if "oneOf" in inner:
        return {"anyOf": [_refer(member) for member in inner["oneOf"]]}
    if "$ref" in inner:
        return {**inner, "$ref": f"{inner['$ref']}LaidOver"}
    if "patternProperties" in inner:
        values = {
            key: {"anyOf": [kind, {"type": "null"}]} for key, kind in inner["patternProperties"].items()
        }
        return {**inner, "patternProperties": values}
    return inner
