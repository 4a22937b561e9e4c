"""The tasks themselves: rows, images and verdicts, made from the package registry on the real engine."""

from __future__ import annotations

import base64
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import cast

import pytest

from swe_pytest.benchmarks.cache import cache_dir
from swe_pytest.benchmarks.pypi_fixes import PypiFixes, preparation, prepare_pypi_fixes
from swe_pytest.benchmarks.pypi_fixes.archive import File
from swe_pytest.benchmarks.pypi_fixes.distribution import DistributionCache, PipConfiguration
from swe_pytest.benchmarks.pypi_fixes.image import ImageMaker, Layer, task_layer
from swe_pytest.benchmarks.pypi_fixes.measure import evaluate
from swe_pytest.benchmarks.pypi_fixes.preparation import UnknownInstance
from swe_pytest.benchmarks.pypi_fixes.recipe import Recipe, load_environment, load_recipes
from swe_pytest.benchmarks.pypi_fixes.repository import commit_stream
from swe_pytest.benchmarks.pypi_fixes.row import Releases, Row, make_row
from swe_pytest.benchmarks.task import Gold, Task
from swe_pytest.grading.official import Grader
from swe_pytest.grading.unified_diff import patched_paths, read_diff
from swe_pytest.problem import InvalidFiles
from swe_pytest.sandbox.engine import Engine, find_engine
from swe_pytest.sandbox.errors import CommandFailed, CreateFailed
from swe_pytest.sandbox.ownership import Ownership, current_owner, new_run_id

RECIPES = {recipe.instance_id: recipe for recipe in load_recipes()}
each_task = pytest.mark.parametrize("instance_id", RECIPES)


@pytest.fixture(scope="session")
def engine(base_image: str) -> Engine:
    """The engine, with the base image on it."""
    return find_engine()


@pytest.fixture(scope="session")
def rows(engine: Engine) -> dict[str, tuple[Task, Gold]]:
    """All tasks, prepared as a user would and read back through the benchmark's port."""
    path = prepare_pypi_fixes(engine)
    benchmark = PypiFixes()
    refs, problems = benchmark.index(path)
    assert problems == []
    return {ref.instance_id: benchmark.load(ref) for ref in refs}


@pytest.fixture(scope="session")
def maker(engine: Engine) -> Iterator[ImageMaker]:
    """A maker of images whose containers all carry a run id of their own; none may be left."""
    ownership = Ownership(new_run_id(), current_owner(), "test")
    with closing(engine.client(timeout_s=120.0)) as client:
        yield ImageMaker(client, ownership)
        left = client.containers(all=True, filters={"label": f"swe-pytest.run={ownership.run_id}"})
        assert left == []


@pytest.fixture(scope="session")
def grader() -> Iterator[Grader]:
    """The official grader, one process for all logs."""
    with Grader() as started:
        yield started


def releases(recipe: Recipe) -> Releases:
    cache = DistributionCache(cache_dir("pypi_fixes", "distributions"))
    return Releases.read(recipe, *cache.fetch([recipe.before, recipe.after]))


def row_of(task: Task, gold: Gold) -> Row:
    """The part of a row that an evaluation needs."""
    return cast(
        Row,
        {
            "instance_id": task.instance_id,
            "image": task.image,
            "workdir": task.workdir,
            "patch": gold.patch.decode(),
            "eval_script": gold.evaluation.eval_script,
            "log_parser": gold.evaluation.log_parser,
        },
    )


@pytest.mark.timeout(300)
def test_rows_index_cleanly_and_together_cover_what_agents_meet(rows: dict[str, tuple[Task, Gold]]) -> None:
    """Patches add, delete and touch several files; runners and ids are of more than one kind; none is online."""
    assert list(rows) == sorted(RECIPES)
    assert len(rows) >= 8
    golds = {name: gold for name, (_, gold) in rows.items()}
    patches = [gold.patch for gold in golds.values()]
    ids = [
        name
        for gold in golds.values()
        for name in gold.evaluation.fail_to_pass + gold.evaluation.pass_to_pass
    ]
    scripts = [gold.evaluation.eval_script for gold in golds.values()]
    assert any(b"\nnew file mode" in patch for patch in patches)
    assert any(b"\ndeleted file mode" in patch for patch in patches)
    assert any(len(patched_paths(patch)) > 3 for patch in patches)
    assert any(b".c b/" in patch for patch in patches)
    assert any(b"GIT binary patch" in gold.evaluation.test_patch for gold in golds.values())
    assert any("python -m pytest" in script for script in scripts)
    assert any("-m unittest" in script for script in scripts)
    assert any("[" in name and " " in name for name in ids)
    assert {gold.evaluation.network for gold in golds.values()} == {"none"}
    assert {task.workdir for task, _ in rows.values()} == {"/testbed"}


