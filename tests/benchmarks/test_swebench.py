"""Rows in swebench's format: what is listed, what is refused and where, and who gets which half."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest

from swe_pytest.benchmarks.registry import UnknownBenchmark, benchmark, benchmark_names
from swe_pytest.benchmarks.swebench import SwebenchBenchmark
from swe_pytest.benchmarks.task import Task
from swe_pytest.problem import InvalidFiles, Problem
from tests.public_data import DATA, ROW_FILES, needs_public_data, rows_of

GOLD_PATCH = "diff --git a/calc.py b/calc.py\n--- a/calc.py\n+++ b/calc.py\n@@ -1 +1 @@\n-a + b\n+a - b\n"

Rows = Callable[..., Path]


def row(**changes: object) -> dict[str, object]:
    """A good row; a key changed to None is left out."""
    good: dict[str, object] = {
        "instance_id": "acme__calc-1",
        "repo": "acme/calc",
        "version": "1.0",
        "image": "acme/calc:1",
        "base_commit": "0" * 40,
        "problem_statement": "calc.sub adds.",
        "hints_text": "SECRET hint",
        "patch": GOLD_PATCH,
        "test_patch": "SECRET test patch",
        "FAIL_TO_PASS": ["SECRET test_calc.py::test_sub"],
        "PASS_TO_PASS": '["test_calc.py::test_add"]',
        "log_parser": "parse_log_pytest",
        "eval_type": "pass_and_fail",
        "eval_script": "SECRET script",
    }
    return {key: value for key, value in (good | changes).items() if value is not None}


@pytest.fixture
def rows(tmp_path: Path) -> Rows:
    def write(*given: dict[str, object] | str, name: str = "rows.jsonl") -> Path:
        lines = [one if isinstance(one, str) else json.dumps(one) for one in given]
        path = tmp_path / name
        path.write_text("\n".join([*lines, ""]))
        return path

    return write


def the_problem(path: Path) -> Problem:
    """The one problem of a file."""
    [problem] = SwebenchBenchmark("swebench:custom").index(path)[1]
    return problem


def test_rows_are_listed_in_order_and_read_when_wanted(rows: Rows) -> None:
    """Good rows are listed in the order of the file, blank lines apart; each is found again where it stands."""
    path = rows(
        row(instance_id="b"), "", row(instance_id="a", problem_statement="naïve ünïcode\u2028"), row()
    )
    subject = SwebenchBenchmark("swebench:custom")
    refs, problems = subject.index(path)
    assert problems == []
    assert [(ref.instance_id, ref.line) for ref in refs] == [("b", 1), ("a", 3), ("acme__calc-1", 4)]
    assert [subject.load(ref)[0].instance_id for ref in refs] == ["b", "a", "acme__calc-1"]
    assert subject.load(refs[1])[0].problem_statement == "naïve ünïcode\u2028"


def test_a_task_holds_nothing_that_is_the_graders(rows: Rows) -> None:
    """Hints, patches, required tests and the script are in no field of the public half."""
    [ref], _ = SwebenchBenchmark("swebench:custom").index(rows(row()))
    task, gold = SwebenchBenchmark("swebench:custom").load(ref)
    public = "\n".join(str(getattr(task, field.name)) for field in fields(Task))
    assert "SECRET" not in public
    assert "a - b" not in public
    assert (task.workdir, task.image, task.benchmark) == ("/testbed", "acme/calc:1", "swebench:custom")
    assert gold.patch == GOLD_PATCH.encode()


def test_the_graders_half_is_complete(rows: Rows) -> None:
    """Lists may be lists or JSON text of lists; gold's paths, the network and the row's digest come along."""
    path = rows(row())
    [ref], _ = SwebenchBenchmark("swebench:custom").index(path)
    gold = SwebenchBenchmark("swebench:custom").load(ref)[1]
    evaluation = gold.evaluation
    assert evaluation.fail_to_pass == ("SECRET test_calc.py::test_sub",)
    assert evaluation.pass_to_pass == ("test_calc.py::test_add",)
    assert evaluation.gold_paths == ("calc.py",)
    assert evaluation.test_patch == b"SECRET test patch"
    assert evaluation.network == "open"
    assert gold.row_digest == hashlib.sha256(path.read_bytes().rstrip()).hexdigest()


def test_a_row_may_say_its_workdir_and_network(rows: Rows) -> None:
    """`workdir` and `network` of a row outrank the benchmark's defaults."""
    [ref], _ = SwebenchBenchmark("swebench:custom").index(rows(row(workdir="/src/calc", network="none")))
    task, gold = SwebenchBenchmark("swebench:custom").load(ref)
    assert (task.workdir, gold.evaluation.workdir, gold.evaluation.network) == (
        "/src/calc",
        "/src/calc",
        "none",
    )


