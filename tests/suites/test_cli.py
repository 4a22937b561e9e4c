"""`swe-pytest validate | resolve | schema`, as people run them: real processes in a real folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A project's folder, with nothing in it yet."""
    (tmp_path / "pyproject.toml").write_text("", encoding="utf-8")
    return tmp_path


def run(folder: Path, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command line with an empty cache of prepared rows."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}
    return subprocess.run(
        [sys.executable, "-m", "swe_pytest.cli", command, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def put(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_validate_tells_all_problems_of_all_files(home: Path) -> None:
    """Status 1, one line a problem, paths as seen from here, and a count."""
    put(home, "suites/a/suite.yaml", "benchmark: pypi_fixs\nconfigs: [gold, nop]\n")
    put(home, "suites/b/suite.yaml", "benchmark: pypi_fixes\nconfigs: [gold\n")
    put(home, "suites/b/notes.yaml", "not: ours\n")
    put(home, "configs/x.yaml", "agent: {harness: gold}\nrepeat: 2\n")
    put(home, "manifests/x.yaml", "name: x\n")
    done = run(home, "validate")
    assert (done.returncode, done.stderr) == (1, "")
    lines = done.stdout.splitlines()
    assert "configs/x.yaml:2:1: unknown key 'repeat'; did you mean 'repeats'?" in lines
    assert "suites/a/suite.yaml:1:12: unknown benchmark 'pypi_fixs'; did you mean 'pypi_fixes'?" in lines
    assert any(
        line.startswith("suites/a/suite.yaml:2:17: unknown config 'nop'; did you mean 'noop'?")
        for line in lines
    )
    assert any(line.startswith("suites/b/suite.yaml:3:1: not YAML") for line in lines)
    assert sum(line.startswith("manifests/x.yaml:1:1: missing key") for line in lines) == 11
    assert lines[-1] == "2 suites, 1 config, 1 manifest: 15 problems"
    assert lines[:-1] == sorted(lines[:-1])


def test_validate_needs_no_prepared_rows_unless_asked(home: Path) -> None:
    """A checkout can be validated before anything was downloaded; --strict wants the rows."""
    put(home, "suites/a/suite.yaml", "benchmark: swebench:verified\nconfigs: [gold]\n")
    done = run(home, "validate")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "1 suite: all right")
    assert done.stdout.startswith("warning: ")
    assert "swe-pytest prepare" in done.stdout
    assert run(home, "validate", "--strict").returncode == 1


def test_validate_speaks_json(home: Path) -> None:
    """--json carries the same, for machines."""
    put(home, "configs/x.yaml", "agent: {harness: gold}\nrepeats: x\n")
    done = run(home, "validate", "--json", "configs")
    assert done.returncode == 1
    assert json.loads(done.stdout) == {
        "files": 1,
        "problems": [
            {
                "path": "configs/x.yaml",
                "line": 2,
                "column": 10,
                "message": "'repeats' wants a whole number, found a text ('x')",
                "remedy": "episodes of each instance",
            }
        ],
        "warnings": [],
    }


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["none.yaml"], "none.yaml: no such file or folder"),
        (["other.yaml"], "other.yaml: neither named suite.yaml nor below configs/ or manifests/"),
        ([], "nothing to validate"),
    ],
)
def test_validate_misused_is_status_2(arguments: list[str], expected: str, home: Path) -> None:
    """Nothing to look at is misuse, never "all right"."""
    put(home, "other.yaml", "a: 1\n")
    done = run(home, "validate", *arguments)
    assert done.returncode == 2
    assert expected in done.stderr


def test_two_suites_of_one_name_are_told(home: Path) -> None:
    """Cases of two suites must not share a directory in a run."""
    for folder in ("a", "b"):
        put(home, f"suites/{folder}/suite.yaml", "name: same\nbenchmark: pypi_fixes\nconfigs: [gold]\n")
    done = run(home, "validate")
    assert done.returncode == 1
    assert "suites/b/suite.yaml: the suite's name 'same' is taken by" in done.stdout


def test_resolve_shows_where_each_value_came_from(home: Path) -> None:
    """Every value is printed with file, line and column, or as a default."""
    put(
        home,
        "configs/base.yaml",
        "agent: {harness: command, command: 'echo \"é\"'}\nsandbox:\n  memory: 1GiB\n",
    )
    put(home, "configs/pypi_fixes/x.yaml", "extends: base\nlimits:\n  agent_s: 60\n")
    done = run(home, "resolve", "x", "--benchmark", "pypi_fixes")
    assert (done.returncode, done.stderr) == (0, "")
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert lines[0].startswith("# configs/pypi_fixes/x.yaml, digest ")
    assert "memory: 1073741824 # configs/base.yaml:3:11" in lines
    assert "agent_s: 60.0 # configs/pypi_fixes/x.yaml:3:12" in lines
    assert "episode_s: 21600.0 # default" in lines
    assert 'command: "echo \\"é\\"" # configs/base.yaml:1:36' in lines
    facts = json.loads(run(home, "resolve", "configs/pypi_fixes/x.yaml", "--json").stdout)
    assert facts["values"]["limits"]["agent_s"] == 60
    assert facts["origins"]["limits.agent_s"] == "configs/pypi_fixes/x.yaml:3:12"
    assert facts["origins"]["limits.exec_s"] == "default"
    assert lines[0].endswith(facts["digest"])


def test_what_resolve_prints_is_the_config(home: Path) -> None:
    """The output can be saved as a config file and has the same digest."""
    put(home, "configs/base.yaml", "agent: {harness: command, command: \"a 'b' # c\", env: {X: '1'}}\n")
    put(home, "configs/x.yaml", "extends: base\nsandbox: {cap_add: [KILL]}\n")
    first = run(home, "resolve", "x").stdout
    put(home, "other/x.yaml", first)
    second = run(home, "resolve", "other/x.yaml").stdout
    assert first.splitlines()[0].split()[-1] == second.splitlines()[0].split()[-1]


def test_resolve_tells_problems_and_unknown_names(home: Path) -> None:
    """Status 1 for a config with problems, 2 for one that is not there."""
    put(home, "configs/x.yaml", "agent: {harness: gould}\n")
    done = run(home, "resolve", "x")
    assert done.returncode == 1
    assert "configs/x.yaml:1:18: unknown agent 'gould'; did you mean 'gold'?" in done.stderr
    done = run(home, "resolve", "golt")
    assert (done.returncode, done.stderr) == (2, "no config 'golt'; did you mean 'gold'?\n")


def test_schema_prints_writes_and_checks(home: Path) -> None:
    """The committed schemas are checked by default, a folder's after --write."""
    assert json.loads(run(home, "schema", "config").stdout)["$id"] == "urn:swe-pytest:schema:config:1"
    assert len(run(home, "schema").stdout.splitlines()) == 3
    assert run(home, "schema", "--check").returncode == 0
    assert run(home, "schema", "--write", "out").returncode == 0
    assert sorted(path.name for path in (home / "out").iterdir()) == [
        "config.schema.json",
        "manifest.schema.json",
        "suite.schema.json",
    ]
    assert run(home, "schema", "--check", "out").returncode == 2  # "out" is no schema's name
    assert "did you mean 'suite'?" in run(home, "schema", "suit").stderr


def test_this_project_is_valid(home: Path) -> None:
    """The suites, configs and manifests that are committed here are right."""
    root = Path(__file__).parents[2]
    folders = [str(root / name) for name in ("suites", "configs", "manifests")]
    done = run(home, "validate", "--root", str(root), *folders)
    assert done.returncode == 0, done.stdout
