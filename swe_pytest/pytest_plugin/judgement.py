"""What a finished run means for the exit status."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from swe_pytest.pytest_plugin.owner import Told


def judge_run(told: Told, exitstatus: int, *, failed: int, masked: int) -> int:
    """Return the session's exit status.

    `failed` counts items that failed for any other reason than being masked, `masked` those that were.
    Gates decide: where every suite's gates hold, masked cases alone do not fail the run. A violated gate,
    a leak, or books that do not add up fail it always.
    """
    if exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        return exitstatus
    if told.leaked or told.gates or told.problems:
        return int(pytest.ExitCode.TESTS_FAILED)
    if exitstatus == pytest.ExitCode.TESTS_FAILED and failed == 0 and masked:
        return int(pytest.ExitCode.OK)
    return exitstatus
