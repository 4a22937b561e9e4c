"""Near matches: what somebody probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_SHOWN = 12
_ALIKE = 0.65


def near(word: str, known: Iterable[str], count: int = 3) -> tuple[str, ...]:
    """Return up to `count` of the known words that are most like `word`, best first, case ignored."""
    by_fold: dict[str, str] = {}
    for name in known:
        by_fold.setdefault(name.casefold(), name)
    found = difflib.get_close_matches(word.casefold(), list(by_fold), n=count, cutoff=_ALIKE)
    return tuple(by_fold[fold] for fold in found)


def one_of(word: str, known: Iterable[str]) -> str:
    """Return a remedy: the near matches when there are any, else what is known, shortened."""
    names = list(known)
    found = near(word, names)
    if found:
        return f"did you mean {alternatives(found)}?"
    if not names:
        return "there are none to choose from"
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"known are: {', '.join(names[:_SHOWN])}{more}"


def alternatives(words: Iterable[str]) -> str:
    """Return words as prose: 'a', 'b' or 'c'."""
    quoted = [f"'{word}'" for word in words]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} or {quoted[-1]}"
