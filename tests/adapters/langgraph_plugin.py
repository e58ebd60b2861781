"""Pytest plugin: run LangGraph's own tests over `HoldfastSaver` in place of its savers in SQLite."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import pytest

import holdfast.blocking
from holdfast.adapters.langgraph import HoldfastSaver


@contextmanager
def _saver() -> Iterator[HoldfastSaver]:
    with holdfast.blocking.open(":memory:") as client:
        yield HoldfastSaver(client)


@asynccontextmanager
async def _async_saver() -> AsyncIterator[HoldfastSaver]:
    with _saver() as saver:
        yield saver


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems() -> None:
    # Imported late: the module belongs to the suite, which is on the path once it is collected.
    import tests.conftest as suite  # noqa: PLC0415

    suite._checkpointer_sqlite = _saver  # type: ignore[attr-defined]  # the point of the plugin
    suite._checkpointer_sqlite_aio = _async_saver  # type: ignore[attr-defined]  # the point of the plugin
