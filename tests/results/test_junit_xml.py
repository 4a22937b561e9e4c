"""junit.xml: one test case a planned case, well-formed whatever was printed, masked an error and never a zero."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree

import pytest
from _pytest.junitxml import bin_xml_escape, mangle_test_address
from hypothesis import given, settings
from hypothesis import strategies as st

from swe_pytest.results.cases import read_books
from swe_pytest.results.junit import case_element, junit_xml, write_junit, xml_text
from swe_pytest.results.properties import properties_of
from swe_pytest.results.record import EpisodeRecord, Outcome
from tests.results.making import ANY_TEXT, MadeRun, failed, planned, record_of, records


def _suite(made: MadeRun) -> ElementTree.Element:
    write_junit(made.run_dir)
    suite = ElementTree.fromstring(made.run_dir.junit.read_bytes()).find("testsuite")
    assert suite is not None
    return suite


def _properties(case: ElementTree.Element) -> dict[str, str]:
    return {found.attrib["name"]: found.attrib["value"] for found in case.iter("property")}


@pytest.fixture
def suite(tmp_path: Path) -> dict[str, ElementTree.Element]:
    """A run with a case of each fate, as XML elements by instance; the suite itself is under ""."""
    names = ("resolved", "unresolved", "rejected", "masked", "unended", "unrun", "broken")
    cases = {name: planned(name) for name in names}
    fault = planned("fault", check="interrupted")
    made = MadeRun(tmp_path, [*cases.values(), fault])
    made.end(record_of(cases["resolved"]), passed=True)
    made.end(record_of(cases["unresolved"], 0.0), passed=True)
    made.end(record_of(cases["rejected"], 0.0), passed=False, message="expected resolved\ndetails")
    made.end(record_of(cases["masked"], None), passed=False, message="long\ntraceback")
    made.begin(cases["unended"])
    made.ledger.check_end(cases["broken"].case_id, passed=False, message="the row changed")
    made.end(record_of(fault, None), passed=True)
    made.ledger.run_end(1)
    found = _suite(made)
    return {"": found, **{_properties(case)["instance_id"]: case for case in found.iter("testcase")}}


def test_counts_are_those_of_the_cases(suite: dict[str, ElementTree.Element]) -> None:
    """The suite's counts are what a reader who counts the cases finds."""
    whole = suite[""]
    assert len(list(whole.iter("testcase"))) == 8
    told = {name: int(whole.attrib[name]) for name in ("tests", "errors", "failures", "skipped")}
    assert told == {"tests": 8, "errors": 3, "failures": 1, "skipped": 1}
    for attribute, tag in (("errors", "error"), ("failures", "failure"), ("skipped", "skipped")):
        assert len(list(whole.iter(tag))) == told[attribute]


@pytest.mark.parametrize(
    ("name", "tag", "kind", "message"),
    [
        ("resolved", None, "", ""),
        ("unresolved", None, "", ""),
        ("rejected", "failure", "rollout", "expected resolved"),
        ("masked", "error", "sandbox_gone", "masked: sandbox_gone: the container died"),
        (
            "unended",
            "error",
            "interrupted",
            "masked: interrupted: smoke.gold-unended-1: began in gw0 and never",
        ),
        ("unrun", "skipped", "not_run", "not run: the run ended before its turn"),
        ("broken", "error", "not_run", "not run: the row changed"),
        ("fault", None, "", ""),
    ],
)
def test_each_fate_has_its_element(
    suite: dict[str, ElementTree.Element], name: str, tag: str | None, kind: str, message: str
) -> None:
    """A measured zero passes unless its check refuses it; masked is an error unless its check wants it."""
    told = [child for child in suite[name] if child.tag != "properties"]
    if tag is None:
        assert told == []
        return
    (child,) = told
    assert (child.tag, child.attrib["type"]) == (tag, kind)
    assert child.attrib["message"].startswith(message)


