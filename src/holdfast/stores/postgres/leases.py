"""Leases and snapshots of a PostgreSQL store, and transactions that change a session under its lease, exactly once.

Leases and snapshots take one idempotent statement each. Leases use the clock of the server, which all nodes share. A
given clock, as in tests, replaces it.

Unlike an append, a change takes several round trips, during which the session row is locked. Each change has a token
that is stored with it: if the connection is lost during the commit, a retry takes the row lock and looks the token up,
so it knows whether the change was committed. The version of the row increases, so that no writer uses a cached row.
"""

import secrets
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeAlias
from uuid import UUID, uuid4
from zlib import crc32

import msgspec

from holdfast.errors import HoldfastError, LeaseLostError, OutcomeUnknownError
from holdfast.ports import Lease, Snapshot
from holdfast.stores.postgres.batch import VersionedRow, versioned_row
from holdfast.stores.postgres.migrations import SQL
from holdfast.stores.rows import SessionRow, record_crc32

if TYPE_CHECKING:
    from holdfast.stores.postgres.connections import Connection, Connections

_LOCK_ROW = SQL["lock_session"]
_NOW = SQL["now"]
_UPDATE_ROW = SQL["update_session"]
_FIND_CHANGE = SQL["find_change"]
_RECORD_CHANGE = SQL["record_change"]
_SWEEP = SQL["sweep_changes"]
_INSERT_RECORDS = SQL["insert_records"]

# The body of a change: connection, session row, time. It checks before it changes, and returns a number.
Work: TypeAlias = "Callable[[Connection, SessionRow, float], Awaitable[int]]"


class Change(msgspec.Struct):
    """One change, retried until it is committed or rejected."""

    lease: Lease
    work: Work
    # The time of the given clock; None: the clock of the server.
    now: float | None
    token: UUID = msgspec.field(default_factory=uuid4)
    # A commit was sent and its response has not arrived.
    is_in_doubt: bool = False
    # The row after the change; None if the session was deleted.
    row: VersionedRow | None = None

    async def make(self, connections: "Connections") -> int:
        """Make the change and return its result. Raises `LeaseLostError` as `Log.append` does."""
        try:
            return await connections.query(self._try)
        except HoldfastError as error:
            if not self.is_in_doubt:
                raise
            raise OutcomeUnknownError(
                f"the connection to {connections.address.shown} was lost while session {self.lease.session!r} was "
                "changed, and the server is still away; whether the change was stored is unknown: read the session "
                "when the server is back"
            ) from error

    async def _try(self, connection: "Connection") -> int:
        transaction = connection.transaction()
        await transaction.start()
        try:
            answer = await self._within(connection)
        except HoldfastError:
            # After any other error the connection is closed, and the server rolls back by itself.
            await transaction.rollback()
            raise
        self.is_in_doubt = True
        await transaction.commit()
        self.is_in_doubt = False
        return answer

    async def _within(self, connection: "Connection") -> int:
        # Every commit of a change holds this row lock, so the result of an earlier try is certain now.
        found = await connection.fetchrow(_LOCK_ROW, self.lease.session.encode())
        known: int | None = await connection.fetchval(_FIND_CHANGE, self.token)
        self.is_in_doubt = False
        if known is not None:
            return known
        row = SessionRow(self.lease.session) if found is None else versioned_row(found).row
        row.check_lease(self.lease)
        now = await connection.fetchval(_NOW) if self.now is None else self.now
        answer = await self.work(connection, row, now)
        kept = await connection.fetchrow(
            _UPDATE_ROW, row.number, row.last_seq, row.owed, row.created_at, row.updated_at
        )
        self.row = None if kept is None else versioned_row(kept)
        await connection.execute(_SWEEP)
        await connection.execute(_RECORD_CHANGE, self.token, answer)
        return answer


async def extend(connection: "Connection", row: SessionRow, bodies: Sequence[bytes], now: float) -> int:
    """Within a change: append records that do not change the number of pending inputs. Return the last seq."""
    if bodies:
        await insert_records(connection, row, [now] * len(bodies), bodies)
        row.extend(len(bodies), 0, now)
    return row.last_seq


