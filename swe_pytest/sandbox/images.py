"""Images on this host: looked up, and pulled once however many processes want them."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from swe_pytest.sandbox.contract import Image
from swe_pytest.sandbox.docker_api import NOT_FOUND, SERVER_ERROR, DockerApi, ImageFacts, Refused
from swe_pytest.sandbox.engine import Engine
from swe_pytest.sandbox.errors import EngineUnreachable, ImageMissing

# A pull that makes no progress for so long is given up.
STALL_S = 300.0
# Messages that come again and again without anything being done.
_NO_PROGRESS = ("Waiting", "Retrying")


def ensure_image(engine: Engine, reference: str, *, pull: bool = True, stall_s: float = STALL_S) -> Image:
    """See SandboxProvider.ensure_image. `stall_s` bounds a pull that makes no progress."""
    with closing(DockerApi(engine)) as api:
        return ImageStore(api, stall_s=stall_s).ensure(reference, pull=pull)


def missing_images(engine: Engine, references: Sequence[str]) -> list[str]:
    """See SandboxProvider.missing_images."""
    with closing(DockerApi(engine)) as api:
        return ImageStore(api).missing(references)


class ImageStore:
    """The images that an engine has."""

    def __init__(self, api: DockerApi, *, stall_s: float = STALL_S) -> None:
        self._api = api
        self._stall_s = stall_s

    def find(self, reference: str) -> tuple[Image, ImageFacts] | None:
        """The image and what else the engine knows of it; None if it is not on this host.

        Raises: ImageMissing (no image can have such a name), EngineUnreachable.
        """
        try:
            facts = self._api.image(reference)
        except Refused as refused:
            if refused.status == NOT_FOUND:
                return None
            if refused.status < SERVER_ERROR:
                raise self._missing(reference, refused.reason) from refused
            raise EngineUnreachable(
                f"the engine refused to look up image {reference}: {refused.reason}",
                remedy="see the engine's log",
            ) from refused
        return Image(reference, facts.id, _digest(reference, facts.digests)), facts

    def demand(self, reference: str) -> tuple[Image, ImageFacts]:
        """As `find`, but raises ImageMissing instead of returning None."""
        found = self.find(reference)
        if found is None:
            raise self._missing(reference, "the engine has no such image")
        return found

    def missing(self, references: Sequence[str]) -> list[str]:
        return [reference for reference in dict.fromkeys(references) if self.find(reference) is None]

    def ensure(self, reference: str, *, pull: bool = True) -> Image:
        if not pull:
            return self.demand(reference)[0]
        found = self.find(reference)
        if found is not None:
            return found[0]
        asked = time.time()
        with _only_one(self._api.engine.host, reference) as attempt:
            found = self.find(reference)
            if found is not None:
                return found[0]
            if attempt.failed_at >= asked:
                # Someone else tried while this process waited: to ask once more would tell no more.
                raise self._missing(reference, attempt.reason)
            try:
                self._pull(reference)
            except ImageMissing as missing:
                attempt.note(missing.message)
                raise
            return self.demand(reference)[0]

    def _pull(self, reference: str) -> None:
        from docker import utils

        repository, tag = utils.parse_repository_tag(reference)
        api = DockerApi(self._api.engine, self._stall_s)
        moved = time.monotonic()
        seen: set[tuple[str, str]] = set()
        done: dict[str, int] = {}
        try:
            for message in api.pull(repository, tag or "latest"):
                if message.get("error"):
                    raise self._missing(reference, str(message["error"]))
                if _moves(message, seen, done):
                    moved = time.monotonic()
                elif time.monotonic() - moved > self._stall_s:
                    raise self._missing(reference, f"the pull made no progress for {self._stall_s:g} s")
        except Refused as refused:
            raise self._missing(reference, refused.reason) from refused
        except EngineUnreachable as silent:
            # A stalled download is silent: the engine itself answers.
            self._api.engine.ping()
            raise self._missing(reference, f"the pull broke off: {silent.message}") from silent
        finally:
            api.close()

    def _missing(self, reference: str, reason: str) -> ImageMissing:
        return ImageMissing(
            f"image {reference} is not on this host and could not be had: {reason.strip()}",
            remedy=f"look at the name; if the registry wants a login or cannot be reached: `docker login`, or"
            f" `docker pull {reference}` where it can, then `docker save` and `docker load`",
        )


def _moves(message: Mapping[str, object], seen: set[tuple[str, str]], done: dict[str, int]) -> bool:
    """Whether a progress message tells of any progress since the ones before."""
    layer, status = str(message.get("id", "")), str(message.get("status", ""))
    if status.startswith(_NO_PROGRESS):
        return False
    detail = message.get("progressDetail")
    current = int(detail.get("current") or 0) if isinstance(detail, dict) else 0
    moves = (layer, status) not in seen or current > done.get(layer + status, -1)
    seen.add((layer, status))
    done[layer + status] = current
    return moves


def _digest(reference: str, digests: Sequence[str]) -> str:
    """The repository digest ("sha256:…") by which the reference's own repository knows the image."""
    repository = reference.split("@")[0]
    if ":" in repository.rpartition("/")[2]:
        repository = repository.rpartition(":")[0]
    short = repository.removeprefix("docker.io/").removeprefix("library/")
    own = [text for text in digests if text.split("@")[0] in (repository, short)]
    return (own or list(digests) or [""])[0].rpartition("@")[2]


@dataclass(slots=True)
class _Attempt:
    """The last failed pull of an image on this host, as its lock file tells it."""

    path: Path
    failed_at: float
    reason: str

    def note(self, reason: str) -> None:
        self.path.write_text(json.dumps({"failed_at": time.time(), "reason": reason}))


@contextmanager
def _only_one(host: str, reference: str) -> Iterator[_Attempt]:
    """Be the only process of this user and host that pulls the image; wait for the one that does."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "swe-pytest" / "pulls"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / (sha256(f"{host}\0{reference}".encode()).hexdigest() + ".lock")
    with path.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        try:
            told = json.loads(file.read() or "{}")
        except ValueError:  # its writer was killed
            told = {}
        yield _Attempt(path, float(told.get("failed_at", 0)), str(told.get("reason", "")))
