"""The plan: which cases a suite comes to. Every worker imports it, so models are loaded only with a suite."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from swe_pytest.benchmarks.task import RowRef
from swe_pytest.problem import Problem
from swe_pytest.suites.case import Case, Check, Expectation, Fault, pair_id
from swe_pytest.suites.near import alternatives, near

if TYPE_CHECKING:
    from swe_pytest.suites.config import Config
    from swe_pytest.suites.suite import Suite

__all__ = [
    "Case",
    "Fault",
    "LoadedSuite",
    "Plan",
    "UnknownConfig",
    "UnknownInstance",
    "UnknownName",
    "load_cases",
    "load_suite",
    "plan",
]


class UnknownName(Exception):
    """A name on the command line that nothing answers to; `near` maps each to its near matches."""

    what = "name"

    def __init__(self, names: Sequence[str], known: Iterable[str], note: str = "") -> None:
        candidates = list(known)
        self.names: tuple[str, ...] = tuple(names)
        self.near: dict[str, tuple[str, ...]] = {name: near(name, candidates) for name in self.names}
        told = (
            f"unknown {self.what} '{name}'" + (f": did you mean {alternatives(found)}?" if found else "")
            for name, found in self.near.items()
        )
        super().__init__("; ".join(told) + (f" ({note})" if note else ""))


class UnknownInstance(UnknownName):
    """An instance that the suite does not select."""

    what = "instance"


class UnknownConfig(UnknownName):
    """A config that the suite does not name."""

    what = "config"


@dataclass(frozen=True, slots=True)
class LoadedSuite:
    """A suite whose files are all right. `rows` are the selected ones in the order of the selection,
    `unselected` the ids of all others in the file; `warnings` are worth telling but stop nothing.
    """

    path: Path
    name: str
    suite: Suite
    configs: tuple[Config, ...]
    rows: tuple[RowRef, ...]
    unselected: frozenset[str]
    digest: str
    warnings: tuple[Problem, ...] = ()

    def instance_ids(self) -> list[str]:
        """Return the ids of the selected instances, in order."""
        return [row.instance_id for row in self.rows]

    def config_names(self) -> list[str]:
        """Return the names of the configs, in order."""
        return [config.name for config in self.configs]


@dataclass(frozen=True, slots=True)
class Plan:
    """What a session runs of one suite, after its options; `repeats` None = as each config says."""

    loaded: LoadedSuite
    rows: tuple[RowRef, ...]
    configs: tuple[Config, ...]
    repeats: int | None = None

    @property
    def checks(self) -> tuple[Check, ...]:
        return self.loaded.suite.checks

    def cases(self, check: Check) -> list[Case]:
        """Return the cases of one check, instance by instance, in the same order on every worker.

        An empty list when the suite does not name the check.
        """
        if check not in self.checks:
            return []
        if check == "rollout":
            return self._rollouts()
        if check == "interrupted":
            return self._interruptions()
        return self._proofs(check)

    def all_cases(self) -> list[Case]:
        """Return the cases of all checks, check after check in the order of the suite."""
        return [case for check in self.checks for case in self.cases(check)]

    def images(self) -> list[str]:
        """Return the images the plan needs, each once, in order of first use."""
        return list(dict.fromkeys(row.image for row in self.rows))

    def _rollouts(self) -> list[Case]:
        expectation = self.loaded.suite.expectation
        pairs = [(_Pair(self.loaded, "rollout", each), self.repeats or each.repeats) for each in self.configs]
        return [
            pair.case(row, repeat, numbered=repeats > 1, expect=expectation(pair.config.name))
            for row in self.rows
            for pair, repeats in pairs
            for repeat in range(1, repeats + 1)
        ]

    def _interruptions(self) -> list[Case]:
        # Positions in the whole suite, so that a narrowed run breaks a case in the same way again.
        row_at = {row.instance_id: position for position, row in enumerate(self.loaded.rows)}
        pairs = [
            (_Pair(self.loaded, "interrupted", config), self.loaded.suite.faults_for(config), position)
            for position, config in enumerate(self.loaded.configs)
            if config in self.configs
        ]
        return [
            pair.case(row, fault=faults[(row_at[row.instance_id] + position) % len(faults)])
            for row in self.rows
            for pair, faults, position in pairs
        ]

    def _proofs(self, check: Check) -> list[Case]:
        from swe_pytest.suites.config import GoldAgent, NoopAgent

        agent = GoldAgent(harness="gold") if check == "gold" else NoopAgent(harness="noop")
        update = {"name": check, "agent": agent, "repeats": 1, "description": "", "deprecated": False}
        pair = _Pair(self.loaded, check, self.configs[0].model_copy(update=update))
        return [pair.case(row) for row in self.rows]


class _Pair:
    """What the cases of one check and config share."""

    def __init__(self, loaded: LoadedSuite, check: Check, config: Config) -> None:
        from swe_pytest.suites.config import config_digest

        self.loaded = loaded
        self.check: Check = check
        self.config = config
        self.digest = config_digest(config)
        prefix = f"{config.name}-"
        names = loaded.config_names() if check in ("rollout", "interrupted") else []
        self.longer = tuple(f"{name.removeprefix(prefix)}-" for name in names if name.startswith(prefix))

    def case(
        self,
        row: RowRef,
        repeat: int = 1,
        *,
        numbered: bool = False,
        fault: Fault | None = None,
        expect: Expectation = "any",
    ) -> Case:
        name = pair_id(self.config.name, row.instance_id, self.longer)
        return Case(
            suite=self.loaded.name,
            check=self.check,
            benchmark=self.loaded.suite.benchmark,
            config=self.config,
            ref=row,
            repeat=repeat,
            fault=fault,
            id=f"{name}-r{repeat}" if numbered else name,
            config_digest=self.digest,
            suite_digest=self.loaded.digest,
            expect=expect,
        )


def load_suite(path: Path, root: Path, *, rows_required: bool = True) -> LoadedSuite:
    """Read a suite file with everything it refers to, below `root` (pytest's rootdir).

    With `rows_required` false, rows that have not been prepared yet are a warning and leave `rows` empty.
    Raises: InvalidFiles with every problem of all the files, before anything has been started.
    """
    from swe_pytest.suites import load

    return load.load_suite(path, root, rows_required=rows_required)


def plan(
    loaded: LoadedSuite,
    *,
    instances: Sequence[str] = (),
    config: str | None = None,
    repeats: int | None = None,
    limit: int | None = None,
) -> Plan:
    """Narrow a suite to what the session's options ask for; `limit` counts instances.

    Raises: UnknownInstance, UnknownConfig; ValueError for less than one repeat or a negative limit.
    """
    for option, number, least in (("repeats", repeats, 1), ("limit", limit, 0)):
        if number is not None and number < least:
            raise ValueError(f"{option} must be at least {least}, not {number}")
    configs = loaded.configs
    if config is not None:
        configs = tuple(each for each in configs if each.name == config)
        if not configs:
            raise UnknownConfig([config], loaded.config_names())
    rows = loaded.rows
    if instances:
        wanted = set(instances)
        rows = tuple(row for row in rows if row.instance_id in wanted)
        known = {row.instance_id for row in rows}
        missing = [name for name in dict.fromkeys(instances) if name not in known]
        if missing:
            left_out = [name for name in missing if name in loaded.unselected]
            note = f"{', '.join(left_out)}: in the rows, but not selected by this suite" if left_out else ""
            raise UnknownInstance(missing, loaded.instance_ids(), note)
    return Plan(loaded, rows[:limit], configs, repeats)


def load_cases(path: Path | str, *, check: Check = "rollout", root: Path | None = None) -> list[Case]:
    """Return the cases of a suite (a suite.yaml or its folder), for a fixture `case` of one's own.

    Configs are searched up to `root`, the current directory if None. Raises: InvalidFiles.
    """
    file = Path(path).resolve()
    loaded = load_suite(file / "suite.yaml" if file.is_dir() else file, (root or Path.cwd()).resolve())
    return plan(loaded).cases(check)
