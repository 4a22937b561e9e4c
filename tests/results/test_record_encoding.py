"""record.json: exact, strict, valid for any reader, and never self-contradictory."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from jsonschema import Draft202012Validator

from swe_pytest.results.codec import Malformed, clean, json_document
from swe_pytest.results.encoding import (
    InconsistentRecord,
    read_record,
    record_from_json,
    record_to_json,
    write_record,
)
from swe_pytest.results.record import EpisodeRecord, Outcome
from swe_pytest.results.schema import DIRECTORY, SCHEMAS, record_schema
from tests.results.making import ANY_TEXT, UTF8_TEXT, failed, planned, record_of, records

VALIDATOR = Draft202012Validator(record_schema())


@settings(max_examples=60, deadline=None)
@given(records(UTF8_TEXT))
def test_round_trip_is_exact(record: EpisodeRecord) -> None:
    """A record comes back from its JSON text as it was, types included."""
    data = json_document(record_to_json(record))
    back = record_from_json(json.loads(data))
    assert back == record
    assert json_document(record_to_json(back)) == data


@settings(max_examples=60, deadline=None)
@given(records(ANY_TEXT))
def test_any_text_becomes_valid_json(record: EpisodeRecord) -> None:
    """Whatever Python text a record holds, its JSON is valid UTF-8 without lone surrogates, and stays as it is."""
    data = json_document(record_to_json(record))
    text = json.dumps(json.loads(data.decode("utf-8")), ensure_ascii=False)
    text.encode("utf-8")  # a lone surrogate behind an escape would fail here
    back = record_from_json(json.loads(data))
    assert back.instance_id == clean(record.instance_id)
    assert json_document(record_to_json(back)) == data


@settings(max_examples=60, deadline=None)
@given(records(ANY_TEXT))
def test_what_is_written_fits_the_schema(record: EpisodeRecord) -> None:
    """Every record that can be written is valid by the schema."""
    assert list(VALIDATOR.iter_errors(record_to_json(record))) == []


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_committed_schemas_do_not_drift(name: str) -> None:
    """The committed schema is what the dataclasses say today."""
    assert (DIRECTORY / name).read_bytes() == json_document(SCHEMAS[name]()), (
        "write it again: python -m swe_pytest.results.schema"
    )


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_schemas_are_valid_and_strict(name: str) -> None:
    """Each schema is a valid draft 2020-12 schema, and no object in it allows a key that it does not know."""
    schema = json.loads((DIRECTORY / name).read_text())
    Draft202012Validator.check_schema(schema)
    lines = [schema, *schema.get("oneOf", ()), *schema["$defs"].values()]
    objects = [part for part in lines if part.get("type") == "object"]
    assert objects
    assert all(part["additionalProperties"] is False for part in objects)
    assert all(part["required"] and set(part["required"]) == set(part["properties"]) for part in objects)


_MEASURED = record_of(planned())
_MASKED = record_of(planned(), None)
CONTRADICTIONS = {
    "masked with a reward": replace(_MASKED, reward=0.0),
    "masked with resolved": replace(_MASKED, resolved=False),
    "masked but not a masked sample": replace(_MASKED, mask_sample=False),
    "masked without a reason": replace(_MASKED, mask_reason=""),
    "masked without a failure": replace(_MASKED, failure=None),
    "measured with a failure": replace(_MEASURED, failure=failed()),
    "measured without a verdict": replace(_MEASURED, verdict=None),
    "measured without a reward": replace(_MEASURED, reward=None),
    "measured by an evaluation that was not completed": replace(_MEASURED, evaluation_completed=False),
    "measured with half a reward": replace(_MEASURED, reward=0.5),
    "reward and resolved differ": replace(_MEASURED, resolved=False),
    "reward and verdict differ": replace(_MEASURED, reward=0.0, resolved=False),
    "measured but a masked sample": replace(_MEASURED, mask_sample=True, mask_reason="x"),
    "not run with a reward": replace(
        _MASKED, outcome=Outcome.NOT_RUN, mask_sample=False, mask_reason="", failure=None, reward=0.0
    ),
}


@pytest.mark.parametrize("name", sorted(CONTRADICTIONS))
def test_contradictions_are_refused(name: str, tmp_path: Path) -> None:
    """What cannot be true of an episode is neither written, nor read, nor valid by the schema."""
    from swe_pytest.results.codec import encode

    record = CONTRADICTIONS[name]
    with pytest.raises(InconsistentRecord, match=r"smoke\.gold-a-1"):
        write_record(tmp_path, record)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(InconsistentRecord):
        record_from_json(encode(record))
    assert not VALIDATOR.is_valid(encode(record))


@pytest.mark.parametrize(
    ("path", "value", "where"),
    [
        (["repeat"], "1", "repeat: int expected, found str"),
        (["repeat"], True, "repeat: int expected, found bool"),
        (["outcome"], "ok", "outcome: one of"),
        (["journal", 0, "at"], "now", "journal.0.at: float expected"),
        (["verdict", "tests", "fail_to_pass"], [], "verdict.tests.fail_to_pass: object expected"),
        (["patch", "files", 0, "extra"], 1, "patch.files.0: unknown extra"),
        (["durations"], {"verify": None}, "durations.verify: float expected"),
    ],
)
def test_wrong_shapes_are_refused_with_their_place(path: list[str | int], value: object, where: str) -> None:
    """A value of another shape than the dataclass's is refused, naming the path to it; so does the schema."""
    document = json.loads(json_document(record_to_json(_MEASURED)))
    part = document
    for step in path[:-1]:
        part = part[step]
    part[path[-1]] = value
    with pytest.raises(Malformed) as caught:
        record_from_json(document)
    assert where in str(caught.value)
    assert not VALIDATOR.is_valid(document)


