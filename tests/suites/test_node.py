"""Reading YAML: values keep their places, and no text whatever ends in a traceback."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swe_pytest.problem import InvalidFiles
from swe_pytest.suites.node import read_mapping

MALFORMED = {
    "unclosed quote": (b"a: 'x\n", "2:1: not YAML: found unexpected end of stream"),
    "tab": (b"a:\n\tb: 1\n", "2:1: a tab where YAML wants spaces; indent by spaces"),
    "list in key line": (b"a: 1\nb: - c\n", "2:4: not YAML: block sequence entries are not allowed"),
    "empty": (b"", "1:1: expected a mapping, found nothing"),
    "comment only": (b"# nothing\n", "1:1: expected a mapping, found nothing"),
    "top is a list": (b"\n- a\n", "2:1: expected a mapping, found a list"),
    "top is a text": (b"hello\n", "1:1: expected a mapping, found a text ('hello')"),
    "two documents": (b"a: 1\n---\nb: 2\n", "2:1: a second document in one file"),
    "latin-1": ("a: x\nb: é\n".encode("latin-1"), "2:4: not UTF-8: byte 0xe9"),
    "utf-16": ("a: 1\n".encode("utf-16"), "1:1: not UTF-8: byte 0xff"),
    "nul": (b'a: x\nb: "\0"\n', "2:5: control character U+0000; remove it"),
    "duplicate key": (b"a: 1\nb:\n  c: 1\n  c: 2\n", "4:3: key 'c' again (first on line 3)"),
    "list as key": (b"? [a]\n: 1\n", "1:3: expected a text as key, found a list"),
    "recursive alias": (b"a: &x [1, *x]\n", "1:11: alias *x contains itself"),
    "unknown alias": (b"a: *x\n", "1:4: alias *x has no anchor"),
    "python tag": (
        b"a: !!python/object:os.system {}\n",
        "1:4: tag tag:yaml.org,2002:python/object:os.system has no",
    ),
    "own tag": (b"a: !secret x\n", "1:4: tag !secret has no meaning here"),
    "too deep": (b"a: " + b"[" * 60 + b"]" * 60, "1:54: nested more than 50 deep"),
    "far too deep": (b"[" * 100_000, "1:1001: not YAML: exceeded maximum nesting depth"),
    "alias bomb": (
        b"a0: &a0 [1]\n"
        + b"".join(b"a%d: &a%d [%s]\n" % (n, n, b",".join([b"*a%d" % (n - 1)] * 9)) for n in range(1, 12)),
        "7:5: more than 200000 values",
    ),
    "bad merge": (b"a: {<<: 3}\n", "1:9: `<<` wants a mapping, found a whole number ('3')"),
}


def problems(path: Path, raw: bytes) -> list[str]:
    path.write_bytes(raw)
    with pytest.raises(InvalidFiles) as caught:
        read_mapping(path)
    return [str(problem).removeprefix(f"{path}:") for problem in caught.value.problems]


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_file_is_a_problem_with_its_place(name: str, tmp_path: Path) -> None:
    """Every malformed file names line, column and what is wrong, and never raises anything else."""
    raw, expected = MALFORMED[name]
    assert problems(tmp_path / "x.yaml", raw)[0].startswith(expected)


def test_a_missing_file_and_a_folder_are_problems(tmp_path: Path) -> None:
    """What cannot be opened is told like everything else."""
    for path in (tmp_path / "none.yaml", tmp_path):
        with pytest.raises(InvalidFiles, match="cannot be read"):
            read_mapping(path)


def test_duplicate_keys_are_all_told(tmp_path: Path) -> None:
    """Problems that do not stop the reading are collected."""
    assert len(problems(tmp_path / "x.yaml", b"a: 1\na: 2\na: 3\nb: 1\nb: 2\n")) == 3


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", "no"),
        ("on", "on"),
        ("Yes", "Yes"),
        ("true", True),
        ("~", None),
        ("", None),
        ("1:30", "1:30"),
        ("12:30:45", "12:30:45"),
        ("1_000", "1_000"),
        ("010", 10),
        ("0o10", 8),
        ("0x1F", 31),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("2024-01-01", "2024-01-01"),
        ("'1'", "1"),
        ("!!str 1", "1"),
        ("9" * 5000, "9" * 5000),
        ("-.inf", float("-inf")),
    ],
)
def test_scalars_follow_yaml_1_2(text: str, value: object, tmp_path: Path) -> None:
    """`no` is a text, 010 is ten and 1:30 is not ninety: the traps of YAML 1.1 are not there."""
    path = tmp_path / "x.yaml"
    path.write_text(f"a: {text}\n", encoding="utf-8")
    top = read_mapping(path).value
    assert isinstance(top, dict)
    found = top["a"].value
    assert found == value
    assert type(found) is type(value)


def test_aliases_and_merge_keys_mean_what_they_always_meant(tmp_path: Path) -> None:
    """Keys written out win over merged ones, earlier merged mappings over later ones."""
    path = tmp_path / "x.yaml"
    path.write_text("a: &a {x: 1, y: 1}\nb: &b {y: 2, z: 2}\nc: {<<: [*a, *b], x: 9}\n", encoding="utf-8")
    assert read_mapping(path).plain() == {
        "a": {"x": 1, "y": 1},
        "b": {"y": 2, "z": 2},
        "c": {"x": 9, "y": 1, "z": 2},
    }


@given(
    raw=st.binary(max_size=200)
    | st.text(alphabet="ab:- \n\t[]{}&*!|>'\"#%~?,0é", max_size=80).map(str.encode)
)
def test_any_bytes_are_a_mapping_or_a_problem(raw: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Whatever stands in a file, reading it returns a mapping or raises InvalidFiles."""
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_bytes(raw)
    try:
        assert isinstance(read_mapping(path).plain(), dict)
    except InvalidFiles as invalid:
        assert invalid.problems
