"""The record as JSON: `record.json`. What cannot be true of an episode can be neither written nor read."""

from __future__ import annotations

import json
from pathlib import Path

from swe_pytest.results.codec import Json, Malformed, decode, encode, json_document
from swe_pytest.results.durable import write_durably
from swe_pytest.results.record import EpisodeRecord, Outcome

RECORD_FILE = "record.json"


class InconsistentRecord(ValueError):
    """A record contradicts itself, e.g. a masked episode with a reward. `contradictions` are sentences."""

    def __init__(self, case_id: str, contradictions: list[str]) -> None:
        self.case_id = case_id
        self.contradictions = contradictions
        super().__init__(f"record of {case_id!r}: {'; '.join(contradictions)}")


def contradictions(record: EpisodeRecord) -> list[str]:
    """Return what cannot be true of a record, in words. The committed schema says the same."""
    found: list[str] = []
    masked = record.outcome is Outcome.MASKED
    if record.mask_sample != masked:
        found.append(f"mask_sample is {record.mask_sample}, the outcome {record.outcome}")
    if bool(record.mask_reason) != masked:
        found.append("a masked episode, and no other, has a mask_reason")
    if masked and record.failure is None:
        found.append("a masked episode has a failure")
    if record.outcome is not Outcome.MEASURED:
        if record.reward is not None or record.resolved is not None:
            found.append(f"an episode that is {record.outcome} has neither reward nor resolved")
        return found
    if record.verdict is None or not record.evaluation_completed:
        found.append("a measured episode has a completed verdict")
    elif record.reward != record.verdict.reward:
        found.append(f"the reward {record.reward} is not the verdict's {record.verdict.reward}")
    if record.reward not in (0.0, 1.0) or record.resolved != (record.reward == 1.0):
        found.append(f"reward {record.reward} and resolved {record.resolved} do not fit together")
    if record.failure is not None:
        found.append("a measured episode has no failure")
    return found


def record_to_json(record: EpisodeRecord) -> dict[str, Json]:
    """Return the record as plain JSON values. Raises: InconsistentRecord; ValueError for infinite numbers."""
    wrong = contradictions(record)
    if wrong:
        raise InconsistentRecord(record.case_id, wrong)
    return encode(record)


def record_from_json(value: object) -> EpisodeRecord:
    """Return the record that `record_to_json` wrote. Raises: Malformed, InconsistentRecord."""
    record = decode(EpisodeRecord, value)
    wrong = contradictions(record)
    if wrong:
        raise InconsistentRecord(record.case_id, wrong)
    return record


def write_record(directory: Path, record: EpisodeRecord) -> None:
    """Write `record.json` into an episode's directory, whole or not at all.

    Raises: InconsistentRecord before anything is written; OSError.
    """
    write_durably(directory / RECORD_FILE, json_document(record_to_json(record)))


def read_record(directory: Path) -> EpisodeRecord | None:
    """Return the record of an episode's directory, None where there is none.

    Raises: Malformed, InconsistentRecord; OSError where the file cannot be read.
    """
    try:
        data = (directory / RECORD_FILE).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        value = json.loads(data)
    except ValueError as error:
        raise Malformed(f"not JSON: {error}") from None
    return record_from_json(value)