@pytest.mark.parametrize(
    ("changes", "message", "remedy"),
    [
        ({"image": None}, "acme__calc-1: image is missing", "give image as a string"),
        ({"image": ""}, "acme__calc-1: image is empty", "give image"),
        ({"version": 3}, "acme__calc-1: version is a number", "give version as a string"),
        ({"instance_id": None}, "instance_id is missing", "give instance_id as a string"),
        ({"FAIL_TO_PASS": None}, "acme__calc-1: FAIL_TO_PASS is missing", "list of test names"),
        (
            {"FAIL_TO_PASS": "[1]"},
            "acme__calc-1: FAIL_TO_PASS is a string that holds no list",
            "list of test",
        ),
        (
            {"FAIL_TO_PASS": "a, b"},
            "acme__calc-1: FAIL_TO_PASS is a string that holds no list",
            "list of test",
        ),
        ({"FAIL_TO_PASS": [], "PASS_TO_PASS": "[]"}, "acme__calc-1: no required tests", "any patch would"),
        (
            {"log_parser": "parse_log_pytst"},
            "acme__calc-1: unknown log_parser",
            "did you mean parse_log_pytest",
        ),
        ({"eval_type": "all"}, "acme__calc-1: unknown eval_type 'all'", "use pass_and_fail or fail_only"),
        ({"workdir": "testbed"}, "acme__calc-1: workdir is no absolute path", "give the checkout"),
        ({"network": "host"}, "acme__calc-1: unknown network 'host'", 'use "none" or "open"'),
        (
            {"image_assets": '{"test_patch": [{"path": "a.png"}]}'},
            "acme__calc-1: its tests need",
            "leave the row",
        ),
    ],
)
def test_a_faulty_row_is_refused(rows: Rows, changes: dict[str, object], message: str, remedy: str) -> None:
    """A row with a fault is left out; the problem names instance, line, the key's column, and what is right."""
    path = rows(row(instance_id="good"), row(**changes))
    refs, [problem] = SwebenchBenchmark("swebench:custom").index(path)
    assert [ref.instance_id for ref in refs] == ["good"]
    assert (problem.path, problem.line) == (path, 2)
    assert problem.message.startswith(message)
    assert remedy in problem.remedy
    raw = path.read_text().splitlines()[1]
    present = [key for key, value in changes.items() if value is not None]
    assert problem.column == (raw.index(f'"{present[0]}"') + 1 if present else 1)


def test_one_empty_list_of_tests_is_right(rows: Rows) -> None:
    """A public row exists without FAIL_TO_PASS, and others without PASS_TO_PASS: only both empty is wrong."""
    path = rows(row(instance_id="a", FAIL_TO_PASS=[]), row(instance_id="b", PASS_TO_PASS=[]))
    refs, problems = SwebenchBenchmark("swebench:custom").index(path)
    assert (len(refs), problems) == (2, [])


def test_all_problems_are_told_at_once(rows: Rows) -> None:
    """Every fault of every row is in the list, not only the first."""
    path = rows(row(image=None, version=None), "{", row(eval_type="all"), "[]")
    refs, problems = SwebenchBenchmark("swebench:custom").index(path)
    assert refs == []
    assert sorted(problem.line for problem in problems) == [1, 1, 2, 3, 4]


def test_broken_json_is_placed(rows: Rows) -> None:
    """Where JSON breaks, the problem says line and column."""
    problem = the_problem(rows('{"instance_id": "a", }'))
    assert (problem.line, problem.column) == (1, 22)
    assert problem.message.startswith("no JSON: ")


@pytest.mark.parametrize(
    "raw", [b'{"instance_id": "\xff"}\n', b"[" * 100_000 + b"\n"], ids=["bytes", "depth"]
)
def test_lines_that_no_reader_takes_are_problems(tmp_path: Path, raw: bytes) -> None:
    """Bytes that are no UTF-8, and nesting without end, are problems like any other."""
    path = tmp_path / "rows.jsonl"
    path.write_bytes(raw)
    assert the_problem(path).line == 1


def test_a_repeated_instance_is_refused(rows: Rows) -> None:
    """The second row of an instance is left out, and the problem says where the first stands."""
    refs, [problem] = SwebenchBenchmark("swebench:custom").index(rows(row(), row(version="2")))
    assert [ref.line for ref in refs] == [1]
    assert (problem.line, problem.message) == (2, "acme__calc-1 stands in line 1 already")


