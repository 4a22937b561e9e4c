"""swe_pytest: software-engineering benchmarks as pytest suites, with rewards that can be believed.

The public surface, besides the pytest plugin, the command line and the files people write:

    load_cases       the cases of a suite, for a fixture `case` of one's own
    Case             benchmark x config x instance x repeat
    EpisodeRecord    what is known of one run of a case; Outcome says measured, masked or not run
    Sandbox          a live container; SandboxError and its subclasses say what went wrong with it
    Agent            the port for agents: AgentSession, AgentResult, AgentEnd
    Benchmark        the port for benchmarks: Task is the public half of an instance, Gold the grader's
    SandboxProvider  the port for container backends
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from swe_pytest.agents.contract import Agent, AgentEnd, AgentResult, AgentSession
    from swe_pytest.benchmarks.contract import Benchmark
    from swe_pytest.benchmarks.task import Gold, Task
    from swe_pytest.results.record import EpisodeRecord, Outcome
    from swe_pytest.sandbox.contract import Sandbox, SandboxProvider
    from swe_pytest.sandbox.errors import SandboxError
    from swe_pytest.suites.plan import Case, load_cases

_HOMES = {
    "Agent": "agents.contract",
    "AgentEnd": "agents.contract",
    "AgentResult": "agents.contract",
    "AgentSession": "agents.contract",
    "Benchmark": "benchmarks.contract",
    "Case": "suites.plan",
    "EpisodeRecord": "results.record",
    "Gold": "benchmarks.task",
    "Outcome": "results.record",
    "Sandbox": "sandbox.contract",
    "SandboxError": "sandbox.errors",
    "SandboxProvider": "sandbox.contract",
    "Task": "benchmarks.task",
    "load_cases": "suites.plan",
}

__all__ = [
    "Agent",
    "AgentEnd",
    "AgentResult",
    "AgentSession",
    "Benchmark",
    "Case",
    "EpisodeRecord",
    "Gold",
    "Outcome",
    "Sandbox",
    "SandboxError",
    "SandboxProvider",
    "Task",
    "__version__",
    "load_cases",
]


def __getattr__(name: str) -> object:
    # Lazily, so that an ordinary pytest session that merely has the plugin installed pays for none of it.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    value: object = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
