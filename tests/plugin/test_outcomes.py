"""Measured, masked, not run: what each looks like to pytest, JUnit, JSON and the exit status."""

from __future__ import annotations

import json

import pytest

from tests.plugin.conftest import Project, properties


def test_gold_is_resolved_and_noop_is_not(project: Project) -> None:
    """Both are measured and pass; the rewards are 1.0 and 0.0, in JSON and as JUnit properties."""
    project.suite(configs=["gold", "noop"], checks=["rollout", "gold", "noop"])
    done = project.run("suites")
    assert done.status == 0, done.out
    rewards = {case: record["reward"] for case, record in done.records.items()}
    assert sorted(rewards.values()) == [0.0, 0.0, 1.0, 1.0]
    gold = properties(done.junit["test_rollout[gold-bench__trivial-1]"])
    assert gold["reward"] == "1.0" and gold["outcome"] == "measured"
    assert properties(done.junit["test_rollout[noop-bench__trivial-1]"])["reward"] == "0.0"
    assert "planned 4 = measured 4 + masked 0 + not run 0" in done.out
    assert project.left() == []


def test_a_command_agent_that_fixes_the_bug_is_resolved(project: Project) -> None:
    """A config of one's own, written inline, is graded by what it left in the checkout."""
    project.suite(configs=[project.command("sed -i 's/a - b/a + b/' calc.py")])
    record = project.run("suites").record()
    assert record["resolved"] is True
    assert record["patch"]["files"] == [{"path": "calc.py", "status": "M"}]
    roles = [box["role"] for box in record["sandboxes"]]
    assert roles == ["task", "verifier"]
    assert record["sandboxes"][0]["removed"] <= record["sandboxes"][1]["created"]


def test_expect_resolved_makes_a_zero_a_failure(project: Project) -> None:
    """A measured zero passes, unless the suite says what it expects: then it is a <failure>, never an <error>."""
    project.suite(configs=["noop"], expect="resolved")
    done = project.run("suites")
    case = done.junit["test_rollout[noop-bench__trivial-1]"]
    assert done.status == 1
    assert case.find("failure") is not None and case.find("error") is None
    assert properties(case)["reward"] == "0.0"


def test_a_missing_image_is_masked(project: Project) -> None:
    """Infrastructure that fails is an <error> without a reward, and fails a run that has no gate about it."""
    project.suite(rows=[project.row(image="swe-pytest/none:1")])
    done = project.run("suites")
    case = done.junit["test_rollout[gold-bench__trivial-1]"]
    assert done.status == 1
    assert case.find("error") is not None and case.find("failure") is None
    told = properties(case)
    assert told["outcome"] == "masked" and "reward" not in told
    record = done.record()
    assert record["reward"] is None and record["mask_sample"] is True
    assert (record["failure"]["class"], record["failure"]["stage"]) == ("image_missing", "session.seed")
    assert "masked 1" in done.out


def test_an_agent_timeout_is_masked_and_its_patch_is_kept(project: Project) -> None:
    """Partial work of an agent whose wall clock ran out is stored, never graded."""
    slow = project.command("sed -i 's/a - b/a + b/' calc.py; sleep 60", limits={"agent_s": 2})
    project.suite(configs=[slow])
    done = project.run("suites")
    record = done.record()
    assert record["failure"]["class"] == "agent_timeout" and record["reward"] is None
    (folder,) = (done.run_dir / "episodes").iterdir()
    assert b"a + b" in (folder / "patch.diff").read_bytes()
    assert [box["role"] for box in record["sandboxes"]] == ["task"]


def test_expect_masked(project: Project) -> None:
    """A suite may expect to be masked: then being masked passes, and being measured fails."""
    project.suite("hangs", configs=[project.command("sleep 60", limits={"agent_s": 1})], expect="masked")
    done = project.run("suites/hangs")
    assert done.junit["test_rollout[agent-bench__trivial-1]"].find("error") is None
    project.suite("works", expect="masked")
    assert project.run("suites/works").status == 1


def test_gates_decide_about_masked_cases(project: Project) -> None:
    """A mask_rate gate that holds lets masked cases pass the run; one that does not fails it, and says so."""
    rows = [project.row("toy__here-1"), project.row("toy__gone-1", image="swe-pytest/none:1")]
    project.suite(rows=rows, gates={"mask_rate": {"max": 0.5}})
    assert project.run("suites").status == 0
    project.suite(rows=rows, gates={"mask_rate": {"max": 0.4}})
    strict = project.run("suites")
    assert strict.status == 1 and "mask_rate" in strict.out


