"""The verifier: patches are applied by the book, tests are the base's, and the control channel is ours alone."""

from __future__ import annotations

import ast
import difflib
import secrets
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest

from swe_pytest.grading.evaluate import OFFICIAL_LADDER, Trace, evaluation_script, read_trace
from swe_pytest.grading.evaluation import Evaluation
from swe_pytest.grading.workspace import seed_workspace
from swe_pytest.sandbox.contract import SandboxProvider, SandboxSpec, ScriptResult
from swe_pytest.sandbox.engine import find_engine

# The image: a checkout with a commit of the image's own on top of base, dirty, with ignored files, and a
# later commit still in it.
IMAGE = r"""
set -e
export HOME=/nonexistent GIT_AUTHOR_NAME=n GIT_AUTHOR_EMAIL=n@e GIT_COMMITTER_NAME=n GIT_COMMITTER_EMAIL=n@e
mkdir /testbed; cd /testbed; git init -q -b main .
mkdir tests; seq 1 40 >calc.txt; seq 1 40 >other.txt; printf 'assert 1\n' >tests/test_a; printf 'set = base\n' >conftest
printf 'x\r\ny\r\n' >crlf.txt; printf '*.log\n' >.gitignore
git add -A; git commit -qm base; git tag base
printf 'env\n' >setup; sed -i s/base/image/ conftest; git add -A; git commit -qm SWE-bench
git checkout -q -b later; echo fix >>calc.txt; git commit -qam fix; git checkout -q main
sed -i s/7/seven/ other.txt; echo untracked >dirt; echo log >x.log
git rev-parse base
"""

TEST_PATCH = b"""\
diff --git a/tests/test_a b/tests/test_a
--- a/tests/test_a
+++ b/tests/test_a
@@ -1 +1,2 @@
 assert 1
+assert 2
diff --git a/tests/test_new b/tests/test_new
new file mode 100644
--- /dev/null
+++ b/tests/test_new
@@ -0,0 +1 @@
+assert 3
"""

EVAL = f"""#!/bin/bash
set -uxo pipefail
cd /testbed
git config --global --add safe.directory /testbed
git checkout BASE tests/test_a
git apply -v - <<'EOF'
{TEST_PATCH.decode()}
EOF
: '>>>>> Start Test Output'
COMMAND
: '>>>>> End Test Output'
git checkout BASE tests/test_a
"""


class Verifier:
    """Grades patches against the image of this module."""

    def __init__(self, provider: SandboxProvider, image: str, base: str, start_tree: str) -> None:
        self.provider, self.image, self.base, self.start_tree = provider, image, base, start_tree

    def run(
        self,
        patch: bytes,
        command: str = "cat tests/test_a",
        *,
        start_tree: str | None = None,
        restore: Sequence[str] = (),
        test_patch: bytes = TEST_PATCH,
        workdir: str = "/testbed",
        cap_add: tuple[str, ...] = (),
        timeout_s: float = 60,
    ) -> tuple[Trace, ScriptResult]:
        nonce = secrets.token_hex(16)
        evaluation = Evaluation(
            instance_id="i",
            image=self.image,
            workdir=workdir,
            base_commit=self.base,
            repo="o/r",
            version="1",
            eval_script=EVAL.replace("BASE", self.base).replace("COMMAND", command),
            log_parser="parse_log_pytest",
            eval_type="pass_and_fail",
            fail_to_pass=("t",),
            pass_to_pass=(),
            test_patch=test_patch,
            gold_paths=(),
            network="none",
        )
        script, files = evaluation_script(
            evaluation,
            patch,
            start_tree=self.start_tree if start_tree is None else start_tree,
            restore=restore,
            nonce=nonce,
        )
        assert nonce not in script and not any(nonce.encode() in data for name, data in files.items() if name != "nonce")
        spec = SandboxSpec(image=self.image, role="verifier", case_id="i", ttl_s=120, user="0", cap_add=cap_add)
        result = self.provider.run_script(spec, script, files, timeout_s=timeout_s)
        assert nonce.encode() not in result.output
        return read_trace(result.control, nonce), result


