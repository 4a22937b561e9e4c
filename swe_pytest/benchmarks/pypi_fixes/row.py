"""A task as a row of swebench 5: what the grader and the agents get to see, computed from two releases."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TypedDict

from swe_pytest.benchmarks.pypi_fixes.archive import File, Tree, read_sdist
from swe_pytest.benchmarks.pypi_fixes.recipe import Recipe
from swe_pytest.benchmarks.pypi_fixes.repository import Patches, compare
from swe_pytest.grading.unified_diff import patched_paths

WORKDIR = "/testbed"
# What packaging leaves in a source distribution and no repository would hold.
NOISE = ("PKG-INFO", "*.egg-info", "__pycache__", "*.pyc", ".DS_Store")
_END_OF_PATCH = "EOF_114329324912"


class Row(TypedDict):
    """The keys of a swebench 5 row that this benchmark has."""

    instance_id: str
    repo: str
    version: str
    image: str
    base_commit: str
    problem_statement: str
    patch: str
    test_patch: str
    FAIL_TO_PASS: list[str]
    PASS_TO_PASS: list[str]
    log_parser: str
    eval_type: str
    eval_script: str
    workdir: str


class NoDifference(Exception):
    """The paths of a recipe select nothing, or nothing that changed between the two releases."""


@dataclass(frozen=True, slots=True)
class Releases:
    """The two releases of a recipe, read and rid of noise."""

    start: Tree
    fixed: Tree
    message: str

    @classmethod
    def read(cls, recipe: Recipe, before: Path, after: Path) -> Releases:
        """Read the two source distributions. Raises: UnsafeArchive."""
        return cls(
            _without_noise(read_sdist(before)),
            _without_noise(read_sdist(after)),
            f"{recipe.package} {recipe.before.version}",
        )

    def patches(self, recipe: Recipe) -> Patches:
        """Return base commit, gold patch and test patch.

        Raises: NoDifference, naming the paths; GitFailed.
        """
        for path in (*recipe.source_paths, *recipe.test_paths):
            if not any(name == path or name.startswith(path + "/") for name in (*self.start, *self.fixed)):
                raise NoDifference(f"{recipe.instance_id}: {path} is in neither release; correct the recipe")
        patches = compare(self.start, self.fixed, self.message, recipe.source_paths, recipe.test_paths)
        for what, patch in (("source_paths", patches.source), ("test_paths", patches.tests)):
            if not patch:
                raise NoDifference(
                    f"{recipe.instance_id}: nothing under `{what}` changed between the releases"
                )
        return patches


def make_row(recipe: Recipe, releases: Releases) -> Row:
    """Return the row, its image left empty: that depends on the base image of this host.

    Raises: NoDifference, GitFailed.
    """
    patches = releases.patches(recipe)
    return Row(
        instance_id=recipe.instance_id,
        repo=f"pypi/{recipe.package}",
        version=recipe.before.version,
        image="",
        base_commit=patches.base_commit,
        problem_statement=recipe.problem_statement,
        patch=patches.source.decode(),
        test_patch=patches.tests.decode(),
        FAIL_TO_PASS=list(recipe.fail_to_pass),
        PASS_TO_PASS=list(recipe.pass_to_pass),
        log_parser=recipe.log_parser,
        eval_type="pass_and_fail",
        eval_script=eval_script(recipe.test_command, patches, releases.start),
        workdir=WORKDIR,
    )


def eval_script(test_command: str, patches: Patches, start: Tree) -> str:
    """Return the script in the shape of the official ones.

    The line with the exit status is not in it: swebench 5 puts that in when it reads a row.
    """
    touched = patched_paths(patches.tests)
    at_base = [path for path in touched if path in start]
    added = [path for path in touched if path not in start]
    restore = [f"git checkout {patches.base_commit} {shlex.join(at_base)}"] if at_base else []
    restore += [f"rm -f {shlex.join(added)}"] if added else []
    test_patch = patches.tests.decode()
    if _END_OF_PATCH in test_patch:
        raise ValueError(f"a test patch holds the line that ends it, {_END_OF_PATCH}")
    return "\n".join(
        [
            "#!/bin/bash",
            "set -uxo pipefail",
            f"cd {WORKDIR}",
            f"git config --global --add safe.directory {WORKDIR}",
            "git status",
            f"git -c core.fileMode=false diff {patches.base_commit}",
            *restore,
            f"git apply -v - <<'{_END_OF_PATCH}'",
            test_patch + _END_OF_PATCH,
            ": '>>>>> Start Test Output'",
            test_command,
            ": '>>>>> End Test Output'",
            *restore,
            "",
        ]
    )


def _without_noise(tree: Tree) -> dict[str, File]:
    return {
        path: file
        for path, file in tree.items()
        if not any(fnmatchcase(part, pattern) for part in path.split("/") for pattern in NOISE)
    }
