"""The closing table of a run, for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from swe_pytest.results.aggregate import ROLLOUT, CheckResults, Counts, MaskedCase, PairResults, RunResults

_HEADINGS = (
    *("suite", "benchmark", "config"),
    *("planned", "resolved", "unresolved", "masked", "not run", "resolve rate"),
)
_WORDS = 3  # so many columns hold words and stand to the left
_REASON_CHARS = 160


def table(results: RunResults, *, limit: int = 20) -> list[str]:
    """Return the lines that tell how a run came out; each list of cases is cut after `limit`.

    No text of an episode can reach the terminal as anything but printable characters.
    """
    lines = _columns([_HEADINGS, *(_pair_row(pair) for pair in results.pairs)]) if results.pairs else []
    lines += [line for pair in results.pairs if (line := _repeats(pair))]
    lines += [_check_line(check) for check in results.by_check if check.check != ROLLOUT]
    lines.append(sum_line(results.totals))
    unexpected = [case for case in results.masked_cases if not case.expected]
    expected = len(results.masked_cases) - len(unexpected)
    if expected:
        lines.append(f"{expected} of the masked as their checks expect")
    lines += _listed("masked", [_masked_line(case) for case in unexpected], limit, "failures.jsonl")
    for title, texts in (
        ("checks not passed", results.rejected_cases),
        ("gates not met", [found.text for found in results.violations]),
        ("problems", results.problems),
    ):
        lines += _listed(title, [printable(text) for text in texts], limit, "results.json")
    if not results.balanced:
        lines.append("the books do not balance: cases are missing from these sums")
    return lines


def sum_line(totals: Counts) -> str:
    """Return the sum in words; where it does not come out even the line says so."""
    summed = totals.measured + totals.masked + totals.not_run
    sign = "=" if totals.planned == summed else "!="
    parts = f"measured {totals.measured} + masked {totals.masked} + not run {totals.not_run}"
    return f"planned {totals.planned} {sign} {parts}"


def printable(text: str, limit: int = 400) -> str:
    """Return text on one line that does nothing to a terminal but show itself."""
    shown = "".join(char if char.isprintable() else _visible(char) for char in text[: limit + 1])
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def _visible(char: str) -> str:
    return " " if char in "\n\r\t" else char.encode("unicode_escape").decode("ascii")


def _pair_row(pair: PairResults) -> tuple[str, ...]:
    rate = "nothing measured"
    if pair.resolve_rate is not None and pair.resolve_rate_95 is not None:
        low, high = pair.resolve_rate_95.low, pair.resolve_rate_95.high
        rate = f"{pair.resolve_rate:.1%} [{low:.1%}, {high:.1%}]"
        if pair.measured < pair.planned and pair.resolve_rate_over_all is not None:
            rate += f", over all {pair.resolve_rate_over_all:.1%}"
    names = (printable(pair.suite, 60), printable(pair.benchmark, 60), printable(pair.config, 60))
    counts = (pair.planned, pair.resolved, pair.unresolved, pair.masked, pair.not_run)
    return (*names, *map(str, counts), rate)


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    last = len(widths) - 1
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if column < _WORDS or column == last else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return lines


def _repeats(pair: PairResults) -> str:
    told = [
        f"pass@{found.k} {found.value:.1%} ({found.instances} instances)"
        for found in pair.pass_at_k
        if found.value is not None
    ]
    return printable(f"{pair.suite} {pair.benchmark} {pair.config}: {', '.join(told)}") if told else ""


def _check_line(check: CheckResults) -> str:
    measured = f"resolved {check.resolved}, unresolved {check.unresolved}"
    counts = f"planned {check.planned}, {measured}, masked {check.masked}, not run {check.not_run}"
    return printable(f"{check.suite}: check {check.check}: {counts}")


def _masked_line(case: MaskedCase) -> str:
    stage = f" at {case.stage}" if case.stage else ""
    head = f"{printable(case.case_id)}{printable(stage)}"
    return f"{head}: {printable(case.reason, _REASON_CHARS)}"


def _listed(title: str, lines: list[str], limit: int, rest: str) -> list[str]:
    if not lines:
        return []
    more = [f"  and {len(lines) - limit} more in {rest}"] if len(lines) > limit else []
    return [f"{title}:", *(f"  {line}" for line in lines[:limit]), *more]
