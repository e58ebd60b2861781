"""Group commit for a PostgreSQL store: many operations, one round trip, one commit.

Operations queue while a batch runs; the next batch takes all of them. An operation succeeds only after the commit has
returned. If the connection is lost in between, the writer asks the server about the number of the batch: it was
written, or the question itself makes it void. So nothing is written twice, and every caller gets the true result.

There are two writers, each for half of the sessions: while one waits for the server, the other computes.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import UUID, uuid4
from zlib import crc32

from holdfast.errors import HoldfastError, OutcomeUnknownError, StoppingError, StoreBusyError, StoreIoError
from holdfast.ports import Clock
from holdfast.stores.feeds import NewRow
from holdfast.stores.postgres.batch import Batch, KnownIds, Operation, RowCache, versioned_row
from holdfast.stores.postgres.connections import (
    CONNECT_SECONDS,
    SERVER_ERRORS,
    VOID,
    Backoff,
    Connections,
    is_connection_lost,
    is_retryable,
    sqlstate,
    translate_error,
)
from holdfast.stores.postgres.migrations import SQL

if TYPE_CHECKING:
    from holdfast.stores.postgres.connections import Connection

# Python and the server each take about half of the time of a batch, so two writers keep both busy. A third would only
# make batches smaller, and each batch is a sync of the server's disk.
WRITERS = 2
# Limits of a batch: an operation waits for some ten milliseconds of other work at most. A larger operation is a batch
# of its own, so that its failure affects no other.
BATCH_OPERATIONS_MAX = 256
BATCH_BYTES_MAX = 8 * 2**20
# Limit of the queue. A task has one operation in flight, so this many tasks wait before one is rejected.
WAITING_MAX = 20_000
# Retries of an operation whose session was changed by another writer. Each retry means that another one succeeded, so
# this many in a row indicate a fault.
ROUNDS_MAX = 50
# Timeout for the result of a batch whose connection was lost: the length of a lease, after which another worker may
# have continued.
IN_DOUBT_SECONDS = 30.0

_REGISTER = SQL["register_writer"]
_SWEEP = SQL["sweep_writers"]
_UNREGISTER = SQL["unregister_writer"]
_NOW = SQL["now"]
_SELECT_ROWS = SQL["read_rows_of_sessions"]
_SELECT_IDS = SQL["find_client_ids"]


def _call(function: str, parameters: int) -> str:
    places = ", ".join(f"${place}" for place in range(1, parameters + 1))
    return f"SELECT refused, now FROM holdfast.{function}({places})"  # noqa: S608 - constant function names


# By the number of further arguments: none, those of blobs, those of blobs and of the list of sessions.
_WRITES = {0: _call("write", 16), 3: _call("write_naming", 19), 11: _call("write_listing", 27)}
_SETTLE = SQL["settle_batch"]


class _PendingWrite:
    """An operation in the queue, with the future of its caller."""

    __slots__ = ("future", "operation", "rounds", "session")

    def __init__(self, operation: Operation, future: asyncio.Future[Any]) -> None:
        self.operation, self.future, self.rounds = operation, future, 0
        self.session = operation.session


class Writers:
    """The writers of one store. Every session has a fixed writer."""

    def __init__(
        self,
        connections: Connections,
        clock: Clock | None,
        on_extended: Callable[[Mapping[str, Sequence[NewRow]]], None],
    ) -> None:
        self._writers = tuple(Writer(connections, clock, on_extended) for _ in range(WRITERS))

    def of(self, session: str) -> "Writer":
        """Return the writer of a session."""
        return self._writers[crc32(session.encode()) % WRITERS]

    @property
    def instance(self) -> str:
        """The id of this store instance in the database."""
        return self._writers[0].instance

    @property
    def commits(self) -> int:
        """Number of batches written."""
        return sum(writer.commits for writer in self._writers)

    async def close(self) -> None:
        """Finish queued operations, then close the connections."""
        await asyncio.gather(*(writer.close() for writer in self._writers))


class Writer:
    """Writes batches for its share of the sessions."""

    def __init__(
        self,
        connections: Connections,
        clock: Clock | None,
        on_extended: Callable[[Mapping[str, Sequence[NewRow]]], None],
    ) -> None:
        self._connections, self._clock, self._on_extended = connections, clock, on_extended
        self._shown = connections.address.shown
        self._instance: UUID = uuid4()
        self.cache = RowCache()
        self._waiting: deque[_PendingWrite] = deque()
        self._has_work = asyncio.Event()
        self._is_stopping = False
        self._task: asyncio.Task[None] | None = None
        self._connection: Connection | None = None
        self._number = 0
        # Offset from the monotonic clock to the clock of the server.
        self._ahead_seconds = 0.0
        # Number of batches written.
        self.commits = 0

    @property
    def instance(self) -> str:
        """The id of this store instance in the database."""
        return str(self._instance)

    async def run(self, operation: Operation) -> Any:  # noqa: ANN401 - each operation has its own result
        """Queue an operation and return its result once the server has committed it."""
        if self._is_stopping:
            raise StoppingError(f"the store {self._shown} is closed; open it again")
        if len(self._waiting) >= WAITING_MAX:
            raise StoreBusyError(f"write queue of {self._shown} is full ({WAITING_MAX:,} operations); retry later")
        if self._task is None:
            self._task = asyncio.create_task(self._work(), name="holdfast-postgres-writer")
        waiting = _PendingWrite(operation, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        self._has_work.set()
        return await waiting.future

    async def close(self) -> None:
        """Finish queued operations, then close the connection."""
        self._is_stopping = True
        self._has_work.set()
        if self._task is not None:
            await self._task
        if self._connection is not None:
            with suppress(*SERVER_ERRORS):
                await self._connection.execute(_UNREGISTER, self._instance)
                await self._connection.close(timeout=CONNECT_SECONDS)
            self._drop()

    async def _work(self) -> None:
        """Write batches until the writer is closed. Operations that are still queued then fail."""
        batch: list[_PendingWrite] = []
        try:
            while not self._is_stopping or self._waiting:
                if not self._waiting:
                    self._has_work.clear()
                    await self._has_work.wait()
                batch = self._drain()
                await self._write(batch)
        finally:
            self._is_stopping = True
            left = StoreIoError(f"the writer of {self._shown} has stopped; open the store again")
            _fail([*batch, *self._waiting], left)

    def _drain(self) -> list[_PendingWrite]:
        """Take queued operations, up to the limits of a batch."""
        drained: list[_PendingWrite] = []
        size_bytes = 0
        while self._waiting and len(drained) < BATCH_OPERATIONS_MAX:
            size_bytes += self._waiting[0].operation.size_bytes
            if drained and size_bytes > BATCH_BYTES_MAX:
                break
            drained.append(self._waiting.popleft())
        return drained

    async def _write(self, waiting: Sequence[_PendingWrite]) -> None:
        """Write these operations until each has a result; retry those whose session changed."""
        # Sessions whose rows were read after these operations were queued, so that a rejection is reliable.
        fresh: set[str] = set()
        while waiting := [each for each in waiting if not each.future.done()]:
            try:
                await self._round(await self._connected(), waiting, fresh)
            except HoldfastError as error:
                self._fail_all(waiting, error)
            except SERVER_ERRORS as error:
                # Raised while reading rows: nothing was written.
                fresh.clear()
                self._recover(error)
                if not is_connection_lost(error) and not is_retryable(error):
                    self._fail_all(waiting, translate_error(self._shown, error))
            for each in waiting:
                each.rounds += 1
            busy = StoreBusyError(f"other writers keep changing the same sessions of {self._shown}; retry later")
            _fail((each for each in waiting if each.rounds > ROUNDS_MAX), busy)
        self.cache.shrink()

    async def _round(self, connection: "Connection", waiting: Sequence[_PendingWrite], fresh: set[str]) -> None:
        """Compute a batch, write it and settle its operations. Those to compute again stay unsettled."""
        fresh.update(await self._read_rows(connection, waiting))
        batch = Batch(self.cache, await self._known_ids(connection, waiting), self._now())
        outcomes, stale = _apply(waiting, batch, fresh)
        overtaken = await self._send(connection, batch) if batch.sessions else set[str]()
        if overtaken is None:
            self.cache.forget_all()
            fresh.clear()
            return
        fresh.update(batch.sessions - overtaken)
        self.cache.forget(stale)
        _settle(each for each in outcomes if each[0].session not in overtaken)
        self._on_extended({session: rows for session, rows in batch.fresh.items() if session not in overtaken})

    async def _read_rows(self, connection: "Connection", waiting: Iterable[_PendingWrite]) -> list[str]:
        """Read the rows that are not cached, and return their sessions."""
        missing = self.cache.missing(each.session for each in waiting)
        if missing:
            for row in await connection.fetch(_SELECT_ROWS, [session.encode() for session in missing]):
                self.cache.put(versioned_row(row))
        return missing

    async def _known_ids(self, connection: "Connection", waiting: Iterable[_PendingWrite]) -> KnownIds:
        # Read after the rows: a client id that is added later comes with a newer version of its row.
        asked = [(each.session, client_id) for each in waiting for client_id in each.operation.client_ids]
        if not asked:
            return {}
        found = await connection.fetch(
            _SELECT_IDS, [session.encode() for session, _ in asked], [client_id for _, client_id in asked]
        )
        return {(bytes(key).decode(), client_id): (seq, digest) for key, client_id, seq, digest in found}

    async def _send(self, connection: "Connection", batch: Batch) -> set[str] | None:
        """Write a batch and return the sessions whose rows had changed; None if nothing was written."""
        self._number += 1
        refused: Collection[int] | None
        try:
            more = batch.more_arguments()
            values = (self._instance, self._number, *batch.arguments(), *more)
            answer = await connection.fetchrow(_WRITES[len(more)], *values)
            assert answer is not None, "a function with OUT parameters has one row"
            refused = answer["refused"]
            self._ahead_seconds = answer["now"] - time.monotonic()
        except SERVER_ERRORS as error:
            self._recover(error)
            if is_retryable(error) or sqlstate(error) == VOID:
                return None
            if not is_connection_lost(error):
                raise translate_error(self._shown, error) from error
            refused = await self._settled(self._number)
        if refused is None:
            return None
        self.commits += 1
        return batch.finish(refused)

    async def _settled(self, number: int) -> Collection[int] | None:
        """Return the rejected places of a batch whose connection was lost; None if the batch is void."""
        backoff = Backoff(IN_DOUBT_SECONDS)
        while True:
            # Errors are retried: the result of the batch does not change meanwhile.
            with suppress(*SERVER_ERRORS, HoldfastError):
                connection = await self._open()
                found = await connection.fetchrow(_SETTLE, self._instance, number)
                if found is not None and found["is_known"]:
                    refused: list[int] | None = found["refused"]
                    return refused
            self._drop()
            if not await backoff.next():
                raise OutcomeUnknownError(
                    f"the connection to {self._shown} was lost during a write, and the server has been away for "
                    f"{IN_DOUBT_SECONDS:g} seconds; whether the write was stored is unknown: read the session when the "
                    "server is back, or send again with the same client id"
                )

    async def _connected(self) -> "Connection":
        """Return the connection, reconnecting if needed. Waits a little during an outage."""
        backoff = Backoff(self._connections.outage_seconds_max)
        while True:
            try:
                return await self._open()
            except SERVER_ERRORS as error:
                self._drop()
                if not is_connection_lost(error) or not await backoff.next():
                    raise translate_error(self._shown, error) from error

    async def _open(self) -> "Connection":
        if self._connection is None or self._connection.is_closed():
            self._connection = await self._connections.connect()
            await self._connection.execute(_SWEEP)
            await self._connection.execute(_REGISTER, self._instance, self._number)
            self._ahead_seconds = await self._connection.fetchval(_NOW) - time.monotonic()
        return self._connection

    def _now(self) -> float:
        return self._clock.now() if self._clock is not None else time.monotonic() + self._ahead_seconds

    def _recover(self, error: BaseException) -> None:
        """After an error: clear the row cache, and reconnect if the connection or our registration was lost."""
        self.cache.forget_all()
        if is_connection_lost(error) or sqlstate(error) == VOID:
            self._drop()

    def _drop(self) -> None:
        """Drop the connection and the row cache."""
        self.cache.forget_all()
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None

    def _fail_all(self, waiting: Sequence[_PendingWrite], why: HoldfastError) -> None:
        """Fail these operations; during an outage also the queued ones, which would fail alike."""
        is_down = self._connection is None and not isinstance(why, OutcomeUnknownError)
        _fail([*waiting, *self._waiting] if is_down else waiting, why)


# An operation, its result, or the error that rejects it.
_Outcome: TypeAlias = tuple[_PendingWrite, Any, HoldfastError | None]


def _apply(waiting: Iterable[_PendingWrite], batch: Batch, fresh: AbstractSet[str]) -> tuple[list[_Outcome], set[str]]:
    """Apply operations to a batch. Return their outcomes, and the sessions whose rows must be read again first.

    A rejection, or a result that writes nothing, is reliable only if the row was read after the operation was queued:
    no write would prove that the cached row is current.
    """
    outcomes: list[_Outcome] = []
    stale: set[str] = set()
    for each in waiting:
        session = each.session
        if session in stale:
            continue
        try:
            result, rejection = each.operation.apply(batch), None
        except HoldfastError as error:
            result, rejection = None, error
        if session not in fresh and (rejection is not None or session not in batch.sessions):
            stale.add(session)
            continue
        outcomes.append((each, result, rejection))
    return outcomes, stale


def _settle(outcomes: Iterable[_Outcome]) -> None:
    for each, result, rejection in outcomes:
        if each.future.done():
            # Its task was cancelled.
            continue
        if rejection is None:
            each.future.set_result(result)
        else:
            each.future.set_exception(rejection)


def _fail(waiting: Iterable[_PendingWrite], why: HoldfastError) -> None:
    """Fail each operation with an exception of its own: a shared one would mix up the tracebacks."""
    for each in waiting:
        if not each.future.done():
            each.future.set_exception(type(why)(str(why)))
