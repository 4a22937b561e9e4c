"""Seeding: purge the history of a checkout, prove it, and record the tree that the agent starts from.

What the purge takes away: every object that HEAD (or the index) does not reach, wherever it is stored;
every ref but the branch; all that is in .git beside HEAD, index, config, hooks, shallow and info; remotes
and submodules in the configuration; the repositories of submodules; and every other object store on the
file system (outside the system's own directories) that shares a commit or a directory with HEAD.

The proof looks at the result with git's own eyes: HEAD has not moved, no other ref is there, the list of
all objects (loose, packed, borrowed) equals the list of those that HEAD and the index reach, and the store
holds no file that git would not list. Its limits: a copy of a later version that is no git history (an
archive, an installed package) is not looked for, nor a shallow clone that shares no directory with HEAD.

Trees are taken of the bytes in the working directory: no line ending is converted and no filter (such as
LFS) runs, so the same image always gives the same tree and a patch between two trees is exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from swe_pytest.grading.program import program
from swe_pytest.sandbox.contract import ExecResult, Sandbox

PURGE_UNPROVEN = 71


class SeedFailed(Exception):
    """The checkout cannot be used: no repository, no commit, or a base commit that is not its own."""

    kind: ClassVar[str] = "seed_failed"


class PurgeUnproven(Exception):
    """Later history may still be readable: the agent must not start."""

    kind: ClassVar[str] = "purge_unproven"


@dataclass(frozen=True, slots=True)
class PurgeReport:
    """Objects readable before and after, and the stores elsewhere that had to go (absolute paths)."""

    objects_before: int
    objects_after: int
    proven: bool
    removed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Workspace:
    """A seeded checkout. `head` is the commit that HEAD names, `start_tree` the tree the agent found."""

    workdir: str
    head: str
    start_tree: str
    purge: PurgeReport


def seed_command(workdir: str, base_commit: str, *, purge: bool = True) -> tuple[str, ...]:
    """Return the command that seeds a checkout: a sandbox's prologue, or to be run as root."""
    return ("/bin/sh", "-c", program("seed"), "seed", workdir, base_commit, "1" if purge else "0")


def seed_workspace(
    sandbox: Sandbox, workdir: str, base_commit: str, *, timeout_s: float, purge: bool = True
) -> Workspace:
    """Purge the checkout's history, prove it, and record the starting tree, in one command as root.

    The working tree (dirty or not) and the index stay as they are; HEAD stays where it is, at or above
    `base_commit`. Without `purge` the report says not proven.

    Raises: SeedFailed, PurgeUnproven, and SandboxError (CommandTimeout after `timeout_s` seconds).
    """
    command = seed_command(workdir, base_commit, purge=purge)
    result = sandbox.exec(command, timeout_s=timeout_s, workdir="/", user="0")
    return seeded_workspace(result, workdir, sandbox.name, purge=purge)


def seeded_workspace(result: ExecResult, workdir: str, container: str, *, purge: bool = True) -> Workspace:
    """Return what a seeding command that has ended made of the checkout. Raises: SeedFailed, PurgeUnproven."""
    said = _facts(result)
    if result.exit_code != 0 or not {"head", "tree"} <= said.keys():
        error = PurgeUnproven if result.exit_code == PURGE_UNPROVEN else SeedFailed
        why = result.stderr.decode("utf-8", "replace").strip() or f"status {result.exit_code}"
        raise error(f"{workdir} in container {container}: {why[-2000:]}")
    if purge and said.get("proven") != ["1"]:
        raise PurgeUnproven(f"{workdir} in container {container}: the proof did not reach its end")
    return Workspace(
        workdir=workdir,
        head=said["head"][0],
        start_tree=said["tree"][0],
        purge=PurgeReport(
            objects_before=int(said.get("before", ["0"])[0]),
            objects_after=int(said.get("after", ["0"])[0]),
            proven=purge,
            removed=tuple(said.get("removed", ())),
        ),
    )


def _facts(result: ExecResult) -> dict[str, list[str]]:
    facts: dict[str, list[str]] = {}
    for line in result.stdout.decode("utf-8", "surrogateescape").splitlines():
        key, _, value = line.partition(" ")
        facts.setdefault(key, []).append(value.strip())
    return facts
