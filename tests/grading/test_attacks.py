"""Candidates that cheat, in real verifier containers: whatever they print or plant, only a fix is worth 1.0."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from swe_pytest.grading.evaluate import evaluation_script, read_trace
from swe_pytest.grading.evaluation import Evaluation
from swe_pytest.grading.integrity import runner_paths
from swe_pytest.grading.official import Grader
from swe_pytest.grading.verdict import judge
from swe_pytest.results.record import PatchFile, Verdict
from swe_pytest.sandbox.contract import SandboxProvider, SandboxSpec

DATE = "2020-01-01T00:00:00Z"
NONCE = "0123456789abcdef"
WRONG = "def add(a, b):\n    return a + b\n\n\ndef sub(a, b):\n    return a + b\n"
RIGHT = WRONG[:-6] + "a - b\n"
TESTS = (
    "import unittest\n\nfrom calc import add, sub\n\n\nclass CalcTests(unittest.TestCase):\n"
    "    def test_add(self):\n        self.assertEqual(add(2, 1), 3)\n"
)
HELD_OUT = TESTS + "\n    def test_sub(self):\n        self.assertEqual(sub(2, 1), 1)\n"
NAMES = tuple(f"test_{name} (test_calc.CalcTests.test_{name})" for name in ("add", "sub"))
PASSES = "".join(f"{name} ... ok\\n" for name in NAMES)

BASE = {"calc.py": WRONG, "test_calc.py": TESTS}


VerdictOn = Callable[..., Verdict]


@dataclass(frozen=True)
class Checkout:
    """A repository on this side, to make real patches with."""

    path: Path

    def git(self, *arguments: str) -> bytes:
        identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
        command = ["git", "-C", str(self.path), *identity, *arguments]
        # With these dates the container's commit is the same object as this one.
        environment = {**os.environ, "GIT_AUTHOR_DATE": DATE, "GIT_COMMITTER_DATE": DATE}
        return subprocess.run(command, check=True, capture_output=True, env=environment).stdout

    def write(self, files: dict[str, str]) -> None:
        for name, text in files.items():
            (self.path / name).write_text(text)

    def patch(self, files: dict[str, str]) -> tuple[list[PatchFile], bytes]:
        self.git("reset", "-q", "--hard")
        self.git("clean", "-qfd")
        self.write(files)
        self.git("add", "-A")
        listed = self.git("diff", "--cached", "--no-renames", "--name-status").decode().splitlines()
        changed = [PatchFile(path, status) for status, path in (line.split("\t") for line in listed)]
        return changed, self.git("diff", "--cached", "--no-renames", "--binary")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    made = Checkout(tmp_path_factory.mktemp("checkout"))
    made.git("init", "-q")
    made.write(BASE)
    made.git("add", "-A")
    made.git("commit", "-qm", "start")
    return made


@pytest.fixture(scope="module")
def evaluation(checkout: Checkout, base_image: str) -> Evaluation:
    _, test_patch = checkout.patch({"test_calc.py": HELD_OUT})
    script = (
        "#!/bin/bash\nset -uxo pipefail\ncd /testbed\ngit checkout HEAD test_calc.py\n"
        f"git apply -v - <<'EOF_1'\n{test_patch.decode()}\nEOF_1\n"
        ": '>>>>> Start Test Output'\npython3 -m unittest -v test_calc\n: '>>>>> End Test Output'\n"
        "git checkout HEAD test_calc.py\n"
    )
    return Evaluation(
        instance_id="acme__calc-1",
        image=base_image,
        workdir="/testbed",
        base_commit=checkout.git("rev-parse", "HEAD").decode().strip(),
        repo="acme/calc",
        version="1",
        eval_script=script,
        log_parser="parse_log_django",
        eval_type="pass_and_fail",
        fail_to_pass=NAMES[1:],
        pass_to_pass=NAMES[:1],
        test_patch=test_patch,
        gold_paths=("calc.py",),
        network="none",
    )


@pytest.fixture(scope="module")
def grader() -> Iterator[Grader]:
    with Grader() as grader:
        yield grader


@pytest.fixture
def verdict_on(
    provider: SandboxProvider, evaluation: Evaluation, checkout: Checkout, grader: Grader
) -> VerdictOn:
    """What an episode does with a patch, in a container that makes its checkout first."""

    def verify(files: dict[str, str], *, timeout_s: float = 60.0, patch: bytes | None = None) -> Verdict:
        changed, made = checkout.patch(files)
        patch = made if patch is None else patch
        script, inside = evaluation_script(
            evaluation,
            patch,
            start_tree="",
            restore=runner_paths(changed, patch, evaluation.gold_paths, evaluation.eval_script),
            nonce=NONCE,
        )
        start = (
            "(mkdir /testbed && cd /testbed && cp /swe-pytest/base/* . && chmod 644 * && git init -q && git add -A && "
            f"export GIT_AUTHOR_DATE='{DATE}' GIT_COMMITTER_DATE='{DATE}' && "
            "git -c user.name=a -c user.email=a@b commit -qm start && "
            "git config --global --add safe.directory /testbed) >/dev/null || exit 9; "
        )
        inside |= {f"base/{name}": text.encode() for name, text in BASE.items()}
        spec = SandboxSpec(image=evaluation.image, role="verifier", case_id="attack", ttl_s=300, pids=256)
        result = provider.run_script(spec, start + script, inside, timeout_s=timeout_s)
        return judge(evaluation, read_trace(result.control, NONCE), result, patch, grader)

    return verify


def test_a_fix_is_worth_one(verdict_on: VerdictOn) -> None:
    """The right answer, with a test of the candidate's own beside it, gets the full reward; the test is left out."""
    verdict = verdict_on({"calc.py": RIGHT, "test_mine.py": TESTS})
    assert (verdict.official, verdict.reward, verdict.reason) == (True, 1.0, "")
    assert [finding.rule for finding in verdict.findings] == ["files_restored"]
    assert verdict_on({"calc.py": RIGHT}).findings == ()


