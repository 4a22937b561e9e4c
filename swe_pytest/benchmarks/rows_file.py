"""Writing prepared rows: a reader finds the old file or the new one, never a part of one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from swe_pytest.results.durable import write_durably


def write_rows(path: Path, rows: Sequence[Mapping[str, object]], facts: Mapping[str, str]) -> None:
    """Write rows as JSON lines, and beside them `<path>.meta.json`: `facts`, the count, the sha256.

    The facts are written last; their sha256 tells whether they belong to the rows that are there.
    Raises: OSError.
    """
    # `default` is for dates, which some datasets hold as such.
    lines = [json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in rows]
    data = "".join(lines).encode("utf-8", "surrogatepass")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_durably(path, data)
    meta = {**facts, "rows": len(rows), "sha256": hashlib.sha256(data).hexdigest()}
    write_durably(meta_path(path), json.dumps(meta, indent=2, sort_keys=True).encode() + b"\n")


def meta_path(path: Path) -> Path:
    """Return where the facts about a rows file stand."""
    return path.with_name(path.name + ".meta.json")


@cache
def dataset_of(path: Path) -> str:
    """Return "dataset@revision" of a prepared rows file; "" where that is not known, or of other rows.

    Read once a process: a run's rows stay what they were when its cases were collected.
    """
    try:
        meta = json.loads(meta_path(path).read_bytes())
        ours = meta["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
        return f"{meta['dataset']}@{meta['revision']}" if ours else ""
    except (OSError, ValueError, KeyError, TypeError):
        return ""