def test_properties_tell_the_case(suite: dict[str, ElementTree.Element]) -> None:
    """Every case has its identity and outcome as properties; a reward only where one was measured."""
    assert _properties(suite["unresolved"]) == {
        **{"case_id": "smoke.gold-unresolved-1", "instance_id": "unresolved", "suite": "smoke"},
        **{"benchmark": "toy", "config": "gold", "repeat": "1", "check": "rollout", "attempts": "1"},
        **{"outcome": "measured", "reward": "0.0", "resolved": "false", "official": "false"},
        **{"agent_end": "normal", "patch_bytes": "3", "patch_sha256": "ab" * 32},
    }
    for name in ("masked", "unended", "unrun", "broken", "fault"):
        found = _properties(suite[name])
        assert "reward" not in found
        assert "resolved" not in found
        assert found["outcome"] == ("not_run" if name in ("unrun", "broken") else "masked")
    masked = _properties(suite["masked"])
    assert masked["failure_class"] == "sandbox_gone"
    assert masked["failure_stage"] == "agent.respond"
    assert masked["failure_terminal"] == "false"


@settings(max_examples=40, deadline=None)
@given(ANY_TEXT.filter(bool), ANY_TEXT, st.binary(max_size=40))
def test_any_text_is_well_formed(instance: str, message: str, log: bytes) -> None:
    """No instance id, message or log byte makes XML that does not parse, and all of it can be found again."""
    case = replace(planned(), instance_id=instance, nodeid=f"suite.yaml::test_rollout[{instance}]")
    printed = log.decode("latin-1")
    with TemporaryDirectory() as directory:
        made = MadeRun(Path(directory), [case])
        made.ledger.worker_died("gw0", printed)
        made.begin(case)
        made.ledger.check_end(case.case_id, passed=False, message=message + printed)
        root = ElementTree.fromstring(junit_xml(read_books(made.run_dir)))
    (element,) = root.iter("testcase")
    assert _properties(element)["instance_id"] == xml_text(
        instance.encode("utf-8", "backslashreplace").decode()
    )
    assert element.find("error") is not None


@settings(max_examples=60, deadline=None)
@given(records(ANY_TEXT))
def test_any_record_is_well_formed_and_masked_has_no_reward(record: EpisodeRecord) -> None:
    """The properties of any record at all are texts; there is a reward if and only if it was measured."""
    found = dict(properties_of(record))
    assert all(isinstance(value, str) for value in found.values())
    assert ("reward" in found) == ("resolved" in found) == (record.outcome is Outcome.MEASURED)
    assert ("mask_reason" in found) == ("failure_class" in found) == (record.outcome is Outcome.MASKED)
    for value in found.values():
        ElementTree.fromstring(ElementTree.tostring(ElementTree.Element("p", value=xml_text(value))))


@settings(max_examples=300, deadline=None)
@given(ANY_TEXT)
def test_illegal_characters_are_spelled_as_pytest_does(text: str) -> None:
    """What XML cannot hold looks as in pytest's own XML, so that both reports read alike."""
    # DEL and C1 controls are legal in XML 1.0; pytest spells these out too.
    legal = "".join(char for char in text if not "\x7f" <= char <= "\x9f")
    assert xml_text(legal) == bin_xml_escape(legal)


@pytest.mark.parametrize(
    "nodeid",
    [
        "suites/verified/suite.yaml::test_rollout[opencode-django__django-11099]",
        "tests/test_mine.py::TestAgent::test_it[a::b/c.py-1]",
        "suite.yaml::test_gold[gold-x]",
        "test_mine.py::test_plain",
    ],
)
def test_names_are_those_that_pytest_gives(tmp_path: Path, nodeid: str) -> None:
    """Class name and name are what pytest's --junitxml writes for the same item."""
    case = replace(planned(), nodeid=nodeid)
    made = MadeRun(tmp_path, [case])
    (result,) = read_books(made.run_dir).cases
    element = case_element(result)
    names = mangle_test_address(nodeid)
    assert (element.attrib["classname"], element.attrib["name"]) == (".".join(names[:-1]), names[-1])


def test_a_retried_episode_is_one_case(tmp_path: Path) -> None:
    """Attempts are not cases: an episode that was tried again is one test case that says how often."""
    case = planned()
    made = MadeRun(tmp_path, [case])
    made.end(record_of(case, earlier=(failed(), failed())))
    (element,) = _suite(made).iter("testcase")
    assert _properties(element)["attempts"] == "3"


def test_no_run_at_all_is_still_xml(tmp_path: Path) -> None:
    """A ledger without any line gives a suite without cases."""
    made = MadeRun(tmp_path, [])
    made.run_dir.ledger.write_bytes(b"")
    assert _suite(made).attrib["tests"] == "0"
