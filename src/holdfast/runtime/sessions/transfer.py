"""Export, import and fork of a whole session.

An export is a file of JSON lines: a header, the blobs in chunks, the records as they were written, and a footer with
the number of lines and the SHA-256 of all lines before it. It is written and read line by line, so memory does not grow
with the session.

An import or fork writes under a reserved, hidden key and renames it in one step: the session exists completely or not
at all. The next copy removes what a dead process left under such a key.
"""

import asyncio
import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Final, Literal
from uuid import uuid4

import msgspec

from holdfast import ports
from holdfast.core.fold.session_state import Turn
from holdfast.core.integrity.log_gaps import NOT_SET_ASIDE
from holdfast.core.limits.bounds import RESERVED_KEYS, Bounds
from holdfast.core.turn.decide import WAS_COPIED, closing
from holdfast.errors import BadInputError
from holdfast.ports import Blobs, Lease, SessionAdmin
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.engine.lease import renewed_lease, take_lease, try_lease, unique_owner
from holdfast.runtime.engine.log import Log
from holdfast.stores.fallbacks import need_session_admin
from holdfast.types.messages import BlobRef
from holdfast.types.records import DamageSetAside, Logged, refs_of

FORMAT: Final = "holdfast-session"
# Format version. A higher one was written by a newer Holdfast.
VERSION = 1
COPYING = f"{RESERVED_KEYS}copying:"

# Blob bytes per line, and limits of one append.
_PIECE_BYTES = 256 * 2**10
_BATCH_RECORDS = 400
_BATCH_BYTES = 4 * 2**20
_LEASE_SECONDS = 60.0
_CLOCK = SystemClock()
# A line holds a record or a blob chunk. The size of a record is bounded by `RECORD_BYTES_MAX`.
LINE_BYTES_MAX = 300 * 2**20


class _Head(msgspec.Struct, tag="head", tag_field="line"):
    format: Literal["holdfast-session"]
    version: int
    session: str
    last_seq: int


class _Piece(msgspec.Struct, tag="blob", tag_field="line"):
    sha256: str
    size_bytes: int
    start: int
    content: bytes


class _Line(msgspec.Struct, tag="record", tag_field="line"):
    logged: Logged


class _Foot(msgspec.Struct, tag="foot", tag_field="line"):
    lines: int
    sha256: str


_lines: msgspec.json.Decoder[_Head | _Piece | _Line | _Foot] = msgspec.json.Decoder(_Head | _Piece | _Line | _Foot)


class Copied(msgspec.Struct, frozen=True):
    """Result of an import or fork."""

    # The key of the new session, and the numbers of its records and of the blobs that were copied.
    session: str
    records: int
    blobs: int
    # The key of the source session.
    origin: str


# --- Export ---


async def export_session(store: ports.Log, blobs: Blobs, session: str) -> AsyncGenerator[bytes, None]:
    """Yield the lines of an export of a session, up to its last record at the start. Raises `BlobMissingError`."""
    known = await store.info(session)
    if known is None:
        raise BadInputError(f"session {session!r} does not exist; nothing to export")
    digest, count = hashlib.sha256(), 0

    def line(shape: _Head | _Piece | _Line | _Foot) -> bytes:
        nonlocal count
        encoded = msgspec.json.encode(shape) + b"\n"
        digest.update(encoded)
        count += 1
        return encoded

    yield line(_Head(FORMAT, VERSION, session, known.last_seq))
    written: set[str] = set()
    async for logged in records_of(store, session, known.last_seq):
        for ref in refs_of(logged.record):
            if ref.sha256 not in written:
                written.add(ref.sha256)
                async for piece in _pieces(blobs, ref):
                    yield line(piece)
        yield line(_Line(logged))
    yield msgspec.json.encode(_Foot(count, digest.hexdigest())) + b"\n"


async def records_of(store: ports.Log, session: str, until: int) -> AsyncGenerator[Logged, None]:
    """Yield the records of a session up to the seq `until`, read page by page."""
    after = 0
    while after < until and (page := await store.read(session, after=after, limit=min(_BATCH_RECORDS, until - after))):
        for logged in page:
            yield logged
        after = page[-1].seq


async def _pieces(blobs: Blobs, ref: BlobRef) -> AsyncIterator[_Piece]:
    start = 0
    while start < ref.size_bytes or start == 0:
        content = await blobs.read(ref, start=start, length=_PIECE_BYTES)
        yield _Piece(ref.sha256, ref.size_bytes, start, content)
        start += len(content)
        if not content:
            break


# --- Import and fork ---


def accept_any(_logged: Logged) -> None:
    """Accept a record without a check."""


