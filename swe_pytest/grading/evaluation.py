"""What a grader needs of an instance. Nothing in here may ever enter a task sandbox."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


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
