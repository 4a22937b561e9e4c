"""Integrity: what official grading lets through is found, and honest work never is."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from swe_pytest.grading.integrity import findings, patch_findings
from swe_pytest.grading.official import Grader
from swe_pytest.grading.runner_files import programs_of, runner_paths
from swe_pytest.grading.unified_diff import patched_paths, read_diff
from swe_pytest.results.record import Finding, PatchFile
from tests.grading.examples import ALL_PASS, CLOSING, EVALUATION, ONE_FAILS, SCRIPT, evaluation, log_of
from tests.public_data import ROW_FILES, golds_of, needs_public_data, official_runs


@pytest.fixture(scope="module")
def grader() -> Iterator[Grader]:
    with Grader() as grader:
        yield grader


def decisive(grader: Grader, log: bytes, patch: bytes = b"", **changes: object) -> list[str]:
    """The decisive rules that a log breaks; official code must have been taken in."""
    subject = evaluation(**changes)
    official = grader.grade(subject, log)
    assert official.resolved
    found = findings(subject, official=official, log=log, patch=patch, restored=(), completed=True)
    return [finding.rule for finding in found if finding.decisive]


def diff_of(path: str, *lines: str, heading: str = "", status: str = "M") -> tuple[list[PatchFile], bytes]:
    """A patch of one hunk in one file, as git writes it."""
    old = sum(not line.startswith("+") for line in lines)
    new = sum(not line.startswith("-") for line in lines)
    a, b = ("/dev/null" if status == "A" else f"a/{path}"), ("/dev/null" if status == "D" else f"b/{path}")
    text = [
        f"diff --git a/{path} b/{path}",
        f"--- {a}",
        f"+++ {b}",
        f"@@ -1,{old} +1,{new} @@ {heading}".rstrip(),
    ]
    return [PatchFile(path, status)], "\n".join([*text, *lines, ""]).encode()


def restored(
    path: str, *lines: str, heading: str = "", status: str = "M", gold: tuple[str, ...] = ()
) -> bool:
    files, patch = diff_of(path, *lines, heading=heading, status=status)
    return runner_paths(files, patch, gold) == (path,)


# Logs


def test_an_honest_log_breaks_no_rule(grader: Grader) -> None:
    """A log as the evaluation script prints it has nothing decisive in it."""
    assert decisive(grader, log_of(*ALL_PASS)) == []


def test_forged_markers_are_decisive(grader: Grader) -> None:
    """A candidate that prints a marked region of its own, before the real one, is found out."""
    forged = log_of(
        *ONE_FAILS, before="\n".join([">>>>> Start Test Output", *ALL_PASS, CLOSING, ">>>>> End Test Output"])
    )
    assert decisive(grader, forged) == ["forged_markers", "forged_markers", "conflicting_statuses"]


def test_a_forged_exit_code_is_decisive(grader: Grader) -> None:
    """Official code believes the first exit-code marker; one that the script does not print is a forgery."""
    script = SCRIPT + "echo '>>>>> Test Exit Code: '$status\n"
    honest = log_of(*ALL_PASS, after="+ echo '>>>>> Test Exit Code: 0'\n>>>>> Test Exit Code: 0")
    forged = log_of(*ALL_PASS, ">>>>> Test Exit Code: 0") + honest[len(log_of(*ALL_PASS)) :]
    assert decisive(grader, honest, eval_script=script) == []
    assert decisive(grader, forged, eval_script=script) == ["forged_markers"]


def test_markers_that_the_script_echoes_may_stand_twice(grader: Grader) -> None:
    """`echo` under shell tracing prints a marker twice; a script that does so is not taken for a forger."""
    script = SCRIPT.replace(": '>>>>>", "echo '>>>>>")
    log = "\n".join(
        [
            "+ echo '>>>>> Start Test Output'",
            ">>>>> Start Test Output",
            *ALL_PASS,
            CLOSING,
            "+ echo '>>>>> End Test Output'",
            ">>>>> End Test Output",
        ]
    ).encode()
    assert decisive(grader, log, eval_script=script) == []


@pytest.mark.parametrize(
    ("real", "forged", "name", "parser"),
    [
        (
            "FAILED tests/test_calc.py::test_sub - assert 1 == 2",
            "PASSED tests/test_calc.py::test_sub",
            "tests/test_calc.py::test_sub",
            "parse_log_pytest",
        ),
        (
            "FAILED tests/test_calc.py::test_sub[1 - 2] - assert 1 == 2",
            "PASSED tests/test_calc.py::test_sub[1 - 2]",
            "tests/test_calc.py::test_sub[1 - 2]",
            "parse_log_pytest_v2",
        ),
        (
            "test_sub (calc.tests.CalcTests) ... FAIL",
            "test_sub (calc.tests.CalcTests) ... ok",
            "test_sub (calc.tests.CalcTests)",
            "parse_log_django",
        ),
        (
            "======\nFAIL: test_sub (calc.tests.CalcTests)\n------",
            "test_sub (calc.tests.CalcTests) ... ok",
            "test_sub (calc.tests.CalcTests)",
            "parse_log_django",
        ),
    ],
    ids=["pytest", "pytest-dash", "unittest", "unittest-heading"],
)
def test_a_pass_printed_after_the_real_failure_is_decisive(
    grader: Grader, real: str, forged: str, name: str, parser: str
) -> None:
    """The last status wins officially; a required test that is called failed as well did not pass."""
    subject = evaluation(log_parser=parser, fail_to_pass=(name,), pass_to_pass=())
    log = log_of(real, forged)
    official = grader.grade(subject, log)
    if not official.resolved:
        pytest.skip(f"{parser} of this swebench is not taken in by this log")
    found = findings(subject, official=official, log=log, patch=b"", restored=(), completed=True)
    assert [(finding.rule, finding.decisive) for finding in found] == [("conflicting_statuses", True)]
    assert name in found[0].detail


def test_an_error_in_teardown_is_no_conflict(grader: Grader) -> None:
    """An honest pytest reports a test whose teardown broke as passed and as an error: nothing decisive."""
    log = log_of("ERROR tests/test_calc.py::test_sub - boom", *ALL_PASS)
    assert decisive(grader, log) == []


def test_results_without_the_runners_closing_line_are_decisive(grader: Grader) -> None:
    """A candidate that prints passes and ends the runner before it can contradict is found out."""
    assert decisive(grader, log_of(*ALL_PASS, closing="")) == ["no_closing_line"]
    unittest = SCRIPT.replace(
        "pytest -rA tests/test_calc.py", "python -W ignore -m unittest -v tests.test_calc"
    )
    name = "test_sub (tests.test_calc.CalcTests)"
    subject = {
        "eval_script": unittest,
        "log_parser": "parse_log_django",
        "fail_to_pass": (name,),
        "pass_to_pass": (),
    }
    assert decisive(grader, log_of(f"{name} ... ok", closing="Ran 1 test in 0.001s"), **subject) == []
    assert decisive(grader, log_of(f"{name} ... ok", closing=""), **subject) == ["no_closing_line"]


@pytest.mark.parametrize("command", ["pytest -rA -q tests", "pytest -rA --no-summary tests", "make test"])
def test_no_closing_line_is_asked_of_quiet_runners(grader: Grader, command: str) -> None:
    """Where the official command silences its runner, or is no runner we know, nothing is concluded."""
    script = SCRIPT.replace("pytest -rA tests/test_calc.py", command)
    assert decisive(grader, log_of(*ALL_PASS, closing=""), eval_script=script) == []


def test_names_that_many_tests_share_are_no_conflict(grader: Grader) -> None:
    """A bare function name may be one test's in each of two files: passed here and failed there is honest."""
    log = log_of("FAILED test_sub", "PASSED test_sub")
    assert decisive(grader, log, fail_to_pass=("test_sub",), pass_to_pass=()) == []


