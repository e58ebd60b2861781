"""Pytest plugin: run the tests of Strands over `HoldfastStorage` and `HoldfastRepository` in place of its own."""

import importlib
import sys
from typing import Any

import strands.storage
import strands.storage.in_memory_storage

import holdfast.blocking
from holdfast.adapters.strands import HoldfastRepository, HoldfastStorage

# Kept open for all tests: a store in memory each.
_clients: list[holdfast.blocking.Client] = []


def _client() -> holdfast.blocking.Client:
    _clients.append(holdfast.blocking.open(":memory:"))
    return _clients[-1]


class InMemoryStorage(HoldfastStorage):
    """`HoldfastStorage` with the constructor of the storage in memory."""

    def __init__(self, *, search_strategy: Any = None) -> None:
        super().__init__(_client(), search_strategy=search_strategy)


class MockedSessionRepository(HoldfastRepository):
    """`HoldfastRepository` with the constructor of the repository of the suite."""

    def __init__(self) -> None:
        super().__init__(_client())


for _module in (strands.storage, strands.storage.in_memory_storage):
    _module.InMemoryStorage = InMemoryStorage  # type: ignore[attr-defined, misc]  # the point of the plugin


def pytest_configure() -> None:
    # Imported late: the module belongs to the suite, whose folder pytest has put on the path.
    sys.path.insert(0, ".")
    suite: Any = importlib.import_module("tests.fixtures.mock_session_repository")
    suite.MockedSessionRepository = MockedSessionRepository


def pytest_unconfigure() -> None:
    for client in _clients:
        client.close()
