"""Blobs in a PostgreSQL database, in chunks, readable by every node.

An upload stores its chunks under an id and gets its SHA-256 after the last byte. A hash is given once: of two uploads
of the same bytes the second finds it taken and removes its own chunks. The chunks of a dead upload have no hash, are
never read, and are removed a day later. Chunks have at most a MiB.
"""

import hashlib
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

import asyncpg

from holdfast.errors import BlobMissingError
from holdfast.stores.blobs import CHUNK_BYTES, UNNAMED_SECONDS_MIN, coalesced
from holdfast.stores.postgres.connections import Connections
from holdfast.stores.postgres.migrations import SQL
from holdfast.types.messages import BlobRef

if TYPE_CHECKING:
    from holdfast.stores.postgres.connections import Connection

_SWEEP = SQL["sweep_uploads"]
_BEGIN = SQL["begin_upload"]
_PUT_CHUNK = SQL["put_chunk"]
_FINISH = SQL["finish_upload"]
_TOUCH = SQL["touch_blob"]
_REMOVE = SQL["remove_blob"]
_FIND = SQL["find_blob"]
_DROP = SQL["drop_upload"]
_READ_CHUNK = SQL["read_chunk"]


class PostgresBlobs:
    """Blobs in the database of a `PostgresStore`, over its connections, which close with the store."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._is_swept = False

    async def put(self, chunks: AsyncIterator[bytes] | bytes) -> BlobRef:
        """Store bytes; see `Blobs.put`. Holds one chunk of a stream and at most a MiB more in memory."""
        upload = uuid4()
        await self._begin(upload)
        digest, place, size = hashlib.sha256(), 0, 0
        try:
            async for piece in coalesced(_as_stream(chunks)):
                digest.update(piece)
                for start in range(0, len(piece), CHUNK_BYTES):
                    await self._put_chunk(upload, place, piece[start : start + CHUNK_BYTES])
                    place += 1
                size += len(piece)
            ref = BlobRef(digest.hexdigest(), size)
            await self._connections.query(lambda db: _finish(db, upload, ref))
        finally:
            # No-op if the upload got its hash.
            await self._connections.query(lambda db: db.execute(_DROP, upload))
        return ref

    async def get(self, ref: BlobRef) -> bytes:
        """Return all bytes, verified against the hash; see `Blobs.get`."""
        upload = await self._upload_of(ref)
        pieces: list[bytes] = []
        while piece := await self._chunk(upload, len(pieces), 0, CHUNK_BYTES):
            pieces.append(piece)
        content = b"".join(pieces)
        if hashlib.sha256(content).hexdigest() != ref.sha256:
            raise BlobMissingError(ref.sha256, "was altered: its bytes do not match its name")
        return content

    async def read(self, ref: BlobRef, *, start: int, length: int) -> bytes:
        """Return a range of the bytes; see `Blobs.read`. A range is not verified: that needs all bytes."""
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
        """Delete an unreferenced blob; see `Blobs.remove`."""
        name = _name_of(ref)
        return await self._connections.query(lambda db: db.execute(_REMOVE, name, UNNAMED_SECONDS_MIN)) == "DELETE 1"

    async def _begin(self, upload: UUID) -> None:
        if not self._is_swept:
            await self._connections.query(lambda db: db.execute(_SWEEP))
            self._is_swept = True
        await self._connections.query(lambda db: db.execute(_BEGIN, upload))

    async def _put_chunk(self, upload: UUID, place: int, body: bytes) -> None:
        await self._connections.query(lambda db: db.execute(_PUT_CHUNK, upload, place, body))

    async def _upload_of(self, ref: BlobRef) -> UUID:
        name = _name_of(ref)
        upload: UUID | None = await self._connections.query(lambda db: db.fetchval(_FIND, name)) if name else None
        if upload is None or name.hex() != ref.sha256:
            raise BlobMissingError(ref.sha256, f"is not in {self._connections.address.shown}")
        return upload

    async def _chunk(self, upload: UUID, place: int, first: int, length: int) -> bytes:
        # PostgreSQL counts from 1. A missing chunk is the end of the blob.
        found = await self._connections.query(lambda db: db.fetchval(_READ_CHUNK, upload, place, first + 1, length))
        return bytes(found or b"")


def _name_of(ref: BlobRef) -> bytes:
    """Return the hash as stored; empty if the name is not a hash."""
    try:
        return bytes.fromhex(ref.sha256)
    except ValueError:
        return b""


async def _finish(connection: "Connection", upload: UUID, ref: BlobRef) -> None:
    """Give an upload its hash; if the blob exists, renew its time."""
    name = bytes.fromhex(ref.sha256)
    while True:
        # Another upload gets the same hash at the same moment.
        with suppress(asyncpg.UniqueViolationError):
            if await connection.execute(_FINISH, upload, name, ref.size_bytes) == "UPDATE 1":
                return
        if await connection.execute(_TOUCH, name) == "UPDATE 1":
            return
        # Removed between the two statements.


async def _as_stream(chunks: AsyncIterator[bytes] | bytes) -> AsyncIterator[bytes]:
    if isinstance(chunks, bytes):
        yield chunks
    else:
        async for chunk in chunks:
            yield chunk