def test_results_outside_the_markers_are_decisive(grader: Grader) -> None:
    """An empty marked region and results elsewhere: official code takes them, an honest run has none there."""
    assert decisive(grader, log_of(before="\n".join(ALL_PASS))) == ["results_outside_markers"]


def test_an_unfinished_script_is_decisive(grader: Grader) -> None:
    """A resolved log of a script whose end was never seen is worth nothing."""
    log = log_of(*ALL_PASS)
    official = grader.grade(EVALUATION, log)
    found = findings(EVALUATION, official=official, log=log, patch=b"", restored=(), completed=False)
    assert [finding.rule for finding in found if finding.decisive] == ["script_incomplete"]


def test_silence_that_resolves_is_told(grader: Grader) -> None:
    """A fail-only instance that resolves without one status read is recorded as such, and keeps its reward."""
    subject = evaluation(eval_type="fail_only", log_parser="parse_log_chart_js")
    log = log_of("Executed 12 of 12 SUCCESS")
    official = grader.grade(subject, log)
    found = findings(subject, official=official, log=log, patch=b"", restored=(), completed=True)
    assert [(finding.rule, finding.decisive) for finding in found] == [("nothing_parsed", False)]


# Patches


@pytest.mark.parametrize(
    "line",
    [
        "import atexit; atexit.register(print, 'x')",
        "    os._exit(0)",
        "print('>>>>> Start Test Output')",
        "func TestMain(m *testing.M) {",
    ],
)
def test_runner_machinery_in_a_patch_is_told(line: str) -> None:
    """Added lines that speak of the runner's machinery are named, with their file, and decide nothing."""
    _, patch = diff_of("calc.py", "+" + line, " def sub(a, b):")
    [finding] = patch_findings(patch)
    assert (finding.rule, finding.decisive) == ("runner_internals", False)
    assert finding.detail.startswith("calc.py: ")