@pytest.fixture(scope="module")
def verifier(provider: SandboxProvider, base_image: str) -> Iterator[Verifier]:
    """The image, committed from a sandbox; it is removed in the end."""
    import docker

    client = docker.DockerClient(base_url=find_engine().host)
    tag = f"swe-pytest-test-verifier-{secrets.token_hex(4)}"
    with provider.open(SandboxSpec(image=base_image, role="task", case_id="image", ttl_s=300)) as sandbox:
        made = sandbox.exec(IMAGE, timeout_s=60)
        assert made.exit_code == 0, made.stderr
        client.containers.get(sandbox.id).commit(tag)
        try:
            base = made.stdout.decode().strip()
            workspace = seed_workspace(sandbox, "/testbed", base, timeout_s=60)
            yield Verifier(provider, tag, base, workspace.start_tree)
        finally:
            client.images.remove(tag, force=True)
            client.close()


LINES = [f"{n}\n" for n in range(1, 41)]


def change(old: Sequence[str], new: Sequence[str], path: str = "calc.txt") -> bytes:
    """A patch from one text to another, as git heads it but without blob ids."""
    diff = difflib.unified_diff(list(old), list(new), f"a/{path}", f"b/{path}", n=3)
    return f"diff --git a/{path} b/{path}\n{''.join(diff)}".encode()


def at(index: int, text: str, lines: Sequence[str] = tuple(LINES)) -> list[str]:
    return [*lines[:index], text, *lines[index + 1 :]]


PLAIN = change(LINES, at(20, "changed\n"))


def test_the_ladder_is_the_pinned_harnesss() -> None:
    """The commands and their order are those of the installed swebench, read from its source."""
    spec = find_spec("swebench")  # not imported: its front door is heavy
    assert spec is not None and spec.submodule_search_locations
    source = Path(spec.submodule_search_locations[0], "harness", "run_evaluation.py").read_text("utf-8")
    commands = next(
        ast.literal_eval(node.value)
        for node in ast.parse(source).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "GIT_APPLY_CMDS"
    )
    assert tuple(commands) == OFFICIAL_LADDER


def test_a_plain_patch_is_applied_strictly_and_the_log_is_the_scripts_alone(verifier: Verifier) -> None:
    """The log begins and ends with the evaluation script's own words, stdout and stderr in their order."""
    trace, result = verifier.run(PLAIN, "echo out; echo err >&2; sed -n 21p calc.txt; cat tests/test_new other.txt")
    assert trace.start_tree == verifier.start_tree and trace.start_tree_matches
    assert trace.applied and trace.apply_step == "strict"
    assert [(attempt.step, attempt.status) for attempt in trace.apply_attempts] == [("strict", 0)]
    assert trace.test_patch_applies is True
    assert trace.started and trace.completed and trace.script_status == 0 and not trace.fault
    lines = result.output.decode().splitlines()
    assert lines[0] == "+ cd /testbed"
    assert lines[-1].startswith("Updated 1 path from")
    inside = lines[lines.index("+ : '>>>>> Start Test Output'") + 1 : lines.index("+ : '>>>>> End Test Output'")]
    assert inside[:8] == ["+ echo out", "out", "+ echo err", "err", "+ sed -n 21p calc.txt", "changed",
                          "+ cat tests/test_new other.txt", "assert 3"]  # fmt: skip
    assert "seven" in inside


def test_an_empty_patch_needs_no_step(verifier: Verifier) -> None:
    """Nothing is tried for an empty patch, and the evaluation runs on the starting tree."""
    trace, _ = verifier.run(b"")
    assert trace.applied and trace.apply_step == "" and trace.apply_attempts == () and trace.completed


def test_the_starting_tree_must_be_the_agents(verifier: Verifier) -> None:
    """A verifier whose tree is another one grades nothing."""
    trace, result = verifier.run(PLAIN, start_tree="0" * 40)
    assert not trace.start_tree_matches and trace.start_tree == verifier.start_tree
    assert not trace.applied and not trace.started and not trace.completed and result.output == b""


# One patch for each step of the ladder, and what it must leave behind.
THREEWAY = b"index %b..%b 100644\n"
FUZZY = change(at(18, "unlike\n"), at(20, "changed\n", at(18, "unlike\n")))
NEW = b"diff --git a/new b/new\nnew file mode 100644\n--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+new\n"