def test_written_names() -> None:
    """A failure's class is written as "class", tests are nested by kind and what became of them."""
    assert record_to_json(_MASKED)["failure"]["class"] == "sandbox_gone"  # type: ignore[index,call-overload]
    assert record_to_json(_MEASURED)["verdict"]["tests"] == {  # type: ignore[index,call-overload]
        "fail_to_pass": {"success": ["t1"], "failure": []},
        "pass_to_pass": {"success": [], "failure": []},
    }


def test_infinite_limits_in_the_journal_become_words() -> None:
    """A journal may hold an infinite limit; JSON may not."""
    entry = replace(_MEASURED.journal[0], data={"limit_s": float("inf")})
    written = record_to_json(replace(_MEASURED, journal=(entry,)))
    assert json.loads(json_document(written))["journal"][0]["data"] == {"limit_s": "inf"}


def test_a_missing_record_is_none_and_a_torn_one_is_malformed(tmp_path: Path) -> None:
    """No record is no error; half a record is never taken for one."""
    assert read_record(tmp_path) is None
    assert read_record(tmp_path / "nowhere") is None
    write_record(tmp_path, _MEASURED)
    assert read_record(tmp_path) == _MEASURED
    whole = (tmp_path / "record.json").read_bytes()
    for size in range(0, len(whole) - 2, 97):
        (tmp_path / "record.json").write_bytes(whole[:size])
        with pytest.raises(Malformed):
            read_record(tmp_path)


def test_whoever_reads_sees_a_whole_record(tmp_path: Path) -> None:
    """While a record is rewritten again and again, and after KILL in the middle, it is always whole."""
    write_record(tmp_path, _MEASURED)
    code = """
import sys, itertools
from dataclasses import replace
from pathlib import Path
from swe_pytest.results.encoding import read_record, write_record
directory = Path(sys.argv[1])
record = read_record(directory)
for n in itertools.count(1):
    write_record(directory, replace(record, repeat=n, verifier_network="x" * 2_000_000))
    if n == 1: print("writing", flush=True)
"""
    writer = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE)
    assert writer.stdout is not None
    assert writer.stdout.readline() == b"writing\n"
    seen: set[int] = set()
    while len(seen) < 10:
        found = read_record(tmp_path)
        assert found is not None
        assert found.case_id == _MEASURED.case_id
        seen.add(found.repeat)
    writer.kill()
    writer.communicate()
    assert read_record(tmp_path) is not None


def test_a_write_that_fails_leaves_nothing(tmp_path: Path) -> None:
    """When a file cannot be put in its place, what was there stays, and no half file is left beside it."""
    (tmp_path / "record.json").mkdir()
    with pytest.raises(OSError, match="record"):
        write_record(tmp_path, _MEASURED)
    assert [path.name for path in tmp_path.iterdir()] == ["record.json"]
