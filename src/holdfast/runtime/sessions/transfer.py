"""One session as a whole: into a file and back, and as a session of its own. Its end is in `deleting`.

A file is JSON lines: a head, the blobs in pieces, the records as they were written, and a foot with the number of lines
and the SHA-256 of all before it. It is written and read line by line, so memory does not grow with a session.

A session that is copied in is first made under a key of ours, which nobody sees, and then renamed in one step: it is
there as a whole or not at all. What a process that died left under such a key is removed by the next that copies.
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
from holdfast.core.turn.abort import WAS_COPIED, closing
from holdfast.errors import BadInputError, RetryLaterError
from holdfast.ports import Blobs, Lease, SessionAdmin
from holdfast.runtime.engine.log import Log
from holdfast.stores.fallbacks import need_session_admin
from holdfast.types.messages import BlobRef
from holdfast.types.records import DamageSetAside, Logged, refs_of

FORMAT: Final = "holdfast-session"
# The version of the format. One that is higher was written by a newer Holdfast.
VERSION = 1
COPYING = f"{RESERVED_KEYS}copying:"

# Bytes of a blob in one line, and records that are appended at once.
_PIECE_BYTES = 256 * 2**10
_BATCH_RECORDS = 400
_BATCH_BYTES = 4 * 2**20
_LEASE_SECONDS = 60.0
_OWNER = "copy"
# A line holds a record or a piece of a blob. Records have a bound of their own, see `RECORD_BYTES_MAX`.
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
    """What a copy came to."""

    session: str
    records: int
    blobs: int
    # The key that the session had where it comes from.
    origin: str


# --- out -----------------------------------------------------------------------------------------------------------


async def exported(store: ports.Log, blobs: Blobs, session: str) -> AsyncGenerator[bytes, None]:
    """Yield a session as the lines of a file: what it was when this began. Raises `BlobMissingError`."""
    known = await store.info(session)
    if known is None:
        raise BadInputError(f"there is no session {session!r} to export")
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
    """Yield the records of a session up to one, page by page."""
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


# --- in ------------------------------------------------------------------------------------------------------------


def taken_as_it_is(_logged: Logged) -> None:
    """Nothing speaks against a record."""


async def imported(
    lines: AsyncIterator[bytes],
    store: ports.Log,
    blobs: Blobs,
    *,
    key: str | None = None,
    bounds: Bounds | None = None,
    check: Callable[[Logged], None] = taken_as_it_is,
) -> Copied:
    """Make a session of the lines of a file, under its own key or another: all of it, or nothing.

    What was open when it was exported is ended: the answer is owed where it came from, not here. `check` is shown every
    record; where it raises, nothing is imported.
    """
    admin = need_session_admin(store, "import sessions")
    reader = _Reader(lines, blobs, check)
    head = await reader.head()
    target = head.session if key is None else key
    if await store.info(target) is not None:
        raise BadInputError(f"there is a session {target!r} already; name another key")
    records = await _copied_in(reader.records(), admin, target, bounds or Bounds())
    return Copied(target, records, reader.blobs_kept, head.session)


async def forked(store: ports.Log, session: str, key: str, *, at: int | None, bounds: Bounds) -> Copied:
    """Make a session of its own of the log of another, up to a record."""
    admin = need_session_admin(store, "fork sessions")
    known = await store.info(session)
    last_seq = known.last_seq if known is not None else 0
    until = last_seq if at is None else at
    if not 1 <= until <= last_seq:
        raise BadInputError(f"session {session!r} has no record {until} to fork at; its records are 1 to {last_seq}")
    if await store.info(key) is not None:
        raise BadInputError(f"there is a session {key!r} already; name another key")
    async with aclosing(records_of(store, session, until)) as records:
        count = await _copied_in(records, admin, key, bounds)
    return Copied(key, count, 0, session)


async def _copied_in(records: AsyncIterator[Logged], store: SessionAdmin, key: str, bounds: Bounds) -> int:
    await sweep_copies(store)
    lease = await leased(store, f"{COPYING}{uuid4().hex}")
    try:
        last = await _adopt(records, store, lease, bounds)
        lease = await store.rename(lease, key)
    except BaseException:
        await store.delete(lease)
        raise
    await store.release(lease)
    return last


async def leased(store: ports.Log, key: str) -> Lease:
    """Take the lease on a session that nobody may work on meanwhile, not even another task of this process."""
    lease = await store.acquire(key, _owner(), seconds=_LEASE_SECONDS)
    if lease is None:
        raise RetryLaterError(f"session {key!r} is being worked on; try again when it is at rest")
    return lease


def _owner() -> str:
    """Return a name of its own for each who asks: under one that holds a lease already it would be taken over."""
    return f"{_OWNER}:{uuid4().hex}"


async def _adopt(records: AsyncIterator[Logged], store: SessionAdmin, lease: Lease, bounds: Bounds) -> int:
    """Append records as they are, then what ends whatever is open behind them."""
    log, batch, size_bytes = Log(lease.session, Turn()), list[Logged](), 0
    async for found in records:
        logged = _settled(found)
        log.extend([logged], is_ours=False)
        log.tail.clear()
        batch.append(logged)
        size_bytes += len(msgspec.json.encode(logged))
        if len(batch) >= _BATCH_RECORDS or size_bytes >= _BATCH_BYTES:
            await store.adopt(lease, batch)
            lease = await store.renew(lease, seconds=_LEASE_SECONDS)
            batch, size_bytes = [], 0
    last = await store.adopt(lease, batch)
    if last == 0:
        raise BadInputError("there are no records to copy")
    ends = list(closing(log.turn, bounds, WAS_COPIED))
    return await store.append(lease, ends, after=last) if ends else last


def _settled(logged: Logged) -> Logged:
    """Return a record as it goes into a copy: damage that was found on the way has no bytes there to be set aside."""
    record = logged.record
    if not isinstance(record, DamageSetAside) or record.until:
        return logged
    return Logged(logged.seq, logged.at, DamageSetAside(record.why, until=NOT_SET_ASIDE))


async def sweep_copies(store: SessionAdmin) -> None:
    """Remove what copies left that died half-way. One that is still under way holds its lease."""
    while page := await store.sessions(after=COPYING, limit=100):
        stale = [known.key for known in page if known.key.startswith(COPYING)]
        removed = 0
        for key in stale:
            lease = await store.acquire(key, _owner(), seconds=_LEASE_SECONDS)
            if lease is not None:
                await store.delete(lease)
                removed += 1
        if not removed:
            return


class _Reader:
    """Reads the lines of a file, checks them, and keeps the blobs on the way."""

    def __init__(self, lines: AsyncIterator[bytes], blobs: Blobs, check: Callable[[Logged], None]) -> None:
        self._lines, self._blobs, self._check = lines, blobs, check
        self._digest, self._count = hashlib.sha256(), 0
        self._pending: _Head | _Piece | _Line | _Foot | None = None
        self._kept: set[str] = set()

    @property
    def blobs_kept(self) -> int:
        """How many blobs the file had."""
        return len(self._kept)

    async def _next(self) -> _Head | _Piece | _Line | _Foot:
        if self._pending is not None:
            found, self._pending = self._pending, None
            return found
        try:
            line = await anext(self._lines)
        except StopAsyncIteration:
            raise BadInputError(f"the file ends after line {self._count} and has no foot; it is not whole") from None
        try:
            found = _lines.decode(line)
        except msgspec.DecodeError as error:
            raise BadInputError(f"line {self._count + 1} cannot be read ({error}); the file is not whole") from error
        if not isinstance(found, _Foot):
            self._digest.update(line)
            self._count += 1
        return found

    async def head(self) -> _Head:
        """Return the first line."""
        found = await self._next()
        if not isinstance(found, _Head):
            raise BadInputError("the file does not begin with the head of an exported session")
        if found.version > VERSION:
            raise BadInputError(f"the file has version {found.version} of the format, this Holdfast knows {VERSION}")
        return found

    async def records(self) -> AsyncIterator[Logged]:
        """Yield the records, and check at the end that nothing is missing."""
        last = 0
        while True:
            match await self._next():
                case _Line(logged=logged):
                    if logged.seq != last + 1:
                        raise BadInputError(f"record {last + 1} is not in the file; it was altered or cut")
                    last = logged.seq
                    self._check_refs(logged)
                    self._check(logged)
                    yield logged
                case _Piece() as piece:
                    await self._keep(piece)
                case _Foot(lines=lines, sha256=sha256):
                    if (lines, sha256) != (self._count, self._digest.hexdigest()):
                        raise BadInputError("the lines of the file do not match its foot; it was altered or cut")
                    return
                case _Head():
                    raise BadInputError(f"line {self._count} is a second head; import one session at a time")

    def _check_refs(self, logged: Logged) -> None:
        """Raise where a record names bytes that the file does not bring: they would be somebody else's."""
        for ref in refs_of(logged.record):
            if ref.sha256 not in self._kept:
                raise BadInputError(f"record {logged.seq} names blob {ref.sha256[:12]}…, which is not in the file")

    async def _keep(self, first: _Piece) -> None:
        """Keep one blob, piece by piece."""

        async def content() -> AsyncIterator[bytes]:
            piece, expected = first, 0
            while True:
                if piece.start != expected:
                    raise BadInputError(f"a piece of blob {first.sha256[:12]}… is missing; the file is not whole")
                yield piece.content
                expected += len(piece.content)
                if expected >= first.size_bytes:
                    return
                following = await self._next()
                if not isinstance(following, _Piece) or following.sha256 != first.sha256:
                    raise BadInputError(f"blob {first.sha256[:12]}… is not whole in the file")
                piece = following

        ref = await self._blobs.put(content())
        if ref.sha256 != first.sha256:
            raise BadInputError(f"blob {first.sha256[:12]}… is not what its name says; the file was altered")
        self._kept.add(ref.sha256)


