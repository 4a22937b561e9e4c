"""The sweep: removes what is ours and abandoned, proves it, and touches nothing else."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import docker
import pytest
from faulty_engine import FaultyEngine

from swe_pytest.sandbox.engine import Engine
from swe_pytest.sandbox.errors import EngineUnreachable
from swe_pytest.sandbox.ownership import Ownership, current_owner, new_run_id
from swe_pytest.sandbox.sweep import (
    Swept,
    list_ours,
    remove,
    sweep_dead_owners,
    sweep_process,
    sweep_run,
)

Start = Callable[..., tuple[str, str]]


@pytest.fixture
def client(engine: Engine) -> Iterator[docker.APIClient]:
    client = engine.client()
    yield client
    client.close()


@pytest.fixture
def neighbour(engine: Engine, start: Start) -> Iterator[str]:
    """The id of a container of another live run."""
    mark = Ownership(new_run_id(), current_owner(), "main")
    try:
        yield start(mark)[1]
    finally:
        sweep_run(engine, mark.run_id, within_s=30)


@pytest.fixture
def faulty(engine: Engine, tmp_path: Path) -> Iterator[FaultyEngine]:
    with FaultyEngine(engine, tmp_path / "faulty.sock") as proxy:
        yield proxy


def exists(engine: Engine, container: str) -> bool:
    return engine.call("GET", f"/containers/{container}/json").status == 200


def dead_owner() -> str:
    """The identity of a process that has ended."""
    code = "from swe_pytest.sandbox.ownership import current_owner; print(current_owner())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_everything_of_a_run_goes_and_nothing_of_a_neighbour(
    engine: Engine,
    client: docker.APIClient,
    ownership: Ownership,
    start: Start,
    neighbour: str,
    base_image: str,
) -> None:
    """Containers in any state, networks in use and volumes of a run are removed; a neighbour's are not."""
    running, _ = start(ownership)
    paused, paused_id = start(ownership)
    client.pause(paused_id)
    ended, ended_id = start(ownership, command=["true"])
    client.wait(ended_id)
    created = ownership.name("verifier")
    labels = ownership.labels("verifier", "case", time.time())
    network = client.create_network(ownership.name("net"), labels=labels)["Id"]
    volume = client.create_volume(ownership.name("vol"), labels=labels)["Name"]
    binds = client.create_host_config(network_mode=network, binds=[f"{volume}:/v"])
    client.create_container(base_image, ["true"], name=created, labels=labels, host_config=binds)
    attached = client.create_container(
        base_image, ["sleep", "300"], name=ownership.name("task"), labels=labels, host_config=binds
    )["Id"]
    client.start(attached)

    swept = sweep_run(engine, ownership.run_id, within_s=30)

    assert {running, paused, ended, created} < set(swept.containers)
    assert (len(swept.containers), len(swept.networks), swept.volumes, swept.left) == (5, 1, (volume,), ())
    assert list_ours(engine, ownership.run_id) == []
    assert exists(engine, neighbour)


def test_anonymous_volumes_go_with_their_container(
    engine: Engine, client: docker.APIClient, ownership: Ownership, base_image: str
) -> None:
    """A volume that an image declares carries no label and is removed together with its container."""
    made = client.create_container(
        base_image,
        ["true"],
        name=ownership.name("task"),
        labels=ownership.labels("task", "c", 0),
        volumes=["/data"],
    )
    (mount,) = client.inspect_container(made["Id"])["Mounts"]
    sweep_run(engine, ownership.run_id, within_s=30)
    assert engine.call("GET", f"/volumes/{mount['Name']}").status == 404


def test_sweeping_nothing_costs_milliseconds(engine: Engine, ownership: Ownership) -> None:
    """An empty sweep takes less than a twentieth of a second (usually two milliseconds)."""

    def cost(sweep: Callable[[], Swept]) -> float:
        begun = time.monotonic()
        assert not sweep()
        return time.monotonic() - begun

    assert min(cost(lambda: sweep_run(engine, ownership.run_id, within_s=5)) for _ in range(5)) < 0.05


