"""The public fixtures: case, episode, run_episode, task_sandbox, verifier_sandbox."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from swe_pytest.pytest_plugin.member import member_of
from swe_pytest.results.record import EpisodeRecord, Outcome

if TYPE_CHECKING:
    from swe_pytest.sandbox.contract import Sandbox
    from swe_pytest.suites.plan import Case

    EpisodeRunner = Callable[[Case], EpisodeRecord]
    VerifierOpener = Callable[[bytes], Sandbox]


class EpisodeMasked(Exception):
    """The episode was masked: it says nothing about the agent. Raised by the fixture `episode`."""

    def __init__(self, record: EpisodeRecord) -> None:
        self.record = record
        super().__init__(f"masked: {record.mask_reason}")


@pytest.fixture
def case(request: pytest.FixtureRequest) -> Case:
    """The case of this item: benchmark x config x instance x repeat, from a suite.yaml or a `swe` mark.

    Override it to run a case of your own making.
    """
    if not hasattr(request, "param"):
        raise pytest.UsageError(
            f"{request.node.nodeid} has no case: mark it @pytest.mark.swe(suite='…') or override the fixture `case`"
        )
    param: Case = request.param
    return param


@pytest.fixture
def run_episode(request: pytest.FixtureRequest) -> EpisodeRunner:
    """A function that runs a case and returns its EpisodeRecord, masked or measured; it raises neither.

    The record's facts become the item's `user_properties` (JUnit properties).
    """

    def run(case: Case) -> EpisodeRecord:
        return member_of(request.config).run_episode(case, request.node)

    return run


@pytest.fixture
def episode(case: Case, run_episode: EpisodeRunner) -> EpisodeRecord:
    """The EpisodeRecord of this item's case, which is run now.

    Raises: EpisodeMasked when the episode says nothing about the agent (an error of the item, never a
    failure or a zero), unless the suite expects it to be masked.
    """
    record = run_episode(case)
    if record.outcome is Outcome.MASKED and case.expect != "masked":
        raise EpisodeMasked(record)
    return record


@pytest.fixture
def task_sandbox(request: pytest.FixtureRequest, case: Case) -> Iterator[Sandbox]:
    """A live task sandbox of this item's case, seeded as for an agent: history purged, start tree recorded.

    It is removed after the test, or before by `verifier_sandbox`. Raises: SandboxError, SeedFailed.
    """
    with member_of(request.config).task_sandbox(case, request.node) as sandbox:
        yield sandbox


@pytest.fixture
def verifier_sandbox(request: pytest.FixtureRequest, case: Case) -> Iterator[VerifierOpener]:
    """A function `open(patch=b"")` that gives a fresh sandbox of the case's image with the patch applied.

    A task sandbox of the same test is removed first: the two never live together. Call it again for
    another fresh one; the one before is removed. Raises: SandboxError; CommandFailed when the patch
    does not apply strictly.
    """
    member = member_of(request.config)
    with ExitStack() as opened:

        def open_fresh(patch: bytes = b"") -> Sandbox:
            opened.close()
            return opened.enter_context(member.verifier_sandbox(case, patch, request.node))

        yield open_fresh
