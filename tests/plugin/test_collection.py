"""A suite file is collected as pytest people expect."""

from __future__ import annotations

from tests.plugin.conftest import Project


def ids(out: str) -> list[str]:
    return [line for line in out.splitlines() if "::" in line]


def test_a_suite_is_a_module_of_checks(project: Project) -> None:
    """Items are <suite.yaml>::test_<check>[<config>-<instance>], only for the checks that the suite names."""
    project.suite(configs=["gold", "noop"], checks=["rollout", "noop"])
    done = project.run("suites/mine", "--collect-only", "-q")
    assert done.status == 0, done.out
    assert ids(done.out) == [
        "suites/mine/suite.yaml::test_rollout[gold-bench__trivial-1]",
        "suites/mine/suite.yaml::test_rollout[noop-bench__trivial-1]",
        "suites/mine/suite.yaml::test_noop[noop-bench__trivial-1]",
    ]
    assert not done.run_dir.exists(), "collecting only must leave nothing"


def test_k_is_a_substring_and_swe_instance_is_exact(project: Project) -> None:
    """-k picks siblings whose id contains the text; --swe-instance never does."""
    rows = [project.row("toy__toy-1"), project.row("toy__toy-11")]
    project.suite(rows=rows)
    assert len(ids(project.run("suites", "--collect-only", "-q", "-k", "toy__toy-1").out)) == 2
    exact = project.run("suites", "--collect-only", "-q", "--swe-instance", "toy__toy-1")
    assert ids(exact.out) == ["suites/mine/suite.yaml::test_rollout[gold-toy__toy-1]"]


def test_an_unknown_instance_is_a_usage_error_with_near_matches(project: Project) -> None:
    """A misspelt id stops the session with status 4 and says what it might have been, with workers too."""
    project.suite(rows=[project.row("toy__toy-11")])
    for workers in ([], ["-n", "2"]):
        done = project.run("suites", "--swe-instance", "toy__toy-111", *workers)
        assert done.status == 4, done.out
        assert "toy__toy-111" in done.out and "toy__toy-11" in done.out.replace("toy__toy-111", "")
        assert not done.run_dir.exists()


def test_an_unknown_config_is_a_usage_error(project: Project) -> None:
    """--swe-config takes a name of the collected suites and nothing else."""
    project.suite(configs=["gold", "noop"])
    done = project.run("suites", "--swe-config", "golf")
    assert done.status == 4 and "gold" in done.out


def test_an_instance_of_one_suite_selects_only_there(project: Project) -> None:
    """With several suites, an id that one of them has leaves the others empty and is no error."""
    project.suite("one", rows=[project.row("toy__one-1")])
    project.suite("two", rows=[project.row("toy__two-1")])
    done = project.run("suites", "--collect-only", "-q", "--swe-instance", "toy__two-1")
    assert done.status == 0, done.out
    assert ids(done.out) == ["suites/two/suite.yaml::test_rollout[gold-toy__two-1]"]


def test_limit_and_repeats(project: Project) -> None:
    """--swe-limit counts instances, --swe-repeats numbers the episodes of each."""
    project.suite(rows=[project.row(f"toy__toy-{n}") for n in range(5)])
    done = project.run("suites", "--collect-only", "-q", "--swe-limit", "2", "--swe-repeats", "2")
    names = [line.split("[")[1] for line in ids(done.out)]
    assert names == [
        "gold-toy__toy-0-r1]",
        "gold-toy__toy-0-r2]",
        "gold-toy__toy-1-r1]",
        "gold-toy__toy-1-r2]",
    ]


def test_every_problem_of_a_suite_is_told_at_once(project: Project) -> None:
    """A suite that cannot be used is an error of collection with file, line and column of each problem."""
    folder = project.suite()
    (folder / "suite.yaml").write_text(
        "benchmark: swebench:custom\nrows: rows.jsonl\nconfigs: [gold, nope]\nchekcs: [rollout]\n"
    )
    done = project.run("suites")
    assert done.status == 2, done.out
    assert "suite.yaml:3:" in done.out and "nope" in done.out
    assert "suite.yaml:4:1" in done.out and "checks" in done.out
    assert not done.run_dir.exists()


def test_other_tools_suite_files_are_left_alone(project: Project) -> None:
    """A suite.yaml that is not ours does not disturb somebody's test run."""
    (project.folder / "suite.yaml").write_text("tests:\n  - name: of another tool\n")
    (project.folder / "test_own.py").write_text("def test_own():\n    pass\n")
    done = project.run()
    assert done.status == 0, done.out
    assert "1 passed" in done.out and not done.run_dir.exists()


def test_marker_and_fixtures_are_documented(project: Project) -> None:
    """`pytest --markers` and `--fixtures` tell of everything public."""
    assert "@pytest.mark.swe(suite" in project.run("--markers").out
    fixtures = project.run("--fixtures").out
    for name in ("case", "episode", "run_episode", "task_sandbox", "verifier_sandbox"):
        assert f"\n{name} -- " in fixtures or f"\n{name} [" in fixtures or f"\n{name}\n" in fixtures


def test_m_selects_suites(project: Project) -> None:
    """Every check carries the mark swe."""
    project.suite()
    (project.folder / "suites" / "test_own.py").write_text("def test_own():\n    pass\n")
    assert len(ids(project.run("suites", "--collect-only", "-q", "-m", "swe").out)) == 1
    assert len(ids(project.run("suites", "--collect-only", "-q", "-m", "not swe").out)) == 1


def test_list_tells_cases_and_missing_images(project: Project) -> None:
    """--swe-list prints what would run, which images it needs and which of them are missing, and runs nothing."""
    project.suite(rows=[project.row("toy__here-1"), project.row("toy__gone-1", image="swe-pytest/none:1")])
    done = project.run("suites", "--swe-list", "-n", "4")
    assert done.status == 0, done.out
    assert "image swe-pytest/bench-trivial:1  here, 1 cases" in done.out
    assert "image swe-pytest/none:1  missing, 1 cases" in done.out
    assert "2 cases planned, 2 images, 1 missing" in done.out
    assert not done.run_dir.exists()
