"""The tasks that append to a PostgreSQL store: many operations, one round trip, one commit.

While a batch is under way operations gather; the next takes all of them. Nobody is told of success before the commit
has returned. Where the connection is lost in between, nobody knows what came of the batch; the writer then asks the
server under the number of the batch, which either was written or, by being asked for, can no longer be. So nothing is
written twice and nobody is told a guess.

There are two, each for half of the sessions: while one waits for the server, the other computes.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4
from zlib import crc32

from holdfast.errors import HoldfastError, OutcomeUnknownError, StoppingError, StoreBusyError, StoreIoError
from holdfast.ports import Clock
from holdfast.stores.feeds import Fresh
from holdfast.stores.postgres.batch import ROW_COLUMNS, Batch, KnownIds, Operation, RowCache, seen_row
from holdfast.stores.postgres.connections import CONNECT_SECONDS, Connections, Pauses
from holdfast.stores.postgres.errors import VOID, Trouble, is_lost, may_be_tried_again, sqlstate, translated

if TYPE_CHECKING:
    from holdfast.stores.postgres.connections import Connection

# Python and the server each take about half of a batch's time, so two keep both at work. A third would only make
# batches smaller, and each of them is a sync of the server's disk.
WRITERS = 2
# One round trip takes so many operations and bytes at most: nobody waits for more than some ten milliseconds of other
# people's work. What is larger by itself goes alone, so that its trouble is nobody else's.
BATCH_OPERATIONS_MAX = 256
BATCH_BYTES_MAX = 8 * 2**20
# Operations that may wait for the writer. A task has one under way, so this many tasks stand still before one is
# refused.
WAITING_MAX = 20_000
# How often an operation is computed anew because others wrote to its session first. Each time somebody got further;
# this many in a row do not happen unless something is wrong.
ROUNDS_MAX = 50
# How long a batch whose connection was lost waits for the server to say what came of it: as long as a lease lasts,
# after which another worker may have gone on anyway.
IN_DOUBT_SECONDS = 30.0

_ENLIST = "INSERT INTO holdfast.writers (instance, batch) VALUES ($1, $2) ON CONFLICT DO NOTHING"
# A store that has not written for so long has ended without saying so; one that has not is enlisted again.
_SWEEP = "DELETE FROM holdfast.writers WHERE seen_at < now() - interval '1 day'"
_DELIST = "DELETE FROM holdfast.writers WHERE instance = $1"
_NOW = "SELECT extract(epoch FROM clock_timestamp())::float8"
_SELECT_ROWS = f"SELECT {ROW_COLUMNS} FROM holdfast.sessions WHERE key = ANY ($1)"  # noqa: S608 - columns and clock of our own
_SELECT_IDS = """
    SELECT key, asked.client_id, seq, sha256
    FROM unnest($1::bytea[], $2::bytea[]) AS asked (key, client_id)
    JOIN holdfast.sessions USING (key)
    JOIN holdfast.client_ids ON session = number AND client_ids.client_id = asked.client_id
