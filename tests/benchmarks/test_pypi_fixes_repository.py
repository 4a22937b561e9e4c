"""Commits and patches made from trees: the same everywhere, and nothing is lost on the way."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from swe_pytest.benchmarks.pypi_fixes.archive import File, Tree
from swe_pytest.benchmarks.pypi_fixes.repository import GitFailed, commit_stream, compare

ODD: dict[str, File] = {
    "plain.py": File(b"x = 1\n"),
    "run.sh": File(b"#!/bin/sh\n", executable=True),
    "with blank/and 'quote'.txt": File(b"a\n"),
    '"quoted" at the start': File(b"b\n"),
    "Größe/漢字.txt": File("ü\n".encode()),
    "*star[1]?.txt": File(b"\xe4\n"),
    "crlf.txt": File(b"one\r\ntwo\r\n"),
    "no-final-newline.txt": File(b"end"),
    "empty.txt": File(b""),
    "latin1.po": File(b"gr\xfc\xdfe\nmehr\n"),
    "bytes.bin": File(b"\x00\x01\xff" * 100),
    ".gitattributes": File(b"* text=auto eol=crlf\n*.py diff=python\n"),
    ".gitignore": File(b"*.txt\n"),
}
CHANGED: dict[str, File] = {
    **{path: file for path, file in ODD.items() if path not in ("empty.txt", "bytes.bin", "crlf.txt")},
    "run.sh": File(b"#!/bin/sh\n"),
    "with blank/and 'quote'.txt": File(b"changed\n"),
    '"quoted" at the start': File(b"changed\n"),
    "Größe/漢字.txt": File("öü\n".encode()),
    "*star[1]?.txt": File(b"\xe5\n"),
    "crlf.txt": File(b"one\ntwo\n"),
    "no-final-newline.txt": File(b"end\n"),
    "latin1.po": File(b"gr\xfc\xdfe\nanderes\n"),
    "new.bin": File(b"\x00\xfe" * 50, executable=True),
    "plain.py": File(b"x = 2"),
}


def git(folder: Path, *arguments: str, stdin: bytes = b"") -> bytes:
    command = ["git", "-c", "core.autocrlf=false", "-C", str(folder), *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, check=True, timeout=60).stdout


def repository(folder: Path, *trees: tuple[str, Tree]) -> Path:
    git(folder, "init", "--quiet", "--bare", ".")
    for branch, tree in trees:
        git(folder, "fast-import", "--quiet", stdin=commit_stream(tree, "message", branch))
    return folder


def tree_id(folder: Path, branch: str) -> str:
    return git(folder, "rev-parse", f"refs/heads/{branch}^{{tree}}").decode().strip()


def test_a_commit_holds_every_file_as_it_is(tmp_path: Path) -> None:
    """Names, bytes and modes arrive unchanged, whatever attributes and ignore files in the tree say."""
    folder = repository(tmp_path, ("main", ODD))
    listed = {}
    for line in git(folder, "ls-tree", "-r", "-z", "refs/heads/main").split(b"\0")[:-1]:
        head, name = line.split(b"\t")
        mode, _, blob = head.decode().split()
        listed[name.decode()] = File(git(folder, "cat-file", "blob", blob), mode == "100755")
    assert listed == ODD


def test_the_commit_is_the_same_whatever_git_is_told_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither settings of the user nor variables change its id, nor how patches look."""
    before = compare(ODD, CHANGED, "message", ["."], ["latin1.po"])
    settings = tmp_path / "settings"
    settings.write_text(
        "[core]\nautocrlf = true\nquotepath = false\n[user]\nname = Somebody\nemail = s@example.org\n"
        "[diff]\nnoprefix = true\nalgorithm = patience\ncontext = 0\nexternal = false\n"
        "[i18n]\ncommitEncoding = ISO-8859-1\n[commit]\ngpgsign = true\n"
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    for name, value in {
        "GIT_AUTHOR_NAME": "Somebody",
        "GIT_COMMITTER_DATE": "2001-01-01T00:00:00Z",
        "GIT_DIR": str(tmp_path),
        "GIT_EXTERNAL_DIFF": "false",
        "TZ": "Asia/Tokyo",
        "LC_ALL": "de_DE.UTF-8",
    }.items():
        monkeypatch.setenv(name, value)
    assert compare(ODD, CHANGED, "message", ["."], ["latin1.po"]) == before
    assert before.base_commit == "879420679d2767217bf6992cc7b5288fef8ce466"


def test_the_patches_lead_from_one_tree_to_the_other(tmp_path: Path) -> None:
    """Applied one after the other they give the changed tree, and both are UTF-8 without a lone surrogate."""
    tests = ["latin1.po", "new.bin", "with blank", "*star[1]?.txt"]
    patches = compare(ODD, CHANGED, "message", ["."], tests)
    folder = repository(tmp_path, ("main", ODD), ("changed", CHANGED))
    git(folder, "read-tree", "refs/heads/main")
    for patch in (patches.source, patches.tests):
        patch.decode()
        git(folder, "apply", "--cached", "--whitespace=nowarn", "-", stdin=patch)
    assert git(folder, "write-tree").decode().strip() == tree_id(folder, "changed")
    assert b"latin1.po" not in patches.source
    assert b"plain.py" not in patches.tests


def test_a_path_is_a_folder_or_a_file_and_never_a_pattern(tmp_path: Path) -> None:
    """`a` does not select `ab`, and `*` selects a file of that name only."""
    start = {"a/x": File(b"1\n"), "ab": File(b"1\n"), "*": File(b"1\n")}
    fixed = {path: File(b"2\n") for path in start}
    assert b"ab" not in compare(start, fixed, "message", ["a"], []).source
    assert compare(start, fixed, "message", ["*"], []).source.count(b"diff --git") == 1


def test_git_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without git the error says so, and what to do."""
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(GitFailed, match="next: install git"):
        compare({"a": File(b"")}, {"a": File(b"x")}, "message", ["a"], [])