async def import_lines(
    lines: AsyncIterator[bytes],
    store: ports.Log,
    blobs: Blobs,
    *,
    key: str | None = None,
    bounds: Bounds | None = None,
    check: Callable[[Logged], None] = accept_any,
) -> Copied:
    """Create a session from the lines of an export, under its own key or another: completely or not at all.

    Turns that were open at the export are closed: they are answered in the source session, not here. `check` is called
    with every record; if it raises, nothing is imported.
    """
    admin = need_session_admin(store, "import sessions")
    reader = _Reader(lines, blobs, check)
    head = await reader.head()
    target = head.session if key is None else key
    if await store.info(target) is not None:
        raise BadInputError(f"session {target!r} already exists; choose another key")
    records = await _copied_in(reader.records(), admin, target, bounds or Bounds())
    return Copied(target, records, reader.blobs_kept, head.session)


async def forked(store: ports.Log, session: str, key: str, *, at: int | None, bounds: Bounds) -> Copied:
    """Copy the log of a session up to the record `at` into a new session."""
    admin = need_session_admin(store, "fork sessions")
    known = await store.info(session)
    last_seq = known.last_seq if known is not None else 0
    until = last_seq if at is None else at
    if not 1 <= until <= last_seq:
        raise BadInputError(f"session {session!r} has no record {until} to fork at; its records are 1 to {last_seq}")
    if await store.info(key) is not None:
        raise BadInputError(f"session {key!r} already exists; choose another key")
    async with aclosing(records_of(store, session, until)) as records:
        count = await _copied_in(records, admin, key, bounds)
    return Copied(key, count, 0, session)


async def _copied_in(records: AsyncIterator[Logged], store: SessionAdmin, key: str, bounds: Bounds) -> int:
    await sweep_copies(store)
    lease = await exclusive_lease(store, f"{COPYING}{uuid4().hex}")
    try:
        async with renewed_lease(store, _CLOCK, lease, seconds=_LEASE_SECONDS):
            last = await _adopt(records, store, lease, bounds)
        lease = await store.rename(lease, key)
    except BaseException:
        await store.delete(lease)
        raise
    await store.release(lease)
    return last


async def exclusive_lease(store: ports.Log, key: str) -> Lease:
    """Take the lease of a session, or raise `RetryLaterError` if any worker holds it, also one of this process."""
    return await take_lease(store, _CLOCK, key, unique_owner("copy"), seconds=_LEASE_SECONDS)


async def _adopt(records: AsyncIterator[Logged], store: SessionAdmin, lease: Lease, bounds: Bounds) -> int:
    """Append records as they are, then the records that close what they leave open."""
    log, batch, size_bytes = Log(lease.session, Turn()), list[Logged](), 0
    async for found in records:
        logged = _settled(found)
        log.extend([logged], is_ours=False)
        log.tail.clear()
        batch.append(logged)
        size_bytes += len(msgspec.json.encode(logged))
        if len(batch) >= _BATCH_RECORDS or size_bytes >= _BATCH_BYTES:
            await store.adopt(lease, batch)
            batch, size_bytes = [], 0
    last = await store.adopt(lease, batch)
    if last == 0:
        raise BadInputError("the source has no records; nothing to copy")
    ends = list(closing(log.turn, bounds, WAS_COPIED))
    return await store.append(lease, ends, after=last) if ends else last


def _settled(logged: Logged) -> Logged:
    """Return a record as written to the copy: unrepaired damage becomes set aside, as its bytes are not copied."""
    record = logged.record
    if not isinstance(record, DamageSetAside) or record.until:
        return logged
    return Logged(logged.seq, logged.at, DamageSetAside(record.why, until=NOT_SET_ASIDE))


async def sweep_copies(store: SessionAdmin) -> None:
    """Remove unfinished copies of dead processes. A copy in progress holds its lease and stays."""
    while page := await store.sessions(after=COPYING, limit=100):
        stale = [known.key for known in page if known.key.startswith(COPYING)]
        removed = 0
        for key in stale:
            lease = await try_lease(store, key, unique_owner("copy"), seconds=_LEASE_SECONDS)
            if lease is not None:
                await store.delete(lease)
                removed += 1
        if not removed:
            return