def test_a_patch_for_a_near_version_is_merged(verifier: Verifier) -> None:
    """--3way is what works when the patch names a blob that the repository knows."""
    import hashlib

    def blob(lines: Sequence[str]) -> bytes:
        data = "".join(lines).encode()
        return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest().encode()

    later = [*LINES, "fix\n"]  # the commit `later` of the image has it
    patch = change(later, at(38, "changed\n", later))
    head, _, rest = patch.partition(b"\n")
    patch = head + b"\nindex " + blob(later) + b".." + blob(at(38, "changed\n", later)) + b" 100644\n" + rest
    trace, result = verifier.run(patch, "cat calc.txt")
    assert trace.apply_step == "git apply --verbose --3way"
    assert [attempt.status != 0 for attempt in trace.apply_attempts] == [True, True, False]
    assert "while searching for" in trace.apply_attempts[1].said or "patch does not apply" in trace.apply_attempts[1].said
    assert b"\nchanged\n40\n+" in result.output and b"fix\n" not in result.output.split(b"Start Test Output")[1]


def test_each_attempt_begins_with_the_starting_tree(verifier: Verifier) -> None:
    """What --reject leaves half applied is undone, dirt of the image included, before `patch` takes it with fuzz."""
    look = "git status --porcelain; cat new; sed -n 21p calc.txt; sed -n 7p other.txt; cat dirt x.log"
    trace, result = verifier.run(NEW + FUZZY + change([*LINES[:6], "seven\n", *LINES[7:]], LINES, "other.txt"), look)
    assert trace.apply_step == OFFICIAL_LADDER[-1]
    assert [attempt.step for attempt in trace.apply_attempts] == ["strict", *OFFICIAL_LADDER]
    assert all(attempt.status for attempt in trace.apply_attempts[:-1])
    output = result.output.decode().split("Start Test Output")[1]
    assert "+ cat new\nnew\n" in output and "21p calc.txt\nchanged\n" in output
    assert "7p other.txt\n7\n" in output and "cat dirt x.log\nuntracked\nlog\n" in output
    assert ".rej" not in output and not trace.fault


def test_a_patch_that_fits_nowhere_is_not_applied(verifier: Verifier) -> None:
    """No step works: nothing is evaluated, and every attempt is on record with what it said."""
    trace, result = verifier.run(change(["no\n"] * 20, ["yes\n"] * 20))
    assert not trace.applied and not trace.started and not trace.fault and result.output == b""
    assert [attempt.step for attempt in trace.apply_attempts] == ["strict", *OFFICIAL_LADDER, "already applied"]
    assert all(attempt.status and attempt.said for attempt in trace.apply_attempts[:-1])


def test_a_patch_that_is_in_already_counts_as_applied(verifier: Verifier) -> None:
    """As officially: where each step failed, but the reverse applies cleanly."""
    trace, _ = verifier.run(change(at(20, "x\n"), LINES), "true")
    assert trace.applied and trace.apply_step == "already applied" and trace.completed


@pytest.mark.parametrize(
    ("name", "patch", "look", "expected"),
    [
        ("crlf", b"diff --git a/crlf.txt b/crlf.txt\n--- a/crlf.txt\n+++ b/crlf.txt\n@@ -1,2 +1,2 @@\n x\r\n-y\r\n+z\r\n",
         "od -c crlf.txt", b"x  \\r  \\n   z  \\r  \\n"),
        ("latin", b"diff --git a/l b/l\nnew file mode 100644\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+caf\xe9\n",
         "od -c l", b"c   a   f 351  \\n"),
        ("name", b'diff --git "a/\\377\\n" "b/\\377\\n"\nnew file mode 100644\n--- /dev/null\n+++ "b/\\377\\n"\n@@ -0,0 +1 @@\n+n\n',
         "cat $'\\xff\\n'", b"\nn\n"),
        ("no newline", PLAIN + b"\\ No newline at end of file\n", "sed -n 21p calc.txt", b"\nchanged\n"),
        ("long", change(LINES, ["9" * 300_000 + "\n", *LINES]), "head -c 3 calc.txt", b"\n999"),
    ],
)  # fmt: skip
def test_a_patch_is_bytes(verifier: Verifier, name: str, patch: bytes, look: str, expected: bytes) -> None:
    """Line ends, encodings, odd names and long lines arrive as they are."""
    trace, result = verifier.run(patch, look)
    assert trace.apply_step == ("strict" if name != "no newline" else trace.apply_step), name
    assert expected in result.output.split(b"Start Test Output")[1]