def test_a_run_in_which_everything_is_masked_fails(project: Project) -> None:
    """No gate can make a run without any measurement a success."""
    project.suite(rows=[project.row(image="swe-pytest/none:1")], gates={"mask_rate": {"max": 1.0}})
    assert project.run("suites").status == 1


def test_resolve_rate_gate(project: Project) -> None:
    """A resolve rate below its gate fails the run although every item passed."""
    project.suite(configs=["noop"], gates={"resolve_rate": {"min": 0.5}})
    done = project.run("suites")
    assert done.status == 1 and "resolve_rate" in done.out


def test_x_leaves_the_rest_not_run(project: Project) -> None:
    """After -x every planned case is in the XML; those that never began are skipped as not run."""
    rows = [project.row(f"toy__toy-{n}", image="swe-pytest/none:1") for n in range(3)]
    project.suite(rows=rows)
    done = project.run("suites", "-x")
    assert len(done.junit) == 3
    skipped = [name for name, case in done.junit.items() if case.find("skipped") is not None]
    assert len(skipped) == 2
    totals = done.results["totals"]
    assert (totals["planned"], totals["measured"], totals["masked"], totals["not_run"]) == (3, 0, 1, 2)


def test_the_same_run_id_is_refused(project: Project) -> None:
    """Results of two runs are never mixed in a directory."""
    project.suite()
    assert project.run("suites", run_id="twice").status == 0
    again = project.run("suites", run_id="twice")
    assert again.status == 4 and "already holds a run" in again.out


def test_odd_instance_ids_and_log_bytes_make_well_formed_xml(project: Project) -> None:
    """Any id and any byte that an agent prints leaves XML and JSON that parse."""
    odd = "odd/<&\"' ü\u202e id"
    noise = project.command(r"printf '\000\033[31m\377\376]]>&\n'; printf '\001\377' > noise.bin")
    project.suite(rows=[project.row(odd)], configs=[noise])
    done = project.run("suites")
    (case,) = done.junit.values()
    assert properties(case)["instance_id"] == odd
    assert json.loads((done.run_dir / "results.json").read_text())["totals"]["measured"] == 1


def test_lf_runs_what_was_masked_or_failed(project: Project) -> None:
    """--lf picks the masked case again, and only it."""
    rows = [project.row("toy__here-1"), project.row("toy__gone-1", image="swe-pytest/none:1")]
    project.suite(rows=rows)
    project.run("suites", "-p", "cacheprovider")
    again = project.run("suites", "--lf", "-p", "cacheprovider", "--collect-only", "-q")
    assert "gold-toy__gone-1" in again.out and "gold-toy__here-1" not in again.out


@pytest.mark.parametrize("workers", [[], ["-n", "2"]], ids=["alone", "n2"])
def test_without_an_engine_nothing_begins(project: Project, workers: list[str]) -> None:
    """Where no engine answers the session ends at once with status 4 and says what to do, without a traceback."""
    project.suite()
    project.environ = {**project.environ, "DOCKER_HOST": "unix:///nonexistent/engine.sock"}
    done = project.run("suites", *workers)
    assert done.status == 4, done.out
    assert "no episode can run" in done.out and "unix:///nonexistent/engine.sock" in done.out
    assert "Traceback" not in done.out and "INTERNALERROR" not in done.out


def test_nothing_of_ours_warns(project: Project) -> None:
    """A user who turns warnings into errors sees none of ours: no connection or file is left to the collector."""
    project.suite(configs=["gold", project.command("true")], checks=["rollout", "interrupted"])
    done = project.run("suites", "-W", "error")
    assert done.status == 0, done.out


def test_a_run_directory_that_cannot_be_used_is_a_usage_error(project: Project) -> None:
    """A file in its place, or a name that no folder can have, is told before anything begins."""
    project.suite()
    (project.folder / "file").write_text("")
    for place in ("file", "file/below", "x" * 300):
        for workers in ([], ["-n", "2"]):
            done = project.run("suites", *workers, "--swe-run-dir", place)
            assert done.status == 4, done.out
            assert "choose another --swe-run-dir" in done.out and "INTERNALERROR" not in done.out
