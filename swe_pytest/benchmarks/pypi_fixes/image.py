"""Task images, made by create, copy in, commit: without network, and without running code of the packages."""

from __future__ import annotations

import io
import os
import tarfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from swe_pytest.benchmarks.pypi_fixes.archive import File, Tree
from swe_pytest.benchmarks.pypi_fixes.repository import commit_stream
from swe_pytest.benchmarks.pypi_fixes.row import WORKDIR
from swe_pytest.sandbox.errors import CommandFailed, CreateFailed, EngineUnreachable, ImageMissing, Leaked
from swe_pytest.sandbox.ownership import Ownership

if TYPE_CHECKING:
    import docker

BASE_IMAGE = "swe-pytest/base:bookworm"
IMAGE_LABEL = "swe-pytest.image"
ENVIRONMENT = "/opt/swe-pytest-env"
_STREAM = "swe-pytest-start.fast-import"
_TIMEOUT_S = 120

_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_VARIABLES = {
    "PATH": f"{ENVIRONMENT}/bin:{_SYSTEM_PATH}",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
    "TZ": "UTC",
    "LC_ALL": "C.UTF-8",
}
# Compiled here once, because nothing may write beside the sources later. This runs the compiler only.
_COMPILE = f"python3 -m compileall -q --invalidation-mode unchecked-hash {ENVIRONMENT}/lib"
_CHECK_OUT = f"""set -eu
git init --quiet --template= --initial-branch=main {WORKDIR}
cd {WORKDIR}
git -c core.logAllRefUpdates=false -c fastimport.unpackLimit=1 fast-import --quiet < /{_STREAM}
git -c core.logAllRefUpdates=false reset --quiet --hard
rm /{_STREAM}
git status --porcelain --ignored
test -z "$(git status --porcelain --ignored)"
git rev-list --all
test "$(git rev-list --all)" = {{base_commit}}
"""
"""Ends well only if the checkout is clean and there is no other commit than the one that was computed."""


@dataclass(frozen=True, slots=True)
class Layer:
    """What one commit adds to an image. `archive` is a tar for the root folder; `script` runs after that."""

    parent: str
    archive: bytes
    script: str
    variables: Mapping[str, str]
    workdir: str = "/"


def environment_layer(parent: str, packages: Tree) -> Layer:
    """The layer that all tasks share: the commands `python` and `pytest`, and the packages behind them."""
    files = {f"{ENVIRONMENT[1:]}/lib/{path}": file for path, file in packages.items()}
    runner = b'#!/bin/sh\nexec python3 -m pytest "$@"\n'
    files[f"{ENVIRONMENT[1:]}/bin/pytest"] = File(runner, executable=True)
    links = {f"{ENVIRONMENT[1:]}/bin/python": "/usr/bin/python3"}
    variables = {**_VARIABLES, "PYTHONPATH": f"{ENVIRONMENT}/lib"}
    return Layer(parent, _tar(files, links), _COMPILE, variables)


def task_layer(parent: str, start: Tree, message: str, import_root: str, base_commit: str) -> Layer:
    """The layer of one task: a checkout of the one commit that `commit_stream(start, message)` makes.

    Making it fails if that commit is not `base_commit`.
    """
    root = f"{WORKDIR}/{import_root}".removesuffix("/.")
    stream = {_STREAM: File(commit_stream(start, message))}
    script = _CHECK_OUT.format(base_commit=base_commit)
    variables = {"PYTHONPATH": f"{root}:{ENVIRONMENT}/lib"}
    return Layer(parent, _tar(stream), script, variables, workdir=WORKDIR)