CHEATS = {
    "edited": change(["assert 1\n"], ["pass\n"], "tests/test_a"),
    "deleted": change(["assert 1\n"], [], "tests/test_a").replace(b"+++ b/tests/test_a", b"+++ /dev/null").replace(
        b"\n---", b"\ndeleted file mode 100644\n---"),
    "planted": b"diff --git a/tests/test_new b/tests/test_new\nnew file mode 100644\n--- /dev/null\n"
    b"+++ b/tests/test_new\n@@ -0,0 +1 @@\n+pass\n",
    "planted_folder": b"diff --git a/tests/test_new/x b/tests/test_new/x\nnew file mode 100644\n--- /dev/null\n"
    b"+++ b/tests/test_new/x\n@@ -0,0 +1 @@\n+pass\n",
    "linked": b"diff --git a/tests/test_a b/tests/test_a\ndeleted file mode 100644\n--- a/tests/test_a\n+++ /dev/null\n"
    b"@@ -1 +0,0 @@\n-assert 1\ndiff --git a/tests b/tests\nnew file mode 120000\n--- /dev/null\n+++ b/tests\n"
    b"@@ -0,0 +1 @@\n+/etc\n\\ No newline at end of file\n",
    "attributes": b"diff --git a/.gitattributes b/.gitattributes\nnew file mode 100644\n--- /dev/null\n"
    b"+++ b/.gitattributes\n@@ -0,0 +1 @@\n+tests/* text eol=crlf working-tree-encoding=UTF-16\n",
}  # fmt: skip


@pytest.mark.parametrize("cheat", CHEATS)
def test_the_tests_are_the_bases_whatever_the_patch_does(verifier: Verifier, cheat: str) -> None:
    """Files that the test patch names are restored from base, those it adds removed, so that it applies."""
    trace, result = verifier.run(CHEATS[cheat], "cat tests/test_a tests/test_new; ls /etc/test_new")
    assert trace.applied and trace.test_patch_applies is True and trace.completed
    if cheat != "attributes":  # there git's own checkout in the script obeys: the candidate harms itself
        assert b"\nassert 1\nassert 2\nassert 3\n" in result.output
    assert b"cannot access '/etc/test_new'" in result.output


def test_runner_configuration_is_put_back_to_the_start(verifier: Verifier) -> None:
    """The caller's paths get the starting tree's version, the image's own changes included, or vanish."""
    evil = b"diff --git a/sitecustomize b/sitecustomize\nnew file mode 100644\n--- /dev/null\n+++ b/sitecustomize\n@@ -0,0 +1 @@\n+evil\n"
    patch = change(["set = image\n"], ["set = evil\n"], "conftest") + evil + PLAIN
    restore = ["conftest", "sitecustomize", "../etc/passwd", "other.txt"]
    trace, result = verifier.run(patch, "cat conftest; ls sitecustomize; wc -l /etc/passwd; sed -n '7p;21p' other.txt calc.txt", restore=restore)
    assert trace.restored == ("conftest", "sitecustomize", "other.txt")
    assert b"\nset = image\n" in result.output and b"cannot access 'sitecustomize'" in result.output
    assert b"\n0 /etc/passwd" not in result.output and b"\nseven\n" in result.output


def test_a_test_patch_that_does_not_apply_is_told(verifier: Verifier) -> None:
    """Then nothing is evaluated: that says nothing about the candidate."""
    trace, result = verifier.run(PLAIN, test_patch=change(["assert 9\n"], ["assert 8\n"], "tests/test_a"))
    assert trace.applied and trace.test_patch_applies is False and not trace.started and result.output == b""


def test_a_verifier_that_cannot_work_gives_the_reason(verifier: Verifier) -> None:
    """An image without the checkout is a fault of nobody's patch."""
    trace, _ = verifier.run(PLAIN, workdir="/nowhere")
    assert "/nowhere" in trace.fault and not trace.started and not trace.applied