async def insert_records(
    connection: "Connection", row: SessionRow, times: Sequence[float], bodies: Sequence[bytes]
) -> None:
    """Insert the rows of records after the last one."""
    seqs = list(range(row.last_seq + 1, row.last_seq + 1 + len(bodies)))
    checksums = list(map(partial(record_crc32, row.number), seqs, times, bodies))
    await connection.execute(_INSERT_RECORDS, row.number, seqs, list(times), checksums, list(bodies))


_NUMBER_BITS = 62
_ACQUIRE = SQL["acquire_lease"]
_RENEW = SQL["renew_lease"]
_RELEASE = SQL["release_lease"]
_SAVE_SNAPSHOT = SQL["save_snapshot"]
_LOAD_SNAPSHOT = SQL["load_snapshot"]


_HOLDERS = SQL["list_lease_holders"]


async def holders(connection: "Connection", *, now: float | None) -> list[tuple[str, bool, int]]:
    """Return the lease holders: owner, whether one of its leases is valid, and number of sessions."""
    return [(row["owner"], row["is_alive"], row["sessions"]) for row in await connection.fetch(_HOLDERS, now)]


async def acquire(
    connection: "Connection", session: str, owner: str, instance: str, *, seconds: float, now: float | None
) -> tuple[Lease, VersionedRow] | None:
    """Give the lease to a worker unless another one holds it. Return it with the new row."""
    number = secrets.randbits(_NUMBER_BITS)
    row = await connection.fetchrow(_ACQUIRE, number, session.encode(), owner, instance, seconds, now)
    if row is None:
        return None
    kept = versioned_row(row)
    return Lease(session=session, owner=owner, fence=kept.row.fence, expires_at=kept.row.lease_until), kept


async def renew(connection: "Connection", lease: Lease, *, seconds: float, now: float | None) -> Lease:
    """Extend a lease."""
    row = await connection.fetchrow(_RENEW, lease.session.encode(), lease.fence, seconds, now)
    if row is None:
        raise LeaseLostError(lease.session, lease.fence)
    return Lease(session=lease.session, owner=row["owner"], fence=lease.fence, expires_at=row["lease_until"])


async def release(connection: "Connection", lease: Lease) -> VersionedRow | None:
    """Release a lease if it is the newest, and return the new row."""
    row = await connection.fetchrow(_RELEASE, lease.session.encode(), lease.fence)
    return None if row is None else versioned_row(row)


async def save_snapshot(connection: "Connection", lease: Lease, snapshot: Snapshot) -> None:
    """Replace the snapshot of a session."""
    key, checksum = lease.session.encode(), _checksum(lease.session, snapshot)
    if await connection.fetchval(_SAVE_SNAPSHOT, key, lease.fence, snapshot.seq, checksum, snapshot.body) is None:
        raise LeaseLostError(lease.session, lease.fence)


async def load_snapshot(connection: "Connection", session: str) -> Snapshot | None:
    """Return the newest snapshot, or None if it does not match its checksum."""
    row = await connection.fetchrow(_LOAD_SNAPSHOT, session.encode())
    if row is None:
        return None
    snapshot = Snapshot(row["seq"], row["body"])
    return snapshot if _checksum(session, snapshot) == row["crc32"] else None


async def rename_snapshot(connection: "Connection", number: int, session: str, key: str) -> None:
    """Make the snapshot valid under another key. A damaged one stays damaged."""
    row = await connection.fetchrow(SQL["read_snapshot"], number)
    if row is not None and _checksum(session, snapshot := Snapshot(row["seq"], row["body"])) == row["crc32"]:
        checksum = _checksum(key, snapshot)
        await connection.execute(SQL["set_snapshot_checksum"], number, checksum)


def _checksum(session: str, snapshot: Snapshot) -> int:
    # Uses the key, because a lease holder need not know the number.
    return record_crc32(crc32(session.encode()), snapshot.seq, 0.0, snapshot.body)
