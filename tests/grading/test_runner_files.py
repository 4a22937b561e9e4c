"""Runner files: what steers the tests is put back, the solution is left alone."""

from __future__ import annotations

import pytest

from swe_pytest.grading.runner_files import programs_of, runner_paths
from swe_pytest.grading.unified_diff import read_diff
from swe_pytest.results.record import PatchFile
from tests.grading.examples import SCRIPT, diff_of
from tests.public_data import ROW_FILES, golds_of, needs_public_data


def restored(
    path: str, *lines: str, heading: str = "", status: str = "M", gold: tuple[str, ...] = ()
) -> bool:
    files, patch = diff_of(path, *lines, heading=heading, status=status)
    return runner_paths(files, patch, gold) == (path,)


@pytest.mark.parametrize(
    "path",
    [
        *("tests/__init__.py", "tests/test_aaa.py", "pkg/tests/helper.py", "test/x.py", "test_mine.py", "a/b_test.py"),
        *("src/x.test.ts", "pkg/a_test.go", "spec/a_spec.rb", "evil-1.0.DIST-INFO/entry_points.txt"),
        *("x.egg/EGG-INFO/entry_points.txt", "ConfTest.py"),
    ],
)
def test_tests_and_what_the_runner_finds_are_put_back(path: str) -> None:
    """A candidate's own tests prove nothing and run inside the runner; metadata counts in any case of letters."""
    files, patch = diff_of(path, "+x")
    assert runner_paths(files, patch, ()) == (path,)
    assert runner_paths(files, patch, (path,)) == (), "unless the gold patch changes them too"


@pytest.mark.parametrize("path", ["django/test/utils.py", "sympy/testing/x.py", "src/latest.py", "contest_py.py", "attestation.py"])
def test_product_code_about_tests_stays(path: str) -> None:
    """Only the surest names of tests count: a product may well be about testing."""
    files, patch = diff_of(path, "+x")
    assert runner_paths(files, patch, ()) == ()


@pytest.mark.parametrize(
    "line",
    [
        'tool.pytest.ini_options.addopts = "-p evil"',
        "[ tool.pytest.ini_options ]",
        '[tool."pytest".ini_options]',
        "[tool . 'pytest' . ini_options]",
        '[tool."p\\u0079test".ini_options]',
        'pytest.ini_options.addopts = "-p evil"',
        'tool = {pytest = {ini_options = {addopts = "-p evil"}}}',
        'pytest = {ini_options = {addopts = "-p evil"}}',
        '"tool"."p\\u0079test".x = 1',
    ],
)
def test_every_spelling_of_the_runners_table_counts(line: str) -> None:
    """TOML takes names dotted, quoted, escaped, with blanks, and tables within a line."""
    files, patch = diff_of("pyproject.toml", " [project]", "+" + line, '+addopts = "-p evil"')
    assert runner_paths(files, patch, ()) == ("pyproject.toml",)


def test_a_listing_that_lies_hides_nothing() -> None:
    """The agent may have replaced git: what the patch itself holds counts, listed or not."""
    _, patch = diff_of("conftest.py", "+x")
    assert runner_paths([PatchFile("calc.py", "M")], patch, ()) == ("conftest.py",)


@pytest.mark.parametrize(
    "path",
    [
        "conftest.py",
        "pkg/sub/conftest.py",
        "pytest.ini",
        "tox.ini",
        "sitecustomize.py",
        "src/evil.pth",
        "calc.egg-info/entry_points.txt",
        "packages/a/jest.config.js",
        "karma.conf.js",
        ".mocharc.yml",
        "vitest.config.mts",
        ".rspec",
        "spec/spec_helper.rb",
        "phpunit.xml.dist",
        ".cargo/config.toml",
    ],
)
def test_runner_files_are_put_back(path: str) -> None:
    """Files that only steer the runner are put back, wherever they are, new or changed or deleted."""
    for status in "AMD":
        assert restored(path, "+x", status=status)


@pytest.mark.parametrize(
    "path", ["calc.py", "docs/conftest.md", "src/pytest_like.py", "src/_pytest/nodes.py"]
)
def test_the_solution_is_left_alone(path: str) -> None:
    """Ordinary files stay, also those whose names only look like a runner's."""
    assert not restored(path, "+x")


def test_what_gold_touches_is_left_alone() -> None:
    """A path that the gold patch changes is a solution's business, runner file or not."""
    assert not restored("conftest.py", "+x", gold=("conftest.py",))


def test_a_module_that_hides_the_runner_is_put_back() -> None:
    """A new top-level pytest.py would be imported instead of the runner; a changed one is the project's own."""
    assert restored("pytest.py", "+x", status="A")
    assert restored("_pytest/__init__.py", "+x", status="A")
    assert not restored("pytest.py", "+x", status="M")


