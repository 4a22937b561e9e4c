"""What an episode costs over the least that docker can do for two containers, in the same run."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from bench import trivial
from swe_pytest.episode.episode import run_episode
from swe_pytest.episode.run import Run, open_run
from swe_pytest.results.record import Stage
from swe_pytest.results.run_dir import RunDir
from swe_pytest.sandbox.engine import Engine, find_engine
from swe_pytest.sandbox.ownership import Ownership, current_owner, new_run_id
from swe_pytest.suites.plan import load_suite, plan


def bare_cycle(engine: Engine) -> Callable[[], None]:
    """Return one bare cycle: create, start, exec, remove, by raw API."""
    client = engine.client()

    def cycle() -> None:
        config = client.create_host_config(network_mode="none")
        container = client.create_container(
            trivial.IMAGE,
            ["/bin/sh", "-c", "while :; do sleep 86400; done"],
            host_config=config,
            labels={"swe-pytest.role": "bench"},
            name=f"swe-pytest-bench-{time.time_ns()}",
        )["Id"]
        try:
            client.start(container)
            execution = client.exec_create(container, ["/bin/true"])["Id"]
            client.exec_start(execution)
            client.exec_inspect(execution)
        finally:
            client.remove_container(container, force=True)

    return cycle


def measure(runs: int = 15) -> list[str]:
    """Return the report's lines: bare twice, an episode, its stages, and the ratio."""
    engine = find_engine()
    base = trivial.build_image(engine)
    bare = bare_cycle(engine)
    bares: list[float] = []
    episodes: list[float] = []
    stages: dict[str, list[float]] = {str(stage): [] for stage in Stage}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="swe-pytest-bench-")))
        suite = trivial.write_suite(folder / "suite", [trivial.row(base)], repeats=runs + 1)
        cases = plan(load_suite(suite / "suite.yaml", folder)).cases("rollout")
        run_id = new_run_id()
        ownership = Ownership(run_id, current_owner(), "main")
        run: Run = stack.enter_context(open_run(RunDir.create(folder / "run"), ownership, engine))
        for number, case in enumerate(cases):
            began = time.perf_counter()
            bare()
            bare()
            between = time.perf_counter()
            record = run_episode(case, run)
            ended = time.perf_counter()
            if not record.resolved:
                raise SystemExit(f"the trivial task was not resolved: {record.mask_reason or record.verdict}")
            if number == 0:
                continue  # the first of each pays for imports and caches
            bares.append(between - began)
            episodes.append(ended - between)
            for stage, spent in record.durations.items():
                stages[stage].append(spent)
    bare_s, episode_s = statistics.median(bares), statistics.median(episodes)
    lines = [
        f"bare docker, create/start/exec/remove twice: {bare_s * 1000:.0f} ms (median of {len(bares)})",
        f"an episode, gold on the trivial task:        {episode_s * 1000:.0f} ms",
        f"ratio: {episode_s / bare_s:.2f} (goal: at most 1.30)",
    ]
    return lines + [
        f"  {stage}: {statistics.median(spent) * 1000:.0f} ms" for stage, spent in stages.items() if spent
    ]
