"""Checkpoints as records of a session: one session per namespace of a thread.

A checkpoint is one record with the channels that changed, and the place of each other channel's value. Every record
names the newest checkpoint, so that it is found by reading the last record. A client id ends in a number, because a
checkpoint can be put again under its id, and a task can write more than once.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, TypeAlias

import msgspec

from holdfast.adapters.keys import key_part
from holdfast.errors import RetryLaterError, SeqMovedError
from holdfast.runtime.sessions.appending import Draft, StoredMessage
from holdfast.runtime.sessions.session import Session

TAG = "langgraph"
# A value as the serializer of LangGraph writes it: its type and its bytes.
Typed: TypeAlias = tuple[str, bytes]
EMPTY: Typed = ("empty", b"")
# Client ids looked up at once.
_KEYS = 16
# Writers of one namespace at the same moment repeat their write; so many in a row is a busy loop.
_REPEATS_MAX = 1_000


class Place(msgspec.Struct, frozen=True, array_like=True):
    """What every record tells of its namespace: the last checkpoint, and the one with the greatest id."""

    last: int = 0
    head: int = 0
    head_id: str = ""
    # Checkpoints were put in the order of their ids.
    is_sorted: bool = True


class Namespace(msgspec.Struct, frozen=True, tag="namespace"):
    """The first record of a session."""

    thread: str
    ns: str
    place: Place = Place()


class StoredCheckpoint(msgspec.Struct, frozen=True, tag="checkpoint"):
    """A checkpoint without its values, its changed values, and the record of each other value."""

    place: Place
    id: str
    parent: str
    # The checkpoint that was put before; 0: none.
    previous: int
    checkpoint: Typed
    metadata: Typed
    values: dict[str, Typed]
    where: dict[str, int]


class StoredWrites(msgspec.Struct, frozen=True, tag="writes"):
    """Pending writes of a task."""

    place: Place
    checkpoint: str
    task: str
    path: str
    writes: list[tuple[int, str, str, bytes]]


class Removed(msgspec.Struct, frozen=True, tag="removed"):
    """A checkpoint that is no longer listed."""

    place: Place
    checkpoint: str


CheckpointRecord: TypeAlias = Namespace | StoredCheckpoint | StoredWrites | Removed
_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[CheckpointRecord] = msgspec.msgpack.Decoder(CheckpointRecord)


def namespace_key(thread: str, ns: str) -> str:
    """Return the session key of a namespace."""
    return f"{TAG}:{key_part(thread)}:{key_part(ns)}"


def draft_of(record: CheckpointRecord, client_id: str) -> Draft:
    """Return a record as a payload to append."""
    return Draft(payload=_encoder.encode(record), tag=TAG, client_id=client_id)


def decode(stored: StoredMessage) -> CheckpointRecord:
    """Return the record of a payload."""
    return _decoder.decode(stored.payload or b"")


async def read_record(session: Session, seq: int) -> CheckpointRecord:
    """Return one record."""
    (stored,) = await session.stored_at([seq])
    return decode(stored)


async def newest_place(session: Session) -> tuple[Place, int]:
    """Return the place that the last record names, and its seq; 0: the session is empty."""
    known = await session.known()
    if known is None or not known.last_seq:
        return Place(), 0
    return (await read_record(session, known.last_seq)).place, known.last_seq


async def append_record(
    session: Session, configurable: Mapping[str, Any], key: str, build: Callable[[Place, int], CheckpointRecord]
) -> None:
    """Append a record under the next free number of a client id, after a namespace record in a new session."""
    for _ in range(_REPEATS_MAX):
        place, last = await newest_place(session)
        drafts = []
        if not last:
            drafts.append(draft_of(Namespace(configurable["thread_id"], configurable.get("checkpoint_ns", "")), ""))
        number = await _count(session, key)
        drafts.append(draft_of(build(place, last + len(drafts) + 1), f"{key}:{number}"))
        try:
            await session.append(drafts, expect=last)
        except SeqMovedError:
            continue
        return
    raise RetryLaterError(f"session {session.key!r} has too many writers at once; try again")


async def _count(session: Session, key: str) -> int:
    """Return how many records have a client id: it ends in a number from 0."""
    count = 0
    while True:
        found = await session.find([f"{key}:{number}" for number in range(count, count + _KEYS)])
        count += len(found)
        if len(found) < _KEYS:
            return count


async def numbered(session: Session, key: str) -> AsyncIterator[CheckpointRecord]:
    """Yield the records with a client id, in order."""
    count = await _count(session, key)
    if not count:
        return
    seqs = await session.find([f"{key}:{number}" for number in range(count)])
    for stored in await session.stored_at(sorted(seqs.values())):
        yield decode(stored)


async def by_id(session: Session, checkpoint_id: str) -> StoredCheckpoint | None:
    """Return a checkpoint; None if it does not exist or was removed after it was put last."""
    key, removed = f"c:{key_part(checkpoint_id)}", f"x:{key_part(checkpoint_id)}"
    found = await session.find([f"{key}:0", f"{key}:1", f"{removed}:0"])
    if f"{key}:0" not in found:
        return None
    seq = found[f"{key}:0"]
    if f"{key}:1" in found:
        # Put again under the same id: the last one counts.
        seqs = await session.find([f"{key}:{number}" for number in range(await _count(session, key))])
        seq = max(seqs.values())
    if f"{removed}:0" in found:
        gone = await session.find([f"{removed}:{number}" for number in range(await _count(session, removed))])
        if max(gone.values()) > seq:
            return None
    record = await read_record(session, seq)
    assert isinstance(record, StoredCheckpoint), "the client id of a checkpoint"
    return record


async def newest_checkpoint(session: Session, place: Place) -> StoredCheckpoint | None:
    """Return the checkpoint with the greatest id that was not removed."""
    if not place.head_id:
        return None
    found = await by_id(session, place.head_id)
    if found is not None:
        return found
    async for one in checkpoints(session):
        return one
    return None


async def checkpoints(session: Session) -> AsyncIterator[StoredCheckpoint]:
    """Yield the checkpoints of a session that were not removed, greatest id first."""
    place, _ = await newest_place(session)
    if place.is_sorted:
        async for one in _chain(session, place.last):
            yield one
        return
    unsorted = {one.id: one async for one in _chain(session, place.last)}
    for checkpoint_id in sorted(unsorted, reverse=True):
        yield unsorted[checkpoint_id]


async def _chain(session: Session, seq: int) -> AsyncIterator[StoredCheckpoint]:
    seen: set[str] = set()
    while seq:
        record = await read_record(session, seq)
        assert isinstance(record, StoredCheckpoint), "the chain of checkpoints"
        if record.id not in seen and (kept := await by_id(session, record.id)) is not None:
            seen.add(record.id)
            yield kept
        seq = record.previous


Versions: TypeAlias = Mapping[str, Any]


async def inherited(
    session: Session,
    parent: StoredCheckpoint | None,
    wanted: Versions,
    versions_of: Callable[[StoredCheckpoint], Versions],
) -> dict[str, int]:
    """Return the record of each value that a checkpoint shares with an earlier one, by channel and version.

    Usually that is its parent. A copy of an old checkpoint has values of its own age; then all are searched.
    """
    found: dict[str, int] = {}
    left = dict(wanted)
    if parent is not None:
        _take(parent, versions_of(parent), left, found)
    if left:
        place, _ = await newest_place(session)
        async for one in _chain(session, place.last):
            _take(one, versions_of(one), left, found)
            if not left:
                break
    return found


def _take(one: StoredCheckpoint, versions: Versions, left: dict[str, Any], found: dict[str, int]) -> None:
    """Move the channels whose version a checkpoint has from `left` to `found`. One without a value has none."""
    for name in [name for name, version in left.items() if versions.get(name) == version]:
        # The last checkpoint at the time of a checkpoint is itself.
        seq = one.place.last if name in one.values else one.where.get(name, 0)
        if seq:
            found[name] = seq
        del left[name]


async def has_value(session: Session, checkpoint: StoredCheckpoint, name: str) -> bool:
    """Return whether a checkpoint has a value of a channel, of its own or of an ancestor."""
    if name in checkpoint.values:
        return checkpoint.values[name] != EMPTY
    seq = checkpoint.where.get(name, 0)
    other = await read_record(session, seq) if seq else None
    return isinstance(other, StoredCheckpoint) and other.values[name] != EMPTY


def moved_record(record: CheckpointRecord, shift: int, before: Place) -> CheckpointRecord:
    """Return a record for a log in which it comes `shift` records later, after another namespace's records."""
    place = record.place
    moved = Place(
        place.last + shift if place.last else before.last,
        place.head + shift if place.head_id >= before.head_id and place.head else before.head,
        max(place.head_id, before.head_id),
        place.is_sorted and (not before.last or not place.last),
    )
    if not isinstance(record, StoredCheckpoint):
        return msgspec.structs.replace(record, place=moved)
    previous = record.previous + shift if record.previous else before.last
    where = {name: seq + shift for name, seq in record.where.items()}
    return msgspec.structs.replace(record, place=moved, previous=previous, where=where)
