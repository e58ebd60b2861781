"""Connection pool for a PostgreSQL server, with reconnects, and translation of its errors into ours.

`query` runs idempotent work: it replaces a lost connection and repeats the work, for as long as a restart of the server
takes. Writes that must not be repeated go through the writer.

The error codes are from https://www.postgresql.org/docs/current/errcodes-appendix.html. No message quotes the address
as given, because it may hold a password.
"""

import asyncio
import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from urllib.parse import parse_qs, unquote, urlsplit

import asyncpg

from holdfast.errors import (
    BadInputError,
    HoldfastError,
    StoppingError,
    StoreAccessError,
    StoreBusyError,
    StoreFullError,
    StoreIoError,
    StorePathError,
    StoreReadOnlyError,
    StoreUnreachableError,
)
from holdfast.stores.postgres import migrations

# All exceptions of asyncpg for a failing server or connection. A timeout is an OSError. A connection whose server goes
# down while it connects raises an internal error: "another operation is in progress".
SERVER_ERRORS = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)

# The server shuts down or starts: admin shutdown, crash shutdown, cannot connect now, idle session or dropped database.
_GOING_DOWN = frozenset({"57P01", "57P02", "57P03", "57P05"})
# Rolled back and retryable: deadlock, serialization failure.
_RETRYABLE = frozenset({"40P01", "40001"})
# Raised by `holdfast.write` for a batch that `holdfast.settle` has declared void.
VOID = "HF001"


def sqlstate(error: BaseException) -> str:
    """Return the SQLSTATE of an error; "" if it is not from the server."""
    return (error.sqlstate or "") if isinstance(error, asyncpg.PostgresError) else ""


def is_connection_lost(error: BaseException) -> bool:
    """Return whether the connection was lost, so that the result of the running statement is unknown."""
    code = sqlstate(error)
    # 08: connection exceptions. Errors of asyncpg itself concern closed, busy or unsynchronised connections.
    is_ours = isinstance(error, asyncpg.InterfaceError | asyncpg.InternalClientError | OSError)
    return is_ours or code in _GOING_DOWN or code.startswith("08")


def is_retryable(error: BaseException) -> bool:
    """Return whether the server rolled back and a retry may succeed."""
    return sqlstate(error) in _RETRYABLE


def translate_error(shown: str, error: BaseException) -> HoldfastError:
    """Return the error of ours for an error of the server."""
    code = sqlstate(error)
    match code:
        case "28P01" | "28000":
            return StoreAccessError(
                f"{shown} denies access (wrong user or password); check the URL, PGPASSWORD or ~/.pgpass, "
                "and the server's pg_hba.conf"
            )
        case "42501":
            return StoreAccessError(
                f"{shown} denies permission ({error}); grant the user CREATE on the database, "
                "or all rights on the schema holdfast"
            )
        case "3D000":
            return StorePathError(f"the database {shown} does not exist; create it, as with `createdb`, and retry")
        case "53100":
            return StoreFullError(f"no space is left for {shown}; nothing was stored: free some space and retry")
        case "25006":
            return StoreReadOnlyError(
                f"{shown} is read-only, as a standby server; nothing was stored: use the primary server"
            )
        case "53300":
            return StoreBusyError(
                f"{shown} has no connection left; nothing was stored: retry, or raise max_connections there"
            )
        case "53200" | "53000" | "53400":
            return StoreBusyError(f"{shown} is out of resources ({error}); nothing was stored: retry later")
        case "57014" | "55P03" | "40P01" | "40001":
            return StoreBusyError(
                f"{shown} was too busy to answer in time ({error}); nothing was stored: retry, and look in "
                "pg_stat_activity for blocking queries"
            )
        case "54000":
            return BadInputError(f"{shown} rejects a value of this size ({error}); send it as an attachment")
        case _ if is_connection_lost(error):
            return StoreUnreachableError(
                f"{shown} does not answer ({type(error).__name__}: {error}); nothing was stored: "
                "check that the server runs and is reachable; work resumes when it does"
            )
        case _:
            return StoreIoError(f"{shown} fails ({code or type(error).__name__}: {error}); look at the server's log")


# --- Address ---

# A host name or IP address, with an optional port. A URL may have several, separated by commas.
_HOST = re.compile(r"(?:\[[0-9a-fA-F:.%]*\]|[^:\[\]@/]*)(?::\d{1,5})?")


