"""Preparing: from the recipes to images on the engine and a file of rows. Quick when all is there."""

from __future__ import annotations

import difflib
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import cast

from swe_pytest.benchmarks.cache import cache_dir
from swe_pytest.benchmarks.pypi_fixes.archive import File, read_wheel
from swe_pytest.benchmarks.pypi_fixes.benchmark import PypiFixes
from swe_pytest.benchmarks.pypi_fixes.distribution import Distribution, DistributionCache, exclusive
from swe_pytest.benchmarks.pypi_fixes.image import ImageMaker, environment_layer, task_layer
from swe_pytest.benchmarks.pypi_fixes.recipe import Recipe, digest_of, load_environment, load_recipes
from swe_pytest.benchmarks.pypi_fixes.row import Releases, Row, make_row
from swe_pytest.sandbox.engine import Engine
from swe_pytest.sandbox.ownership import Ownership, current_owner, new_run_id

# Raise these when the code that makes images or rows changes what it makes.
IMAGE_FORMAT = 2
ROW_FORMAT = 1


class UnknownInstance(Exception):
    """A task was asked for that no recipe makes."""


def prepare_pypi_fixes(
    engine: Engine,
    *,
    instances: Sequence[str] | None = None,
    rows_path: Path | None = None,
    echo: Callable[[str], object] = print,
) -> Path:
    """Make what is missing of the images and rows of these tasks (None: of all), and return the rows' file.

    Rows of other tasks that were prepared before stay in the file. Two processes may do this at once.
    Raises: UnknownInstance; InvalidFiles (a recipe); DistributionUnavailable; UnsafeArchive; NoDifference;
    GitFailed; SandboxError.
    """
    rows_path = rows_path or PypiFixes().prepared_rows()
    recipes = load_recipes()
    chosen = choose(recipes, instances)
    with open_workshop(engine, echo) as workshop:
        workshop.fetch(chosen)
        made = {recipe.instance_id: workshop.task(recipe) for recipe in chosen}
        rows = [
            made.get(recipe.instance_id) or workshop.row(recipe)
            for recipe in recipes
            if recipe.instance_id in made or workshop.has_row(recipe)
        ]
        _write(rows_path, "".join(json.dumps(row) + "\n" for row in rows).encode())
    return rows_path


@contextmanager
def open_workshop(engine: Engine, echo: Callable[[str], object] = print) -> Iterator[Workshop]:
    """Open the one workshop of this host; others wait. Raises: SandboxError, InvalidFiles."""
    folder = cache_dir("pypi_fixes")
    folder.mkdir(parents=True, exist_ok=True)
    with exclusive(folder / ".lock"), closing(engine.client(timeout_s=180.0)) as client:
        maker = ImageMaker(client, Ownership(new_run_id(), current_owner(), "prepare"))
        yield Workshop(folder, maker, load_environment(), echo)


class Workshop:
    """Makes rows and images on one engine, and keeps what it computed in `folder`. One at a time a host."""

    def __init__(
        self,
        folder: Path,
        maker: ImageMaker,
        wheels: Sequence[Distribution],
        echo: Callable[[str], object],
    ) -> None:
        self._rows = folder / "rows"
        self._distributions = DistributionCache(folder / "distributions")
        self.maker = maker
        self._wheels = wheels
        self._echo = echo
        self._base = maker.base_image()
        self._environment = digest_of([IMAGE_FORMAT, self._base[1], [wheel.sha256 for wheel in wheels]])[:12]

    def task(self, recipe: Recipe) -> Row:
        """Make row and image of a task as far as they are missing, and return the row."""
        row = self.row(recipe)
        if not self.maker.image_id(row["image"]):
            self._echo(f"{recipe.instance_id}: making {row['image']}")
            self._make_image(recipe, row)
        return row

    def fetch(self, recipes: Sequence[Recipe]) -> None:
        """Fetch at once what `task` will need of the package registry for these recipes."""
        wanted = [
            distribution
            for recipe in recipes
            if not (self.has_row(recipe) and self.maker.image_id(self._image(recipe)))
            for distribution in (recipe.before, recipe.after)
        ]
        if wanted and not self.maker.image_id(self._environment_image):
            wanted += self._wheels
        missing = [one for one in wanted if not self._distributions.path(one).exists()]
        if missing:
            self._echo(f"fetching {len(missing)} files of {', '.join(sorted({m.package for m in missing}))}")
            self._distributions.fetch(missing)

    def has_row(self, recipe: Recipe) -> bool:
        """Tell whether the row of this very recipe has been computed before."""
        return self._row_path(recipe).is_file()

    def row(self, recipe: Recipe) -> Row:
        """Return the row, computed at most once for each state of the recipe."""
        path = self._row_path(recipe)
        if path.is_file():
            row = cast(Row, json.loads(path.read_bytes()))
        else:
            row = make_row(recipe, self._releases(recipe))
            path.parent.mkdir(parents=True, exist_ok=True)
            _write(path, json.dumps(row).encode())
        row["image"] = self._image(recipe)
        return row

    @property
    def _environment_image(self) -> str:
        return f"swe-pytest/pypi_fixes:{self._environment}"

    def _image(self, recipe: Recipe) -> str:
        inputs = [self._environment, recipe.package, recipe.before.version, recipe.before.sha256]
        digest = digest_of([*inputs, recipe.import_root])[:12]
        return f"swe-pytest/pypi_fixes.{recipe.instance_id}:{digest}"

    def _row_path(self, recipe: Recipe) -> Path:
        return self._rows / f"{recipe.instance_id}.{digest_of([ROW_FORMAT, recipe.digest])[:12]}.json"

    def _releases(self, recipe: Recipe) -> Releases:
        return Releases.read(recipe, *self._distributions.fetch([recipe.before, recipe.after]))

    def _make_image(self, recipe: Recipe, row: Row) -> None:
        parent = self._environment_image
        if not self.maker.image_id(parent):
            packages: dict[str, File] = {}
            for wheel in self._distributions.fetch(self._wheels):
                packages.update(read_wheel(wheel))
            base, _ = self._base
            self.maker.make(environment_layer(base, packages), parent)
        releases = self._releases(recipe)
        layer = task_layer(parent, releases.start, releases.message, recipe.import_root, row["base_commit"])
        self.maker.make(layer, row["image"])


def choose(recipes: Sequence[Recipe], instances: Sequence[str] | None) -> list[Recipe]:
    """Return the recipes of these instances (None: all), in their order. Raises: UnknownInstance."""
    if instances is None:
        return list(recipes)
    known = [recipe.instance_id for recipe in recipes]
    for unknown in sorted(set(instances) - set(known)):
        near = difflib.get_close_matches(unknown, known, n=3, cutoff=0.3)
        raise UnknownInstance(f"pypi_fixes has no {unknown}; near matches: {', '.join(near or known)}")
    return [recipe for recipe in recipes if recipe.instance_id in set(instances)]


def _write(path: Path, content: bytes) -> None:
    """Replace a file as a whole, or leave it alone where it already says the same."""
    if path.is_file() and path.read_bytes() == content:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
        Path(name).chmod(0o644)
        Path(name).replace(path)
    finally:
        Path(name).unlink(missing_ok=True)
