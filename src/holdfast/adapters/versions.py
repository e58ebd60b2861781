"""A value that is written again and again, as versions of a session: each has only the bytes that changed.

Snapshots of a conversation grow at their end, so most of a version is in the one before. A version that shares too
little begins anew; so does one after which reading all parts would cost more than the value itself.
"""

from collections.abc import Callable

import msgspec

from holdfast.adapters.records import append_repeatedly, newest_entries, newest_of
from holdfast.runtime.sessions.appending import Draft, StoredMessage
from holdfast.runtime.sessions.session import Session

# Versions that a read combines at most: each is a record.
_CHAIN_MAX = 256


class Version(msgspec.Struct, frozen=True, array_like=True):
    """A value as `head` bytes of the version before, then `middle`, then `tail` bytes of it."""

    # Versions before this one that it needs, and the bytes of all their middles.
    depth: int
    chain_bytes: int
    head: int
    tail: int
    middle: bytes


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Version)


async def write_version(session: Session, tag: str, content: bytes, first: Callable[[], list[Draft]]) -> None:
    """Append a version of a value; `first` returns the drafts before the first one. An equal version is not stored."""

    async def build(last: int) -> list[Draft]:
        before = await _versions(session, tag, last)
        if before and _combined(before) == content:
            return []
        version = _version(before, content)
        drafts = [] if last else first()
        return [*drafts, Draft(payload=_encoder.encode(version), tag=tag)]

    await append_repeatedly(session, build)


async def read_version(session: Session, tag: str, last: int) -> bytes | None:
    """Return the newest version of a value; None if there is none."""
    versions = await _versions(session, tag, last)
    return _combined(versions) if versions else None


async def _versions(session: Session, tag: str, last: int) -> list[Version]:
    """Return the versions that make up the newest one, oldest first."""
    newest = await newest_of(session, tag, last)
    if newest is None:
        return []
    version = _decode(newest)
    if not version.depth:
        return [version]
    return [_decode(one) for one in await newest_entries(session, tag, version.depth + 1)]


def _decode(stored: StoredMessage) -> Version:
    return _decoder.decode(stored.payload or b"")


def _combined(versions: list[Version]) -> bytes:
    value = b""
    for one in versions:
        value = value[: one.head] + one.middle + (value[len(value) - one.tail :] if one.tail else b"")
    return value


def _version(before: list[Version], content: bytes) -> Version:
    if before and before[-1].depth < _CHAIN_MAX:
        old = _combined(before)
        head = _shared(old, content)
        left = min(len(old), len(content)) - head
        tail = _shared(old[len(old) - left :][::-1], content[len(content) - left :][::-1])
        middle = content[head : len(content) - tail]
        chain = before[-1].chain_bytes + len(middle)
        if chain <= 2 * len(content):
            return Version(before[-1].depth + 1, chain, head, tail, middle)
    return Version(0, len(content), 0, 0, content)


def _shared(one: bytes, other: bytes) -> int:
    """Return how many bytes two values have in common from the start. Slices are compared, not bytes."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