class Address:
    """The URL of a database. `shown` has no user and no password."""

    def __init__(self, url: str) -> None:
        self._url = url
        try:
            parts = urlsplit(url)
            hosts = parts.netloc.rpartition("@")[2]
            asked = parse_qs(parts.query, strict_parsing=bool(parts.query))
            if not all(map(_HOST.fullmatch, hosts.split(","))):
                raise ValueError("a host")  # noqa: TRY301 - the same message for every invalid URL
        except ValueError:
            # Without the cause: it may quote the address, which may hold a password.
            raise StorePathError(
                "the address of the store is not a URL that PostgreSQL knows; write it as "
                "postgresql://user@host:5432/database, with special characters percent-encoded"
            ) from None
        database = unquote(parts.path.lstrip("/"))
        self.shown = f"postgresql://{hosts or (asked.get('host') or [''])[0]}/{database}"

    def __repr__(self) -> str:
        return f"Address({self.shown!r})"

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `asyncpg.connect`. It reads missing parts from the variables and files of libpq."""
        return {"dsn": self._url}


if TYPE_CHECKING:
    Connection: TypeAlias = asyncpg.Connection[asyncpg.Record]

# Pool size, without writers and listener. A server has 100 connections for all nodes by default.
CONNECTIONS_MAX = 8
# Timeout for a free connection, as for the lock of a SQLite file.
BUSY_SECONDS = 5.0
CONNECT_SECONDS = 10.0
# Our statements take less than a second on a healthy server, and row locks are held for milliseconds.
STATEMENT_SECONDS = 30
LOCK_SECONDS = 5
# Timeout for an unreachable server. On a live server the statement timeout comes first.
SILENCE_SECONDS = STATEMENT_SECONDS + 10.0
# Retry time during an outage: a restart takes a few seconds.
OUTAGE_SECONDS_MAX = 10.0
_BACKOFF_SECONDS = (0.05, 0.1, 0.2, 0.4, 0.8)

ResultT = TypeVar("ResultT")


class Backoff:
    """Growing pauses between retries, up to a deadline."""

    def __init__(self, seconds: float) -> None:
        self._deadline = time.monotonic() + seconds
        self._tries = 0

    async def next(self) -> bool:
        """Sleep longer each time. Return False at once if no time is left."""
        pause = _BACKOFF_SECONDS[min(self._tries, len(_BACKOFF_SECONDS) - 1)]
        self._tries += 1
        if time.monotonic() + pause > self._deadline:
            return False
        await asyncio.sleep(pause)
        return True


class Connections:
    """The connection pool of one store. It belongs to the event loop that first uses it."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.is_closed = False
        self._idle: list[Connection] = []
        self._free = asyncio.Semaphore(CONNECTIONS_MAX)
        self._is_prepared = False
        self._prepare_lock = asyncio.Lock()

    @property
    def outage_seconds_max(self) -> float:
        """Retry time during an outage; 0 until the first connection, so that a wrong address fails at once."""
        return OUTAGE_SECONDS_MAX if self._is_prepared else 0.0

    def check_open(self) -> None:
        """Raise `StoppingError` if the pool is closed."""
        if self.is_closed:
            raise StoppingError(f"the store {self.address.shown} is closed; open it again")

    async def connect(self) -> "Connection":
        """Connect, and migrate the schema the first time. Raises exceptions of asyncpg, or errors of ours."""
        try:
            connection: Connection = await asyncpg.connect(
                **self.address.arguments(),
                timeout=CONNECT_SECONDS,
                command_timeout=SILENCE_SECONDS,
                server_settings={
                    "application_name": "holdfast",
                    "statement_timeout": f"{STATEMENT_SECONDS}s",
                    "lock_timeout": f"{LOCK_SECONDS}s",
                    "idle_in_transaction_session_timeout": f"{STATEMENT_SECONDS}s",
                    # JIT compilation takes longer than our small statements.
                    "jit": "off",
                },
            )
        except ValueError:
            # The exception of asyncpg quotes the address, so it is dropped.
            raise StorePathError(
                f"the address of {self.address.shown} has an invalid part; check the parameters after its `?`"
            ) from None
        try:
            # Accepted means durable. A stronger setting of the server stays.
            await connection.execute(
                "SELECT set_config('synchronous_commit', 'on', false) "
                "WHERE current_setting('synchronous_commit') IN ('off', 'local')"
            )
            async with self._prepare_lock:
                if not self._is_prepared:
                    await migrations.prepare(connection, self.address.shown)
                    self._is_prepared = True
        except BaseException:
            connection.terminate()
            raise
        return connection

    async def query(self, work: "Callable[[Connection], Awaitable[ResultT]]") -> ResultT:
        """Run idempotent work on a connection, and retry it if the connection is lost."""
        self.check_open()
        backoff = Backoff(self.outage_seconds_max)
        while True:
            try:
                async with self._borrow() as connection:
                    return await work(connection)
            except SERVER_ERRORS as error:
                if (is_connection_lost(error) or is_retryable(error)) and await backoff.next():
                    continue
                raise translate_error(self.address.shown, error) from error

    @asynccontextmanager
    async def _borrow(self) -> "AsyncGenerator[Connection, None]":
        try:
            async with asyncio.timeout(BUSY_SECONDS):
                await self._free.acquire()
        except TimeoutError as error:
            raise StoreBusyError(
                f"all {CONNECTIONS_MAX} connections to {self.address.shown} were busy for {BUSY_SECONDS:g} seconds; "
                "retry later"
            ) from error
        try:
            connection = await self._take_idle()
            try:
                yield connection
            except HoldfastError:
                # Rejected by our code: the connection is still usable.
                await self._return(connection)
                raise
            except BaseException:
                # Lost, or interrupted by a cancelled task: its state is unknown.
                connection.terminate()
                raise
            await self._return(connection)
        finally:
            self._free.release()

    async def _return(self, connection: "Connection") -> None:
        if self.is_closed:
            await connection.close(timeout=CONNECT_SECONDS)
        else:
            self._idle.append(connection)

    async def _take_idle(self) -> "Connection":
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed():
                return connection
        return await self.connect()

    async def close(self) -> None:
        """Close every idle connection; busy ones are closed after their work."""
        self.is_closed = True
        while self._idle:
            connection = self._idle.pop()
            try:
                await connection.close(timeout=CONNECT_SECONDS)
            except SERVER_ERRORS:
                connection.terminate()
