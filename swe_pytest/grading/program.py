"""The shell programs of this room: what runs inside containers, in plain sh and git."""

from __future__ import annotations

from functools import cache
from pathlib import Path


@cache
def program(name: str) -> str:
    """Return the text of `<name>.sh` behind the functions that all programs share."""
    room = Path(__file__).parent
    return (room / "git.sh").read_text("utf-8") + (room / f"{name}.sh").read_text("utf-8")
