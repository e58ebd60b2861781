"""PostgreSQL servers that belong to one module of tests, which may stop them or change whom they let in."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

from holdfast.lab.benches.postgres import NoServerError, OwnServer
from tests.stores.postgres_server import on, unavailable


def an_own_server() -> Iterator[OwnServer]:
    """Start a server, and end it when the module has ended: the body of a fixture."""
    try:
        own = OwnServer(is_durable=False, settings={"max_connections": "20"})
    except NoServerError as error:
        unavailable(str(error))
        raise
    yield own
    own.close()


@asynccontextmanager
async def a_database(server: OwnServer) -> AsyncIterator[str]:
    """Make an empty database and yield its address."""
    await on(server.url(), lambda db: db.execute("CREATE DATABASE sessions"))
    yield server.url("sessions")
    await on(server.url(), lambda db: db.execute("DROP DATABASE sessions WITH (FORCE)"))
