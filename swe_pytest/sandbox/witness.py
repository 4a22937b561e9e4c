"""The witness: when containers really appeared and went, by the engine's own event stream and clock."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import cast

from swe_pytest.sandbox.contract import Life
from swe_pytest.sandbox.engine import Engine
from swe_pytest.sandbox.errors import EngineUnreachable
from swe_pytest.sandbox.ownership import CASE, PROCESS, ROLE, RUN, Ownership
from swe_pytest.sandbox.wire import Stream

ACTIONS = ("create", "start", "die", "oom", "destroy")
# A case asks for its containers when it ends, so only the youngest dead ones matter.
DEAD_KEPT = 512
OPEN_TIMEOUT_S = 30.0
BACK_OFF_S = (0.05, 0.2, 0.5, 1.0, 2.0)


@dataclass(slots=True)
class _Facts:
    id: str
    name: str
    image: str
    case_id: str
    role: str
    created: float | None = None
    started: float | None = None
    died: float | None = None
    destroyed: float | None = None
    exit_code: int | None = None
    oom: bool = False


class Witness:
    """Watches the containers of one process of a run, from entering to leaving the context. Thread-safe.

    Entering raises EngineUnreachable if the stream cannot be opened; nothing is missed after that. If
    the stream breaks off later it is opened again and what happened in between is asked for.
    """

    def __init__(self, engine: Engine, ownership: Ownership) -> None:
        self._engine = engine
        self._labels = [f"{RUN}={ownership.run_id}", f"{PROCESS}={ownership.process}"]
        self._facts: dict[str, _Facts] = {}
        self._digests: dict[str, str] = {}
        self._changed = threading.Condition()
        self._stream: Stream | None = None
        self._leaving = threading.Event()
        self._thread: threading.Thread | None = None
        self._last_seen = ""  # by the engine's own clock

    def __enter__(self) -> Witness:
        # The engine may give its answer before it begins to listen: a little of the past closes that gap.
        self._last_seen = f"{max(1.0, self._engine.call('GET', '/_ping').date - 2.0):.0f}"
        stream = self._open()
        self._stream = stream
        self._thread = threading.Thread(
            target=self._watch, args=(stream,), name="swe-pytest-witness", daemon=True
        )
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leaving.set()
        with self._changed:
            stream = self._stream
        if stream is not None:
            stream.close()
        if self._thread is not None:
            self._thread.join(5.0)

    def note_image(self, image: str, digest: str) -> None:
        """Remember the repository digest of an image, by the reference that containers are created with."""
        with self._changed:
            self._digests[image] = digest

    def lives(self, case_id: str, settle_s: float = 5.0, expected: Collection[str] = ()) -> list[Life]:
        """Return the containers of a case in order of creation.

        Waits at most `settle_s` until each of them, and each container named in `expected`, has been seen
        to go. A `removed` of None means that the engine never said so.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._settled(case_id, expected), settle_s)
            found = [facts for facts in self._facts.values() if facts.case_id == case_id]
            return [self._life(facts) for facts in sorted(found, key=lambda facts: facts.created or 0.0)]

    def oom_seen(self, container_id: str, settle_s: float = 0.0) -> bool:
        """Whether the kernel ended a process of this container for memory; waits `settle_s` for the news."""
        with self._changed:
            return self._changed.wait_for(
                lambda: container_id in self._facts and self._facts[container_id].oom, settle_s
            )

    def _settled(self, case_id: str, expected: Collection[str]) -> bool:
        known = [facts for facts in self._facts.values() if facts.case_id == case_id]
        gone = {facts.name for facts in known if facts.destroyed is not None}
        return self._stream is not None and len(gone) == len(known) and gone.issuperset(expected)

    def _life(self, facts: _Facts) -> Life:
        return Life(
            role=facts.role,
            id=facts.id,
            name=facts.name,
            image=facts.image,
            image_digest=self._digests.get(facts.image, ""),
            created=facts.created,
            removed=facts.destroyed,
            exit_code=facts.exit_code,
            oom=facts.oom,
        )

    def _open(self) -> Stream:
        filters = {"type": ["container"], "event": list(ACTIONS), "label": self._labels}
        # With `since` the engine gives its last events first, and no gap between them and the new ones.
        query = {"filters": json.dumps(filters), "since": self._last_seen}
        return self._engine.stream("/events", query, timeout_s=OPEN_TIMEOUT_S)

    def _watch(self, stream: Stream | None) -> None:
        while stream is not None:
            try:
                for line in stream.lines():
                    self._take(cast("Mapping[str, object]", json.loads(line)))
            except (OSError, ValueError, http.client.HTTPException):
                pass  # cut in the middle of a line; it comes again in the next stream
            finally:
                stream.release()
            stream = self._open_again()

    def _open_again(self) -> Stream | None:
        """Return a new stream as soon as the engine gives one; None when the context is being left."""
        with self._changed:
            self._stream = None
        attempt = 0
        while not self._leaving.is_set():
            stream = None
            try:
                stream = self._open()
                self._catch_up()
            except EngineUnreachable:
                if stream is not None:
                    stream.close()
                self._leaving.wait(BACK_OFF_S[min(attempt, len(BACK_OFF_S) - 1)])
                attempt += 1
                continue
            with self._changed:
                self._stream = stream
                self._changed.notify_all()
            if self._leaving.is_set():  # the one who leaves may not have seen this stream
                stream.close()
            return stream
        return None

    def _catch_up(self) -> None:
        """Ask for the present state: the engine's memory of events is short."""
        query = {"all": "1", "filters": json.dumps({"label": self._labels})}
        answer = self._engine.call("GET", "/containers/json", query)
        if answer.status != 200:
            raise EngineUnreachable(f"the engine refused a list of containers: {answer.message}")
        present = {str(thing["Id"]): thing for thing in cast("list[dict[str, object]]", answer.json())}
        with self._changed:
            known = {id_ for id_, facts in self._facts.items() if facts.destroyed is None}
            for id_ in known - present.keys():
                self._facts[id_].destroyed = answer.date + 1.0  # at the latest
            for id_ in present.keys() - self._facts.keys():
                thing = present[id_]
                labels = cast("Mapping[str, str]", thing["Labels"])
                name = cast("list[str]", thing["Names"])[0].removeprefix("/")
                self._facts[id_] = _Facts(
                    id_, name, str(thing["Image"]), labels.get(CASE, ""), labels.get(ROLE, "")
                )
                self._facts[id_].created = float(cast("int", thing["Created"]))
        for id_ in present:
            inspected = self._engine.call("GET", f"/containers/{id_}/json")
            if inspected.status == 200:
                state = cast("dict[str, dict[str, object]]", inspected.json())["State"]
                with self._changed:
                    facts = self._facts[id_]
                    facts.oom = facts.oom or bool(state.get("OOMKilled"))
                    if state.get("Status") == "exited":
                        facts.exit_code = int(cast("int", state["ExitCode"]))

    def _take(self, event: Mapping[str, object]) -> None:
        action = str(event.get("Action", ""))
        actor = cast("Mapping[str, object]", event.get("Actor") or {})
        attributes = cast("Mapping[str, str]", actor.get("Attributes") or {})
        id_, nanoseconds = str(actor.get("ID", "")), int(cast("int", event.get("timeNano", 0)))
        if action not in ACTIONS or not id_:
            return
        moment = nanoseconds / 1e9
        with self._changed:
            self._last_seen = f"{nanoseconds // 10**9}.{nanoseconds % 10**9:09d}"
            facts = self._facts.get(id_)
            if facts is None:
                facts = self._facts[id_] = _Facts(
                    id_,
                    attributes.get("name", ""),
                    attributes.get("image", ""),
                    attributes.get(CASE, ""),
                    attributes.get(ROLE, ""),
                )
            match action:
                case "create":
                    facts.created = moment
                case "start":
                    facts.started = moment
                case "die":
                    facts.died = moment
                    facts.exit_code = int(attributes.get("exitCode", "-1"))
                case "oom":
                    facts.oom = True
                case "destroy":
                    facts.destroyed = moment
                    self._forget_old()
            self._changed.notify_all()

    def _forget_old(self) -> None:
        if len(self._facts) > 2 * DEAD_KEPT:
            dead = sorted(
                (facts for facts in self._facts.values() if facts.destroyed is not None),
                key=lambda facts: facts.destroyed or 0.0,
            )
            for facts in dead[:-DEAD_KEPT]:
                del self._facts[facts.id]