@each_task
def test_gold_resolves_and_the_empty_patch_does_not(
    rows: dict[str, tuple[Task, Gold]], maker: ImageMaker, grader: Grader, instance_id: str
) -> None:
    """By the official grader; without the patch every FAIL_TO_PASS test fails and no other does."""
    task, gold = rows[instance_id]
    row = row_of(task, gold)
    noop = grader.grade(gold.evaluation, evaluate(maker, row, gold=False).encode())
    assert noop.found
    assert not noop.resolved
    assert noop.tests.fail_to_pass_success == ()
    assert noop.tests.pass_to_pass_failure == ()
    solved = grader.grade(gold.evaluation, evaluate(maker, row, gold=True).encode())
    assert solved.resolved, solved.tests


@each_task
def test_the_patches_lead_from_one_release_to_the_other(instance_id: str, tmp_path: Path) -> None:
    """Gold and test patch on the starting tree give the fixed release, for all paths that the recipe names."""
    recipe = RECIPES[instance_id]
    both = releases(recipe)
    row = make_row(recipe, both)

    def git(*arguments: str, stdin: bytes = b"") -> None:
        command = ["git", "-c", "core.autocrlf=false", "-C", str(tmp_path), *arguments]
        subprocess.run(command, input=stdin, check=True, capture_output=True, timeout=60)

    git("init", "--quiet", "--initial-branch=main", ".")
    git("fast-import", "--quiet", stdin=commit_stream(both.start, both.message))
    git("reset", "--hard")
    for patch in (row["patch"], row["test_patch"]):
        git("apply", "--whitespace=nowarn", "-", stdin=patch.encode())
    named = (*recipe.source_paths, *recipe.test_paths)
    for path in {*both.start, *both.fixed}:
        wanted = both.fixed if any(path == one or path.startswith(f"{one}/") for one in named) else both.start
        found = tmp_path / path
        assert (found.read_bytes() if found.is_file() else None) == (
            wanted[path].content if path in wanted else None
        ), path


@each_task
def test_an_image_holds_one_clean_commit_and_nothing_of_the_fix(
    rows: dict[str, tuple[Task, Gold]], maker: ImageMaker, instance_id: str
) -> None:
    """No object, reference, reflog or file in the image shows a line that only the gold patch has."""
    task, gold = rows[instance_id]
    script = (
        "git rev-list --all; git reflog | wc -l; git status --porcelain --ignored; echo @@;"
        " git cat-file --batch-all-objects --batch | base64 -w0; echo; echo @@;"
        " ls -A / /testbed; pwd; python -c 'import sys; print(sys.path)'; python -m pytest --version"
    )
    history, objects, rest = maker.output_of(task.image, f"cd {task.workdir}; {script}", {}).split("@@\n")
    assert history.split() == [task.base_commit, "0"]
    assert "fast-import" not in rest
    assert "pytest 8." in rest

    everything = base64.b64decode(objects)
    added = [
        line[1:].encode()
        for file in read_diff(gold.patch)
        for hunk in file.hunks
        for line in hunk.lines
        if line.startswith("+") and len(line.strip()) > 20
    ]
    start = b"\n".join(file.content for file in releases(RECIPES[instance_id]).start.values())
    only_gold = [line for line in added if line not in start]
    assert only_gold
    assert [line for line in only_gold if line in everything] == []


def test_an_image_passes_none_of_our_marks_on(rows: dict[str, tuple[Task, Gold]], engine: Engine) -> None:
    """A container of a user's own made from a task image must not look like one of a run."""
    task, _ = next(iter(rows.values()))
    with closing(engine.client()) as client:
        config = client.inspect_image(task.image)["Config"]  # type: ignore[no-untyped-call]
    ours = Ownership("x", "x", "x").labels("build", "", 0.0)
    assert {config["Labels"].get(name, "") for name in ours} == {""}
    assert config["Labels"]["swe-pytest.image"] == "1"
    assert config["WorkingDir"] == "/testbed"
    assert {"PYTHONDONTWRITEBYTECODE=1", "TZ=UTC", "LC_ALL=C.UTF-8"} <= set(config["Env"])


