"""Ends when the engine has the base image of locally built tasks: Debian 12, git, Python 3.11, patch."""

from __future__ import annotations

import io
import json
import os
import platform
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from host import NotInstalled, alone, install, may_install, tail

from swe_pytest.sandbox.engine import Engine, find_engine
from swe_pytest.sandbox.errors import EngineUnreachable

if TYPE_CHECKING:
    import docker

REFERENCE = "swe-pytest/base:bookworm"
UPSTREAM = "python:3.11-bookworm"
ROOT = "swe-pytest/base-root:bookworm"  # made here where the upstream image cannot be had
RECIPE = "1"  # raise it when what the image holds changes: older images are then made anew
RECIPE_LABEL = "swe-pytest.base-recipe"
PACKAGES = "ca-certificates,git,patch,python3"
REGISTRY_S = 20.0  # for the registry's first answer
STALL_S = 120.0  # between two signs of progress of a pull
PROOF = (
    "set -e; git --version; patch --version; tar --version; bash --version;"
    " python3 -c 'import sys; assert sys.version_info[:2] == (3, 11), sys.version'"
)


class Unavailable(Exception):
    """This way of getting the image is not open here; the text says why."""


def main() -> None:
    try:
        engine = find_engine()
    except EngineUnreachable as error:
        raise SystemExit(f"base image: {error}") from error
    chosen = os.environ.get("SWE_PYTEST_BASE_IMAGE")
    reference = chosen or REFERENCE
    if is_there(engine, reference, any_recipe=bool(chosen)):
        print(f"base image: {reference}")
        return
    if chosen:
        raise SystemExit(
            f"base image: the engine has no {chosen}, which SWE_PYTEST_BASE_IMAGE names:"
            " pull it, or unset the variable"
        )
    with alone("base_image"):
        if not is_there(engine, reference):
            began = time.monotonic()
            client = engine.client(timeout_s=120)
            try:
                root = make(client, reference)
            finally:
                client.close()
            print(f"base image: {reference} made from {root} in {time.monotonic() - began:.0f} s")


def is_there(engine: Engine, reference: str, *, any_recipe: bool = False) -> bool:
    answer = engine.call("GET", f"/images/{reference}/json")
    if answer.status != 200:
        return False
    labels = json.loads(answer.body)["Config"].get("Labels") or {}
    return any_recipe or labels.get(RECIPE_LABEL) == RECIPE


def make(client: docker.APIClient, reference: str) -> str:
    """Make the image and return what it was made from. Raises: SystemExit that says what to do."""
    refusals: list[str] = []
    for way in (pulled, bootstrapped):
        try:
            root = way(client)
            finish(client, root, reference)
        except Unavailable as error:
            refusals.append(str(error))
            print(f"base image: {error}", flush=True)
        else:
            return root
    raise SystemExit(
        f"base image: {reference} cannot be had: {'; '.join(refusals)}.\nEither make"
        f" `docker pull {UPSTREAM}` work, or name an image of your own with Python 3.11, git, patch and tar:"
        " SWE_PYTEST_BASE_IMAGE=NAME"
    )


def pulled(client: docker.APIClient) -> str:
    """Pull the upstream image; the registry must answer soon, then the pull may take its time."""
    import docker.errors

    print(f"base image: pulling {UPSTREAM} ({REGISTRY_S:.0f} s for the registry to answer)", flush=True)
    signs: queue.Queue[dict[str, str] | None] = queue.Queue()

    def pull() -> None:
        # The docker package sets no time limit on a pull, so it is read apart and abandoned if need be.
        try:
            for sign in client.pull(UPSTREAM, stream=True, decode=True):
                signs.put(sign)
        except docker.errors.APIError as error:
            signs.put({"error": error.explanation or str(error)})
        finally:
            signs.put(None)

    threading.Thread(target=pull, daemon=True).start()
    patience, silence = REGISTRY_S, "the registry gave no answer"
    while True:
        try:
            sign = signs.get(timeout=patience)
        except queue.Empty:
            raise Unavailable(f"{UPSTREAM} cannot be pulled: {silence} for {patience:.0f} s") from None
        if sign is None:
            break
        if "error" in sign:
            raise Unavailable(f"{UPSTREAM} cannot be pulled: {sign['error']}")
        patience, silence = STALL_S, "the pull stood still"
    if not client.images(UPSTREAM):
        raise Unavailable(f"{UPSTREAM} cannot be pulled: the engine broke off")
    return UPSTREAM


def bootstrapped(client: docker.APIClient) -> str:
    """Make a Debian root from packages, and import it."""
    if sys.platform != "linux":
        raise Unavailable(f"Debian's packages can be made into an image on Linux, not on {platform.system()}")
    if shutil.which("mmdebstrap") is None:
        if not may_install():
            raise Unavailable(
                "no mmdebstrap to make it with: `sudo apt install mmdebstrap debian-archive-keyring`"
            )
        print("base image: installing mmdebstrap", flush=True)
        try:
            install("mmdebstrap", "debian-archive-keyring")
        except NotInstalled as error:
            raise Unavailable(str(error)) from error
    print("base image: making it from Debian's packages with mmdebstrap (about half a minute)", flush=True)
    with tempfile.TemporaryDirectory(prefix="swe-pytest-base-") as folder:
        root = Path(folder) / "root.tar"
        recipe = ["--variant=minbase", f"--include={PACKAGES}", "bookworm", str(root), *debian_mirror()]
        run = subprocess.run(
            ["mmdebstrap", *recipe],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
        if run.returncode != 0:
            raise Unavailable(f"mmdebstrap failed: {tail(run.stdout)}")
        repository, tag = ROOT.split(":")
        client.import_image(src=str(root), repository=repository, tag=tag, changes=['CMD ["bash"]'])
    return ROOT


def debian_mirror() -> list[str]:
    """The mirror that this machine itself uses, if it is a Debian: it can be reached, and is near."""
    if shutil.which("apt-get") is None:
        return []
    run = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Label: Debian", "Component: main"],
        capture_output=True,
        text=True,
        check=False,
    )
    return run.stdout.split()[:1]


def finish(client: docker.APIClient, root: str, reference: str) -> None:
    """Give `root` our label and locale, and prove that it holds what tasks need. Raises: Unavailable."""
    import docker.errors

    recipe = f"FROM {root}\nLABEL {RECIPE_LABEL}={RECIPE}\nENV LANG=C.UTF-8\nRUN {PROOF}\n"
    said = ""
    try:
        for sign in client.build(
            fileobj=io.BytesIO(recipe.encode()),
            tag=reference,
            network_mode="none",
            rm=True,
            forcerm=True,
            decode=True,
        ):
            said += sign.get("stream", "")
            if "error" in sign:
                raise Unavailable(f"{root} is no fit base: {tail(said)}\n{sign['error']}")
    except docker.errors.APIError as error:
        raise Unavailable(f"{root} cannot be built upon: {error.explanation or error}") from error


if __name__ == "__main__":
    main()