class _Reader:
    """Reads and checks the lines of an export, and stores its blobs."""

    def __init__(self, lines: AsyncIterator[bytes], blobs: Blobs, check: Callable[[Logged], None]) -> None:
        self._lines, self._blobs, self._check = lines, blobs, check
        self._digest, self._count = hashlib.sha256(), 0
        self._pending: _Head | _Piece | _Line | _Foot | None = None
        self._kept: set[str] = set()

    @property
    def blobs_kept(self) -> int:
        """Number of blobs read."""
        return len(self._kept)

    async def _next(self) -> _Head | _Piece | _Line | _Foot:
        if self._pending is not None:
            found, self._pending = self._pending, None
            return found
        try:
            line = await anext(self._lines)
        except StopAsyncIteration:
            raise BadInputError(f"the file ends after line {self._count} without a footer; it is incomplete") from None
        try:
            found = _lines.decode(line)
        except msgspec.DecodeError as error:
            raise BadInputError(f"line {self._count + 1} is invalid ({error}); the file is damaged") from error
        if not isinstance(found, _Foot):
            self._digest.update(line)
            self._count += 1
        return found

    async def head(self) -> _Head:
        """Return the header."""
        found = await self._next()
        if not isinstance(found, _Head):
            raise BadInputError("the file does not begin with the header of an exported session")
        if found.version > VERSION:
            raise BadInputError(f"the file has format version {found.version}; this Holdfast reads up to {VERSION}")
        return found

    async def records(self) -> AsyncIterator[Logged]:
        """Yield the records, and verify the footer at the end."""
        last = 0
        while True:
            match await self._next():
                case _Line(logged=logged):
                    if logged.seq != last + 1:
                        raise BadInputError(f"record {last + 1} is missing; the file was altered or truncated")
                    last = logged.seq
                    self._check_refs(logged)
                    self._check(logged)
                    yield logged
                case _Piece() as piece:
                    await self._keep(piece)
                case _Foot(lines=lines, sha256=sha256):
                    if (lines, sha256) != (self._count, self._digest.hexdigest()):
                        raise BadInputError("the lines do not match the footer; the file was altered or truncated")
                    return
                case _Head():
                    raise BadInputError(f"line {self._count} is a second header; import one session at a time")

    def _check_refs(self, logged: Logged) -> None:
        """Raise if a record names a blob that the file lacks: the name could resolve to another session's blob."""
        for ref in refs_of(logged.record):
            if ref.sha256 not in self._kept:
                raise BadInputError(f"record {logged.seq} names blob {ref.sha256[:12]}…, which the file lacks")

    async def _keep(self, first: _Piece) -> None:
        """Store one blob from its chunks."""

        async def content() -> AsyncIterator[bytes]:
            piece, expected = first, 0
            while True:
                if piece.start != expected:
                    raise BadInputError(f"a chunk of blob {first.sha256[:12]}… is missing; the file is damaged")
                yield piece.content
                expected += len(piece.content)
                if expected >= first.size_bytes:
                    return
                following = await self._next()
                if not isinstance(following, _Piece) or following.sha256 != first.sha256:
                    raise BadInputError(f"blob {first.sha256[:12]}… is incomplete in the file")
                piece = following

        ref = await self._blobs.put(content())
        if ref.sha256 != first.sha256:
            raise BadInputError(f"blob {first.sha256[:12]}… does not match its hash; the file was altered")
        self._kept.add(ref.sha256)


def is_exported_session(beginning: bytes) -> bool:
    """Return whether a file that begins with these bytes is an exported session."""
    return beginning.startswith(f'{{"line":"head","format":"{FORMAT}"'.encode())


async def lines_of(path: Path) -> AsyncGenerator[bytes, None]:
    """Yield the lines of a file. Raises `BadInputError` for a line above the maximum length."""
    with await asyncio.to_thread(path.open, "rb") as file:
        while line := await asyncio.to_thread(file.readline, LINE_BYTES_MAX + 1):
            if len(line) > LINE_BYTES_MAX:
                raise BadInputError(
                    f"{path} has a line of more than {LINE_BYTES_MAX:,} bytes; it is not an exported session"
                )
            yield line


def verified_origin(path: Path, *, line_bytes_max: int = LINE_BYTES_MAX) -> str:
    """Verify an export completely and return the key of its session. Slow: call it in a thread.

    Raises `BadInputError` if the file is truncated or altered, or if a line is too long.
    """
    digest, count = hashlib.sha256(), 0
    with path.open("rb") as file:
        first = last = file.readline(line_bytes_max + 1)
        while line := file.readline(line_bytes_max + 1):
            digest.update(last)
            count += 1
            last = line
            if len(line) > line_bytes_max:
                raise BadInputError(f"line {count + 1} has more than the maximum of {line_bytes_max:,} bytes")
    try:
        head, foot = _lines.decode(first), _lines.decode(last)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadInputError(f"not an exported session, or incomplete ({error})") from error
    if not isinstance(head, _Head) or not isinstance(foot, _Foot):
        raise BadInputError("not an exported session, or incomplete: header or footer is missing")
    if (foot.lines, foot.sha256) != (count, digest.hexdigest()):
        raise BadInputError("the lines do not match the footer; the file was altered or truncated")
    return head.session
