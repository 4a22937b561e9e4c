"""`swe-pytest regrade`: compute the verdicts of a run again from its stored logs, with no container."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]
    from swe_pytest.grading.regrade import Regraded
    from swe_pytest.results.record import Verdict


def add_parser(subparsers: Subparsers) -> None:
    """Register the command."""
    parser = subparsers.add_parser("regrade", help="compute verdicts again from stored logs")
    parser.add_argument("run_dir", type=Path, metavar="RUN_DIR", help="a run's directory")
    parser.add_argument("--json", action="store_true", help="print one JSON object an episode")
    parser.add_argument("--write", action="store_true", help="write changed verdicts into the records")


def run(args: argparse.Namespace) -> int:
    """Print what differs. Returns 0, also when verdicts changed; 1 when nothing could be regraded."""
    from swe_pytest.grading.official import GraderUnavailable
    from swe_pytest.grading.regrade import regrade, write_regraded

    try:
        episodes = regrade(args.run_dir)
    except (FileNotFoundError, GraderUnavailable) as error:
        print(error, file=sys.stderr)
        return 1
    for episode in episodes:
        if args.json:
            print(json.dumps(_as_json(episode)))
        elif episode.changed:
            before, after = _words(episode.before), _words(episode.after)
            print(f"{episode.case_id}: {before} -> {after} {episode.note}".rstrip())
        if args.write:
            write_regraded(episode)
    changed = sum(episode.changed for episode in episodes)
    kept = sum(episode.note.startswith("kept") for episode in episodes)
    if not args.json:
        print(f"{len(episodes)} episodes, {len(episodes) - kept} graded again, {changed} changed")
        if args.write and changed:
            print(f"totals are made from the records by: swe-pytest report {args.run_dir}")
    return 0


def _words(verdict: Verdict | None) -> str:
    if verdict is None:
        return "not measured"
    word = "resolved" if verdict.reward == 1.0 else "unresolved"
    return f"{word} ({verdict.reason})" if verdict.reason else word


def _as_json(episode: Regraded) -> dict[str, object]:
    def short(verdict: Verdict | None) -> dict[str, object] | None:
        if verdict is None:
            return None
        return {"official": verdict.official, "reward": verdict.reward, "reason": verdict.reason}

    return {
        "case_id": episode.case_id,
        "changed": episode.changed,
        "before": short(episode.before),
        "after": short(episode.after),
        "note": episode.note,
    }
