"""Diffs: paths and lines are read as git writes them."""

from __future__ import annotations

import subprocess
from pathlib import Path

from swe_pytest.grading.unified_diff import patched_paths, read_diff


def test_paths_are_read_as_git_writes_them(tmp_path: Path) -> None:
    """Names with blanks, quotes, line feeds and foreign bytes, moves and deletions: all paths of git's own diff."""

    def git(*arguments: str) -> bytes:
        identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
        command = ["git", "-C", str(tmp_path), *identity, *arguments]
        return subprocess.run(command, check=True, capture_output=True).stdout

    git("init", "-q")
    names = [
        "plain.py",
        "with blank.py",
        'quo"te.py',
        "line\nfeed.py",
        "uml\u00e4ut.py",
        "bad\udcff.py",
        "tab\t.py",
    ]
    for name in names:
        (tmp_path / name).write_bytes(b"a\n" * 20)
    (tmp_path / "image.bin").write_bytes(b"\0\1\2")
    (tmp_path / "moved from.py").write_bytes(b"b\n" * 30)
    git("add", "-A")
    git("commit", "-qm", "start")
    for name in names:
        with (tmp_path / name).open("ab") as file:
            file.write(b"--- a/not_a_path.py\n+++ b/not_a_path.py\n")
    (tmp_path / "plain.py").unlink()
    (tmp_path / "image.bin").write_bytes(b"\0\1\3")
    (tmp_path / "moved from.py").rename(tmp_path / "moved to.py")
    (tmp_path / "empty new.py").touch()
    git("add", "-A")
    expected = sorted([*names, "image.bin", "moved from.py", "moved to.py", "empty new.py"])
    for options in (["--binary"], ["--binary", "-M"], ["-M"], ["--binary", "--no-renames"]):
        assert sorted(patched_paths(git("diff", "--cached", *options))) == expected, options


def test_lines_inside_a_file_are_no_headers() -> None:
    """A removed line "-- a/x" reads like a header; hunks are read by their length."""
    patch = b"--- a/x.sql\n+++ b/x.sql\n@@ -1,2 +1,2 @@\n--- a/conftest.py\n+++ b/conftest.py\n x\n"
    [file] = read_diff(patch)
    assert file.paths == ("x.sql",)
