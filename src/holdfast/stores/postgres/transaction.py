"""Changing a session of a PostgreSQL store in several statements, under its lease: all of it or nothing, and once.

Unlike an append this takes a few round trips, in which the row of the session is held. A change has a name of its own,
which is written with it: where the connection is lost while it is committed, it is asked for again under the same name,
behind the same row, and is then known to have been made or not. The version of the row grows, so that no writer goes on
with what it remembers of the session.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeAlias
from uuid import UUID, uuid4

import msgspec

from holdfast.errors import HoldfastError, OutcomeUnknownError
from holdfast.ports import Lease
from holdfast.stores.postgres.batch import ROW_COLUMNS, SeenRow, seen_row
from holdfast.stores.rows import SessionRow, record_crc32

if TYPE_CHECKING:
    from holdfast.stores.postgres.connections import Connection, Connections

_HOLD = f"SELECT {ROW_COLUMNS} FROM holdfast.sessions WHERE key = $1 FOR UPDATE"  # noqa: S608 - columns of our own
_NOW = "SELECT extract(epoch FROM clock_timestamp())::float8"
_KEEP_ROW = f"""
    UPDATE holdfast.sessions
    SET version = version + 1, last_seq = $2, owed = $3, created_at = $4, updated_at = $5 WHERE number = $1
    RETURNING {ROW_COLUMNS}
"""  # noqa: S608 - columns of our own
_SELECT_MADE = "SELECT answer FROM holdfast.changes WHERE token = $1"
_INSERT_MADE = "INSERT INTO holdfast.changes (token, answer) VALUES ($1, $2)"
# Some at a time, and none that somebody else is at.
_SWEEP = """
    DELETE FROM holdfast.changes WHERE token IN (
        SELECT token FROM holdfast.changes WHERE made_at < now() - interval '1 day'
        ORDER BY made_at LIMIT 100 FOR UPDATE SKIP LOCKED
    )
"""
_INSERT_RECORDS = """
    INSERT INTO holdfast.records (session, seq, at, crc32, body)
    SELECT $1, a.* FROM unnest($2::bigint[], $3::float8[], $4::bigint[], $5::bytea[]) AS a
"""

# What is done to a session: on a connection, to its row, at a time. It returns a number, and checks before it changes.
Work: TypeAlias = "Callable[[Connection, SessionRow, float], Awaitable[int]]"


class Change(msgspec.Struct):
    """One change, to be tried until it is made or refused."""

    lease: Lease
    work: Work
    # The time by the clock that was given; None: the server's own.
    now: float | None
    token: UUID = msgspec.field(default_factory=uuid4)
    # A commit was sent and its answer has not come.
    is_in_doubt: bool = False
    # The row as the change has left it; None where there is none.
    row: SeenRow | None = None

    async def make(self, connections: "Connections") -> int:
        """Make the change and return its answer. Raises `LeaseLostError` as `Store.append` does."""
        try:
            return await connections.ask(self._try)
        except HoldfastError as error:
            if not self.is_in_doubt:
                raise
            raise OutcomeUnknownError(
                f"{connections.address.shown} was lost while session {self.lease.session!r} was changed and has not "
                "come back, so it is not known whether that was stored; look when the server is back"
            ) from error

    async def _try(self, connection: "Connection") -> int:
        transaction = connection.transaction()
        await transaction.start()
        try:
            answer = await self._within(connection)
        except HoldfastError:
            # After anything else the connection is let go of, and the server takes everything back by itself.
            await transaction.rollback()
            raise
        self.is_in_doubt = True
        await transaction.commit()
        self.is_in_doubt = False
        return answer

    async def _within(self, connection: "Connection") -> int:
        # Whoever commits a change holds this row: behind it, what came of an earlier try is certain.
        found = await connection.fetchrow(_HOLD, self.lease.session.encode())
        made: int | None = await connection.fetchval(_SELECT_MADE, self.token)
        self.is_in_doubt = False
        if made is not None:
            return made
        row = SessionRow(self.lease.session) if found is None else seen_row(found).row
        row.check_lease(self.lease)
        now = await connection.fetchval(_NOW) if self.now is None else self.now
        answer = await self.work(connection, row, now)
        kept = await connection.fetchrow(_KEEP_ROW, row.number, row.last_seq, row.owed, row.created_at, row.updated_at)
        self.row = None if kept is None else seen_row(kept)
        await connection.execute(_SWEEP)
        await connection.execute(_INSERT_MADE, self.token, answer)
        return answer


async def extend(connection: "Connection", row: SessionRow, bodies: Sequence[bytes], now: float) -> int:
    """Within a change: add records to a log that change nothing of what is owed, and return the last seq."""
    if bodies:
        await insert_records(connection, row, [now] * len(bodies), bodies)
        row.extend(len(bodies), 0, now)
    return row.last_seq


async def insert_records(
    connection: "Connection", row: SessionRow, times: Sequence[float], bodies: Sequence[bytes]
) -> None:
    """Write the rows of records that come behind the last."""
    seqs = list(range(row.last_seq + 1, row.last_seq + 1 + len(bodies)))
    checksums = list(map(partial(record_crc32, row.number), seqs, times, bodies))
    await connection.execute(_INSERT_RECORDS, row.number, seqs, list(times), checksums, list(bodies))
