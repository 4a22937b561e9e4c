"""The verifier: the program that grades a patch in a fresh container, and reading what it reports.

The program takes the starting tree's hash and stops if it is not the one the agent started from; applies
the patch strictly, else by the official ladder, each attempt from the starting tree; restores test files
from base and runner configuration from the start; checks that the held-out test patch applies; and runs
the official evaluation script, which applies it.

stdout is the log: the evaluation script's stdout and stderr, merged in the container, and nothing else. It
is hostile: the candidate's code writes it. stderr is the control channel, whose records begin with a nonce.
The nonce comes in a file that is deleted before any code of the candidate runs. While that code runs,
only the first process knows it; where the image has `setpriv` and the container the capability SETPCAP,
the evaluation runs with one capability less, so that the kernel refuses it the first process's memory and
descriptors (`Trace.guarded`). Otherwise code that runs as root could find the nonce there. The exit
status of the script is the script's word: the official scripts end with a checkout, whose status it is,
and the candidate's code can end or edit the script that runs it.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote

from swe_pytest.grading.evaluation import Evaluation
from swe_pytest.grading.program import program
from swe_pytest.grading.unified_diff import patched_paths

STRICT: Final = "strict"
ALREADY_APPLIED: Final = "already applied"
# The commands of swebench 5.0.2, in its order; the path of the patch follows.
OFFICIAL_LADDER: Final = (
    "git apply --verbose",
    "git apply --verbose --3way",
    "git apply --verbose --reject",
    "patch --batch --forward --fuzz=5 -p1 -i",
)
_TEST_PATCH = "test patch"


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try to apply a patch: its step, exit status, and the beginning of what it said if it failed."""

    step: str
    status: int
    said: str = ""


@dataclass(frozen=True, slots=True)
class Trace:
    """How far a verification came, from its control channel.

    `start_tree` is what the verifier found ("" when it did not come that far). `applied` without an
    `apply_step` means that the patch was empty. `test_patch_applies` is None when it was not tried (not
    reached, or there is none). `started`: the evaluation script was started; `completed`: its end was
    seen. `script_status` is its exit status. `fault` says why the verifier itself gave up ("" if not):
    that is never the candidate's doing.
    """

    start_tree: str
    start_tree_matches: bool
    apply_step: str
    apply_attempts: tuple[Attempt, ...]
    applied: bool
    restored: tuple[str, ...]
    test_patch_applies: bool | None
    guarded: bool
    started: bool
    script_status: int | None
    completed: bool
    fault: str


def evaluation_script(
    evaluation: Evaluation, patch: bytes, *, start_tree: str, restore: Sequence[str], nonce: str
) -> tuple[str, dict[str, bytes]]:
    """Return script and files for `SandboxProvider.run_script`, with root as the container's user.

    `start_tree` is the hash recorded when the task sandbox was seeded; "" takes the tree as found.
    `restore` are paths to put back to the starting tree's version (deleted where it has none). `nonce` is
    a fresh secret of letters and digits, and stands in neither the script nor an environment.
    """
    if not nonce.isalnum():
        raise ValueError("the nonce must be letters and digits")
    restore = list(_inside(restore))
    arguments = (evaluation.workdir, evaluation.base_commit, start_tree)
    script = "exec /bin/sh /swe-pytest/verify.sh " + " ".join(shlex.quote(argument) for argument in arguments)
    return script, {
        "verify.sh": program("verify").encode(),
        "nonce": f"{nonce}\n".encode(),
        "ladder": "".join(f"{command}\n" for command in OFFICIAL_LADDER).encode(),
        "patch.diff": patch,
        "touched": _listed(_inside(patched_paths(patch))),
        "test.diff": evaluation.test_patch,
        "tests": _listed(_inside(patched_paths(evaluation.test_patch))),
        "restore": _listed(restore),
        "restore.names": "".join(f"{quote(path, errors='surrogateescape')}\n" for path in restore).encode(),
        "eval.sh": evaluation.eval_script.encode("utf-8", "surrogateescape"),
    }


def read_trace(control: bytes, nonce: str) -> Trace:
    """Read the control channel of a verification, however early it ended. Lines without the nonce are
    remarks on the record before them."""
    records: list[tuple[str, str]] = []
    remarks: list[list[str]] = []
    for line in control.decode("utf-8", "replace").split("\n")[:-1]:
        mark, _, record = line.partition(" ")
        if mark == nonce:
            key, _, value = record.partition(" ")
            records.append((key, value))
            remarks.append([])
        elif remarks and line:
            remarks[-1].append(line)

    def only(key: str) -> str | None:
        return next((value for name, value in records if name == key), None)

    attempts = [
        Attempt(value.partition(" ")[2], int(value.partition(" ")[0]), "\n".join(said))
        for (key, value), said in zip(records, remarks, strict=True)
        if key == "attempt"
    ]
    tests = [attempt for attempt in attempts if attempt.step == _TEST_PATCH]
    step, status = only("applied"), only("status")
    return Trace(
        start_tree=only("start") or "",
        start_tree_matches=only("matches") is not None,
        apply_step=step or "",
        apply_attempts=tuple(attempt for attempt in attempts if attempt.step != _TEST_PATCH),
        applied=step is not None,
        restored=tuple(
            unquote(value, errors="surrogateescape") for key, value in records if key == "restored"
        ),
        test_patch_applies=tests[0].status == 0 if tests else None,
        guarded=only("guarded") == "1",
        started=only("running") is not None,
        script_status=int(status) if status is not None else None,
        completed=only("completed") is not None,
        fault=only("fault") or "",
    )


def _inside(paths: Iterable[str]) -> Iterable[str]:
    """Leave out what git would refuse as a path of the checkout."""
    for path in paths:
        parts = path.split("/")
        if path and not {"", ".", ".."}.intersection(parts) and ".git" not in (part.lower() for part in parts):
            yield path


def _listed(paths: Iterable[str]) -> bytes:
    return b"".join(path.encode("utf-8", "surrogateescape") + b"\0" for path in paths)
