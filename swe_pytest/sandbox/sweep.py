"""The sweep: removes what a run, a dead worker or a dead run left in the engine, and proves it gone.

Only the labels of `ownership` decide, never a name. The standard library alone: the guardian runs this too.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, cast

from swe_pytest.sandbox.engine import Engine
from swe_pytest.sandbox.errors import EngineUnreachable
from swe_pytest.sandbox.ownership import (
    CASE,
    EXPIRES,
    OWNER,
    PROCESS,
    ROLE,
    RUN,
    OwnerState,
    owner_state,
)

Kind = Literal["container", "network", "volume"]

# Removing is bound by CPU; more at once only makes each one slower.
REMOVALS_AT_ONCE = 4
PACE_S = 0.1


@dataclass(frozen=True, slots=True)
class Owned:
    """A thing in the engine that carries our labels. `expires` in epoch seconds, None if it cannot be read.

    `state` is the engine's word for a container's state ("running", "exited", …), "" for other kinds.
    """

    kind: Kind
    id: str
    name: str
    run_id: str
    case_id: str
    role: str
    owner: str
    owner_state: OwnerState
    process: str
    expires: float | None
    state: str


@dataclass(frozen=True, slots=True)
class Swept:
    """Names of what a sweep removed, by kind, and of what it could not remove in time (`left`)."""

    containers: tuple[str, ...] = ()
    networks: tuple[str, ...] = ()
    volumes: tuple[str, ...] = ()
    left: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether there was anything to sweep."""
        return bool(self.containers or self.networks or self.volumes or self.left)


def list_ours(
    engine: Engine, run_id: str | None = None, process: str | None = None, *, timeout_s: float = 30.0
) -> list[Owned]:
    """Return everything that carries our labels, of one run (and one process of it) if given.

    `timeout_s` bounds the wait for each of the engine's three answers.

    Raises: EngineUnreachable.
    """
    labels = [RUN if run_id is None else f"{RUN}={run_id}"]
    if process is not None:
        labels.append(f"{PROCESS}={process}")
    query = {"filters": json.dumps({"label": labels})}
    found = [
        _owned("container", thing["Id"], thing["Names"], thing["Labels"], thing["State"])
        for thing in _list(engine, "/containers/json", {**query, "all": "1"}, timeout_s)
    ]
    found += [
        _owned("network", thing["Id"], thing["Name"], thing["Labels"])
        for thing in _list(engine, "/networks", query, timeout_s)
    ]
    found += [
        _owned("volume", thing["Name"], thing["Name"], thing["Labels"])
        for thing in _list(engine, "/volumes", query, timeout_s)
    ]
    return found


def sweep_run(engine: Engine, run_id: str, *, within_s: float) -> Swept:
    """Remove everything of a run and confirm that it is gone, trying again for at most `within_s` seconds.

    Raises: EngineUnreachable, if the engine did not answer to the last.
    """
    return _sweep(engine, lambda timeout_s: list_ours(engine, run_id, timeout_s=timeout_s), within_s)


def sweep_process(engine: Engine, run_id: str, process: str, *, within_s: float = 30.0) -> Swept:
    """The same as `sweep_run` for what one process of a run made, say a worker that died."""
    return _sweep(engine, lambda timeout_s: list_ours(engine, run_id, process, timeout_s=timeout_s), within_s)


def sweep_dead_owners(engine: Engine, *, within_s: float = 30.0) -> Swept:
    """Remove what runs left whose owner is dead, or expired where nobody here can tell (see `abandoned`).

    Raises: EngineUnreachable.
    """

    def left_behind(timeout_s: float) -> list[Owned]:
        return [thing for thing in list_ours(engine, timeout_s=timeout_s) if abandoned(thing)]

    return _sweep(engine, left_behind, within_s)


def abandoned(thing: Owned) -> bool:
    """Whether nobody will ever remove this thing: its owner is dead, or is foreign and its time is over."""
    if thing.owner_state == "foreign":
        return thing.expires is not None and thing.expires < time.time()
    return thing.owner_state == "dead"


def remove(engine: Engine, things: Iterable[Owned], *, within_s: float = 30.0) -> Swept:
    """Remove just these things and confirm that they are gone. Raises: EngineUnreachable."""
    wanted = {(thing.kind, thing.id) for thing in things}

    def present(timeout_s: float) -> list[Owned]:
        ours = list_ours(engine, timeout_s=timeout_s) if wanted else []
        return [thing for thing in ours if (thing.kind, thing.id) in wanted]

    return _sweep(engine, present, within_s)


