"""Connections to a PostgreSQL server: made when they are needed, few, and made again when the server comes back.

What is asked here may be asked twice: a connection that is lost is replaced and the question repeated, for as long as a
restart of the server takes. Whatever must not happen twice goes through the writer.
"""

import asyncio
import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from urllib.parse import parse_qs, unquote, urlsplit

import asyncpg

from holdfast.errors import HoldfastError, StoppingError, StoreBusyError, StorePathError
from holdfast.stores.postgres import migrations
from holdfast.stores.postgres.errors import Trouble, is_lost, may_be_tried_again, translated

# --- Where a PostgreSQL store is: its URL, and how to speak of it without its password.


# A name, a number or one in brackets, and a port. Several may be named, separated by commas.
_HOST = re.compile(r"(?:\[[0-9a-fA-F:.%]*\]|[^:\[\]@/]*)(?::\d{1,5})?")


class Address:
    """The address of a database. Whatever is shown of it, a password is not."""

    def __init__(self, url: str) -> None:
        self._url = url
        try:
            parts = urlsplit(url)
            hosts = parts.netloc.rpartition("@")[2]
            asked = parse_qs(parts.query, strict_parsing=bool(parts.query))
            if not all(map(_HOST.fullmatch, hosts.split(","))):
                raise ValueError("a host")  # noqa: TRY301 - the same sentence for whatever cannot be read
        except ValueError:
            # Without the cause: it may quote the address, and that may hold a password.
            raise StorePathError(
                "the address of the store is not a URL that PostgreSQL knows; write it as "
                "postgresql://user@host:5432/database, with special characters percent-encoded"
            ) from None
        database = unquote(parts.path.lstrip("/"))
        self.shown = f"postgresql://{hosts or (asked.get('host') or [''])[0]}/{database}"

    def __repr__(self) -> str:
        return f"Address({self.shown!r})"

    def arguments(self) -> dict[str, Any]:
        """Return what `asyncpg.connect` takes. What is not in the URL it takes from libpq's variables and files."""
        return {"dsn": self._url}


if TYPE_CHECKING:
    Connection: TypeAlias = asyncpg.Connection[asyncpg.Record]

# Connections for everything but writing and listening. A server has 100 for all nodes unless told otherwise.
CONNECTIONS_MAX = 8
# How long a question waits for one of them: as long as SQLite waits for its file.
BUSY_SECONDS = 5.0
CONNECT_SECONDS = 10.0
# No statement of ours takes a second unless the server is in trouble; a row is held for milliseconds.
STATEMENT_SECONDS = 30
LOCK_SECONDS = 5
# A server that was cut off says nothing at all. The statement's own limit comes first where it still lives.
SILENCE_SECONDS = STATEMENT_SECONDS + 10.0
# How long a question outlasts a server that is gone: a restart takes a few seconds. Whoever asks for more gets an
# error.
PATIENCE_SECONDS = 10.0
_PAUSES_SECONDS = (0.05, 0.1, 0.2, 0.4, 0.8)

ResultT = TypeVar("ResultT")


class Pauses:
    """When to try again, and when to give up."""

    def __init__(self, seconds: float) -> None:
        self._deadline = time.monotonic() + seconds
        self._tries = 0

    async def next(self) -> bool:
        """Wait a little longer each time; return False, at once, where there is no time left."""
        pause = _PAUSES_SECONDS[min(self._tries, len(_PAUSES_SECONDS) - 1)]
        self._tries += 1
        if time.monotonic() + pause > self._deadline:
            return False
        await asyncio.sleep(pause)
        return True


class Connections:
    """The connections of one store. They belong to the event loop that first uses them."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.is_closed = False
        self._idle: list[Connection] = []
        self._free = asyncio.Semaphore(CONNECTIONS_MAX)
        self._is_prepared = False
        self._preparing = asyncio.Lock()

    @property
    def patience_seconds(self) -> float:
        """How long to wait for a server that is gone. One that was never there is not waited for."""
        return PATIENCE_SECONDS if self._is_prepared else 0.0

    def check_open(self) -> None:
        """Raise where nothing more is taken."""
        if self.is_closed:
            raise StoppingError(f"the store {self.address.shown} was closed; open it again")

    async def connect(self) -> "Connection":
        """Return a new connection to a store in its newest layout. Raises what asyncpg raises, or errors of ours."""
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
                    # Our statements are small; compiling them would take longer than running them.
                    "jit": "off",
                },
            )
        except ValueError:
            # What asyncpg cannot read in the address it quotes, so nothing of that is passed on.
            raise StorePathError(
                f"the address of {self.address.shown} has a part that cannot be read; check what stands behind its `?`"
            ) from None
        try:
            # Accepted means on disk. A server that is set to something stronger keeps it.
            await connection.execute(
                "SELECT set_config('synchronous_commit', 'on', false) "
                "WHERE current_setting('synchronous_commit') IN ('off', 'local')"
            )
            async with self._preparing:
                if not self._is_prepared:
                    await migrations.prepare(connection, self.address.shown)
                    self._is_prepared = True
        except BaseException:
            connection.terminate()
            raise
        return connection

    async def ask(self, question: "Callable[[Connection], Awaitable[ResultT]]") -> ResultT:
        """Return the answer to something that may be asked twice."""
        self.check_open()
        pauses = Pauses(self.patience_seconds)
        while True:
            try:
                async with self._borrowed() as connection:
                    return await question(connection)
            except Trouble as error:
                if (is_lost(error) or may_be_tried_again(error)) and await pauses.next():
                    continue
                raise translated(self.address.shown, error) from error

    @asynccontextmanager
    async def _borrowed(self) -> "AsyncGenerator[Connection, None]":
        try:
            async with asyncio.timeout(BUSY_SECONDS):
                await self._free.acquire()
        except TimeoutError as error:
            raise StoreBusyError(
                f"all {CONNECTIONS_MAX} connections to {self.address.shown} were busy for {BUSY_SECONDS:g} seconds; "
                "try again"
            ) from error
        try:
            connection = await self._taken()
            try:
                yield connection
            except HoldfastError:
                # Refused in our words: the server has answered, and the connection is as good as before.
                await self._give_back(connection)
                raise
            except BaseException:
                # Lost, in the middle of something, or left by a task that was cancelled: the next one starts afresh.
                connection.terminate()
                raise
            await self._give_back(connection)
        finally:
            self._free.release()

    async def _give_back(self, connection: "Connection") -> None:
        if self.is_closed:
            await connection.close(timeout=CONNECT_SECONDS)
        else:
            self._idle.append(connection)

    async def _taken(self) -> "Connection":
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed():
                return connection
        return await self.connect()

    async def close(self) -> None:
        """Let go of every connection; those that are busy end with their question."""
        self.is_closed = True
        while self._idle:
            connection = self._idle.pop()
            try:
                await connection.close(timeout=CONNECT_SECONDS)
            except Trouble:
                connection.terminate()
