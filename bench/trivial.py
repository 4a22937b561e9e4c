"""A task with nothing to it: what an episode of it costs is what the harness costs."""

from __future__ import annotations

import json
import os
from pathlib import Path

from swe_pytest.sandbox.engine import Engine

BASE_IMAGE = "swe-pytest/base:bookworm"
IMAGE = "swe-pytest/bench-trivial:1"
INSTANCE = "bench__trivial-1"

_BUILD = """
set -e
mkdir -p /testbed && cd /testbed
git init -q -b main .
printf 'def add(a, b):\\n    return a - b\\n' > calc.py
git add -A
GIT_COMMITTER_DATE='2020-01-01T00:00:00Z' git -c user.name=bench -c user.email=bench@invalid \
  commit -q -m base --date '2020-01-01T00:00:00Z'
git rev-parse HEAD
"""

_PATCH = """diff --git a/calc.py b/calc.py
--- a/calc.py
+++ b/calc.py
@@ -1,2 +1,2 @@
 def add(a, b):
-    return a - b
+    return a + b
"""

_TEST_PATCH = """diff --git a/test_calc.py b/test_calc.py
new file mode 100644
--- /dev/null
+++ b/test_calc.py
@@ -0,0 +1 @@
+# held out
"""

# The cheapest honest test: a shell that looks for the fix and reports in the words of a pytest summary.
_EVAL = f"""#!/bin/bash
set -uxo pipefail
cd /testbed
git apply -v - <<'EOF_TEST'
{_TEST_PATCH}EOF_TEST
: '>>>>> Start Test Output'
grep -q 'a + b' calc.py && echo 'PASSED test_calc.py::test_add' || echo 'FAILED test_calc.py::test_add'
: '>>>>> End Test Output'
"""


def build_image(engine: Engine) -> str:
    """Make the image if it is not there, and return the base commit in it."""
    import docker.errors

    client = engine.client()
    try:
        labels = client.inspect_image(IMAGE)["Config"]["Labels"]
        return str(labels["swe-pytest.bench.base"])
    except docker.errors.ImageNotFound:
        pass
    created = client.create_container(
        BASE_IMAGE,
        ["/bin/sh", "-c", _BUILD],
        name="swe-pytest-bench-build",
        labels={"swe-pytest.role": "build"},
    )
    try:
        client.start(created["Id"])
        client.wait(created["Id"])
        output = client.logs(created["Id"], stdout=True, stderr=False)
        base = output.decode().strip().splitlines()[-1]
        repository, tag = IMAGE.split(":")
        client.commit(
            created["Id"],
            repository,
            tag,
            conf={
                "WorkingDir": "/testbed",
                "Labels": {"swe-pytest.bench.base": base, "swe-pytest.image": "1"},
            },
        )
    finally:
        client.remove_container(created["Id"], force=True)
    return base


def row(base_commit: str, instance_id: str = INSTANCE) -> dict[str, object]:
    """Return the task in the format of swebench 5."""
    return {
        "instance_id": instance_id,
        "repo": "bench/trivial",
        "version": "1",
        "image": IMAGE,
        "base_commit": base_commit,
        "problem_statement": "add() subtracts.",
        "patch": _PATCH,
        "test_patch": _TEST_PATCH,
        "FAIL_TO_PASS": ["test_calc.py::test_add"],
        "PASS_TO_PASS": [],
        "log_parser": "parse_log_pytest",
        "eval_type": "pass_and_fail",
        "eval_script": _EVAL,
        "workdir": "/testbed",
    }


def inner_environ(folder: Path) -> dict[str, str]:
    """Return the environment of an inner pytest session: as a user's, with compiled sources kept."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environ.pop("PYTHONDONTWRITEBYTECODE", None)
    root = Path(__file__).resolve().parent.parent
    return {**environ, "PYTHONPYCACHEPREFIX": str(folder / "pycache"), "PYTHONPATH": str(root)}


def write_suite(folder: Path, rows: list[dict[str, object]], *, repeats: int = 1) -> Path:
    """Write a suite of these rows with the gold agent and no network, and return its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "suite.yaml").write_text(
        "benchmark: swebench:custom\n"
        "rows: rows.jsonl\n"
        "configs:\n"
        f"  - {{name: gold, agent: {{harness: gold}}, verifier: {{network: none}}, repeats: {repeats}}}\n"
    )
    return folder
