"""The public fixtures, in users' own test modules."""

from __future__ import annotations

from tests.plugin.conftest import Project, properties


def test_a_user_test_gets_an_episode(project: Project) -> None:
    """A marked test runs the suite's cases with its own assertions, beside suite files and ordinary tests."""
    project.suite()
    (project.folder / "test_own.py").write_text(
        "import pytest\n"
        "def test_ordinary():\n    pass\n"
        "@pytest.mark.swe(suite='suites/mine')\n"
        "def test_small_patch(case, episode):\n"
        "    assert episode.resolved and episode.patch.bytes < 1000\n"
        "    assert case.ref.instance_id == episode.instance_id\n"
    )
    done = project.run(".", "-n", "2")
    assert done.status == 0, done.out
    assert properties(done.junit["test_small_patch[gold-bench__trivial-1]"])["resolved"] == "true"
    assert len(done.records) == 2, "a case of a user's test is another episode than the suite's own"


def test_task_and_verifier_sandboxes(project: Project) -> None:
    """task_sandbox is seeded and live; verifier_sandbox removes it first and gives a fresh one, patch applied."""
    project.suite()
    (project.folder / "test_boxes.py").write_text(
        "import pytest\n"
        "from swe_pytest.sandbox.errors import SandboxGone\n"
        "PATCH = b'''diff --git a/calc.py b/calc.py\n--- a/calc.py\n+++ b/calc.py\n@@ -1,2 +1,2 @@\n"
        " def add(a, b):\n-    return a - b\n+    return a + b\n'''\n"
        "@pytest.mark.swe(suite='suites/mine')\n"
        "def test_boxes(case, task_sandbox, verifier_sandbox):\n"
        "    task_sandbox.exec('echo dirt > /testbed/dirt', timeout_s=20)\n"
        "    fresh = verifier_sandbox(PATCH)\n"
        "    seen = fresh.exec('cat calc.py; ls', timeout_s=20, workdir='/testbed').stdout\n"
        "    assert b'a + b' in seen and b'dirt' not in seen\n"
        "    with pytest.raises(SandboxGone):\n"
        "        task_sandbox.exec('true', timeout_s=20)\n"
    )
    done = project.run("test_boxes.py")
    assert done.status == 0, done.out
    assert project.left() == []


def test_a_case_of_ones_own(project: Project) -> None:
    """The fixture `case` can be overridden by a case that the test builds."""
    project.suite()
    (project.folder / "test_built.py").write_text(
        "import pytest\n"
        "from pathlib import Path\n"
        "from swe_pytest import load_cases\n"
        "@pytest.fixture\n"
        "def case():\n"
        "    return load_cases(Path(__file__).parent / 'suites' / 'mine')[0]\n"
        "def test_built(episode):\n"
        "    assert episode.reward == 1.0\n"
    )
    done = project.run("test_built.py")
    assert done.status == 0, done.out
    assert done.results["totals"]["planned"] == 1
    assert properties(done.junit["test_built"])["reward"] == "1.0"


def test_a_test_without_a_case_is_told_what_to_do(project: Project) -> None:
    """Asking for an episode without a mark is an error that names the remedy."""
    (project.folder / "test_none.py").write_text("def test_none(episode):\n    pass\n")
    done = project.run("test_none.py")
    assert done.status != 0
    assert "@pytest.mark.swe" in done.out


def test_every_episode_has_a_record_of_its_own(project: Project) -> None:
    """Parametrized tests, tests that share a case, and a second run of a case never overwrite a record."""
    project.suite()
    (project.folder / "test_many.py").write_text(
        "import pytest\n"
        "from swe_pytest import load_cases\n"
        "@pytest.mark.parametrize('k', [1, 2])\n"
        "@pytest.mark.swe(suite='suites/mine')\n"
        "def test_param(case, k, episode):\n    assert episode.resolved\n"
        "@pytest.mark.swe(suite='suites/mine')\n"
        "def test_twice(case, run_episode):\n    assert run_episode(case).case_id != run_episode(case).case_id\n"
        "class TestShared:\n"
        "    @pytest.fixture(scope='class')\n"
        "    def case(self):\n        return load_cases('suites/mine')[0]\n"
        "    def test_a(self, episode):\n        assert episode.resolved\n"
        "    def test_b(self, episode):\n        assert episode.resolved\n"
    )
    for workers in ([], ["-n", "2"]):
        done = project.run("test_many.py", *workers)
        assert done.status == 0, done.out
        totals = done.results["totals"]
        assert (totals["planned"], totals["measured"]) == (6, 6)
        assert len(done.records) == 6


def test_dist_each_is_refused(project: Project) -> None:
    """Running every case once a worker would give one case two records: it is a usage error."""
    project.suite()
    done = project.run("suites", "-n", "2", "--dist", "each")
    assert done.status == 4 and "--swe-repeats" in done.out, done.out
    assert project.left() == []
