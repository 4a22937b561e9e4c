"""The closing table: words of our own, a sum that is checked, and nothing that a terminal would obey."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from swe_pytest.results.aggregate import summarise
from swe_pytest.results.gates import Bounds, Gates
from swe_pytest.results.table import printable, sum_line, table
from tests.results.making import ANY_TEXT, MadeRun, failed, planned, record_of


def _made(path: Path) -> MadeRun:
    cases = [planned(name) for name in ("r1", "u1", "m1", "n1")]
    fault = planned("f1", check="interrupted")
    made = MadeRun(path, [*cases, fault])
    made.end(record_of(cases[0]), passed=True)
    made.end(record_of(cases[1], 0.0), passed=True)
    made.end(record_of(cases[2], None, failure=failed(message="\x1b[2Jgone\r\nfor good")), passed=False)
    made.end(record_of(fault, None), passed=True)
    return made


def test_table(tmp_path: Path) -> None:
    """Per pair, then other checks, the sum, what is masked against expectation with its reason, and problems."""
    made = _made(tmp_path)
    made.ledger.gates("smoke", Gates(mask_rate=Bounds(max=0.0)))
    assert table(summarise(made.run_dir)) == [
        "suite  benchmark  config  planned  resolved  unresolved  masked  not run  resolve rate",
        "smoke  toy        gold          4         1           1       1        1  "
        "50.0% [9.5%, 90.5%], over all 25.0%",
        "smoke: check interrupted: planned 1, resolved 0, unresolved 0, masked 1, not run 0",
        "planned 5 = measured 2 + masked 2 + not run 1",
        "1 of the masked as their checks expect",
        "masked:",
        "  smoke.gold-m1-1 at agent.respond: sandbox_gone: \\x1b[2Jgone  for good",
        "checks not passed:",
        "  smoke.gold-m1-1",
        "gates not met:",
        "  smoke: mask_rate is 33.3% (1 of 3 ended), at most 0.0% is allowed",
        "problems:",
        "  ledger.jsonl has no run.end: the run was cut short",
    ]


def test_repeats_have_pass_at_k(tmp_path: Path) -> None:
    """Where instances are repeated the table says pass@k, and of how many instances."""
    cases = [planned("a", repeat=1), planned("a", repeat=2)]
    made = MadeRun(tmp_path, cases)
    made.end(record_of(cases[0]))
    made.end(record_of(cases[1], 0.0))
    assert "smoke toy gold: pass@1 50.0% (1 instances), pass@2 100.0% (1 instances)" in table(
        summarise(made.run_dir)
    )


def test_long_lists_are_cut(tmp_path: Path) -> None:
    """A list of masked cases is bounded, and says how many more there are and where."""
    cases = [planned(f"i{n:02}") for n in range(30)]
    made = MadeRun(tmp_path, cases)
    for case in cases:
        made.mask(case, failed())
    lines = table(summarise(made.run_dir), limit=5)
    assert sum(line.startswith("  smoke.gold-i") for line in lines) == 5
    assert "  and 25 more in failures.jsonl" in lines
    assert any("nothing measured" in line for line in lines)


def test_a_sum_that_is_wrong_says_so(tmp_path: Path) -> None:
    """The equals sign is earned."""
    totals = summarise(_made(tmp_path).run_dir).totals
    assert " = " in sum_line(totals)
    assert sum_line(replace(totals, not_run=0)) == "planned 5 != measured 2 + masked 2 + not run 0"


@given(ANY_TEXT, st.integers(1, 50))
def test_nothing_reaches_the_terminal_but_printable_text(text: str, limit: int) -> None:
    """Escape sequences, line ends and surrogates are shown, never obeyed; length is bounded."""
    shown = printable(text, limit)
    assert shown.isprintable()
    assert len(shown) <= limit
    shown.encode("utf-8")
