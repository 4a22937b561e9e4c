"""Ownership: names and labels that cannot clash, and who counts as dead."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from swe_pytest.sandbox.ownership import (
    Ownership,
    current_owner,
    new_run_id,
    owner_state,
    valid_run_id,
)

DOCKER_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]+")  # the engine's own rule


@pytest.mark.parametrize("run_id", ["a", "0", "A.b_c-d", "x" * 48, "1.-_", "20261129-172915-9f3a1c"])
def test_every_run_id_makes_a_valid_name(run_id: str) -> None:
    """Whatever run id is valid, the names made of it are valid for the engine and begin with swe-pytest-."""
    assert valid_run_id(run_id)
    name = Ownership(run_id, "o", "p").name("verifier")
    assert DOCKER_NAME.fullmatch(name)
    assert name.startswith(f"swe-pytest-{run_id}-verifier-")


@pytest.mark.parametrize("text", ["", "-a", ".", "..", "a b", "a/b", "a\n", "é", "x" * 49, "_a"])
def test_what_would_break_a_name_or_a_directory_is_no_run_id(text: str) -> None:
    """Text that is unfit for a container name, a label filter or a directory name is refused."""
    assert not valid_run_id(text)
    with pytest.raises(ValueError, match="is no run id"):
        Ownership(text, "o", "p")


def test_names_and_nonces_are_new_each_time() -> None:
    """No two containers get the same name or nonce, so `name in use` always means a lost answer."""
    mark = Ownership("r", "o", "p")
    assert len({mark.name("task") for _ in range(500)}) == 500
    assert len({mark.labels("task", "c", 0)["swe-pytest.nonce"] for _ in range(500)}) == 500


def test_labels_tell_everything() -> None:
    """The labels carry run, case, role, owner, process and expiry, under our prefix only."""
    labels = Ownership("r", "o", "gw0").labels("task", "case[ä]", 1234.6)
    del labels["swe-pytest.nonce"]
    assert labels == {
        "swe-pytest.run": "r",
        "swe-pytest.case": "case[ä]",
        "swe-pytest.role": "task",
        "swe-pytest.owner": "o",
        "swe-pytest.process": "gw0",
        "swe-pytest.expires": "1235",
    }


def test_new_run_ids_sort_by_time_and_differ() -> None:
    """Run ids are unique, and the time is in front."""
    ids = {new_run_id() for _ in range(100)}
    assert len(ids) == 100
    assert all(re.fullmatch(r"\d{8}-\d{6}-[0-9a-f]{6}", text) for text in ids)
    assert all(valid_run_id(text) for text in ids)


def test_this_process_is_alive_and_its_owner_text_stable() -> None:
    """A live process counts as alive, seen from itself and from another process."""
    mine = current_owner()
    assert mine == current_owner()
    assert owner_state(mine) == "alive"
    code = "import sys; from swe_pytest.sandbox.ownership import owner_state; print(owner_state(sys.argv[1]))"
    seen = subprocess.run([sys.executable, "-c", code, mine], capture_output=True, text=True, check=True)
    assert seen.stdout.strip() == "alive"


def test_a_process_is_dead_when_it_ended_and_already_as_a_zombie() -> None:
    """An ended process is dead, also while its parent has not yet taken its status."""
    code = "from swe_pytest.sandbox.ownership import current_owner as me; print(me(), flush=True); input()"
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    theirs = child.stdout.readline().strip()
    assert owner_state(theirs) == "alive"
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it has ended and stays a zombie
    assert owner_state(theirs) == "dead"
    child.communicate()
    assert owner_state(theirs) == "dead"


def test_a_used_again_pid_is_another_process() -> None:
    """The same pid with another start time does not keep a dead owner alive."""
    boot, namespace, pid, start = current_owner().split("/")
    assert owner_state(f"{boot}/{namespace}/{pid}/{int(start) - 1}") == "dead"


@pytest.mark.parametrize("part", [0, 1])
def test_another_boot_or_pid_namespace_cannot_be_judged(part: int) -> None:
    """An owner of another machine, boot or pid namespace is foreign, though its pid may be free here."""
    parts = current_owner().split("/")
    parts[part] = "other"
    parts[2] = str(2**22 + 5)
    assert owner_state("/".join(parts)) == "foreign"


@pytest.mark.parametrize("text", ["", "x", "a/b/c/d", "a/b/1", "///", "a/b/-1/2", "a/b/1/2/3"])
def test_what_cannot_be_read_cannot_be_judged(text: str) -> None:
    """A damaged owner label is foreign, never dead: nothing is removed on a guess."""
    assert owner_state(text) == "foreign"
