"""A small evaluation and logs of it, as an honest shell with tracing prints them."""

from __future__ import annotations

from dataclasses import replace

from swe_pytest.grading.evaluation import Evaluation
from swe_pytest.results.record import PatchFile

SCRIPT = """#!/bin/bash
set -uxo pipefail
cd /testbed
git apply -v - <<'EOF'
EOF
: '>>>>> Start Test Output'
pytest -rA tests/test_calc.py
: '>>>>> End Test Output'
"""

EVALUATION = Evaluation(
    instance_id="acme__calc-1",
    image="acme/calc:1",
    workdir="/testbed",
    base_commit="0" * 40,
    repo="acme/calc",
    version="1.0",
    eval_script=SCRIPT,
    log_parser="parse_log_pytest",
    eval_type="pass_and_fail",
    fail_to_pass=("tests/test_calc.py::test_sub",),
    pass_to_pass=("tests/test_calc.py::test_add", "tests/test_calc.py::test_names[a-b]"),
    test_patch=b"",
    gold_paths=("calc.py",),
    network="none",
)

CLOSING = "===== 3 passed in 0.01s ====="
ALL_PASS = (
    "PASSED tests/test_calc.py::test_sub",
    "PASSED tests/test_calc.py::test_add",
    "PASSED tests/test_calc.py::test_names[a-b]",
)
ONE_FAILS = ("FAILED tests/test_calc.py::test_sub - assert 1 == 2", *ALL_PASS[1:])


def log_of(*lines: str, before: str = "", after: str = "", closing: str = CLOSING) -> bytes:
    """A log of pytest, or of a runner with another closing line, with these lines between the markers."""
    ran = [*lines, closing] if lines and closing else [*lines]
    marked = ["+ : '>>>>> Start Test Output'", "+ pytest -rA", *ran, "+ : '>>>>> End Test Output'"]
    return "\n".join([*([before] if before else []), *marked, *([after] if after else []), ""]).encode()


def evaluation(**changes: object) -> Evaluation:
    return replace(EVALUATION, **changes)  # type: ignore[arg-type]


def diff_of(path: str, *lines: str, heading: str = "", status: str = "M") -> tuple[list[PatchFile], bytes]:
    """A patch of one hunk in one file, as git writes it."""
    old = sum(not line.startswith("+") for line in lines)
    new = sum(not line.startswith("-") for line in lines)
    a, b = ("/dev/null" if status == "A" else f"a/{path}"), ("/dev/null" if status == "D" else f"b/{path}")
    text = [
        f"diff --git a/{path} b/{path}",
        f"--- {a}",
        f"+++ {b}",
        f"@@ -1,{old} +1,{new} @@ {heading}".rstrip(),
    ]
    return [PatchFile(path, status)], "\n".join([*text, *lines, ""]).encode()
