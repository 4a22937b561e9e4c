"""The witness: what the engine itself says about containers, also after its stream broke off."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import docker
import pytest
from faulty_engine import FaultyEngine

from swe_pytest.sandbox.engine import Engine
from swe_pytest.sandbox.errors import EngineUnreachable
from swe_pytest.sandbox.ownership import Ownership
from swe_pytest.sandbox.witness import DEAD_KEPT, Witness

Start = Callable[..., tuple[str, str]]
MIB = 1024 * 1024
EAT_MEMORY = ["python3", "-c", "x = []\nwhile True: x.append(bytearray(4 << 20))"]


@pytest.fixture
def client(engine: Engine) -> Iterator[docker.APIClient]:
    client = engine.client()
    yield client
    client.close()


@pytest.fixture
def faulty(engine: Engine, tmp_path: Path) -> Iterator[FaultyEngine]:
    with FaultyEngine(engine, tmp_path / "faulty.sock") as proxy:
        yield proxy


def streams(faulty: FaultyEngine) -> int:
    return sum(path.startswith("/events") for _, path in faulty.requests)


def wait_to_be_seen(witness: Witness, case_id: str) -> None:
    deadline = time.monotonic() + 10
    while not witness.lives(case_id, settle_s=0.05):
        assert time.monotonic() < deadline


def test_a_life_is_seen_from_create_to_destroy(
    engine: Engine, client: docker.APIClient, ownership: Ownership, start: Start, base_image: str
) -> None:
    """Creation, end, exit status and removal are told with the engine's times, in order of creation."""
    with Witness(engine, ownership) as witness:
        witness.note_image(base_image, "sha256:feed")
        before = time.time()
        first, first_id = start(ownership, case_id="a[1]", command=["sh", "-c", "exit 7"])
        second, second_id = start(ownership, case_id="a[1]")
        start(ownership, case_id="other")
        client.wait(first_id)
        for id_ in (first_id, second_id):
            client.remove_container(id_, force=True)
        lives = witness.lives("a[1]", expected=[first, second])
        after = time.time()
    assert [life.name for life in lives] == [first, second]
    assert [life.id for life in lives] == [first_id, second_id]
    assert [life.exit_code for life in lives] == [7, 137]
    assert [(life.role, life.image, life.image_digest) for life in lives] == [
        ("task", base_image, "sha256:feed")
    ] * 2
    for life in lives:
        assert life.created is not None and life.removed is not None
        assert before - 0.1 <= life.created < life.removed <= after + 0.1
        assert not life.oom


def test_an_oom_is_seen_and_told_from_a_kill(
    engine: Engine, client: docker.APIClient, ownership: Ownership, start: Start
) -> None:
    """A process that the kernel ended for memory is told from one that was killed, though both give 137."""
    with Witness(engine, ownership) as witness:
        _, starved = start(ownership, command=EAT_MEMORY, memory=48 * MIB)
        _, killed = start(ownership)
        client.kill(killed)
        assert witness.oom_seen(starved, settle_s=10)
        assert not witness.oom_seen(killed, settle_s=0.2)
        for id_ in (starved, killed):
            client.wait(id_)
            client.remove_container(id_)
        by_id = {life.id: life for life in witness.lives("case")}
    assert (by_id[starved].exit_code, by_id[starved].oom) == (137, True)
    assert (by_id[killed].exit_code, by_id[killed].oom) == (137, False)


def test_an_oom_of_a_command_is_seen_while_the_container_lives(
    engine: Engine, client: docker.APIClient, ownership: Ownership, start: Start
) -> None:
    """The kernel's hand on an exec is seen although the engine's own flag stays false."""
    with Witness(engine, ownership) as witness:
        _, id_ = start(ownership, memory=48 * MIB)
        client.exec_start(client.exec_create(id_, EAT_MEMORY)["Id"])
        assert client.inspect_container(id_)["State"]["Running"]
        assert witness.oom_seen(id_, settle_s=5)


def test_a_removal_by_another_hand_is_awaited(
    engine: Engine, client: docker.APIClient, ownership: Ownership, start: Start
) -> None:
    """`lives` waits for a removal that somebody else makes, and returns as soon as it is seen."""
    with Witness(engine, ownership) as witness:
        _, id_ = start(ownership)
        other = threading.Timer(0.3, client.remove_container, [id_], {"force": True})
        other.start()
        begun = time.monotonic()
        (life,) = witness.lives("case", settle_s=10)
        assert 0.2 < time.monotonic() - begun < 5
        other.join()
    assert life.removed is not None


def test_what_was_not_removed_is_told_so_in_time(engine: Engine, ownership: Ownership, start: Start) -> None:
    """A container that stays has no removal, and the wait keeps to its time."""
    with Witness(engine, ownership) as witness:
        start(ownership)
        wait_to_be_seen(witness, "case")
        begun = time.monotonic()
        (life,) = witness.lives("case", settle_s=0.4)
        assert 0.3 < time.monotonic() - begun < 3
    assert life.removed is None
    assert life.exit_code is None


