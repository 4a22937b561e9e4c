"""The agents by harness name. Adding one is a module and a line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

from swe_pytest.agents.command import CommandAgent
from swe_pytest.agents.contract import Agent
from swe_pytest.agents.gold import GoldAgent
from swe_pytest.agents.noop import NoopAgent

Settings = Mapping[str, object]
# A factory gets the settings of the config's `agent` block and the gold patch, which only `gold` may use.
Factory = Callable[[Settings, bytes], Agent]


def _command(settings: Settings, gold_patch: bytes) -> Agent:
    return CommandAgent(
        command=str(settings["command"]),
        env=dict(cast("Mapping[str, str]", settings.get("env") or {})),
        version=str(settings.get("version") or "1"),
    )


_FACTORIES: dict[str, Factory] = {
    "gold": lambda settings, gold_patch: GoldAgent(gold_patch),
    "noop": lambda settings, gold_patch: NoopAgent(),
    "command": _command,
}


def agent_names() -> tuple[str, ...]:
    """Return the harness names a config may use."""
    return tuple(_FACTORIES)


def make_agent(harness: str, settings: Settings, gold_patch: bytes) -> Agent:
    """Return the agent of a config. Raises: KeyError for a harness that validation would have refused."""
    return _FACTORIES[harness](settings, gold_patch)
