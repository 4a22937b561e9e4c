"""What a grader needs of an instance. Nothing in here may ever enter a task sandbox."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Literal

JsonValue = str | list[str]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The grader-only part of an instance, in the terms of swebench 5 rows.

    `eval_script` is the official script, `log_parser` a name of swebench's registry, `workdir` the
    checkout in the image. `gold_paths` are the paths that the gold patch touches (they say which runner
    configuration a solution may legitimately change). `network` is what the official evaluation needs.
    """

    instance_id: str
    image: str
    workdir: str
    base_commit: str
    repo: str
    version: str
    eval_script: str
    log_parser: str
    eval_type: Literal["pass_and_fail", "fail_only"]
    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]
    test_patch: bytes
    gold_paths: tuple[str, ...]
    network: Literal["none", "open"]


def evaluation_to_json(evaluation: Evaluation) -> dict[str, JsonValue]:
    """Return plain JSON values that `evaluation_from_json` turns into an equal evaluation, byte for byte."""
    values: dict[str, JsonValue] = {}
    for field in fields(Evaluation):
        value: str | bytes | tuple[str, ...] = getattr(evaluation, field.name)
        if isinstance(value, bytes):
            values[field.name] = value.decode("utf-8", "surrogateescape")
        else:
            values[field.name] = list(value) if isinstance(value, tuple) else value
    return values


def evaluation_from_json(values: Mapping[str, JsonValue]) -> Evaluation:
    """Return the evaluation that was stored. Raises: ValueError naming the field that does not fit."""

    def text(name: str) -> str:
        value = values.get(name)
        if not isinstance(value, str):
            raise ValueError(f"stored evaluation: {name} is not a string")
        return value

    def texts(name: str) -> tuple[str, ...]:
        value = values.get(name)
        if not isinstance(value, list):
            raise ValueError(f"stored evaluation: {name} is not a list of strings")
        return tuple(value)

    eval_type, network = text("eval_type"), text("network")
    if eval_type not in ("pass_and_fail", "fail_only"):
        raise ValueError(f"stored evaluation: eval_type is {eval_type!r}")
    if network not in ("none", "open"):
        raise ValueError(f"stored evaluation: network is {network!r}")
    return Evaluation(
        instance_id=text("instance_id"),
        image=text("image"),
        workdir=text("workdir"),
        base_commit=text("base_commit"),
        repo=text("repo"),
        version=text("version"),
        eval_script=text("eval_script"),
        log_parser=text("log_parser"),
        eval_type="fail_only" if eval_type == "fail_only" else "pass_and_fail",
        fail_to_pass=texts("fail_to_pass"),
        pass_to_pass=texts("pass_to_pass"),
        test_patch=text("test_patch").encode("utf-8", "surrogateescape"),
        gold_paths=texts("gold_paths"),
        network="open" if network == "open" else "none",
    )