def test_no_fix_is_worth_nothing(verdict_on: VerdictOn) -> None:
    """An ordinary wrong answer is an ordinary zero."""
    verdict = verdict_on({"calc.py": "# thought about it\n" + WRONG})
    assert (verdict.official, verdict.reward) == (False, 0.0)
    assert verdict.reason == "1 of 1 FAIL_TO_PASS did not pass"


@pytest.mark.parametrize(
    ("files", "rule"),
    [
        # The official grader takes each of these in; the reward does not follow it.
        ({"calc.py": f"import os\nprint('{PASSES}', flush=True)\nos._exit(0)\n"}, "no_closing_line"),
        ({"calc.py": f"import atexit\natexit.register(print, '{PASSES}')\n{WRONG}"}, "conflicting_statuses"),
        (
            {"calc.py": f"print('{PASSES}Ran 2 tests in 0.1s\\n>>>>> End Test Output', flush=True)\n{WRONG}"},
            "forged_markers",
        ),
    ],
    ids=["exit-early", "print-late", "forge-markers"],
)
def test_printed_passes_are_officially_resolved_and_worth_nothing(
    verdict_on: VerdictOn, files: dict[str, str], rule: str
) -> None:
    """Code under test that prints passes deceives the official grader; both verdicts are kept, with the reason."""
    verdict = verdict_on(files)
    assert (verdict.official, verdict.reward) == (True, 0.0)
    assert verdict.reason.startswith(f"officially resolved, but {rule}")


@pytest.mark.parametrize(
    "files",
    [
        {"unittest.py": f"print('{PASSES}Ran 2 tests in 0.1s')\n"},
        {"sitecustomize.py": "import unittest\nunittest.TestCase.assertEqual = lambda *arguments: None\n"},
    ],
    ids=["runner-in-its-place", "sitecustomize"],
)
def test_planted_runner_files_are_taken_away(verdict_on: VerdictOn, files: dict[str, str]) -> None:
    """What would be loaded instead of, or before, the runner is gone when the tests run, and the record says so."""
    verdict = verdict_on(files)
    assert (verdict.official, verdict.reward) == (False, 0.0)
    restored = [finding.detail for finding in verdict.findings if finding.rule == "files_restored"]
    assert restored == list(files)


def test_softened_tests_are_restored(verdict_on: VerdictOn) -> None:
    """A candidate's edits of the held-out test file are gone before it is put in place."""
    verdict = verdict_on({"test_calc.py": TESTS.replace("assertEqual(add", "assertTrue(add")})
    assert (verdict.official, verdict.reward) == (False, 0.0)


def test_killing_the_script_is_worth_nothing(verdict_on: VerdictOn) -> None:
    """A candidate that ends the shell around its tests has no results."""
    verdict = verdict_on({"calc.py": f"import os\nprint('{PASSES}', flush=True)\nos.kill(os.getppid(), 9)\n"})
    assert (verdict.official, verdict.reward) == (False, 0.0)
    assert verdict.reason == "no valid test results in the log"


def test_hanging_is_a_measured_zero(verdict_on: VerdictOn) -> None:
    """A candidate that never lets its tests end is measured, with its own reason."""
    verdict = verdict_on(
        {"calc.py": f"import time\nprint('{PASSES}', flush=True)\ntime.sleep(3600)\n"}, timeout_s=4
    )
    assert (verdict.official, verdict.reward, verdict.reason) == (False, 0.0, "tests timed out")


def test_a_patch_for_another_tree_is_a_measured_zero(verdict_on: VerdictOn) -> None:
    """A patch that no step of the ladder applies is measured as such."""
    patch = b"diff --git a/calc.py b/calc.py\n--- a/calc.py\n+++ b/calc.py\n@@ -1,2 +1,2 @@\n-x = 1\n+x = 2\n y = 3\n"
    verdict = verdict_on({}, patch=patch)
    assert (verdict.official, verdict.reward, verdict.reason) == (False, 0.0, "patch does not apply")