def test_preparing_again_is_quick_and_asks_nobody(
    rows: dict[str, tuple[Task, Gold]], engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With all there, neither pip nor git nor an index is asked, no container is made, the file is untouched."""

    def never(*_: object, **__: object) -> None:
        raise AssertionError("asked for something that is there")

    monkeypatch.setattr(PipConfiguration, "current", never)
    monkeypatch.setattr(ImageMaker, "make", never)
    monkeypatch.setattr(preparation, "make_row", never)
    path = PypiFixes().prepared_rows()
    before = path.stat()
    told: list[str] = []
    began = time.monotonic()
    assert prepare_pypi_fixes(engine, echo=told.append) == path
    assert time.monotonic() - began < 3.0
    assert told == []
    assert path.stat().st_mtime_ns == before.st_mtime_ns


def test_preparing_one_task_keeps_the_rows_of_others(
    rows: dict[str, tuple[Task, Gold]], engine: Engine, tmp_path: Path
) -> None:
    """A file elsewhere can be asked for; what was prepared before is in it."""
    path = prepare_pypi_fixes(engine, instances=["parse-1.20.2"], rows_path=tmp_path / "rows.jsonl")
    refs, problems = PypiFixes().index(path)
    assert problems == []
    assert [ref.instance_id for ref in refs] == list(rows)


def test_an_unknown_task_is_answered_with_near_ones(engine: Engine) -> None:
    """A typing error shows what was meant."""
    with pytest.raises(UnknownInstance, match=r"parse-1\.20\.1.*near matches: parse-1\.20\.2"):
        prepare_pypi_fixes(engine, instances=["parse-1.20.1"])


def test_an_image_whose_commit_is_not_the_computed_one_is_not_made(
    rows: dict[str, tuple[Task, Gold]], maker: ImageMaker
) -> None:
    """If the engine's git makes another commit, there is an error and no image."""
    task, _ = rows["parse-1.20.2"]
    layer = task_layer(task.image, {"a.py": File(b"")}, "message", ".", "0" * 40)
    reference = f"swe-pytest/pypi_fixes.test:{os.getpid()}"
    with pytest.raises(CommandFailed, match="next: "):
        maker.make(layer, reference)
    assert maker.image_id(reference) == ""


def test_making_that_is_interrupted_leaves_neither_container_nor_image(
    rows: dict[str, tuple[Task, Gold]], engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C between the script and the commit, thrown by a fake commit because the moment cannot be met."""
    task, _ = rows["parse-1.20.2"]
    reference = f"swe-pytest/pypi_fixes.test:{os.getpid()}"
    ownership = Ownership(new_run_id(), current_owner(), "test")
    with closing(engine.client()) as client:
        seen: list[str] = []

        def interrupt(container: str, *_: object, **__: object) -> None:
            seen.append(container)
            raise KeyboardInterrupt

        monkeypatch.setattr(client, "commit", interrupt)
        maker = ImageMaker(client, ownership)
        with pytest.raises(KeyboardInterrupt):
            maker.make(Layer(task.image, b"\0" * 1024, "true", {}), reference)
        assert len(seen) == 1
        assert client.containers(all=True, filters={"name": seen[0]}) == []
        assert maker.image_id(reference) == ""


def test_an_engine_that_refuses_leaves_no_container(maker: ImageMaker) -> None:
    """The container's name was chosen before; that it was never made is no second error."""
    with pytest.raises(CreateFailed):
        maker.output_of("swe-pytest/no-such-image:1", "true", {})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("log_parser: x\nlog_parse: y\n", "unknown keys"),
        ("package: ''\n", "package"),
        ("before: {version: 1.2, sha256: abc}\n", "does not pin a file"),
        ("fail_to_pass: [a, a]\n", "twice"),
        ("fail_to_pass: []\n", "no required tests"),
        ("source_paths: []\n", "at least 1"),
        ("test_paths: [\n", "not YAML"),
    ],
)
def test_a_wrong_recipe_is_told_with_its_file(tmp_path: Path, change: str, message: str) -> None:
    """Every fault names the file; a wrong type never becomes a crash somewhere else."""
    pin = "{version: '1.0', sha256: " + "a" * 64 + "}"
    keys = {
        "package": "thing",
        "before": pin,
        "after": pin,
        "source_paths": "[thing.py]",
        "test_paths": "[tests]",
        "test_command": "python -m pytest",
        "log_parser": "parse_log_pytest_v2",
        "problem_statement": "It fails.",
        "fail_to_pass": "[a]",
        "pass_to_pass": "[]",
    }
    good = "".join(f"{key}: {value}\n" for key, value in keys.items() if not change.startswith(f"{key}:"))
    path = tmp_path / "thing-1.0.yaml"
    path.write_text(good + change)
    with pytest.raises(InvalidFiles, match=message) as caught:
        load_recipes(tmp_path)
    assert all(problem.path == path for problem in caught.value.problems)


def test_the_environment_is_pinned_and_pure() -> None:
    """Nothing that tasks run with is taken at whatever version there is."""
    wheels = load_environment()
    assert "pytest" in {wheel.package for wheel in wheels}
    assert {wheel.kind for wheel in wheels} == {"wheel"}
