"""The Docker backend: sandboxes and script runs on any engine that speaks Docker's interface."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from swe_pytest.sandbox import programs
from swe_pytest.sandbox.admission import Lanes
from swe_pytest.sandbox.contract import (
    MIB,
    Image,
    Life,
    Prologue,
    Sandbox,
    SandboxProvider,
    SandboxSpec,
    ScriptResult,
)
from swe_pytest.sandbox.docker_api import DockerApi, ImageFacts
from swe_pytest.sandbox.docker_container import Holding, container_config
from swe_pytest.sandbox.docker_exec import DockerSandbox
from swe_pytest.sandbox.docker_prologue import PrologueRun
from swe_pytest.sandbox.docker_script import ScriptRun
from swe_pytest.sandbox.engine import Engine
from swe_pytest.sandbox.images import ImageStore
from swe_pytest.sandbox.ownership import Ownership
from swe_pytest.sandbox.witness import Witness


class DockerProvider(SandboxProvider):
    """See `SandboxProvider`. Thread-safe; the engine is first asked when something is first wanted.

    `lanes` caps creates and removals across processes. Without a `witness` there are no `lives`, and a
    kill for memory that a command hides behind its own status is only noticed where its output tells.
    `disk` limits need an engine whose storage has quotas (overlay2 on xfs with pquota, btrfs, zfs);
    CreateFailed says so elsewhere, rather than a limit that is none.
    """

    def __init__(
        self,
        engine: Engine,
        ownership: Ownership,
        lanes: Lanes | None = None,
        witness: Witness | None = None,
        *,
        call_timeout_s: float = 60.0,
    ) -> None:
        self._api = DockerApi(engine, call_timeout_s)
        self._images = ImageStore(self._api)
        self._ownership = ownership
        self._lanes = lanes
        self._witness = witness
        self._ensured: dict[str, tuple[Image, ImageFacts]] = {}
        self._made: defaultdict[str, list[str]] = defaultdict(list)

    def close(self) -> None:
        """Close the connections to the engine; whatever asks again opens new ones."""
        self._api.close()

    @contextmanager
    def open(self, spec: SandboxSpec, prologue: Prologue | None = None) -> Iterator[Sandbox]:
        image, facts = self._image(spec)
        with Holding(self._api, self._ownership, self._lanes) as holding, ExitStack() as listening:
            run = PrologueRun(self._api, prologue) if prologue is not None else None
            if run is not None:
                listening.callback(run.close)
                claim = run.bring_up(holding, spec)
            else:
                config = container_config(spec, programs.idle(spec.ttl_s), user="0:0", script=False)
                claim = holding.bring_up(spec, config)
            self._made[spec.case_id].append(claim.name)
            user = spec.user or facts.user or "0"
            sandbox = DockerSandbox(self._api, holding, claim, spec, image, user=user, witness=self._witness)
            if run is not None:
                sandbox.prologue = run.finish(sandbox)
            yield sandbox

    def run_script(
        self,
        spec: SandboxSpec,
        script: str,
        files: Mapping[str, bytes],
        *,
        timeout_s: float,
        max_output: int = 64 * MIB,
    ) -> ScriptResult:
        _, facts = self._image(spec)
        with Holding(self._api, self._ownership, self._lanes) as holding:
            user = spec.user or facts.user or "0"
            result = ScriptRun(self._api, holding, spec, user=user, max_output=max_output).run(
                script, files, timeout_s
            )
            self._made[spec.case_id].append(result.container)
            return result

    def ensure_image(self, reference: str, *, pull: bool = True) -> Image:
        found = self._images.find(reference)
        if found is None:
            self._images.ensure(reference, pull=pull)
            found = self._images.demand(reference)
        self._ensured[reference] = found
        return found[0]

    def missing_images(self, references: Sequence[str]) -> list[str]:
        return self._images.missing(references)

    def lives(self, case_id: str, *, settle_s: float = 5.0) -> list[Life]:
        if self._witness is None:
            return []
        return self._witness.lives(case_id, settle_s, expected=self._made.pop(case_id, ()))

    def _image(self, spec: SandboxSpec) -> tuple[Image, ImageFacts]:
        # Ensured when its episode began: asking again for each of its containers would only cost time, and
        # one that has gone since is missed by the create itself.
        image, facts = self._ensured.get(spec.image) or self._images.demand(spec.image)
        if self._witness is not None:
            self._witness.note_image(spec.image, image.digest)
        return image, facts