"""


def _call(function: str, parameters: int) -> str:
    places = ", ".join(f"${place}" for place in range(1, parameters + 1))
    return f"SELECT refused, now FROM holdfast.{function}({places})"  # noqa: S608 - a name of ours, numbers of parameters


_WRITE, _WRITE_NAMING = _call("write", 16), _call("write_naming", 19)
_SETTLE = "SELECT is_known, refused FROM holdfast.settle($1, $2)"


class _Waiting:
    """An operation that someone waits for."""

    __slots__ = ("future", "operation", "rounds", "session")

    def __init__(self, operation: Operation, future: asyncio.Future[Any]) -> None:
        self.operation, self.future, self.rounds = operation, future, 0
        self.session = operation.session


class Writers:
    """All that write for one store. A session is always written to by the same one."""

    def __init__(
        self,
        connections: Connections,
        clock: Clock | None,
        on_extended: Callable[[Mapping[str, Sequence[Fresh]]], None],
    ) -> None:
        self._writers = tuple(Writer(connections, clock, on_extended) for _ in range(WRITERS))

    def of(self, session: str) -> "Writer":
        """Return the one that writes to a session."""
        return self._writers[crc32(session.encode()) % WRITERS]

    @property
    def instance(self) -> str:
        """The name of this store among all that use the database."""
        return self._writers[0].instance

    @property
    def commits(self) -> int:
        """How many batches were written."""
        return sum(writer.commits for writer in self._writers)

    async def close(self) -> None:
        """Finish what was asked for, then let go of the connections."""
        await asyncio.gather(*(writer.close() for writer in self._writers))


class Writer:
    """Writes for some sessions of one store."""

    def __init__(
        self,
        connections: Connections,
        clock: Clock | None,
        on_extended: Callable[[Mapping[str, Sequence[Fresh]]], None],
    ) -> None:
        self._connections, self._clock, self._on_extended = connections, clock, on_extended
        self._shown = connections.address.shown
        self._instance: UUID = uuid4()
        self.cache = RowCache()
        self._waiting: deque[_Waiting] = deque()
        self._has_work = asyncio.Event()
        self._is_stopping = False
        self._task: asyncio.Task[None] | None = None
        self._connection: Connection | None = None
        self._number = 0
        # What to add to our own steady clock to have the server's.
        self._ahead_seconds = 0.0
        # Batches written; set against the number of operations it tells how well they group.
        self.commits = 0

    @property
    def instance(self) -> str:
        """The name of this store among all that use the database."""
        return str(self._instance)

    async def run(self, operation: Operation) -> Any:  # noqa: ANN401 - each operation has its own answer
        """Have something written; return its answer when it is on the server's disk."""
        if self._is_stopping:
            raise StoppingError(f"the store {self._shown} was closed; open it again")
        if len(self._waiting) >= WAITING_MAX:
            raise StoreBusyError(f"{WAITING_MAX:,} operations wait for {self._shown} already; try again")
        if self._task is None:
            self._task = asyncio.create_task(self._work(), name="holdfast-postgres-writer")
        waiting = _Waiting(operation, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        self._has_work.set()
        return await waiting.future

    async def close(self) -> None:
        """Finish what was asked for, then let go of the connection."""
        self._is_stopping = True
        self._has_work.set()
        if self._task is not None:
            await self._task
        if self._connection is not None:
            with suppress(*Trouble):
                await self._connection.execute(_DELIST, self._instance)
                await self._connection.close(timeout=CONNECT_SECONDS)
            self._drop()

    async def _work(self) -> None:
        """Write what comes until the end is asked for. Whoever still waits when this ends is told so."""
        batch: list[_Waiting] = []
        try:
            while not self._is_stopping or self._waiting:
                if not self._waiting:
                    self._has_work.clear()
                    await self._has_work.wait()
                batch = self._drain()
                await self._write(batch)
        finally:
            self._is_stopping = True
            left = StoreIoError(f"the writer of {self._shown} has ended; open the store again")
            _refuse([*batch, *self._waiting], left)

    def _drain(self) -> list[_Waiting]:
        """Take what waits, up to the bounds of a batch."""
        drained: list[_Waiting] = []
        size_bytes = 0
        while self._waiting and len(drained) < BATCH_OPERATIONS_MAX:
            size_bytes += self._waiting[0].operation.size_bytes
            if drained and size_bytes > BATCH_BYTES_MAX:
                break
            drained.append(self._waiting.popleft())
        return drained

    async def _write(self, waiting: Sequence[_Waiting]) -> None:
        """Write all of these, computing anew what others have overtaken, until each has its outcome."""
        # Sessions whose rows were read since these operations were asked for, so that a refusal can be believed.
        fresh: set[str] = set()
        while waiting := [each for each in waiting if not each.future.done()]:
            try:
                await self._round(await self._connected(), waiting, fresh)
            except HoldfastError as error:
                self._give_up(waiting, error)
            except Trouble as error:
                # While rows were read: nothing was written.
                fresh.clear()
                self._recover(error)
                if not is_lost(error) and not may_be_tried_again(error):
                    self._give_up(waiting, translated(self._shown, error))
            for each in waiting:
                each.rounds += 1
            tired = [each for each in waiting if each.rounds > ROUNDS_MAX]
            _refuse(
                tired, StoreBusyError(f"others write to the same sessions of {self._shown} all the time; try again")
            )
        self.cache.shrink()

    async def _round(self, connection: "Connection", waiting: Sequence[_Waiting], fresh: set[str]) -> None:
        """Compute, write, tell. Those that have to be computed again are still waiting afterwards."""
        lacking = self.cache.lacks(each.session for each in waiting)
        if lacking:
            for row in await connection.fetch(_SELECT_ROWS, [session.encode() for session in lacking]):
                self.cache.put(seen_row(row))
            fresh.update(lacking)
        batch = Batch(self.cache, await self._known_ids(connection, waiting), self._now())
        again: set[str] = set()
        outcomes: list[tuple[_Waiting, Any, HoldfastError | None]] = []
        for each in waiting:
            session = each.session
            if session in again:
                continue
            try:
                answer, refusal = each.operation.apply(batch), None
            except HoldfastError as error:
                answer, refusal = None, error
            if session not in fresh and (refusal is not None or session not in batch.sessions):
                # Read off a row that may be old, and nothing will be written that would prove it: look again.
                again.add(session)
                continue
            outcomes.append((each, answer, refusal))
        overtaken = await self._send(connection, batch) if batch.sessions else set[str]()
        if overtaken is None:
            self.cache.forget_all()
            fresh.clear()
            return
        fresh.update(batch.sessions - overtaken)
        self.cache.forget(again)
        self._settle(each for each in outcomes if each[0].session not in overtaken)
        self._on_extended({session: rows for session, rows in batch.fresh.items() if session not in overtaken})

    async def _known_ids(self, connection: "Connection", waiting: Iterable[_Waiting]) -> KnownIds:
        # After the rows: a client id that is not there yet then comes with another version of its row.
        asked = [(each.session, each.operation.client_id) for each in waiting]
        asked = [(session, client_id) for session, client_id in asked if client_id]
        if not asked:
            return {}
        found = await connection.fetch(
            _SELECT_IDS, [session.encode() for session, _ in asked], [client_id for _, client_id in asked]
        )
        return {(bytes(key).decode(), client_id): (seq, digest) for key, client_id, seq, digest in found}

    async def _send(self, connection: "Connection", batch: Batch) -> set[str] | None:
        """Write a batch and return the sessions whose rows had changed; None where nothing was written at all."""
        self._number += 1
        refused: Collection[int] | None
        try:
            naming = batch.naming()
            write = _WRITE_NAMING if naming else _WRITE
            answer = await connection.fetchrow(write, self._instance, self._number, *batch.arguments(), *naming)
            assert answer is not None, "a function with OUT parameters has one row"
            refused = answer["refused"]
            self._ahead_seconds = answer["now"] - time.monotonic()
        except Trouble as error:
            self._recover(error)
            if may_be_tried_again(error) or sqlstate(error) == VOID:
                return None
            if not is_lost(error):
                raise translated(self._shown, error) from error
            refused = await self._settled(self._number)
        if refused is None:
            return None
        self.commits += 1
        return batch.written(refused)

    async def _settled(self, number: int) -> Collection[int] | None:
        """Return what was refused of a batch whose connection was lost; None where it was not, and never will be."""
        pauses = Pauses(IN_DOUBT_SECONDS)
        while True:
            # Whatever keeps us from asking, the answer stays the same until we can.
            with suppress(*Trouble, HoldfastError):
                connection = await self._open()
                found = await connection.fetchrow(_SETTLE, self._instance, number)
                if found is not None and found["is_known"]:
                    refused: list[int] | None = found["refused"]
                    return refused
            self._drop()
            if not await pauses.next():
                raise OutcomeUnknownError(
                    f"{self._shown} was lost in the middle of a write and has not come back for {IN_DOUBT_SECONDS:g} "
                    "seconds, so it is not known whether it was stored; look when the server is back, or send it again "
                    "under the same client id"
                )

    async def _connected(self) -> "Connection":
        """Return the connection, made anew where it was lost; where the server is gone, wait for it a little."""
        pauses = Pauses(self._connections.patience_seconds)
        while True:
            try:
                return await self._open()
            except Trouble as error:
                self._drop()
                if not is_lost(error) or not await pauses.next():
                    raise translated(self._shown, error) from error

    async def _open(self) -> "Connection":
        if self._connection is None or self._connection.is_closed():
            self._connection = await self._connections.connect()
            await self._connection.execute(_SWEEP)
            await self._connection.execute(_ENLIST, self._instance, self._number)
            self._ahead_seconds = await self._connection.fetchval(_NOW) - time.monotonic()
        return self._connection

    def _now(self) -> float:
        return self._clock.now() if self._clock is not None else time.monotonic() + self._ahead_seconds

    def _recover(self, error: BaseException) -> None:
        """After trouble: compute on nothing that was kept, and talk to a server that is gone, or forgot us, anew."""
        self.cache.forget_all()
        if is_lost(error) or sqlstate(error) == VOID:
            self._drop()

    def _drop(self) -> None:
        """Trust neither the connection nor the rows that came through it."""
        self.cache.forget_all()
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None

    def _give_up(self, waiting: Sequence[_Waiting], why: HoldfastError) -> None:
        """Tell these what is wrong; where the server is gone, also those behind, who would wait for the same answer."""
        is_down = self._connection is None and not isinstance(why, OutcomeUnknownError)
        _refuse([*waiting, *self._waiting] if is_down else waiting, why)

    @staticmethod
    def _settle(outcomes: Iterable[tuple[_Waiting, Any, HoldfastError | None]]) -> None:
        for each, answer, refusal in outcomes:
            if each.future.done():
                # Its task was cancelled meanwhile.
                continue
            if refusal is None:
                each.future.set_result(answer)
            else:
                each.future.set_exception(refusal)


def _refuse(waiting: Iterable[_Waiting], why: HoldfastError) -> None:
    """Tell everyone by an error of its own: one exception raised in many tasks would mix up their tracebacks."""
    for each in waiting:
        if not each.future.done():
            each.future.set_exception(type(why)(str(why)))