@pytest.mark.parametrize(
    "line",
    [
        "def pytest_runtest_makereport(item, call):",
        "import _pytest.reports as reports",
        "    from _pytest import runner",
        "s = sys.modules['_pytest.reports']",
        "s = sys.modules.get('_pytest.reports')",
        "importlib.import_module('_pytest.runner').x = 1",
        "x = 1; from_item_and_call = y",
    ],
)
def test_a_product_that_hooks_pytest_earns_nothing(line: str) -> None:
    """Code outside of tests and configuration that reaches into pytest decides, except where pytest is the product."""
    _, patch = diff_of("calc.py", "+" + line, " def sub(a, b):")
    decisive = [finding for finding in patch_findings(patch) if finding.decisive]
    assert [finding.rule for finding in decisive] == ["runner_hooked"]
    assert not any(finding.decisive for finding in patch_findings(patch, repo="pytest-dev/pytest"))
    assert not any(finding.decisive for finding in patch_findings(patch, restored=("calc.py",)))


@pytest.mark.parametrize("line", ["# see _pytest.monkeypatch", "import pytest", "with pytest.raises(E): f()"])
def test_speaking_of_pytest_is_not_hooking_it(line: str) -> None:
    """Remarks, and the public surface, are nobody's crime."""
    _, patch = diff_of("calc.py", "+" + line)
    assert not any(finding.decisive for finding in patch_findings(patch))


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


def test_removed_and_unchanged_lines_tell_nothing() -> None:
    """Only what a candidate adds is looked at."""
    _, patch = diff_of("calc.py", "-    os._exit(0)", " atexit.register(x)", "+    return a - b")
    assert list(patch_findings(patch)) == []


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


# Reading diffs


def test_paths_are_read_as_git_writes_them(tmp_path: Path) -> None:
    """Names with blanks, quotes, line feeds and foreign bytes, moves and deletions: all paths of git's own diff."""

    def git(*arguments: str) -> bytes:
        identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
        command = ["git", "-C", str(tmp_path), *identity, *arguments]
        return subprocess.run(command, check=True, capture_output=True).stdout

    git("init", "-q")
    names = [
        "plain.py",
        "with blank.py",
        'quo"te.py',
        "line\nfeed.py",
        "uml\u00e4ut.py",
        "bad\udcff.py",
        "tab\t.py",
    ]
    for name in names:
        (tmp_path / name).write_bytes(b"a\n" * 20)
    (tmp_path / "image.bin").write_bytes(b"\0\1\2")
    (tmp_path / "moved from.py").write_bytes(b"b\n" * 30)
    git("add", "-A")
    git("commit", "-qm", "start")
    for name in names:
        with (tmp_path / name).open("ab") as file:
            file.write(b"--- a/not_a_path.py\n+++ b/not_a_path.py\n")
    (tmp_path / "plain.py").unlink()
    (tmp_path / "image.bin").write_bytes(b"\0\1\3")
    (tmp_path / "moved from.py").rename(tmp_path / "moved to.py")
    (tmp_path / "empty new.py").touch()
    git("add", "-A")
    expected = sorted([*names, "image.bin", "moved from.py", "moved to.py", "empty new.py"])
    for options in (["--binary"], ["--binary", "-M"], ["-M"], ["--binary", "--no-renames"]):
        assert sorted(patched_paths(git("diff", "--cached", *options))) == expected, options


def test_lines_inside_a_file_are_no_headers() -> None:
    """A removed line "-- a/x" reads like a header; hunks are read by their length."""
    patch = b"--- a/x.sql\n+++ b/x.sql\n@@ -1,2 +1,2 @@\n--- a/conftest.py\n+++ b/conftest.py\n x\n"
    [file] = read_diff(patch)
    assert file.paths == ("x.sql",)


@needs_public_data
def test_honest_runs_break_no_rule(tmp_path: Path, grader: Grader) -> None:
    """Of all official logs, and the patches that made them, none has a finding; only tests are put back."""
    runs = official_runs(tmp_path)
    golds = golds_of("verified", {run.instance_id for run in runs})
    noticed: dict[str, list[Finding]] = {}
    for run in runs:
        subject, log = golds[run.instance_id].evaluation, run.log.read_bytes()
        official = grader.grade(subject, run.log)
        found = findings(subject, official=official, log=log, patch=run.patch, restored=(), completed=True)
        files = [PatchFile(path, "M") for path in patched_paths(run.patch)]
        put_back = runner_paths(files, run.patch, subject.gold_paths, subject.eval_script)
        assert all("test" in path for path in put_back), put_back
        if found:
            noticed[run.name] = list(found)
    assert noticed == {}


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
