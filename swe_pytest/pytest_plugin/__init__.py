"""The pytest plugin. Importing it is light: pydantic, docker and the rest come with the first suite."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from swe_pytest.pytest_plugin import collection, listing, outcomes, summary
from swe_pytest.pytest_plugin.fixtures import case, episode, run_episode, task_sandbox, verifier_sandbox
from swe_pytest.pytest_plugin.member import MEMBER, Member, RunFacts
from swe_pytest.pytest_plugin.options import MARKER, add_options
from swe_pytest.pytest_plugin.owner import OWNER, Owner
from swe_pytest.pytest_plugin.xdist_hooks import XdistHooks

__all__ = ["case", "episode", "run_episode", "task_sandbox", "verifier_sandbox"]

pytest.register_assert_rewrite("swe_pytest.pytest_plugin.checks", "swe_pytest.pytest_plugin.contract")

pytest_collect_file = collection.collect_file
pytest_generate_tests = collection.generate_tests


def pytest_addoption(parser: pytest.Parser) -> None:
    add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARKER)
    facts = _run_facts(config)
    config.stash[MEMBER] = Member(facts)
    if not hasattr(config, "workerinput"):
        config.stash[OWNER] = Owner(facts)
        config.pluginmanager.register(config.stash[OWNER], "swe_pytest_owner")
        if config.pluginmanager.hasplugin("dsession") or config.pluginmanager.hasplugin("xdist"):
            config.pluginmanager.register(XdistHooks(config), "swe_pytest_xdist")
    if config.getoption("--swe-list"):
        config.pluginmanager.register(listing, "swe_pytest_list")


def pytest_unconfigure(config: pytest.Config) -> None:
    if MEMBER in config.stash:
        config.stash[MEMBER].close()
    if OWNER in config.stash:
        config.stash[OWNER].close()


@pytest.hookimpl(wrapper=True)
def pytest_cmdline_main(config: pytest.Config) -> Generator[None, object, object]:
    # A list is made by this one process; as a wrapper this runs before xdist decides about workers.
    if config.getoption("--swe-list"):
        config.option.numprocesses = None
        config.option.dist = "no"
        config.option.tx = []
    return (yield)


def pytest_sessionstart(session: pytest.Session) -> None:
    owner = session.config.stash.get(OWNER, None)
    if owner is not None:
        if not (session.config.getoption("--swe-list") or session.config.getoption("collectonly")):
            owner.refuse_reuse()
        collection.check_selection(session.config)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    with collection.gc_as_before():
        return (yield)


def pytest_pycollect_makeitem(
    collector: pytest.Collector, name: str, obj: object
) -> list[pytest.Item] | None:
    if (
        isinstance(collector, collection.SuiteModule)
        and name.startswith("test_")
        and not collector.wants(name)
    ):
        return []
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """The plan is known: write it down and, in a session of one process, take ownership of the run.

    First of all, because xdist's worker reports its collection in this same hook, and by then the plan
    has to be there for the controller.
    """
    config = session.config
    if config.getoption("--swe-list") or config.getoption("collectonly"):
        return
    from swe_pytest.pytest_plugin.plan import name_apart, takes_part

    if not any(takes_part(item) for item in session.items):
        return
    name_apart(session.items)
    worker = getattr(config, "workerinput", {}).get("workerid")
    config.stash[MEMBER].join(session.items, write_plan=worker in (None, "gw0"))
    if worker is None:
        config.stash[OWNER].begin()


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    try:
        return (yield)
    finally:
        # What follows tells the results, in bounded time: a SIGTERM now must not lose them.
        session.config.stash[MEMBER].termination.disarm()
        if OWNER in session.config.stash:
            session.config.stash[OWNER].termination.disarm()


pytest_runtest_makereport = outcomes.pytest_runtest_makereport
pytest_report_teststatus = outcomes.pytest_report_teststatus


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    config = session.config
    config.stash[MEMBER].close()
    owner = config.stash.get(OWNER, None)
    if owner is not None:
        owner.finish(session, exitstatus)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    owner = config.stash.get(OWNER, None)
    if owner is not None:
        summary.print_results(terminalreporter, owner)


def _run_facts(config: pytest.Config) -> RunFacts:
    worker = getattr(config, "workerinput", None)
    if worker is not None:
        run_id, directory, owner = worker["swe_pytest"]
        return RunFacts(run_id, Path(directory), owner, worker["workerid"])
    from swe_pytest.sandbox.ownership import current_owner, new_run_id, valid_run_id

    run_id = config.getoption("--swe-run-id") or new_run_id()
    if not valid_run_id(run_id):
        raise pytest.UsageError(
            f"--swe-run-id {run_id!r}: use letters, digits and ._- with a letter or digit first, at most 48 of them"
        )
    chosen: Path | None = config.getoption("--swe-run-dir")
    directory = config.invocation_params.dir / (chosen or Path("swe-pytest-runs") / run_id)
    return RunFacts(run_id, directory, current_owner(), "main")
