"""Reading unified diffs as git writes them: which paths, and which lines of them. Bytes in, text out.

Text is UTF-8 with surrogate escapes, so that any name and line survives. Hunks are read by their
announced lengths: what stands inside a file cannot pass for a header.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@ ?(.*)", re.DOTALL)
_ESCAPE = re.compile(rb'\\([0-7]{3}|[abtnvfr"\\])')
_ESCAPED = {b"a": b"\a", b"b": b"\b", b"t": b"\t", b"n": b"\n", b"v": b"\v", b"f": b"\f", b"r": b"\r"}


@dataclass(slots=True)
class Hunk:
    """A hunk: git's heading after the second @@, and its lines with their first letter (" ", "+", "-")."""

    heading: str
    lines: list[str] = field(default_factory=list)


@dataclass(slots=True)
class FileDiff:
    """What a diff says of one file. `opaque`: its content changes in a way that shows no lines."""

    old: str = ""
    new: str = ""
    opaque: bool = False
    hunks: list[Hunk] = field(default_factory=list)

    @property
    def paths(self) -> tuple[str, ...]:
        """The names it has before and after, without the null device."""
        return tuple(dict.fromkeys(path for path in (self.old, self.new) if path))


def read_diff(patch: bytes) -> list[FileDiff]:
    """Return the files of a diff in their order. Unreadable parts are passed over."""
    files: list[FileDiff] = []
    lines = iter(patch.decode("utf-8", "surrogateescape").split("\n"))
    for line in lines:
        if line.startswith("diff --git "):
            old, new = _names_of_both(line.removeprefix("diff --git ").rstrip("\r"))
            files.append(FileDiff(old, new))
        elif line.startswith("--- "):
            # A diff without git's own header begins a file here.
            if not files or files[-1].hunks:
                files.append(FileDiff())
            files[-1].old = _name(line[4:], "a/")
        elif not files:
            continue
        elif line.startswith("+++ "):
            files[-1].new = _name(line[4:], "b/")
        elif line.startswith(("rename from ", "copy from ")):
            files[-1].old = _unquoted(line.split(" from ", 1)[1])
        elif line.startswith(("rename to ", "copy to ")):
            files[-1].new = _unquoted(line.split(" to ", 1)[1])
        elif line.startswith(("GIT binary patch", "Binary files ")):
            files[-1].opaque = True
        elif match := _HUNK.match(line):
            files[-1].hunks.append(_hunk(match, lines))
    return files


def patched_paths(patch: bytes) -> tuple[str, ...]:
    """Return every path that a diff touches, old and new names, sorted."""
    return tuple(sorted({path for file in read_diff(patch) for path in file.paths}))


def added_lines(files: Iterable[FileDiff]) -> Iterator[tuple[str, str]]:
    """Yield path and text of each line that the diff adds."""
    for file in files:
        for hunk in file.hunks:
            for line in hunk.lines:
                if line.startswith("+"):
                    yield file.new, line[1:]


def _hunk(match: re.Match[str], lines: Iterator[str]) -> Hunk:
    old, new = (1 if count is None else int(count) for count in match.group(1, 2))
    hunk = Hunk(match.group(3))
    while old > 0 or new > 0:
        line = next(lines, None)
        if line is None:
            break
        if line.startswith("\\"):
            continue
        letter = line[:1] or " "  # some tools strip the blank of an empty context line
        old -= letter in " -"
        new -= letter in " +"
        hunk.lines.append(line or " ")
    return hunk


def _names_of_both(rest: str) -> tuple[str, str]:
    if rest.startswith('"'):
        match = re.match(r'("(?:[^"\\]|\\.)*") (.*)', rest)
        return (_name(match[1], "a/"), _name(match[2], "b/")) if match else ("", "")
    if rest.endswith('"') and ' "' in rest:
        old, _, new = rest.partition(' "')
        return _name(old, "a/"), _name('"' + new, "b/")
    # Blanks are not quoted: only equal names can be told apart, and unequal ones are named again below.
    middle = len(rest) // 2
    old, new = _name(rest[:middle], "a/"), _name(rest[middle + 1 :], "b/")
    return (old, new) if old == new else ("", "")


def _name(text: str, prefix: str) -> str:
    name = _unquoted(text.rstrip("\r").partition("\t")[0])
    return "" if name == "/dev/null" else name.removeprefix(prefix)


def _unquoted(text: str) -> str:
    text = text.rstrip("\r")
    if len(text) < 2 or not (text.startswith('"') and text.endswith('"')):
        return text
    raw = text[1:-1].encode("utf-8", "surrogateescape")

    def plain(match: re.Match[bytes]) -> bytes:
        code = match[1]
        return bytes([int(code, 8) & 0xFF]) if code.isdigit() else _ESCAPED.get(code, code)

    return _ESCAPE.sub(plain, raw).decode("utf-8", "surrogateescape")
