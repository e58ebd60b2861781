"""Leases and snapshots on a PostgreSQL store: one statement each, which may be asked twice without harm.

A lease begins and ends by the clock of the server, the one clock that all nodes share. Where a clock is given, as in
tests, that one counts instead.
"""

import secrets
from typing import TYPE_CHECKING
from zlib import crc32

from holdfast.errors import LeaseLostError
from holdfast.ports import Lease, Snapshot
from holdfast.stores.postgres.batch import ROW_COLUMNS, SeenRow, seen_row
from holdfast.stores.rows import record_crc32

if TYPE_CHECKING:
    from holdfast.stores.postgres.connections import Connection

_NUMBER_BITS = 62
# Asked anew wherever it stands, so that a statement which waited for a row sees the time at which it got it.
_NOW = "coalesce({}::float8, extract(epoch FROM clock_timestamp())::float8)"

_ACQUIRE = f"""
    INSERT INTO holdfast.sessions AS s
        (number, key, version, last_seq, owed, updated_at, fence, owner, instance, lease_until)
    VALUES ($1, $2, 1, 0, 0, 0, 1, $3, $4::text::uuid, {_NOW.format("$6")} + $5)
    ON CONFLICT (key) DO UPDATE
    SET version = s.version + 1, fence = s.fence + 1, owner = $3, instance = $4::text::uuid,
        lease_until = {_NOW.format("$6")} + $5
    WHERE s.owner IS NULL OR s.lease_until <= {_NOW.format("$6")} OR (s.owner = $3 AND s.instance = $4::text::uuid)
    RETURNING {ROW_COLUMNS}
"""  # noqa: S608 - columns and clock of our own
_RENEW = f"""
    UPDATE holdfast.sessions SET lease_until = {_NOW.format("$4")} + $3
    WHERE key = $1 AND fence = $2 AND owner IS NOT NULL
    RETURNING owner, lease_until
"""  # noqa: S608 - columns and clock of our own
_RELEASE = f"""
    UPDATE holdfast.sessions SET version = version + 1, owner = NULL, instance = NULL, lease_until = 0
    WHERE key = $1 AND fence = $2 AND owner IS NOT NULL
    RETURNING {ROW_COLUMNS}
"""  # noqa: S608 - columns and clock of our own
# The row is held until the snapshot is there, so that nobody takes the lease in between.
_SAVE_SNAPSHOT = """
    WITH held AS (
        SELECT number FROM holdfast.sessions WHERE key = $1 AND fence = $2 AND owner IS NOT NULL FOR UPDATE
    )
    INSERT INTO holdfast.snapshots (session, seq, crc32, body) SELECT number, $3, $4, $5 FROM held
    ON CONFLICT (session) DO UPDATE SET seq = excluded.seq, crc32 = excluded.crc32, body = excluded.body
    RETURNING session
"""
_LOAD_SNAPSHOT = """
    SELECT snapshots.seq, crc32, body FROM holdfast.snapshots JOIN holdfast.sessions ON number = session WHERE key = $1
"""


# One that has expired and that nobody took is its holder's until somebody does.
_HOLDERS = f"""
    SELECT owner, bool_or(lease_until > {_NOW.format("$1")}) AS is_alive, count(*) AS sessions
    FROM holdfast.sessions WHERE owner IS NOT NULL GROUP BY owner, instance ORDER BY owner, instance
"""  # noqa: S608 - columns and clock of our own


async def holders(connection: "Connection", *, now: float | None) -> list[tuple[str, bool, int]]:
    """Return who holds leases: the owner, whether one of them is still running, and how many sessions."""
    return [(row["owner"], row["is_alive"], row["sessions"]) for row in await connection.fetch(_HOLDERS, now)]


async def acquire(
    connection: "Connection", session: str, owner: str, instance: str, *, seconds: float, now: float | None
) -> tuple[Lease, SeenRow] | None:
    """Give the lease to a worker of this store, unless another one holds it; with it the row as it is now."""
    number = secrets.randbits(_NUMBER_BITS)
    row = await connection.fetchrow(_ACQUIRE, number, session.encode(), owner, instance, seconds, now)
    if row is None:
        return None
    kept = seen_row(row)
    return Lease(session=session, owner=owner, fence=kept.row.fence, expires_at=kept.row.lease_until), kept


async def renew(connection: "Connection", lease: Lease, *, seconds: float, now: float | None) -> Lease:
    """Prolong a lease."""
    row = await connection.fetchrow(_RENEW, lease.session.encode(), lease.fence, seconds, now)
    if row is None:
        raise LeaseLostError(lease.session, lease.fence)
    return Lease(session=lease.session, owner=row["owner"], fence=lease.fence, expires_at=row["lease_until"])


async def release(connection: "Connection", lease: Lease) -> SeenRow | None:
    """Take a lease back, where it is still the newest, and return the row as it is then."""
    row = await connection.fetchrow(_RELEASE, lease.session.encode(), lease.fence)
    return None if row is None else seen_row(row)


async def save_snapshot(connection: "Connection", lease: Lease, snapshot: Snapshot) -> None:
    """Keep a fold in place of the one before."""
    key, checksum = lease.session.encode(), _checksum(lease.session, snapshot)
    if await connection.fetchval(_SAVE_SNAPSHOT, key, lease.fence, snapshot.seq, checksum, snapshot.body) is None:
        raise LeaseLostError(lease.session, lease.fence)


async def load_snapshot(connection: "Connection", session: str) -> Snapshot | None:
    """Return the newest snapshot, or None where there is none that can be trusted."""
    row = await connection.fetchrow(_LOAD_SNAPSHOT, session.encode())
    if row is None:
        return None
    snapshot = Snapshot(row["seq"], row["body"])
    return snapshot if _checksum(session, snapshot) == row["crc32"] else None


async def rename_snapshot(connection: "Connection", number: int, session: str, key: str) -> None:
    """Let the snapshot of a session hold under another key; one that is damaged stays so."""
    row = await connection.fetchrow("SELECT seq, crc32, body FROM holdfast.snapshots WHERE session = $1", number)
    if row is not None and _checksum(session, snapshot := Snapshot(row["seq"], row["body"])) == row["crc32"]:
        checksum = _checksum(key, snapshot)
        await connection.execute("UPDATE holdfast.snapshots SET crc32 = $2 WHERE session = $1", number, checksum)


def _checksum(session: str, snapshot: Snapshot) -> int:
    # By its key, not by its number, which whoever holds a lease need not know.
    return record_crc32(crc32(session.encode()), snapshot.seq, 0.0, snapshot.body)
