"""Which blobs the sessions of a PostgreSQL store name, as it is kept beside their records."""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from holdfast.core.messages import BlobRef

if TYPE_CHECKING:
    from holdfast.stores.postgres.connections import Connection

_INSERT = """
    INSERT INTO holdfast.blob_names (session, sha256, size)
    SELECT $1, a.* FROM unnest($2::bytea[], $3::bigint[]) AS a ON CONFLICT DO NOTHING
"""
_SELECT_OF = """
    SELECT sha256, size FROM holdfast.blob_names
    WHERE session = (SELECT number FROM holdfast.sessions WHERE key = $1) ORDER BY sha256
"""
_SELECT_ONLY_OF = """
    WITH leaving AS MATERIALIZED (SELECT number FROM holdfast.sessions WHERE key = ANY ($1))
    SELECT DISTINCT own.sha256, own.size FROM holdfast.blob_names AS own
    WHERE own.session IN (SELECT number FROM leaving)
      AND NOT EXISTS (
        SELECT FROM holdfast.blob_names AS other
        WHERE other.sha256 = own.sha256 AND other.session NOT IN (SELECT number FROM leaving)
      )
    ORDER BY own.sha256
"""
_SELECT_UNKNOWN = """
    SELECT key FROM holdfast.blobs_unknown JOIN holdfast.sessions ON number = session ORDER BY key
"""
# In one statement, so that it is made as a whole; made twice it comes to the same.
_KNOW = """
    WITH known AS (
        DELETE FROM holdfast.blobs_unknown WHERE session = (SELECT number FROM holdfast.sessions WHERE key = $1)
    )
    INSERT INTO holdfast.blob_names (session, sha256, size)
    SELECT number, a.sha256, a.size
    FROM holdfast.sessions, unnest($2::bytea[], $3::bigint[]) AS a (sha256, size) WHERE key = $1
    ON CONFLICT DO NOTHING
"""


async def insert_names(connection: "Connection", number: int, refs: Sequence[BlobRef]) -> None:
    """Within a change: note which blobs records of a session name."""
    if refs:
        await connection.execute(_INSERT, number, *_columns(refs))


async def blobs_of(connection: "Connection", session: str) -> list[BlobRef]:
    """Return the blobs that a session names; see `Store.blobs_of`."""
    return [_ref(*row) for row in await connection.fetch(_SELECT_OF, session.encode())]


async def blobs_only_of(connection: "Connection", sessions: Collection[str]) -> list[BlobRef]:
    """Return the blobs that these sessions alone name; see `Store.blobs_only_of`."""
    return [_ref(*row) for row in await connection.fetch(_SELECT_ONLY_OF, [key.encode() for key in sessions])]


async def blobs_unknown(connection: "Connection") -> list[str]:
    """Return the sessions whose blobs are not known; see `Store.blobs_unknown`."""
    return [bytes(key).decode() for (key,) in await connection.fetch(_SELECT_UNKNOWN)]


async def know_blobs(connection: "Connection", session: str, refs: Collection[BlobRef]) -> None:
    """Note all blobs that a session names; see `Store.know_blobs`."""
    await connection.execute(_KNOW, session.encode(), *_columns(refs))


def _columns(refs: Collection[BlobRef]) -> tuple[list[bytes], list[int]]:
    """Return each blob once, as columns: one statement cannot meet the same row twice."""
    sizes = {ref.sha256: ref.size_bytes for ref in refs}
    return [sha256.encode() for sha256 in sizes], list(sizes.values())


def _ref(sha256: bytes, size: int) -> BlobRef:
    return BlobRef(bytes(sha256).decode(), size)