def is_ours(beginning: bytes) -> bool:
    """Whether a file that begins so is an exported session."""
    return beginning.startswith(f'{{"line":"head","format":"{FORMAT}"'.encode())


async def lines_of(path: Path) -> AsyncGenerator[bytes, None]:
    """Yield the lines of a file, none of which may be without end."""
    with await asyncio.to_thread(path.open, "rb") as file:
        while line := await asyncio.to_thread(file.readline, LINE_BYTES_MAX + 1):
            if len(line) > LINE_BYTES_MAX:
                raise BadInputError(
                    f"{path} has a line of more than {LINE_BYTES_MAX:,} bytes; it is no exported session"
                )
            yield line


def origin_of_whole(path: Path, *, line_bytes_max: int = LINE_BYTES_MAX) -> str:
    """Return the key of the session in a file, having read all of it and found it whole. Slow: call it in a thread.

    Raises `BadInputError` where it is cut, altered, or has a line that is too long to be held.
    """
    digest, count = hashlib.sha256(), 0
    with path.open("rb") as file:
        first = last = file.readline(line_bytes_max + 1)
        while line := file.readline(line_bytes_max + 1):
            digest.update(last)
            count += 1
            last = line
            if len(line) > line_bytes_max:
                raise BadInputError(f"line {count + 1} has more than {line_bytes_max:,} bytes, which is the most")
    try:
        head, foot = _lines.decode(first), _lines.decode(last)
    except msgspec.DecodeError as error:
        raise BadInputError(f"this is no exported session, or it is not whole ({error})") from error
    if not isinstance(head, _Head) or not isinstance(foot, _Foot):
        raise BadInputError("this is no exported session, or it is not whole: it has no head or no foot")
    if (foot.lines, foot.sha256) != (count, digest.hexdigest()):
        raise BadInputError("the lines do not match the foot; the file was altered or cut")
    return head.session
