"""Which changed paths steer the tests rather than solve the task.

Four kinds. *Test files* are graded as the benchmark has them: a solution's own tests prove nothing, and
code in them runs in the runner. *Runner files* (conftest.py, pytest.ini, karma.conf.js, .rspec …) exist
only for the runner. *Mixed files* (setup.cfg, pyproject.toml, package.json, Makefile …) serve the product
as well: a fix may well touch them, so they count only where a changed line belongs to the runner, judged
by the sections, keys and targets that the hunk shows. *Programs* are files that the official test command
itself starts. A path that the gold patch touches never counts. A file that a mixed rule cannot read (binary) does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from swe_pytest.grading.unified_diff import FileDiff, Hunk, read_diff
from swe_pytest.results.record import PatchFile

RUNNER_FILES = (
    # Python. tox.ini holds nothing that is built or shipped.
    "conftest.py",
    "pytest.ini",
    ".pytest.ini",
    "pytest.toml",
    ".pytest.toml",
    "tox.ini",
    "sitecustomize.py",
    "usercustomize.py",
    "*.pth",
    "*.egg-info/*",
    "*.dist-info/*",
    "egg-info/*",
    "*.egg-link",
    # JavaScript
    "jest.config.*",
    "jest.setup.*",
    "jest.preset.*",
    "karma.conf.*",
    ".mocharc*",
    "mocha.opts",
    "vitest.config.*",
    "vitest.workspace.*",
    "vitest.setup.*",
    "ava.config.*",
    ".taprc",
    "cypress.config.*",
    "playwright.config.*",
    # Ruby, PHP, Rust, Java
    ".rspec",
    ".rspec-local",
    "spec_helper.rb",
    "rails_helper.rb",
    "test_helper.rb",
    "phpunit.xml",
    "phpunit.xml.dist",
    "phpunit.dist.xml",
    ".cargo/config",
    ".cargo/config.toml",
    "nextest.toml",
    "junit-platform.properties",
    "testng.xml",
)

# By the words with which the benchmarks themselves tell a test patch from a solution, in their surest form.
_TEST_FOLDERS = frozenset(("tests", "__tests__", "e2e"))
_TEST_FILES = (
    *("test_*.py", "*_test.py", "tests.py", "*_test.go", "*_spec.rb", "*Test.java", "*Test.php"),
    *("*.test.js", "*.test.jsx", "*.test.ts", "*.test.tsx", "*.spec.js", "*.spec.jsx", "*.spec.ts", "*.spec.tsx"),
)

# New top-level modules of these names would be imported instead of the runner's own.
_SHADOWING = ("pytest", "_pytest", "pluggy", "unittest", "doctest", "nose", "tox", "xdist")

_SECTION = re.compile(r"\s*\[{1,2}([^\]]+)\]")
_KEY = re.compile(r"\s{0,3}([A-Za-z_][\w.-]*)\s*[=:]")
_RUNNER_SECTION = re.compile(
    r"(tool[:.])?(pytest|tox|nosetests|nox)\b|testenv|.*\bpytest11\b|\[?test\b|profile\.test\b"
)
# TOML also takes names in quotes, with blanks around them, with dots, and tables within a line.
_QUOTES = re.compile(r"[\s\"']")
_RUNNER_TABLE = re.compile(r"(tool\.)?(pytest|tox)\.|tool=\{|.*\bini_options\b")
_RUNNER_KEYS = frozenset(
    (
        "addopts",
        "asyncio_mode",
        "collect_ignore",
        "confcutdir",
        "doctest_optionflags",
        "doctest_plus",
        "filterwarnings",
        "harness",
        "markers",
        "minversion",
        "norecursedirs",
        "python_classes",
        "python_files",
        "python_functions",
        "pythonpath",
        "required_plugins",
        "testpaths",
        "usefixtures",
        "xfail_strict",
    )
)
_JSON_RUNNER = re.compile(
    r'\s*"(?:(?:pre|post)?test[\w:.-]*"\s*:\s*"|(?:jest|mocha|ava|karma|vitest|tap)"\s*:\s*[{\[]|'
    r"(?:testMatch|testRegex|testRunner|testEnvironment|testPathIgnorePatterns|setupFiles|setupFilesAfterEnv|"
    r'globalSetup|globalTeardown|testResultsProcessor|reporters|snapshotSerializers)")'
)
_TARGET = re.compile(r"([\w./%$(){}-]+(?: [\w./%$(){}-]+)*)\s*:(?!=)")
_INTERPRETER = re.compile(r"(?:\S*/)?(?:python[\d.]*|node|ba?sh|ruby|php|perl)")
_TEST_TARGET = re.compile(r"(?:^|\s)(?:test|check|unittest|runtest)s?\b")


def runner_paths(
    files: Sequence[PatchFile], patch: bytes, gold_paths: Iterable[str], eval_script: str = ""
) -> tuple[str, ...]:
    """Return the changed paths that are to be put back from the starting tree before tests run, sorted.

    `files` are the captured patch's paths, `patch` its bytes. With `eval_script`, programs that the test
    command starts count too. A path that was added is put back by removing it.
    """
    allowed = frozenset(gold_paths)
    diffs = {path: diff for diff in read_diff(patch) for path in diff.paths}
    programs = frozenset(programs_of(eval_script))
    # The listing was made in the agent's sandbox, where git itself may lie; the patch is what is applied.
    statuses = dict.fromkeys(diffs, "A") | {file.path: file.status for file in files}
    return tuple(
        sorted(
            path
            for path, status in statuses.items()
            if path not in allowed
            and (
                path in programs
                or _is_test_file(path)
                or _is_runner_file(path)
                or (status == "A" and _shadows_runner(path))
                or _steers_runner(path, diffs.get(path))
            )
        )
    )


def programs_of(eval_script: str) -> Iterator[str]:
    """Yield the relative paths of files that the commands between the test markers start."""
    _, _, marked = eval_script.partition("Start Test Output")
    for command in re.split(r"[\n;|&()]+", marked.partition("End Test Output")[0]):
        interpreted = False
        for word in command.split():
            if re.match(r"\w+=", word):
                continue
            if _INTERPRETER.fullmatch(word):
                interpreted = True
            elif interpreted and re.match(r"-[mce]", word):
                break
            elif "/" in word or "." in word:
                yield word.removeprefix("./")
                break
            elif not interpreted:
                break


def _is_test_file(path: str) -> bool:
    *folders, name = PurePosixPath(path).parts
    return bool(folders and (folders[0] == "test" or not _TEST_FOLDERS.isdisjoint(folders))) or any(
        fnmatchcase(name, pattern) for pattern in _TEST_FILES
    )


def _is_runner_file(path: str) -> bool:
    # In lower case: metadata of packages is found whatever the case of its folder's name.
    parts = PurePosixPath(path.lower()).parts
    last_two = "/".join(parts[-2:])
    return any(fnmatchcase(last_two if "/" in name else parts[-1], name) for name in RUNNER_FILES)


def _shadows_runner(path: str) -> bool:
    first = PurePosixPath(path).parts[0]
    return first.removesuffix(".py") in _SHADOWING


def _steers_runner(path: str, diff: FileDiff | None) -> bool:
    name = PurePosixPath(path).name
    rule = next((rule for pattern, rule in _MIXED if fnmatchcase(name, pattern)), None)
    if rule is None:
        return False
    if diff is None or diff.opaque:
        return True
    return any(rule(hunk) for hunk in diff.hunks)


def _ini(hunk: Hunk) -> bool:
    """Sections and keys in the manner of INI and TOML."""
    section, key = "", ""
    if found := _SECTION.match(hunk.heading):
        section = found[1]
    elif found := _KEY.match(hunk.heading):
        key = found[1]
    for line in hunk.lines:
        letter, text = line[:1], line[1:]
        changed = letter in "+-" and text.strip() != "" and not text.lstrip().startswith(("#", ";"))
        bare = _QUOTES.sub("", text)
        if found := _SECTION.match(bare):
            section, key = found[1], ""
        elif found := _KEY.match(text):
            key = found[1]
        if changed and (
            _RUNNER_SECTION.match(section)
            or (not section and key in _RUNNER_KEYS)
            or key == "harness"
            or "pytest11" in text
            or _RUNNER_TABLE.match(bare)
            or "\\" in text.partition("=")[0]  # an escaped name can spell anything
        ):
            return True
    return False


def _make(hunk: Hunk) -> bool:
    """Rules of make: a changed line in, or naming, a target for tests."""
    target = hunk.heading
    for line in hunk.lines:
        letter, text = line[:1], line[1:]
        if found := _TARGET.match(text):
            target = found[1]
        elif text and not text[0].isspace():
            target = ""
        if letter in "+-" and text.strip() and _TEST_TARGET.search(target.partition(":")[0]):
            return True
    return False


def _changed_line(pattern: re.Pattern[str]) -> Callable[[Hunk], bool]:
    def rule(hunk: Hunk) -> bool:
        return any(line[:1] in "+-" and pattern.search(line, 1) for line in hunk.lines)

    return rule


def _json(hunk: Hunk) -> bool:
    return any(line[:1] in "+-" and _JSON_RUNNER.match(line, 1) for line in hunk.lines)


_MIXED: tuple[tuple[str, Callable[[Hunk], bool]], ...] = (
    ("setup.cfg", _ini),
    ("pyproject.toml", _ini),
    ("Cargo.toml", _ini),
    ("setup.py", _changed_line(re.compile(r"pytest11"))),
    ("package.json", _json),
    ("composer.json", _json),
    ("[Mm]akefile", _make),
    ("GNUmakefile", _make),
    ("Rakefile", _changed_line(re.compile(r"TestTask|RakeTask|\btask\b.*\b(?:test|spec|default)\b"))),
    ("pom.xml", _changed_line(re.compile(r"surefire|failsafe|testFailureIgnore|skipTests|maven\.test"))),
    ("build.gradle*", _changed_line(re.compile(r"ignoreFailures|\btest\s*\{|useJUnit|useTestNG"))),
    ("vite.config.*", _changed_line(re.compile(r"\btest\s*:|setupFiles|reporters|globalSetup"))),
)
