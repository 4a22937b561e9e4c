"""Capture: what the agent changed, as the bytes of a patch from the starting tree to the final tree.

Captured: every difference in the working directory's files, however it came about (edited, committed,
staged, new, deleted, moved, mode, link, binary), as their bytes are. Renames are a deletion and an addition.
Not captured, and named in the notes: ignored files (by the .gitignore files of the final tree and the
info/exclude of the start; force-added or committed ones are captured), anything that was there and
ignored at the start, and changes of or inside submodules. Files in a repository that the agent made inside
the checkout are captured as files. The agent's HEAD, index and configuration play no part and stay as
they are.

Every capture proves itself: the patch is applied to the starting tree and must give the final tree.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import ClassVar

from swe_pytest.grading.program import program
from swe_pytest.grading.workspace import Workspace
from swe_pytest.results.record import PatchFacts, PatchFile
from swe_pytest.sandbox.contract import MIB, ExecResult, Sandbox
from swe_pytest.sandbox.errors import OutputLimit

TOO_LONG = 73


class CaptureFailed(Exception):
    """No patch can be had from the sandbox, or none that can be trusted: nothing is known of the work."""

    kind: ClassVar[str] = "capture_failed"


@dataclass(frozen=True, slots=True)
class CapturedPatch:
    """A patch as git wrote it; never decode, strip or translate `data`. Names in `facts` are UTF-8 with
    surrogate escapes."""

    data: bytes
    facts: PatchFacts


def capture_patch(
    sandbox: Sandbox, workspace: Workspace, *, timeout_s: float, max_bytes: int = 64 * MIB
) -> CapturedPatch:
    """Return what changed since seeding, in one command as root. No agent process may be left running.

    Raises: OutputLimit when the patch is longer than `max_bytes`; CaptureFailed (starting tree lost, git
        unusable, proof failed); SandboxError (CommandTimeout after `timeout_s` seconds).
    """
    result = sandbox.exec(
        ("/bin/sh", "-c", program("capture"), "capture", workspace.workdir, workspace.start_tree, str(max_bytes)),
        timeout_s=timeout_s,
        workdir="/",
        user="0",
        max_output=2 * max_bytes + 16 * MIB,  # the listing of files comes along
        overflow="raise",
    )
    where = f"{workspace.workdir} in container {sandbox.name}"
    if result.exit_code == TOO_LONG:
        raise OutputLimit(
            f"the patch of {where} has {result.stderr.decode('ascii', 'replace').strip()} bytes",
            container=sandbox.name,
            limit=f"{max_bytes} bytes",
            remedy="look for build products or data among the agent's files",
        )
    if result.exit_code != 0:
        why = result.stderr.decode("utf-8", "replace").strip() or f"status {result.exit_code}"
        raise CaptureFailed(f"{where}: {why[-2000:]}")
    try:
        return _read(result, workspace.start_tree)
    except (ValueError, KeyError, IndexError) as error:
        raise CaptureFailed(f"{where}: the capture's answer cannot be read ({error!r})") from error


def _read(result: ExecResult, start_tree: str) -> CapturedPatch:
    head, _, rest = result.stdout.partition(b"\n\n")
    facts: dict[str, str] = {}
    notes: list[str] = []
    for line in head.decode("utf-8", "backslashreplace").split("\n"):
        key, _, value = line.partition(" ")
        if key == "note":
            notes.append(value.strip())
        else:
            facts[key] = value.strip()
    if not re.fullmatch("[0-9a-f]{40}", facts["final"]):
        raise ValueError(f"no tree: {facts['final']!r}")
    length = int(facts["patch"])
    data, listing = rest[:length], rest[length:]
    if len(data) != length:
        raise ValueError(f"{len(data)} bytes instead of {length}")
    return CapturedPatch(
        data,
        PatchFacts(
            bytes=length,
            sha256=hashlib.sha256(data).hexdigest(),
            files=_files(listing),
            start_tree=start_tree,
            final_tree=facts["final"],
            notes=tuple(notes),
        ),
    )


def _files(listing: bytes) -> tuple[PatchFile, ...]:
    """Read `git diff-tree --raw -z`: ":mode mode id id status NUL path NUL", over and over."""
    fields = listing.split(b"\0")[:-1]
    return tuple(
        PatchFile(path=path.decode("utf-8", "surrogateescape"), status=about.split()[-1].decode("ascii"))
        for about, path in zip(fields[::2], fields[1::2], strict=True)
    )
