"""`swe-pytest images`: which images suites need, which of them are missing here, and get those."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]


def add_parser(subparsers: Subparsers) -> None:
    """Register the command."""
    parser = subparsers.add_parser("images", help="list the images of suites; --pull gets the missing ones")
    parser.add_argument("suites", nargs="+", type=Path, help="suite files or their folders")
    parser.add_argument("--pull", action="store_true", help="pull what is missing, one after the other")


def run(args: argparse.Namespace) -> int:
    """Print one line an image. Returns 1 when images stay missing, 2 for unusable suites."""
    from swe_pytest.problem import InvalidFiles
    from swe_pytest.sandbox.engine import find_engine
    from swe_pytest.sandbox.errors import EngineUnreachable, ImageMissing
    from swe_pytest.sandbox.images import ensure_image, missing_images
    from swe_pytest.suites.plan import load_suite

    images: dict[str, int] = {}
    try:
        for path in args.suites:
            file = path / "suite.yaml" if path.is_dir() else path
            for ref in load_suite(file, Path.cwd()).rows:
                images[ref.image] = images.get(ref.image, 0) + 1
        engine = find_engine()
        missing = set(missing_images(engine, list(images)))
    except InvalidFiles as invalid:
        print(invalid)
        return 2
    except EngineUnreachable as error:
        print(error)
        return 1
    for image, uses in images.items():
        state = "missing" if image in missing else "here"
        if image in missing and args.pull:
            try:
                ensure_image(engine, image)
                state = "pulled"
                missing.discard(image)
            except (ImageMissing, EngineUnreachable) as error:
                state = f"missing: {error}"
        print(f"{image}  {state}, {uses} instances")
    print(f"{len(images)} images, {len(missing)} missing")
    return 1 if missing else 0