def test_classic_rows_say_how_to_upgrade_them(rows: Rows) -> None:
    """Rows without what release 5 added are one problem, whose remedy is the command that upgrades them."""
    classic = {"image": None, "eval_script": None, "log_parser": None, "eval_type": None}
    path = rows(row(**classic), row(instance_id="b", **classic))
    refs, [problem] = SwebenchBenchmark("swebench:verified").index(path)
    assert refs == []
    assert (problem.line, problem.message[:18]) == (1, "2 classic rows, th")
    assert problem.remedy == f"upgrade the file: swe-pytest prepare swebench:verified --rows {path}"


def test_missing_rows_say_how_to_get_them(tmp_path: Path) -> None:
    """A file that is not there is one problem whose remedy is the prepare command; custom rows are the suite's."""
    [problem] = SwebenchBenchmark("swebench:lite").index(tmp_path / "none.jsonl")[1]
    assert "swe-pytest prepare swebench:lite" in problem.remedy
    [problem] = SwebenchBenchmark("swebench:custom").index(tmp_path / "none.jsonl")[1]
    assert "rows: FILE" in problem.remedy
    assert "prepare" not in problem.remedy


@pytest.mark.parametrize(
    "change",
    [
        lambda path: path.write_text(json.dumps(row(instance_id="other")) + "\n"),
        lambda path: path.write_text(json.dumps(row(instance_id="first")) + "\n" + path.read_text()),
        lambda path: path.write_text(json.dumps(row(eval_script="")) + "\n"),
        lambda path: path.unlink(),
    ],
    ids=["other-row", "moved", "faulty", "gone"],
)
def test_a_file_that_changed_is_not_read(rows: Rows, change: Callable[[Path], object]) -> None:
    """A row that is not what was listed is an error, never another instance's task."""
    path = rows(row())
    [ref], _ = SwebenchBenchmark("swebench:custom").index(path)
    change(path)
    with pytest.raises(InvalidFiles):
        SwebenchBenchmark("swebench:custom").load(ref)


def test_prepared_rows_are_in_the_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Prepared rows have one place a benchmark, under XDG_CACHE_HOME; a relative one is ignored."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert (
        benchmark("swebench:lite").prepared_rows() == tmp_path / "swe_pytest" / "rows" / "swebench_lite.jsonl"
    )
    monkeypatch.setenv("XDG_CACHE_HOME", "here")
    assert benchmark("swebench:lite").prepared_rows().is_relative_to(Path.home() / ".cache")


def test_benchmarks_are_found_by_name() -> None:
    """Every listed name is a benchmark of that name; an unknown one is refused with near ones."""
    for name in benchmark_names():
        assert benchmark(name).name == name
    with pytest.raises(UnknownBenchmark, match="swebench:verified"):
        benchmark("swebench:verfied")


@needs_public_data
@pytest.mark.parametrize("name", ["verified", "lite", "lite_dev", "multilingual"])
def test_public_rows_are_all_right(name: str) -> None:
    """Every public row of the supported sets is listed, and its halves are complete."""
    subject = SwebenchBenchmark(f"swebench:{name}")
    refs, problems = subject.index(DATA / ROW_FILES[name])
    assert problems == []
    by_id = {row["instance_id"]: row for row in rows_of(name)}
    assert len(refs) == len(by_id)
    for ref in refs:
        task, gold = subject.load(ref)
        public = by_id[ref.instance_id]
        assert (task.image, task.base_commit) == (public["image"], public["base_commit"])
        assert gold.evaluation.eval_script == public["eval_script"]
        assert gold.patch.decode() == public["patch"]
        assert gold.evaluation.gold_paths


def test_many_rows_are_listed_fast_and_small(tmp_path: Path) -> None:
    """Twenty thousand rows of 2 kB are listed in under 3 s on a busy machine, and under 16 MB more memory."""
    path = tmp_path / "rows.jsonl"
    with path.open("w") as file:
        for number in range(20_000):
            file.write(
                json.dumps(row(instance_id=f"acme__calc-{number}", problem_statement="x" * 1200)) + "\n"
            )
    assert path.stat().st_size > 34_000_000
    program = (
        "import re, sys, time; from pathlib import Path\n"
        "from swe_pytest.benchmarks.swebench import SwebenchBenchmark\n"
        "peak = lambda: int(re.search(r'VmHWM:\\s*(\\d+)', Path('/proc/self/status').read_text())[1])\n"
        "before, began = peak(), time.process_time()\n"
        "refs, problems = SwebenchBenchmark('swebench:custom').index(Path(sys.argv[1]))\n"
        "print(len(refs), len(problems), time.process_time() - began, (peak() - before) / 1024)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True, timeout=60
    )
    listed, problems, seconds, mebibytes = done.stdout.split()
    assert (listed, problems) == ("20000", "0")
    assert float(seconds) < 3.0, done.stdout
    assert float(mebibytes) < 16.0, done.stdout
