"""A PostgreSQL server for the tests: one for all workers of a run, a database of its own for every test.

A test asks for the fixture `postgres_url`, an empty database with the layout in it, or `bare_postgres_url`, one
without. The server is started by the first test that needs it, in a process that ends it when the run has ended,
however it did. Where none can be brought up the tests are skipped with a sentence, and fail with it where CI is set.
"""

import asyncio
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import asyncpg
import pytest

from holdfast.lab.benches.postgres import NoServerError, OwnServer
from holdfast.stores.postgres import migrations

ROOT = Path(__file__).resolve().parents[2]
TEMPLATE = "template_holdfast"
_numbers = count(1)

ResultT = TypeVar("ResultT")


class Shared:
    """The one server of a run: where it listens."""

    def __init__(self, url: str) -> None:
        # The address of a database, with its name left open.
        self._url = url

    @property
    def socket(self) -> Path:
        return Path(parse_qs(urlsplit(self._url).query)["host"][0]) / ".s.PGSQL.5432"

    def url(self, database: str) -> str:
        return self._url.replace("DATABASE", database)


def unavailable(sentence: str) -> None:
    """Say that there is no server: a failure in CI, where nobody would notice a test that is skipped."""
    if os.environ.get("CI"):
        pytest.fail(sentence)
    pytest.skip(sentence)


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Shared:
    folder = tmp_path_factory.getbasetemp()
    # Set by pytest-xdist in its workers. Its fixture `worker_id` does not exist under `-p no:xdist`.
    is_worker = "PYTEST_XDIST_WORKER" in os.environ
    # Each worker has its own folder inside the folder of the run.
    folder = folder.parent if is_worker else folder
    # The process that ends last: the one that started the workers, or the only one.
    run = os.getppid() if is_worker else os.getpid()
    told = folder / "postgres.json"
    with _alone(folder / "postgres.lock"):
        if not told.exists():
            told.write_text(json.dumps(_started(run)))
    found = json.loads(told.read_text())
    if "why_not" in found:
        unavailable(found["why_not"])
    return Shared(found["url"])


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _started(run: int) -> dict[str, str]:
    """Start a keeper with a server, and return what it says."""
    keeper = subprocess.Popen(
        [sys.executable, "-m", "tests.stores.postgres_server", str(run)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # It outlives the worker that starts it, so what it runs is no part of what is measured.
        env={name: value for name, value in os.environ.items() if not name.startswith("COV")},
    )
    assert keeper.stdout is not None
    said = keeper.stdout.readline()
    keeper.stdout.close()
    # Its end is nobody's business here: it follows the run.
    keeper.returncode = 0
    return {"keeper": str(keeper.pid), **json.loads(said)}


def keep(run: int) -> None:
    """Be the keeper: bring up a server with a template, say where it is, and end it when the run has ended."""
    # Whoever ends the keeper ends the server in order, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    try:
        server = OwnServer(is_durable=False, settings={"max_connections": "400", "shared_buffers": "64MB"})
    except NoServerError as error:
        _say({"why_not": str(error)})
        return
    try:
        asyncio.run(_make_template(server))
        _say({"url": server.url("DATABASE")})
        while _is_alive(run):
            time.sleep(0.5)
    finally:
        server.close()


def _say(what: dict[str, str]) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def _make_template(server: OwnServer) -> None:
    await on(server.url(), lambda db: db.execute(f"CREATE DATABASE {TEMPLATE}"))
    await on(server.url(TEMPLATE), lambda db: migrations.prepare(db, "the template"))


async def on(url: str, work: Callable[[Any], Awaitable[ResultT]]) -> ResultT:
    """Do something on a connection of its own."""
    connection = await asyncpg.connect(url)
    try:
        return await work(connection)
    finally:
        await connection.close()


async def _made(server: Shared, template: str) -> str:
    name = f"test_{os.getpid()}_{next(_numbers)}_{uuid4().hex[:8]}"
    await on(server.url("postgres"), lambda db: db.execute(f"CREATE DATABASE {name} TEMPLATE {template}"))
    return name


async def _dropped(server: Shared, name: str) -> None:
    await on(server.url("postgres"), lambda db: db.execute(f"DROP DATABASE {name} WITH (FORCE)"))


_TABLES = """
    SELECT string_agg(format('%I.%I', schemaname, tablename), ', ') FROM pg_tables
    WHERE schemaname = 'holdfast' AND tablename <> 'layout'
"""
_LEAVE = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> $1"


async def emptied(db: Any) -> None:
    """Leave nothing of the test before, which takes a tenth of the time of making a database."""
    await db.execute(_LEAVE, db.get_server_pid())
    await db.execute(f"TRUNCATE {await db.fetchval(_TABLES)}")


@pytest.fixture(scope="session")
def _own_postgres_url(postgres_server: Shared) -> Iterator[str]:
    """A database of this worker."""
    name = asyncio.run(_made(postgres_server, TEMPLATE))
    yield postgres_server.url(name)
    asyncio.run(_dropped(postgres_server, name))


@pytest.fixture
def postgres_url(_own_postgres_url: str) -> str:
    """An empty database with the layout in it, for this test alone."""
    asyncio.run(on(_own_postgres_url, emptied))
    return _own_postgres_url


@pytest.fixture
def bare_postgres_url(postgres_server: Shared) -> Iterator[str]:
    """A database with nothing in it."""
    name = asyncio.run(_made(postgres_server, "template1"))
    yield postgres_server.url(name)
    asyncio.run(_dropped(postgres_server, name))


if __name__ == "__main__":
    keep(int(sys.argv[1]))
