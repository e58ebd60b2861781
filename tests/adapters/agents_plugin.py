"""Pytest plugin: run the session tests of the Agents SDK over `HoldfastSession` in place of `SQLiteSession`."""

from pathlib import Path

import agents
import agents.memory
import agents.memory.sqlite_session
from agents.memory.session_settings import SessionSettings

import holdfast.blocking
from holdfast.adapters.openai_agents import HoldfastSession

_clients: dict[str, holdfast.blocking.Client] = {}


class SQLiteSession(HoldfastSession):
    """`HoldfastSession` with the constructor of the SDK's own session."""

    def __init__(
        self,
        session_id: str,
        db_path: str | Path = ":memory:",
        *_tables: str,
        session_settings: SessionSettings | None = None,
    ) -> None:
        path = str(db_path)
        client = _clients.get(path)
        if client is None:
            client = holdfast.blocking.open(path if path == ":memory:" else f"{path}-holdfast")
        if path != ":memory:":
            _clients[path] = client
        super().__init__(session_id, client, session_settings=session_settings)


for _module in (agents, agents.memory, agents.memory.sqlite_session):
    _module.SQLiteSession = SQLiteSession  # type: ignore[misc, assignment]  # the point of the plugin


def pytest_sessionfinish() -> None:
    for client in _clients.values():
        client.close()