def test_only_the_dead_workers_containers_go(engine: Engine, ownership: Ownership, start: Start) -> None:
    """Sweeping one process of a run leaves the containers of its other processes alone."""
    gone, _ = start(Ownership(ownership.run_id, ownership.owner, "gw0"))
    kept, _ = start(Ownership(ownership.run_id, ownership.owner, "gw1"))
    swept = sweep_process(engine, ownership.run_id, "gw0")
    assert swept == Swept(containers=(gone,))
    assert [thing.name for thing in list_ours(engine, ownership.run_id)] == [kept]


def test_what_is_ours_is_listed_with_its_facts(engine: Engine, ownership: Ownership, start: Start) -> None:
    """A listing tells run, case, role, owner, expiry and state of each thing."""
    name, id_ = start(ownership, case_id="case [x]", expires=1234.0)
    (thing,) = list_ours(engine, ownership.run_id)
    assert (thing.kind, thing.name, thing.id) == ("container", name, id_)
    assert (thing.run_id, thing.case_id, thing.role) == (ownership.run_id, "case [x]", "task")
    assert (thing.owner, thing.owner_state, thing.process) == (current_owner(), "alive", "main")
    assert (thing.expires, thing.state) == (1234.0, "running")


def test_chosen_things_alone_are_removed(engine: Engine, ownership: Ownership, start: Start) -> None:
    """`remove` takes away what it was given and no other thing of the run."""
    first, _ = start(ownership)
    second, _ = start(ownership)
    things = [thing for thing in list_ours(engine, ownership.run_id) if thing.name == first]
    assert remove(engine, things) == Swept(containers=(first,))
    assert [thing.name for thing in list_ours(engine, ownership.run_id)] == [second]
    assert remove(engine, []) == Swept()


def test_the_next_start_sweeps_dead_owners_only(
    engine: Engine, client: docker.APIClient, start: Start, base_image: str
) -> None:
    """Dead owners' things go, also when the pid lives again; live, foreign and unlabelled ones stay.

    A foreign owner (another boot or pid namespace) cannot be judged: only what has expired goes.
    """
    run_id, now = new_run_id(), time.time()
    boot, namespace, pid, start_time = current_owner().split("/")
    owners = {
        "dead": (dead_owner(), now + 600),
        "reused": (f"{boot}/{namespace}/{pid}/{int(start_time) - 1}", now + 600),
        "foreign-expired": (f"other-boot/{namespace}/{pid}/{start_time}", now - 1),
        "alive-expired": (current_owner(), now - 1),
        "foreign": (f"{boot}/pid:[1]/{pid}/{start_time}", now + 600),
        "damaged": ("?", now + 600),
    }
    ids = {
        case: start(Ownership(run_id, owner, "main"), case_id=case, expires=expires)[1]
        for case, (owner, expires) in owners.items()
    }
    plain_name = f"swe-pytest-{run_id}-task-00000000"
    ids["unlabelled"] = client.create_container(base_image, ["true"], name=plain_name)["Id"]
    ids["half-labelled"] = client.create_container(
        base_image, ["true"], labels={"swe-pytest.owner": dead_owner()}, name=plain_name + "-b"
    )["Id"]
    try:
        sweep_dead_owners(engine)
        left = {case for case, id_ in ids.items() if exists(engine, id_)}
        assert left == {"alive-expired", "foreign", "damaged", "unlabelled", "half-labelled"}
    finally:
        sweep_run(engine, run_id, within_s=30)
        for id_ in (ids["unlabelled"], ids["half-labelled"]):
            client.remove_container(id_, force=True)


def test_a_lost_answer_to_a_removal_is_looked_up(
    faulty: FaultyEngine, ownership: Ownership, start: Start
) -> None:
    """When the engine removes a container but its answer is lost, the sweep finds that it is gone."""
    name, _ = start(ownership)
    lost = faulty.when("DELETE", "^/containers/", faulty.DROP)
    assert sweep_run(faulty.engine, ownership.run_id, within_s=10) == Swept(containers=(name,))
    assert lost.hits == 1