def test_the_scripts_status_is_recorded(verifier: Verifier) -> None:
    """A script that ends early still ends, and its status is known outside the log's reach."""
    trace, _ = verifier.run(PLAIN, "exit 7")
    assert trace.completed and trace.script_status == 7


def test_a_hanging_script_is_known_to_have_started(verifier: Verifier) -> None:
    """What the candidate makes hang is told from a verifier that never came so far."""
    trace, result = verifier.run(PLAIN, "sleep 60", timeout_s=5)
    assert result.timed_out and trace.started and trace.applied and not trace.completed and trace.script_status is None


def test_a_candidate_that_ends_everything_does_not_complete(verifier: Verifier) -> None:
    """Killing the verifier from within leaves a trace that started, was not timed out, and never ended."""
    trace, result = verifier.run(PLAIN, "kill -9 -1; sleep 5")
    assert trace.started and not trace.completed and not result.timed_out


SPY = r"""
for p in /proc/[0-9]*; do cat $p/environ $p/cmdline; done 2>/dev/null | tr '\0' '\n'; ls -a /swe-pytest
find /swe-pytest -type f ! -name eval.sh
python3 - <<'PY'
import os, re
for pid in filter(str.isdigit, os.listdir("/proc")):
    if int(pid) == os.getpid(): continue
    try:
        for line in open(f"/proc/{pid}/maps"):
            low, high = (int(x, 16) for x in line.split()[0].split("-"))
            if "heap" not in line and "stack" not in line: continue
            with open(f"/proc/{pid}/mem", "rb") as memory:
                memory.seek(low); data = memory.read(high - low)
            for found in re.findall(rb"[0-9a-f]{32}", data):
                print("found", found.decode()[::-1])
    except OSError as error: print("refused", pid, error.errno)
    for fd in (2, 3):
        try: os.write(os.open(f"/proc/{pid}/fd/{fd}", os.O_WRONLY), b"forged completed\n")
        except OSError as error: print("closed", pid, error.errno)
PY
echo "deadbeef status 0"; echo "deadbeef completed" >&2; exit 3
"""


def test_the_control_channel_is_out_of_reach_with_one_capability_more(verifier: Verifier) -> None:
    """With SETPCAP the tests run with less than the verifier has: its memory and descriptors are refused."""
    trace, result = verifier.run(PLAIN, SPY, cap_add=("SETPCAP",))
    assert trace.guarded and trace.completed and trace.script_status == 3
    assert b"refused 1 13" in result.output and b"closed 1 13" in result.output
    assert b"forged" not in result.control
    assert b"/swe-pytest/patch.diff" not in result.output and b"test.diff" not in result.output


def test_without_the_capability_the_trace_says_so(verifier: Verifier) -> None:
    """Where the kernel does not guard the first process nothing is claimed, and words without the nonce
    are still no records."""
    trace, result = verifier.run(PLAIN, SPY)
    assert not trace.guarded and b"refused 1 13" not in result.output
    assert b"forged completed" in result.control
    assert trace.completed and trace.script_status == 3


@pytest.mark.parametrize(
    "control", [b"", b"\xff\xfe\n", b"x start a\n", b"n", b"n \n", b"no start a\nN applied strict\n", b" n applied s\n"]
)
def test_nothing_is_read_into_words_without_the_nonce(control: bytes) -> None:
    """A control channel that says nothing of ours claims nothing."""
    trace = read_trace(control, "n")
    assert not (trace.start_tree or trace.applied or trace.started or trace.completed or trace.fault)


def test_a_trace_that_breaks_off_is_read_as_far_as_it_came() -> None:
    """Records cut anywhere never raise, and never tell of more than happened."""
    whole = b"noise\nn start abc\nn matches\nn attempt 1 strict\nerror: no\nn attempt 0 git apply --verbose\n"
    whole += b"n applied git apply --verbose\nn restored a%20b\nn attempt 0 test patch\nn ready\nn guarded 1\n"
    whole += b"n running\nn status 0\nn completed\n"
    for length in range(len(whole)):
        trace = read_trace(whole[:length], "n")
        assert not trace.completed or length >= len(whole) - 1
    full = read_trace(whole, "n")
    assert full.completed and full.script_status == 0 and full.restored == ("a b",)
    assert full.apply_attempts[0].said == "error: no" and full.apply_step == "git apply --verbose"