class ImageMaker:
    """Makes images on one engine. Its containers are marked as ours and are gone whatever happens."""

    def __init__(self, client: docker.APIClient, ownership: Ownership) -> None:
        self._client = client
        self._ownership = ownership

    def base_image(self) -> tuple[str, str]:
        """Return reference and id of the base image of all tasks. Raises: ImageMissing."""
        reference = os.environ.get("SWE_PYTEST_BASE_IMAGE", BASE_IMAGE)
        image_id = self.image_id(reference)
        if not image_id:
            raise ImageMissing(
                f"the engine has no image {reference}, the base of all tasks made here",
                remedy="run `make setup`, or name another Debian bookworm with git and python3 in "
                "SWE_PYTEST_BASE_IMAGE",
            )
        return reference, image_id

    def image_id(self, reference: str) -> str:
        """Return the id of an image on this engine, "" if it is not there. Raises: EngineUnreachable."""
        import docker.errors

        with _engine_errors(f"looking for {reference}"):
            try:
                return str(self._client.inspect_image(reference)["Id"])  # type: ignore[no-untyped-call]  # not typed by the library
            except docker.errors.ImageNotFound:
                return ""

    def make(self, layer: Layer, reference: str) -> None:
        """Make the image, which exists under its reference only if the layer's script ended well.

        Raises: CommandFailed, CreateFailed, EngineUnreachable, Leaked.
        """
        repository, _, tag = reference.rpartition(":")
        changes = [
            f"WORKDIR {layer.workdir}",
            'CMD ["/bin/bash"]',
            *(f'ENV {name}="{value}"' for name, value in layer.variables.items()),
            # A commit inherits the labels of its container, and every container those of its image.
            *(f'LABEL {name}=""' for name in self._ownership.labels("build", "", 0.0)),
            f"LABEL {IMAGE_LABEL}=1",
        ]
        with self._container(layer.parent, layer.script) as container, _engine_errors(f"making {reference}"):
            status, output = self._run(container, layer.archive)
            if status != 0:
                raise CommandFailed(
                    f"making {reference}: the script ended with {status}: {output.strip()[-2000:]}",
                    container=container,
                    remedy="report this with the output above",
                )
            self._client.commit(container, repository, tag, changes=changes)

    def output_of(self, image: str, script: str, files: Tree) -> str:
        """Run a script in a fresh container without network and return all it wrote, however it ended.

        Raises: CreateFailed, EngineUnreachable, Leaked.
        """
        with self._container(image, script) as container, _engine_errors(f"running {image}"):
            return self._run(container, _tar(files))[1]

    def _run(self, container: str, archive: bytes) -> tuple[int, str]:
        self._client.put_archive(container, "/", archive)
        self._client.start(container)
        status = int(self._client.wait(container, timeout=_TIMEOUT_S)["StatusCode"])
        return status, self._client.logs(container).decode(errors="replace")

    @contextmanager
    def _container(self, image: str, script: str) -> Iterator[str]:
        import docker.errors
        import requests

        name = self._ownership.name("build")
        labels = self._ownership.labels("build", "", time.time() + 2 * _TIMEOUT_S)
        try:
            with _engine_errors(f"creating {name} from {image}"):
                self._client.create_container(
                    image,
                    ["/bin/sh", "-c", script],
                    name=name,
                    labels=labels,
                    entrypoint=[],
                    user="0:0",
                    working_dir="/",
                    host_config=self._client.create_host_config(network_mode="none"),
                )
            yield name
        finally:
            try:
                self._client.remove_container(name, force=True, v=True)
            except docker.errors.NotFound:
                pass
            except (docker.errors.APIError, requests.RequestException) as error:
                raise Leaked(
                    f"could not be removed: {error}", container=name, remedy="run `swe-pytest gc`"
                ) from error


@contextmanager
def _engine_errors(what: str) -> Iterator[None]:
    import docker.errors
    import requests

    try:
        yield
    except docker.errors.APIError as error:
        raise CreateFailed(f"{what}: {error.explanation}", remedy="look at the engine's log") from error
    except (docker.errors.DockerException, requests.RequestException) as error:
        raise EngineUnreachable(f"{what}: {error}", remedy="check that `docker ps` answers") from error


def _tar(files: Tree, links: Mapping[str, str] | None = None) -> bytes:
    """Return a tar with the same bytes for the same files: root's, of one date, folders first."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for folder in _folders([*files, *(links or {})]):
            archive.addfile(_entry(folder, 0o755, tarfile.DIRTYPE))
        for name, file in sorted(files.items()):
            entry = _entry(name, 0o755 if file.executable else 0o644)
            entry.size = len(file.content)
            archive.addfile(entry, io.BytesIO(file.content))
        for name, target in (links or {}).items():
            entry = _entry(name, 0o777, tarfile.SYMTYPE)
            entry.linkname = target
            archive.addfile(entry)
    return buffer.getvalue()


def _entry(name: str, mode: int, kind: bytes = tarfile.REGTYPE) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.mode, entry.type, entry.mtime = mode, kind, 946684800
    return entry


def _folders(names: Sequence[str]) -> list[str]:
    found = {name[:end] for name in names for end, char in enumerate(name) if char == "/"}
    return sorted(found)