def _sweep(engine: Engine, find: Callable[[float], list[Owned]], within_s: float) -> Swept:
    deadline = time.monotonic() + within_s
    seen: dict[tuple[Kind, str], Owned] = {}
    while True:
        try:
            present = find(max(1.0, deadline - time.monotonic()))
        except EngineUnreachable:
            if time.monotonic() + PACE_S >= deadline:
                raise
            time.sleep(PACE_S)  # an engine that restarts tells nobody when it is back
            continue
        seen.update({(thing.kind, thing.id): thing for thing in present})
        if not present or time.monotonic() >= deadline:
            return _swept(seen.values(), present)
        # Containers first: they hold networks and volumes.
        containers = [thing for thing in present if thing.kind == "container"]
        rest = [thing for thing in present if thing.kind != "container"]
        done = _remove_all(engine, containers, deadline) and _remove_all(engine, rest, deadline)
        if not done:
            # A refusal (a network still in use, say) names no event to await.
            time.sleep(min(PACE_S, max(0.0, deadline - time.monotonic())))


def _swept(seen: Iterable[Owned], left: Iterable[Owned]) -> Swept:
    still = {(thing.kind, thing.id): thing.name for thing in left}
    names: dict[Kind, list[str]] = {"container": [], "network": [], "volume": []}
    for thing in seen:
        if (thing.kind, thing.id) not in still:
            names[thing.kind].append(thing.name)
    return Swept(
        tuple(sorted(names["container"])),
        tuple(sorted(names["network"])),
        tuple(sorted(names["volume"])),
        tuple(sorted(still.values())),
    )


def _remove_all(engine: Engine, things: list[Owned], deadline: float) -> bool:
    """Ask for the removal of each thing, some at once; whether every answer was that it is gone."""
    waiting = list(things)
    refused: list[Owned] = []

    def work() -> None:
        while waiting:
            try:
                thing = waiting.pop()
            except IndexError:
                return
            if not _remove_one(engine, thing, deadline):
                refused.append(thing)

    if len(things) == 1:
        work()
    else:
        threads = [
            threading.Thread(target=work, daemon=True) for _ in range(min(REMOVALS_AT_ONCE, len(things)))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return not refused


def _remove_one(engine: Engine, thing: Owned, deadline: float) -> bool:
    path, query = {
        # With its anonymous volumes: an image may declare some, and they carry no label.
        "container": (f"/containers/{thing.id}", {"force": "1", "v": "1"}),
        "network": (f"/networks/{thing.id}", {}),
        "volume": (f"/volumes/{thing.id}", {"force": "1"}),
    }[thing.kind]
    left_s = deadline - time.monotonic()
    if left_s <= 0:
        return False
    try:
        answer = engine.call("DELETE", path, query, timeout_s=left_s)
        if answer.status == 409 and thing.kind == "container":
            # Somebody else is removing it already: wait for the event.
            left_s = max(PACE_S, deadline - time.monotonic())
            query = {"condition": "removed"}
            answer = engine.call("POST", f"/containers/{thing.id}/wait", query, timeout_s=left_s)
    except EngineUnreachable:
        return False  # the next list says whether it is gone
    return answer.status < 300 or answer.status == 404


def _list(
    engine: Engine, path: str, query: Mapping[str, str], timeout_s: float
) -> list[Mapping[str, object]]:
    answer = engine.call("GET", path, query, timeout_s=timeout_s)
    if answer.status != 200:
        raise EngineUnreachable(
            f"the engine at {engine.host} refused GET {path}: {answer.status} {answer.message}",
            remedy="look at the engine's log",
        )
    told = answer.json()
    if isinstance(told, dict):
        told = told["Volumes"]
    return cast("list[Mapping[str, object]]", told or [])


def _owned(kind: Kind, id_: object, names: object, labels: object, state: object = "") -> Owned:
    name = str(names[0]).removeprefix("/") if isinstance(names, list) and names else str(names or id_)
    told = cast("Mapping[str, str]", labels)
    owner = told.get(OWNER, "")
    try:
        expires = float(told.get(EXPIRES, ""))
    except ValueError:
        expires = None
    return Owned(
        kind=kind,
        id=str(id_),
        name=name,
        run_id=told[RUN],
        case_id=told.get(CASE, ""),
        role=told.get(ROLE, ""),
        owner=owner,
        owner_state=owner_state(owner),
        process=told.get(PROCESS, ""),
        expires=expires,
        state=str(state),
    )
