"""Grader-only fields never come within an agent's reach."""

from __future__ import annotations

from tests.plugin.conftest import Project

SECRETS = {
    "gold patch": "SECRETGOLD7d1",
    "test patch": "SECRETTEST7d2",
    "required test": "test_secretrequired7d3",
    "eval script": "SECRETEVAL7d4",
    "hints": "SECRETHINT7d5",
}

# Looks where an agent can: files of the container, every process's arguments and environment, its own input.
SEARCH = r"""
cat > /tmp/prompt
needle() { printf 'SECRET%s\n' GOLD7d1 TEST7d2 EVAL7d4 HINT7d5; printf 'test_secret%s\n' required7d3; }
needle > /tmp/needles
found=$(grep -rlFa -f /tmp/needles / --exclude-dir=proc --exclude-dir=sys --exclude=needles 2>/dev/null)
for process in /proc/[0-9]*; do
  tr '\0' '\n' < $process/cmdline 2>/dev/null | grep -qF -f /tmp/needles && found="$found $process/cmdline"
  tr '\0' '\n' < $process/environ 2>/dev/null | grep -qF -f /tmp/needles && found="$found $process/environ"
done
git rev-list --all --objects 2>/dev/null | cut -c1-40 | git cat-file --batch 2>/dev/null \
  | grep -aqF -f /tmp/needles && found="$found git"
echo "LOOKED found=[$found] prompt=$(wc -c < /tmp/prompt)"
"""


def test_an_agent_finds_nothing_of_the_grader(project: Project) -> None:
    """Gold patch, test patch, required tests, eval script and hints are nowhere in the task sandbox."""
    row = project.row()
    row["patch"] = row["patch"].replace("a + b", f"a + b  # {SECRETS['gold patch']}")
    row["test_patch"] = row["test_patch"].replace("# held out", f"# {SECRETS['test patch']}")
    row["eval_script"] = (
        row["eval_script"]
        .replace("# held out", f"# {SECRETS['test patch']}")
        .replace("cd /testbed", f"cd /testbed # {SECRETS['eval script']}")
    )
    row["FAIL_TO_PASS"] = [f"test_calc.py::{SECRETS['required test']}"]
    row["hints_text"] = SECRETS["hints"]
    # The words are pieced together inside the script, so that the script itself is not found.
    project.suite(rows=[row], configs=[project.command(SEARCH)])
    done = project.run("suites")
    (folder,) = (done.run_dir / "episodes").iterdir()
    log = (folder / "agent.log").read_text()
    assert "LOOKED found=[]" in log, log
    assert f"prompt={len(row['problem_statement'])}" in log
    assert done.record()["outcome"] == "measured"