def test_a_refused_removal_is_tried_again(faulty: FaultyEngine, ownership: Ownership, start: Start) -> None:
    """A removal that the engine refuses twice is asked for a third time."""
    name, _ = start(ownership)
    refused = faulty.when("DELETE", "^/containers/", faulty.refusal(500, "driver failed"), times=2)
    assert sweep_run(faulty.engine, ownership.run_id, within_s=10) == Swept(containers=(name,))
    assert refused.hits == 2


def test_somebody_elses_removal_is_waited_for(
    engine: Engine, faulty: FaultyEngine, ownership: Ownership, start: Start
) -> None:
    """A removal that is already in progress elsewhere is awaited as an event, not hammered."""
    _, id_ = start(ownership)
    told = f"removal of container {id_} is already in progress"
    busy = faulty.when("DELETE", "^/containers/", faulty.refusal(409, told))
    swept: list[Swept] = []
    sweeping = threading.Thread(
        target=lambda: swept.append(sweep_run(faulty.engine, ownership.run_id, within_s=20)), daemon=True
    )
    sweeping.start()
    assert busy.reached.wait(10)
    sweeping.join(0.5)  # time enough for a sweep that hammers to be refused again
    assert sweeping.is_alive()
    engine.call("DELETE", f"/containers/{id_}", {"force": "1"})  # the other hand
    sweeping.join(5)
    assert busy.hits == 1
    assert [outcome.left for outcome in swept] == [()]


def test_what_cannot_be_removed_is_told_in_time(
    faulty: FaultyEngine, ownership: Ownership, start: Start
) -> None:
    """A container that will not go is named in `left`, and the sweep keeps to its time."""
    name, _ = start(ownership)
    faulty.when("DELETE", "^/containers/", faulty.refusal(500, "driver failed"))
    begun = time.monotonic()
    assert sweep_run(faulty.engine, ownership.run_id, within_s=1) == Swept(left=(name,))
    assert time.monotonic() - begun < 2.5


def test_a_removal_that_hangs_does_not_hold_the_sweep(
    faulty: FaultyEngine, ownership: Ownership, start: Start
) -> None:
    """An engine that never answers a removal costs no more than the time given."""
    name, _ = start(ownership)
    faulty.when("DELETE", "^/containers/", faulty.HANG)
    begun = time.monotonic()
    assert sweep_run(faulty.engine, ownership.run_id, within_s=1) == Swept(left=(name,))
    assert time.monotonic() - begun < 3


def test_an_engine_that_is_down_is_not_taken_for_clean(faulty: FaultyEngine, ownership: Ownership) -> None:
    """If the engine does not answer in the time given, that is an error and never `nothing left`."""
    with faulty.down():
        begun = time.monotonic()
        with pytest.raises(EngineUnreachable, match="is not running"):
            sweep_run(faulty.engine, ownership.run_id, within_s=0.5)
        assert time.monotonic() - begun < 2
    faulty.when("GET", "^/containers/json", faulty.refusal(500, "no"))
    with pytest.raises(EngineUnreachable, match="refused GET /containers/json: 500 no"):
        sweep_run(faulty.engine, ownership.run_id, within_s=0.3)


def test_an_engine_that_comes_back_is_swept(faulty: FaultyEngine, ownership: Ownership, start: Start) -> None:
    """An engine that fails for a moment is asked again."""
    name, _ = start(ownership)
    faulty.when("GET", "^/containers/json", faulty.refusal(503, "restarting"), times=3)
    assert sweep_run(faulty.engine, ownership.run_id, within_s=10).containers == (name,)


def test_filters_name_the_run_exactly(engine: Engine, start: Start, ownership: Ownership) -> None:
    """A run whose id begins with ours is another run."""
    longer = Ownership(ownership.run_id + "-2", ownership.owner, "main")
    try:
        start(longer)
        assert not sweep_run(engine, ownership.run_id, within_s=10)
        assert len(list_ours(engine, longer.run_id)) == 1
    finally:
        assert not sweep_run(engine, longer.run_id, within_s=30).left
