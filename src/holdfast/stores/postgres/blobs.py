"""Blobs in a PostgreSQL database: original bytes in chunks, which every node can read.

A blob comes in under the number of its upload and gets its name, the SHA-256, with its last byte. A name is given once:
of two writers of the same bytes the second finds the name taken and removes its own. What a writer that died left
behind has no name, is never read, and is removed a day later. Chunks are never larger than a MiB, whatever is put or
read.
"""

import hashlib
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

import asyncpg

from holdfast.errors import BlobMissingError
from holdfast.stores.blobs import CHUNK_BYTES, UNNAMED_SECONDS_MIN, gathered
from holdfast.stores.postgres.connections import Connections
from holdfast.types.messages import BlobRef

if TYPE_CHECKING:
    from holdfast.stores.postgres.connections import Connection

_SWEEP = "DELETE FROM holdfast.blobs WHERE sha256 IS NULL AND begun_at < now() - interval '1 day'"
_BEGIN = "INSERT INTO holdfast.blobs (upload) VALUES ($1) ON CONFLICT DO NOTHING"
# Repeating a chunk that may have arrived already does no harm.
_PUT_CHUNK = "INSERT INTO holdfast.blob_chunks (upload, place, body) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING"
_FINISH = """
    UPDATE holdfast.blobs SET sha256 = $2, size = $3, begun_at = now()
    WHERE upload = $1 AND NOT EXISTS (SELECT FROM holdfast.blobs WHERE sha256 = $2)
"""
# Its time says that somebody is about to name it.
_TOUCH = "UPDATE holdfast.blobs SET begun_at = now() WHERE sha256 = $1"
_REMOVE = "DELETE FROM holdfast.blobs WHERE sha256 = $1 AND begun_at < now() - make_interval(secs => $2)"
_FIND = "SELECT upload FROM holdfast.blobs WHERE sha256 = $1"
_DROP = "DELETE FROM holdfast.blobs WHERE upload = $1 AND sha256 IS NULL"
_READ_CHUNK = """
    SELECT substring(body FROM $3 FOR $4) FROM holdfast.blob_chunks WHERE upload = $1 AND place = $2
"""


class PostgresBlobs:
    """Blobs beside the sessions of a `PostgresStore`, over its connections. They end with it."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._is_swept = False

    async def put(self, chunks: AsyncIterator[bytes] | bytes) -> BlobRef:
        """Keep these bytes; see `Blobs.put`. Of a stream one chunk and at most a MiB more is in memory."""
        upload = uuid4()
        await self._begin(upload)
        digest, place, size = hashlib.sha256(), 0, 0
        try:
            async for piece in gathered(_as_stream(chunks)):
                digest.update(piece)
                for start in range(0, len(piece), CHUNK_BYTES):
                    await self._put_chunk(upload, place, piece[start : start + CHUNK_BYTES])
                    place += 1
                size += len(piece)
            ref = BlobRef(digest.hexdigest(), size)
            await self._connections.ask(lambda db: _finish(db, upload, ref))
        finally:
            # A name that was given stays; all else of this upload is nobody's.
            await self._connections.ask(lambda db: db.execute(_DROP, upload))
        return ref

    async def get(self, ref: BlobRef) -> bytes:
        """Return all bytes, checked against the name; see `Blobs.get`."""
        upload = await self._upload_of(ref)
        pieces: list[bytes] = []
        while piece := await self._chunk(upload, len(pieces), 0, CHUNK_BYTES):
            pieces.append(piece)
        content = b"".join(pieces)
        if hashlib.sha256(content).hexdigest() != ref.sha256:
            raise BlobMissingError(ref.sha256, "was altered: its bytes do not match its name")
        return content

    async def read(self, ref: BlobRef, *, start: int, length: int) -> bytes:
        """Return a range of the bytes; see `Blobs.read`. A range is not checked: that would take reading everything."""
        upload = await self._upload_of(ref)
        place, first = divmod(max(start, 0), CHUNK_BYTES)
        left = max(length, 0)
        pieces: list[bytes] = []
        while left:
            piece = await self._chunk(upload, place, first, min(left, CHUNK_BYTES - first))
            if not piece:
                break
            pieces.append(piece)
            left -= len(piece)
            place, first = place + 1, 0
        return b"".join(pieces)

    async def remove(self, ref: BlobRef) -> bool:
        """Forget bytes that no record names; see `Blobs.remove`."""
        name = _name_of(ref)
        return await self._connections.ask(lambda db: db.execute(_REMOVE, name, UNNAMED_SECONDS_MIN)) == "DELETE 1"

    async def _begin(self, upload: UUID) -> None:
        if not self._is_swept:
            await self._connections.ask(lambda db: db.execute(_SWEEP))
            self._is_swept = True
        await self._connections.ask(lambda db: db.execute(_BEGIN, upload))

    async def _put_chunk(self, upload: UUID, place: int, body: bytes) -> None:
        await self._connections.ask(lambda db: db.execute(_PUT_CHUNK, upload, place, body))

    async def _upload_of(self, ref: BlobRef) -> UUID:
        name = _name_of(ref)
        upload: UUID | None = await self._connections.ask(lambda db: db.fetchval(_FIND, name)) if name else None
        if upload is None or name.hex() != ref.sha256:
            raise BlobMissingError(ref.sha256, f"is not in {self._connections.address.shown}")
        return upload

    async def _chunk(self, upload: UUID, place: int, first: int, length: int) -> bytes:
        # PostgreSQL counts from 1. No such chunk: the blob ends before it.
        found = await self._connections.ask(lambda db: db.fetchval(_READ_CHUNK, upload, place, first + 1, length))
        return bytes(found or b"")


def _name_of(ref: BlobRef) -> bytes:
    """Return the name as it is kept; nothing for what cannot be one."""
    try:
        return bytes.fromhex(ref.sha256)
    except ValueError:
        return b""


async def _finish(connection: "Connection", upload: UUID, ref: BlobRef) -> None:
    """Give complete bytes their name, unless others have it: then it is said that these are wanted again."""
    name = bytes.fromhex(ref.sha256)
    while True:
        # Somebody else gives the same name at the same moment.
        with suppress(asyncpg.UniqueViolationError):
            if await connection.execute(_FINISH, upload, name, ref.size_bytes) == "UPDATE 1":
                return
        if await connection.execute(_TOUCH, name) == "UPDATE 1":
            return
        # Removed between the two.


async def _as_stream(chunks: AsyncIterator[bytes] | bytes) -> AsyncIterator[bytes]:
    if isinstance(chunks, bytes):
        yield chunks
    else:
        async for chunk in chunks:
            yield chunk
