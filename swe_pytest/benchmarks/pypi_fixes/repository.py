"""Trees as git sees them: one commit that is the same on every machine, and the patches between trees."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from swe_pytest.benchmarks.pypi_fixes.archive import Tree

_WHO = "swe-pytest <swe-pytest@localhost>"
_WHEN = "946684800 +0000"
_TIMEOUT_S = 60.0


class GitFailed(Exception):
    """git on this host is missing or did not do what it was asked to."""


@dataclass(frozen=True, slots=True)
class Patches:
    """What `compare` finds. Patches are bytes that `git apply` takes and that are valid UTF-8."""

    base_commit: str
    source: bytes
    tests: bytes


def commit_stream(tree: Tree, message: str, branch: str = "main") -> bytes:
    """Return a `git fast-import` stream that makes one commit without a parent.

    Author, date and message are fixed and the files' bytes are taken as they are, so the commit's id
    depends on the tree and the message alone: not on the host, its file system or its git settings.
    """
    parts: list[bytes] = []
    lines: list[bytes] = []
    for mark, (path, file) in enumerate(sorted(tree.items()), 1):
        parts.append(b"blob\nmark :%d\ndata %d\n%s\n" % (mark, len(file.content), file.content))
        mode = b"100755" if file.executable else b"100644"
        lines.append(b"M %s :%d %s\n" % (mode, mark, _quoted(path)))
    text = message.encode()
    parts.append(
        b"commit refs/heads/%s\ncommitter %s %s\n" % (branch.encode(), _WHO.encode(), _WHEN.encode())
    )
    parts.append(b"data %d\n%s\n" % (len(text), text))
    return b"".join([*parts, *lines, b"\n"])


def compare(
    start: Tree, fixed: Tree, message: str, source_paths: Sequence[str], test_paths: Sequence[str]
) -> Patches:
    """Return the id of the commit that `commit_stream(start, message)` makes, and what `fixed` changes.

    Paths name files or folders. A path that is under both is a test. Raises: GitFailed.
    """
    with _bare_repository() as git:
        for branch, tree in (("start", start), ("fixed", fixed)):
            git("fast-import", "--quiet", stdin=commit_stream(tree, message, branch))
        base_commit = git("rev-parse", "refs/heads/start").decode().strip()
        in_tests = [f":(exclude,literal){path}" for path in test_paths]
        source = [f":(literal){path}" for path in source_paths]
        tests = [f":(literal){path}" for path in test_paths]
        not_text = _not_text(start) | _not_text(fixed)
        return Patches(
            base_commit,
            _diff(git, [*source, *in_tests], not_text) if source else b"",
            _diff(git, tests, not_text) if tests else b"",
        )


@contextmanager
def _bare_repository() -> Iterator[_Git]:
    with tempfile.TemporaryDirectory(prefix="swe-pytest-") as folder:
        git = _Git(Path(folder))
        # An unborn HEAD: git then reads no .gitattributes of the trees, which could change how diffs look.
        git("init", "--quiet", "--bare", "--template=", "--initial-branch=unborn", ".")
        yield git


class _Git:
    """git in a folder of its own, deaf to the settings of this host and of whoever runs us."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(folder),
            "LC_ALL": "C",
            "GIT_DIR": str(folder),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_ATTR_NOSYSTEM": "1",
        }

    def __call__(self, *arguments: str, stdin: bytes = b"") -> bytes:
        try:
            ended = subprocess.run(
                ["git", *arguments],
                cwd=self.folder,
                env=self._environment,
                input=stdin,
                capture_output=True,
                timeout=_TIMEOUT_S,
                check=False,
            )
        except FileNotFoundError as error:
            raise GitFailed("git is not on PATH; next: install git") from error
        except subprocess.TimeoutExpired as error:
            raise GitFailed(f"git {arguments[0]} took longer than {_TIMEOUT_S:.0f} s") from error
        if ended.returncode != 0:
            raise GitFailed(f"git {arguments[0]} failed: {ended.stderr.decode(errors='replace').strip()}")
        return ended.stdout


def _diff(git: _Git, pathspecs: Sequence[str], not_text: set[str]) -> bytes:
    attributes = git.folder / "not-text"
    attributes.write_bytes(b"".join(b"%s -diff\n" % _pattern(path) for path in sorted(not_text)))
    return git(
        "-c", f"core.attributesFile={attributes}", "-c", "diff.algorithm=myers",
        "diff", "--binary", "--full-index", "--no-renames", "--no-color", "--no-ext-diff", "--no-textconv",
        "refs/heads/start", "refs/heads/fixed", "--", *pathspecs,
    )  # fmt: skip


def _not_text(tree: Tree) -> set[str]:
    """Return the paths whose bytes cannot stand in a patch that has to be valid UTF-8."""
    found: set[str] = set()
    for path, file in tree.items():
        try:
            file.content.decode()
        except UnicodeDecodeError:
            found.add(path)
    return found


def _quoted(path: str) -> bytes:
    """Return a path as fast-import wants it: quoted only where it would be misread otherwise."""
    name = path.encode(errors="surrogateescape")
    return b'"%s"' % name.replace(b"\\", b"\\\\").replace(b'"', b'\\"') if name.startswith(b'"') else name


def _pattern(path: str) -> bytes:
    """Return a gitattributes pattern that matches this one path."""
    name = path.encode(errors="surrogateescape")
    literal = b"/" + b"".join(b"\\" + bytes([c]) if c in b"*?[\\" else bytes([c]) for c in name)
    return b'"%s"' % literal.replace(b"\\", b"\\\\").replace(b'"', b'\\"')
