"""Rows from the dataset hub, tested on a local folder in the hub's layout, and the prepare command."""

from __future__ import annotations

import argparse
import hashlib
import json
from pathlib import Path

import pytest

from swe_pytest.benchmarks.hub import SOURCES, DatasetUnavailable, Source, hub_rows, source_of
from swe_pytest.benchmarks.registry import benchmark, benchmark_names
from swe_pytest.benchmarks.rows_file import meta_path, write_rows
from swe_pytest.benchmarks.swebench import UPGRADED
from swe_pytest.cli import prepare
from tests.benchmarks.test_swebench import row
from tests.public_data import DATA, ROW_FILES, needs_public_data, rows_of


@pytest.fixture(autouse=True)
def own_caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of these tests in the user's caches, and no look at the network."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "datasets"))


def run(*arguments: str) -> int:
    parser = argparse.ArgumentParser()
    prepare.add_parser(parser.add_subparsers())
    return prepare.run(parser.parse_args(["prepare", *arguments]))


def dataset(folder: Path, rows: list[dict[str, object]]) -> Path:
    """A folder as the hub lays out a dataset: a card, and the split in parquet files."""
    import pyarrow
    from pyarrow import parquet

    (folder / "data").mkdir(parents=True)
    (folder / "README.md").write_text("---\nlicense: mit\n---\n")
    middle = len(rows) // 2
    for number, part in enumerate((rows[:middle], rows[middle:])):
        name = f"test-{number:05}-of-00002.parquet"
        parquet.write_table(pyarrow.Table.from_pylist(part), folder / "data" / name)
    return folder


def test_every_hub_benchmark_is_pinned_to_a_commit() -> None:
    """Each source names a full commit, so that the same command gives the same rows for ever."""
    assert set(SOURCES) == {
        name for name in benchmark_names() if name not in ("swebench:custom", "pypi_fixes")
    }
    for source in SOURCES.values():
        assert len(source.revision) == 40
        assert int(source.revision, 16)


def test_a_foreign_dataset_needs_a_revision(tmp_path: Path) -> None:
    """Another dataset on the hub is refused without a revision; a local folder needs none."""
    with pytest.raises(DatasetUnavailable, match="--revision"):
        source_of("swebench:verified", dataset="acme/bench")
    assert source_of("swebench:verified", dataset="acme/bench", revision="abc").revision == "abc"
    assert source_of("swebench:verified", dataset=str(tmp_path)).revision == ""
    with pytest.raises(DatasetUnavailable, match="--rows"):
        source_of("swebench:custom")


def test_rows_come_in_the_order_of_the_dataset(tmp_path: Path) -> None:
    """A dataset in several files is read in order, with every field as it was."""
    rows = [row(instance_id=f"i{number}", PASS_TO_PASS=["a", "b"]) for number in (3, 1, 2)]
    folder = dataset(tmp_path / "hub", rows)
    assert list(hub_rows(Source(str(folder), ""))) == rows


def test_a_hub_that_cannot_be_reached_is_told() -> None:
    """Without the dataset the error names it, its revision and the way around."""
    with pytest.raises(DatasetUnavailable, match=r"acme/nothing at abc cannot be loaded: .*--rows FILE"):
        list(hub_rows(Source("acme/nothing", "abc")))


