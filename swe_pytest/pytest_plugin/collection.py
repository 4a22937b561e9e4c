"""Collection: a suite.yaml is a module of checks, parametrized by its cases."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

from swe_pytest.problem import InvalidFiles, Problem
from swe_pytest.pytest_plugin.plan import marked

if TYPE_CHECKING:
    from swe_pytest.suites.plan import Case, Plan

SUITE_FILE = "suite.yaml"
_PLANS: pytest.StashKey[dict[Path, Plan]] = pytest.StashKey()


@contextmanager
def gc_as_before() -> Iterator[None]:
    """Whatever the collection of suites does to the garbage collector, it is undone."""
    enabled = gc.isenabled()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def plan_of(path: Path, config: pytest.Config) -> Plan:
    """Return the plan of a suite file under the command line's options; each file is read once a session.

    Names that this suite does not have select nothing in it: whether any suite has them is judged over
    all of them, in `check_selection`. Raises: InvalidFiles with every problem found.
    """
    from swe_pytest.suites.plan import Plan, load_suite, plan

    plans = config.stash.setdefault(_PLANS, {})
    if path not in plans:
        loaded = load_suite(path, config.rootpath)
        for other in plans.values():
            if other.loaded.name == loaded.name:
                # Case ids begin with it, and two cases of one name would share a record.
                remedy = "set `name:` in one of them"
                raise InvalidFiles(
                    [Problem(path, 0, 0, f"{other.loaded.path} is called {loaded.name!r} too", remedy)]
                )
        for warning in loaded.warnings:
            warnings.warn(pytest.PytestWarning(str(warning)), stacklevel=2)
        asked: Sequence[str] = config.getoption("--swe-instance")
        name: str | None = config.getoption("--swe-config")
        here = {row.instance_id for row in loaded.rows}.intersection(asked)
        if (asked and not here) or (name is not None and name not in {each.name for each in loaded.configs}):
            plans[path] = Plan(loaded, (), ())
        else:
            plans[path] = plan(
                loaded,
                instances=sorted(here),
                config=name,
                repeats=config.getoption("--swe-repeats"),
                limit=config.getoption("--swe-limit"),
            )
    return plans[path]


def plans_of(config: pytest.Config) -> list[Plan]:
    """Return every plan of the session so far."""
    return list(config.stash.get(_PLANS, {}).values())


def suite_files(config: pytest.Config) -> list[Path]:
    """Return the suite files that the command line's arguments name or contain."""
    found: list[Path] = []
    for argument in config.args:
        path = (config.invocation_params.dir / argument.split("::")[0]).resolve()
        if path.is_file() and path.name == SUITE_FILE:
            found.append(path)
        elif path.is_dir():
            found += sorted(file for file in path.rglob(SUITE_FILE) if _is_suite(file))
    return list(dict.fromkeys(found))


def check_selection(config: pytest.Config) -> None:
    """Refuse instance ids and config names that no collected suite has, before anything is collected.

    Runs in the controller, so that it is one usage error also under xdist.
    Raises: pytest.UsageError that lists near matches.
    """
    from swe_pytest.suites.plan import UnknownConfig, UnknownInstance, UnknownName, load_suite

    asked: Sequence[str] = config.getoption("--swe-instance")
    name: str | None = config.getoption("--swe-config")
    if not asked and name is None:
        return
    selected: set[str] = set()
    others: set[str] = set()
    configs: set[str] = set()
    files = suite_files(config)
    if not files:
        return  # suites come by marks only, which nobody has read yet
    for path in files:
        try:
            loaded = load_suite(path, config.rootpath)
        except InvalidFiles:
            return  # collection reports it, with all its problems
        selected.update(row.instance_id for row in loaded.rows)
        others.update(loaded.unselected)
        configs.update(each.name for each in loaded.configs)
    unknown: list[UnknownName] = []
    missing = [each for each in dict.fromkeys(asked) if each not in selected]
    if missing:
        left_out = [each for each in missing if each in others]
        note = f"{', '.join(left_out)}: in the rows, but not selected by any suite" if left_out else ""
        unknown.append(UnknownInstance(missing, sorted(selected), note))
    if name is not None and name not in configs:
        unknown.append(UnknownConfig([name], sorted(configs)))
    if unknown:
        raise pytest.UsageError("\n".join(str(each) for each in unknown))


def _is_suite(path: Path) -> bool:
    """Tell ours from other tools' suite.yaml files, which a run over a whole tree may meet."""
    try:
        text = path.read_bytes()[:65536]
    except OSError:
        return False
    return any(line.startswith((b"benchmark:", b"configs:")) for line in text.splitlines())


def collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """The pytest_collect_file hook."""
    if file_path.name != SUITE_FILE:
        return None
    explicit = any(
        (parent.config.invocation_params.dir / argument.split("::")[0]).resolve() == file_path
        for argument in parent.config.args
    )
    if not explicit and not _is_suite(file_path):
        return None
    return SuiteModule.from_parent(parent, path=file_path)


class SuiteModule(pytest.Module):
    """A suite file as pytest sees it: the checks module, of which the suite names the functions it wants."""

    def _getobj(self) -> ModuleType:
        from swe_pytest.pytest_plugin import checks

        return checks

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        try:
            self.plan = plan_of(self.path, self.config)
        except InvalidFiles as invalid:
            raise self.CollectError(str(invalid)) from None
        self.add_marker("swe")
        # Thousands of items that will all stay: looking among them for garbage takes a tenth of the time.
        gc.disable()
        return super().collect()

    def wants(self, name: str) -> bool:
        """Say whether the suite lists the check that this test function makes, and has cases for it."""
        return bool(self.plan.rows and self.plan.configs) and name.removeprefix("test_") in self.plan.checks


def generate_tests(metafunc: pytest.Metafunc) -> None:
    """The pytest_generate_tests hook: cases for checks, and for users' tests with the swe mark."""
    if "case" not in metafunc.fixturenames:
        return
    module = metafunc.definition.getparent(SuiteModule)
    marker = metafunc.definition.get_closest_marker("swe")
    if module is not None:
        cases = module.plan.cases(metafunc.function.__name__.removeprefix("test_"))
    elif marker is not None:
        cases = _marked_cases(metafunc, marker)
    else:
        return
    metafunc.parametrize("case", cases, ids=[case.id for case in cases], indirect=True)


def _marked_cases(metafunc: pytest.Metafunc, marker: pytest.Mark) -> list[Case]:
    suite = marker.kwargs.get("suite") or (marker.args[0] if marker.args else None)
    if not isinstance(suite, str):
        raise pytest.UsageError(
            f"{metafunc.definition.nodeid}: say @pytest.mark.swe(suite='path/of/the/suite')"
        )
    here = metafunc.definition.path.parent
    places = [base / suite for base in (here, metafunc.config.rootpath)]
    path = next((place for place in places if place.exists()), places[0]).resolve()
    if path.is_dir():
        path = path / SUITE_FILE
    try:
        cases = plan_of(path, metafunc.config).cases(marker.kwargs.get("check", "rollout"))
    except InvalidFiles as invalid:
        raise pytest.Collector.CollectError(str(invalid)) from None
    # Another episode than the suite's own of the same case, so it needs a name of its own in the run.
    mark = marked(metafunc.definition.nodeid)
    return [replace(case, suite=f"{case.suite}+{metafunc.function.__name__}-{mark}") for case in cases]