def test_only_this_process_of_this_run_is_watched(engine: Engine, ownership: Ownership, start: Start) -> None:
    """Containers of another process of the run are that process's witness's business."""
    with Witness(engine, ownership) as witness:
        start(Ownership(ownership.run_id, ownership.owner, "gw1"))
        mine, _ = start(ownership)
        wait_to_be_seen(witness, "case")
        assert [life.name for life in witness.lives("case", settle_s=0.3)] == [mine]


def test_a_cut_stream_is_opened_again_without_a_gap(
    faulty: FaultyEngine, client: docker.APIClient, ownership: Ownership, start: Start
) -> None:
    """What happened while the stream was broken is known after it is back, and what happens later too."""
    with Witness(faulty.engine, ownership) as witness:
        early, early_id = start(ownership)
        wait_to_be_seen(witness, "case")
        with faulty.down():
            client.remove_container(early_id, force=True)
            brief, brief_id = start(ownership)
            client.remove_container(brief_id, force=True)
            missed, missed_id = start(ownership, case_id="missed")
        witness.lives("case", settle_s=10, expected=[early, brief])
        client.remove_container(missed_id, force=True)
        late, late_id = start(ownership)
        client.remove_container(late_id, force=True)
        lives = witness.lives("case", settle_s=10, expected=[early, brief, late])
        lives += witness.lives("missed", settle_s=10, expected=[missed])
    assert [life.name for life in lives] == [early, brief, late, missed]
    for life in lives:
        assert life.created is not None and life.removed is not None
        assert life.created < life.removed
    assert streams(faulty) >= 2


def test_more_events_than_the_engine_remembers(
    faulty: FaultyEngine, client: docker.APIClient, ownership: Ownership, start: Start
) -> None:
    """When the engine no longer knows what a broken stream missed, the present state is asked for.

    It keeps 256 events. Their loss is played by asking only for later ones.
    """
    with Witness(faulty.engine, ownership) as witness:
        early, early_id = start(ownership)
        wait_to_be_seen(witness, "case")
        with faulty.down():
            client.remove_container(early_id, force=True)
            starved, starved_id = start(ownership, case_id="starved", command=EAT_MEMORY, memory=48 * MIB)
            client.wait(starved_id)
            witness._last_seen = str(int(time.time()) + 60)  # as if it had all been forgotten
        (gone,) = witness.lives("case", settle_s=10, expected=[early])
        (there,) = witness.lives("starved", settle_s=0.1)
    assert gone.created is not None and gone.removed is not None
    assert gone.created < gone.removed
    assert (there.name, there.exit_code, there.oom) == (starved, 137, True)
    assert there.created is not None
    assert there.removed is None


def test_leaving_is_prompt_and_leaves_no_thread(engine: Engine, ownership: Ownership) -> None:
    """The context ends in well under a second although the stream is silent, and its thread with it."""
    with Witness(engine, ownership):
        assert "swe-pytest-witness" in {thread.name for thread in threading.enumerate()}
        begun = time.monotonic()
    assert time.monotonic() - begun < 0.5
    assert "swe-pytest-witness" not in {thread.name for thread in threading.enumerate()}


def test_leaving_is_prompt_while_the_engine_is_down(faulty: FaultyEngine, ownership: Ownership) -> None:
    """The context ends in well under a second also when the stream is being tried again."""
    with Witness(faulty.engine, ownership) as witness, faulty.down():
        assert witness.lives("case", settle_s=0.5) == []
        begun = time.monotonic()
        witness.__exit__(None, None, None)
        assert time.monotonic() - begun < 0.5
    assert "swe-pytest-witness" not in {thread.name for thread in threading.enumerate()}


def test_no_stream_no_witness(faulty: FaultyEngine, ownership: Ownership) -> None:
    """Without an event stream the context is not entered: unwatched containers would be reported as none."""
    faulty.when("GET", "^/events", faulty.refusal(500, "no events today"))
    with pytest.raises(EngineUnreachable, match="no events today"), Witness(faulty.engine, ownership):
        pass


def test_memory_is_bounded(engine: Engine, ownership: Ownership) -> None:
    """After thousands of containers only the youngest dead ones, and every live one, are remembered.

    The events are made up here: making that many containers would take a quarter of an hour.
    """
    witness = Witness(engine, ownership)
    for number in range(3 * DEAD_KEPT):
        attributes = {"name": f"n{number}", "swe-pytest.case": str(number)}
        for step, action in enumerate(("create", "destroy")):
            if action == "destroy" and number == 0:
                continue  # the oldest one lives
            witness._take(
                {
                    "Action": action,
                    "Actor": {"ID": f"id{number}", "Attributes": attributes},
                    "timeNano": (number * 2 + step + 1) * 10**9,
                }
            )
    assert len(witness._facts) <= 2 * DEAD_KEPT + 1
    assert "id0" in witness._facts
    assert f"id{3 * DEAD_KEPT - 1}" in witness._facts
