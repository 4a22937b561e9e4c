"""What a finished run means for the exit status."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from swe_pytest.pytest_plugin.owner import Owner


def judge_run(owner: Owner, exitstatus: int) -> int:
    """Return the session's exit status.

    Gates decide: where nothing failed but masked cases, and every suite that has some sets a mask_rate
    gate that holds, the run passes. A violated gate, a leak, a dead guardian, or books that do not add
    up fail it always. A session that was interrupted or misused keeps pytest's own status.
    """
    results = owner.results
    if results is None or exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        return exitstatus
    if owner.leaked or owner.problems or results.violations or not results.balanced:
        return int(pytest.ExitCode.TESTS_FAILED)
    gated = {suite for suite, gates in owner.gates().items() if gates.mask_rate is not None}
    if exitstatus == pytest.ExitCode.TESTS_FAILED and not owner.failed and owner.masked_suites <= gated:
        return int(pytest.ExitCode.OK)
    return exitstatus
