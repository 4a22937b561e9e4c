"""Judging stored episodes again: no container, no network, only the grader."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from swe_pytest.grading.official import Grader, GraderError, GraderUnavailable
from swe_pytest.grading.stored import NoEvidence, read_evidence
from swe_pytest.grading.verdict import NotMeasured, judge
from swe_pytest.results.codec import Malformed
from swe_pytest.results.encoding import RECORD_FILE, InconsistentRecord, read_record, write_record
from swe_pytest.results.record import EpisodeRecord, Failure, Outcome, Stage, Verdict


@dataclass(frozen=True, slots=True)
class Regraded:
    """An episode's verdict as it was recorded and as it is now; None where there is none.

    `note` says why a verdict was kept without being computed again, or why there is none now.
    """

    directory: Path
    case_id: str
    before: Verdict | None
    after: Verdict | None
    note: str = ""

    @property
    def changed(self) -> bool:
        """Whether anything that counts differs: either verdict, the reason, a test, a decisive finding."""
        return self.before != self.after


def regrade(run_dir: Path) -> list[Regraded]:
    """Judge all episodes of a run again, in the order of their directories.

    An episode without a log (an empty patch, a masked one) keeps its verdict, with a note.
    Raises: FileNotFoundError when this is no run directory; GraderUnavailable.
    """
    records = sorted((run_dir / "episodes").glob(f"*/{RECORD_FILE}"))
    if not records:
        raise FileNotFoundError(f"{run_dir} holds no episodes: {run_dir / 'episodes'}/*/{RECORD_FILE}")
    with Grader() as grader:
        return [_regrade(path.parent, grader) for path in records]


def write_regraded(regraded: Regraded) -> None:
    """Bring an episode's record.json in line with the verdict of now.

    A measured episode whose run turns out to have measured nothing becomes a masked one. A masked one
    stays masked: what masked it is no matter of grading. Raises: Malformed, InconsistentRecord, OSError.
    """
    record = read_record(regraded.directory)
    if record is None or not regraded.changed:
        return
    verdict = regraded.after
    if record.outcome is not Outcome.MEASURED:
        changed = replace(record, verdict=verdict, evaluation_completed=verdict is not None)
    elif verdict is None:
        changed = _masked(record, regraded.note)
    else:
        changed = replace(record, verdict=verdict, reward=verdict.reward, resolved=verdict.reward == 1.0)
    write_record(regraded.directory, changed)


def _regrade(directory: Path, grader: Grader) -> Regraded:
    try:
        record = read_record(directory)
    except (Malformed, InconsistentRecord) as error:
        return Regraded(directory, directory.name, None, None, f"its record cannot be read: {error}")
    if record is None:
        return Regraded(directory, directory.name, None, None, "it has no record")
    before, case_id = record.verdict, record.case_id
    if record.patch is not None and record.patch.bytes == 0:
        return Regraded(directory, case_id, before, before, "kept: empty patch")
    try:
        evidence = read_evidence(directory)
    except NoEvidence as error:
        return Regraded(directory, case_id, before, before, f"kept: {error}")
    try:
        after = judge(evidence.evaluation, evidence.trace, evidence, evidence.patch, grader)
    except GraderUnavailable:
        raise
    except (NotMeasured, GraderError) as error:
        return Regraded(directory, case_id, before, None, f"{error.kind}: {error}")
    return Regraded(directory, case_id, before, after)


def _masked(record: EpisodeRecord, note: str) -> EpisodeRecord:
    failure = Failure(note.partition(":")[0], str(Stage.VERIFY), True, f"regraded: {note}")
    return replace(
        record,
        outcome=Outcome.MASKED,
        reward=None,
        resolved=None,
        mask_sample=True,
        mask_reason=f"{failure.failure_class}: {failure.message}",
        evaluation_completed=False,
        failure=failure,
        verdict=None,
    )