@pytest.mark.parametrize(
    ("path", "lines", "heading"),
    [
        ("setup.cfg", [" [tool:pytest]", "-addopts = -q", "+addopts = -p evil"], ""),
        ("setup.cfg", ["+[tool:pytest]", "+addopts = -p evil"], ""),
        ("setup.cfg", ["+addopts = -p evil"], ""),
        ("setup.cfg", [" [options.entry_points]", "+pytest11 =", "+    evil = evil"], ""),
        ("pyproject.toml", [" [tool.pytest.ini_options]", ' minversion = "6"', '+python_files = "none"'], ""),
        ("pyproject.toml", ['+    "-p", "evil",'], "addopts = ["),
        ("pyproject.toml", ["+[project.entry-points.pytest11]", '+evil = "evil"'], ""),
        ("setup.py", ["+    entry_points={'pytest11': ['evil = evil']},"], ""),
        ("package.json", [' "scripts": {', '-    "test": "jest"', '+    "test": "true"'], ""),
        ("package.json", ['+  "jest": {', '+    "testMatch": []', "+  }"], ""),
        ("Makefile", [" test: build", "-\t./run-tests", "+\ttrue"], ""),
        ("Makefile", ["-\t./run-tests", "+\ttrue"], "check-unit: build"),
        ("Cargo.toml", [" [[test]]", ' name = "all"', "+harness = false"], ""),
        ("pom.xml", ["+  <testFailureIgnore>true</testFailureIgnore>"], ""),
    ],
)
def test_the_runners_part_of_a_mixed_file_is_put_back(path: str, lines: list[str], heading: str) -> None:
    """A file that serves runner and product is put back where the runner's part of it was changed."""
    assert restored(path, *lines, heading=heading)


@pytest.mark.parametrize(
    ("path", "lines", "heading"),
    [
        ("setup.cfg", [" [metadata]", "-version = 1.0", "+version = 1.1"], ""),
        ("setup.cfg", [" [options]", " install_requires =", "+    attrs"], ""),
        ("setup.cfg", [" [tool:pytest]", " addopts = -q", " [metadata]", "+license = MIT"], ""),
        ("pyproject.toml", [" [project]", ' name = "calc"', '+dependencies = ["attrs"]'], ""),
        ("setup.py", ["+    install_requires=['attrs'],"], ""),
        ("package.json", [' "dependencies": {', '+    "left-pad": "^1.0.0",'], ""),
        ("package.json", [' "devDependencies": {', '-    "jest": "^26.0.0",', '+    "jest": "^27.0.0",'], ""),
        ("Makefile", [" calc.o: calc.c", "-\tcc -c calc.c", "+\tcc -O2 -c calc.c"], ""),
        ("Cargo.toml", [" [dependencies]", '+serde = "1"'], ""),
        ("pom.xml", ["+  <artifactId>guava</artifactId>"], ""),
    ],
)
def test_the_products_part_of_a_mixed_file_is_left_alone(path: str, lines: list[str], heading: str) -> None:
    """A fix that needs a dependency, an entry point or a build rule keeps it."""
    assert not restored(path, *lines, heading=heading)


def test_a_mixed_file_that_shows_no_lines_is_put_back() -> None:
    """Where a mixed file's change cannot be read, the runner's part may be in it."""
    patch = b"diff --git a/setup.cfg b/setup.cfg\nGIT binary patch\nliteral 3\nKcmZ\n\n"
    assert runner_paths([PatchFile("setup.cfg", "M")], patch, ()) == ("setup.cfg",)


def test_programs_of_the_test_command_are_put_back() -> None:
    """A script in the checkout that the official test command starts is the runner itself."""
    script = (
        ": '>>>>> Start Test Output'\nPYTHONHASHSEED=0 ./tests/runtests.py --verbosity 2 calc.tests\n"
        "python -W error bin/test -C x.py && pytest -rA tests/test_calc.py\n: '>>>>> End Test Output'\n"
    )
    assert list(programs_of(script)) == ["tests/runtests.py", "bin/test"]
    files, patch = diff_of("bin/test", "+x")
    assert runner_paths(files, patch, (), script) == ("bin/test",)
    assert runner_paths(files, patch, (), SCRIPT) == ()


@needs_public_data
def test_no_public_fix_would_be_put_back() -> None:
    """Of the gold patches of all public rows, none touches what is put back, were gold not exempt."""
    judged = 0
    for name in ROW_FILES:
        for instance_id, gold in golds_of(name).items():
            files = [
                PatchFile(path, "A" if not file.old else "M")
                for file in read_diff(gold.patch)
                for path in file.paths
            ]
            assert runner_paths(files, gold.patch, (), gold.evaluation.eval_script) == (), instance_id
            judged += 1
    assert judged > 1100
