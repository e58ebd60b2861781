"""Leases and snapshots of a PostgreSQL store: one idempotent statement each.

Leases use the clock of the server, which all nodes share. A given clock, as in tests, replaces it.
"""

import secrets
from typing import TYPE_CHECKING
from zlib import crc32

from holdfast.errors import LeaseLostError
from holdfast.ports import Lease, Snapshot
from holdfast.stores.postgres.batch import VersionedRow, versioned_row
from holdfast.stores.postgres.queries import SQL
from holdfast.stores.rows import record_crc32

if TYPE_CHECKING:
    from holdfast.stores.postgres.connections import Connection

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
