"""JUnit XML of a run: one test case for each planned case, whatever became of it, whatever it printed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from xml.etree.ElementTree import Element, SubElement, tostring

from swe_pytest.results.cases import Books, CaseResult, read_books
from swe_pytest.results.durable import write_durably
from swe_pytest.results.record import Outcome
from swe_pytest.results.run_dir import RunDir

# What XML 1.0 cannot hold in any spelling, surrogates included.
_ILLEGAL = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def xml_text(text: str) -> str:
    """Return text that XML can hold; what it cannot is spelled out as pytest does, e.g. #x1B."""
    if text.isascii() and text.isprintable():
        return text
    return _ILLEGAL.sub(_spelled, text)


def write_junit(run_dir: RunDir) -> None:
    """Write junit.xml from ledger and records. Raises: OSError."""
    write_durably(run_dir.junit, junit_xml(read_books(run_dir)))


def junit_xml(books: Books) -> bytes:
    """Return the XML of a run, in UTF-8, with one testcase for each planned case in the order of the plan."""
    tags: Counter[str] = Counter()
    cases: list[bytes] = []
    for result in books.cases:
        element = case_element(result)
        tags.update(child.tag for child in element)
        # Written one by one: a tree of 20,000 cases would be most of what a report needs of memory.
        cases.append(tostring(element, encoding="utf-8"))
    begin = books.ledger.run
    suites = Element("testsuites", name="swe_pytest")
    suite = SubElement(
        suites,
        "testsuite",
        name="swe_pytest",
        tests=str(len(cases)),
        errors=str(tags["error"]),
        failures=str(tags["failure"]),
        skipped=str(tags["skipped"]),
        time=f"{sum(result.duration_s for result in books.cases):.3f}",
        timestamp=datetime.fromtimestamp(0 if begin is None else begin.at, UTC).isoformat(),
        hostname=xml_text("" if begin is None else begin.host.get("name", "")),
    )
    _add_properties(suite, [("run_id", "" if begin is None else begin.run_id)])
    frame: bytes = tostring(suites, encoding="utf-8", xml_declaration=True)
    head, end, tail = frame.partition(b"</testsuite>")
    return b"".join([head, b"\n", *(case + b"\n" for case in cases), end, tail, b"\n"])


def case_element(result: CaseResult) -> Element:
    """Return a case as pytest would name it.

    Masked is an error, never a zero, unless its check expected just that; a measured episode is a pass
    whatever its reward, unless its check said otherwise; what was not run is skipped, or an error where
    its set-up failed.
    """
    classname, name = _address(result.case.nodeid)
    element = Element(
        "testcase", classname=xml_text(classname), name=xml_text(name), time=f"{result.duration_s:.3f}"
    )
    _add_properties(element, result.properties)
    rejected = result.check_passed is False
    if result.outcome is Outcome.MASKED:
        if not result.masked_as_expected:
            kind = result.failure.failure_class if result.failure is not None else "masked"
            text = result.failure.cause if result.failure is not None else ""
            _add(element, "error", kind, f"masked: {result.mask_reason}", result.check_message or text)
    elif result.outcome is Outcome.NOT_RUN:
        if rejected:
            _add(element, "error", "not_run", f"not run: {_first_line(result)}", result.check_message)
        else:
            _add(element, "skipped", "not_run", f"not run: {result.reason}", "")
    elif rejected:
        _add(element, "failure", result.case.check, _first_line(result), result.check_message)
    return element


def _address(nodeid: str) -> tuple[str, str]:
    """Return class name and name as pytest's own writer makes them of a node id."""
    address, bracket, parameters = nodeid.partition("[")
    names = address.split("::")
    names[0] = names[0].replace("/", ".").removesuffix(".py")
    names[-1] += bracket + parameters
    return ".".join(names[:-1]), names[-1]


def _first_line(result: CaseResult) -> str:
    lines = result.check_message.strip().splitlines()
    return lines[0] if lines else f"the check {result.case.check} did not pass"


def _add_properties(parent: Element, properties: Iterable[tuple[str, str]]) -> None:
    block = SubElement(parent, "properties")
    for name, value in properties:
        SubElement(block, "property", name=name, value=xml_text(value))


def _add(parent: Element, tag: str, kind: str, message: str, text: str) -> None:
    child = SubElement(parent, tag, type=xml_text(kind), message=xml_text(message))
    if text:
        child.text = xml_text(text)


def _spelled(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"#x{code:02X}" if code <= 0xFF else f"#x{code:04X}"
