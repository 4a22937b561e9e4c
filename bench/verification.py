"""Verification alone, against run_instance of the pinned swebench, on the same image, patch and test."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from bench import trivial
from swe_pytest.episode.episode import run_episode
from swe_pytest.episode.run import open_run
from swe_pytest.results.run_dir import RunDir
from swe_pytest.sandbox.engine import find_engine
from swe_pytest.sandbox.ownership import Ownership, current_owner, new_run_id
from swe_pytest.suites.plan import load_suite, plan

# In a process of its own: the package's front door is heavy, and it writes below the working directory.
_OFFICIAL = """
import json, sys, time
import docker
from swebench.harness.run_evaluation import run_instance
from swebench.types import TestSpec
row, runs = json.load(sys.stdin)
script = row["eval_script"].split("\\n")[2:]
spec = TestSpec(
    instance_id=row["instance_id"], image=row["image"], eval_script_list=script, repo=row["repo"],
    version=row["version"], FAIL_TO_PASS=row["FAIL_TO_PASS"], PASS_TO_PASS=row["PASS_TO_PASS"],
    log_parser=row["log_parser"], eval_type=row["eval_type"],
)
client = docker.from_env(timeout=600)
for number in range(runs):
    prediction = {"instance_id": row["instance_id"], "model_name_or_path": "gold", "model_patch": row["patch"]}
    began = time.perf_counter()
    result = run_instance(spec, prediction, client, f"swe-pytest-bench-{number}", timeout=600)
    spent = time.perf_counter() - began
    resolved = bool(result) and json.dumps(result).find('"resolved": true') >= 0
    print("RESULT", json.dumps([spent, resolved]), flush=True)
"""


def measure(runs: int = 3) -> list[str]:
    """Return the report's lines: the official way, ours, and the ratio."""
    engine = find_engine()
    base = trivial.build_image(engine)
    row = trivial.row(base)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="swe-pytest-bench-")))
        done = subprocess.run(
            [sys.executable, "-c", _OFFICIAL],
            input=json.dumps([row, runs]),
            capture_output=True,
            text=True,
            cwd=folder,
            check=False,
        )
        told = [json.loads(line[7:]) for line in done.stdout.splitlines() if line.startswith("RESULT ")]
        if done.returncode or len(told) != runs:
            raise SystemExit(f"swebench's run_instance failed:\n{done.stdout}\n{done.stderr}")
        suite = trivial.write_suite(folder / "suite", [row], repeats=3 * runs + 1)
        cases = plan(load_suite(suite / "suite.yaml", folder)).cases("rollout")
        ownership = Ownership(new_run_id(), current_owner(), "main")
        run = stack.enter_context(open_run(RunDir.create(folder / "run"), ownership, engine))
        ours: list[float] = []
        for case in cases:
            record = run_episode(case, run)
            ours.append(record.durations["verify"])
    official_s = statistics.median(spent for spent, _ in told)
    ours_s = statistics.median(ours[1:])
    agreed = all(resolved for _, resolved in told)
    return [
        f"swebench 5.0.2 run_instance: {official_s:.2f} s (median of {runs}; resolved: {agreed})",
        f"ours, verification only:     {ours_s:.2f} s (median of {len(ours) - 1})",
        f"ratio: {official_s / ours_s:.0f} times less (goal: at least 10)",
    ]