def test_prepared_rows_come_with_their_origin(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Prepared rows can be run, and the facts beside them say whence they are and what bytes they must be."""
    rows = [row(instance_id=f"i{number}") for number in range(4)]
    rows = [one | {"FAIL_TO_PASS": '["t"]'} for one in rows]
    folder, out = dataset(tmp_path / "hub", rows), tmp_path / "out" / "rows.jsonl"
    assert run("verified", "--dataset", str(folder), "--out", str(out), "--limit", "3") == 0
    refs, problems = benchmark("swebench:verified").index(out)
    assert ([ref.instance_id for ref in refs], problems) == (["i0", "i1", "i2"], [])
    meta = json.loads(meta_path(out).read_text())
    assert (meta["benchmark"], meta["dataset"], meta["rows"]) == ("swebench:verified", str(folder), 3)
    assert meta["sha256"] == hashlib.sha256(out.read_bytes()).hexdigest()
    assert "3 of 3 rows can be run" in capsys.readouterr().out
    assert sorted(path.name for path in out.parent.iterdir()) == ["rows.jsonl", "rows.jsonl.meta.json"]


def test_prepared_rows_go_where_suites_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without --out the rows are where the benchmark looks for them."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    source = tmp_path / "rows.jsonl"
    source.write_text(json.dumps(row()) + "\n\n")
    assert run("swebench:lite", "--rows", str(source)) == 0
    refs, _ = benchmark("swebench:lite").index(benchmark("swebench:lite").prepared_rows())
    assert [ref.instance_id for ref in refs] == ["acme__calc-1"]


@needs_public_data
def test_classic_rows_are_upgraded_on_the_way(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that mixes classic and current rows comes out current, in its order."""
    public = rows_of("verified")[:3]
    classic = {key: value for key, value in public[1].items() if key not in UPGRADED}
    source, out = tmp_path / "rows.jsonl", tmp_path / "out.jsonl"
    source.write_text("".join(json.dumps(one) + "\n" for one in (public[0], classic, public[2])))
    assert run("verified", "--rows", str(source), "--out", str(out)) == 0
    refs, problems = benchmark("swebench:verified").index(out)
    assert ([ref.instance_id for ref in refs], problems) == ([one["instance_id"] for one in public], [])
    assert [ref.image for ref in refs] == [one["image"] for one in public]
    assert json.loads(meta_path(out).read_text())["upgraded_with"] == "swebench==4.1.0"
    assert "1 classic rows" in capsys.readouterr().out


@needs_public_data
def test_one_instance_of_many(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--instance takes rows by exact id, and an id that is not there is an error."""
    source, out = DATA / ROW_FILES["verified"], tmp_path / "out.jsonl"
    wanted = "pallets__flask-5014"
    assert run("verified", "--rows", str(source), "--out", str(out), "--instance", wanted) == 0
    assert [ref.instance_id for ref in benchmark("swebench:verified").index(out)[0]] == [wanted]
    assert run("verified", "--rows", str(source), "--out", str(out), "--instance", "pallets__flask-501") == 1
    assert "no instance pallets__flask-501" in capsys.readouterr().err


def test_bad_rows_are_all_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Lines that are no JSON stop the preparation, each with its place; the old file stays."""
    source, out = tmp_path / "rows.jsonl", tmp_path / "out.jsonl"
    out.write_text("old")
    source.write_text("{\n" + json.dumps(row()) + "\nnull\n")
    assert run("verified", "--rows", str(source), "--out", str(out)) == 1
    error = capsys.readouterr().err
    assert f"{source}:1:" in error
    assert f"{source}:3:1" in error
    assert out.read_text() == "old"


def test_faulty_rows_are_written_and_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rows that cannot be run are told by place and reason, and the command fails."""
    source, out = tmp_path / "rows.jsonl", tmp_path / "out.jsonl"
    source.write_text(json.dumps(row(eval_type="all")) + "\n" + json.dumps(row(instance_id="b")) + "\n")
    assert run("verified", "--rows", str(source), "--out", str(out)) == 1
    captured = capsys.readouterr()
    assert "unknown eval_type 'all'" in captured.err
    assert "1 of 2 rows can be run" in captured.out


@pytest.mark.parametrize("name", ["verfied", "swebench:verfied"])
def test_an_unknown_benchmark_is_told(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A name that no benchmark has is an error that lists near ones."""
    assert run(name) == 1
    assert "did you mean" in capsys.readouterr().err


def test_a_write_that_fails_leaves_the_old_rows(tmp_path: Path) -> None:
    """Rows that cannot be written as JSON leave the file, and nothing beside it, as it was."""
    path = tmp_path / "rows.jsonl"
    write_rows(path, [row()], {})
    before = path.read_bytes()
    endless: dict[str, object] = {}
    endless["self"] = endless
    with pytest.raises(ValueError, match="Circular"):
        write_rows(path, [row(), endless], {})
    assert path.read_bytes() == before
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["rows.jsonl", "rows.jsonl.meta.json"]
