"""Stored memories: encode a memory for the snapshot, and choose one to continue from.

A memory is a function of the messages before a place and of those excluded or retracted among them, never of a
compaction. So one that was made for a compaction is valid after its undo, and another exclusion makes it invalid. If
none is valid, the memory is made again from the log.
"""

import hashlib
import zlib
from collections.abc import Sequence

import msgspec

from holdfast.core.compaction.memory.state import Memory
from holdfast.core.fold.session_state import KeptMemory, Turn

# Increase this when the same messages give another memory: older ones are then made again.
MEMORY_VERSION = 1
# A real session of 1,000 messages takes 40 to 110 KB. A hostile one that takes more is not kept.
BODY_BYTES_MAX = 256 * 2**10
# The one of the last compaction, and the one of the compaction before it, for an undo.
_WHOLE_MAX = 2
# The fastest level: the others save a tenth of the size and take several times as long.
_LEVEL = 1

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Memory)


def keep(memory: Memory, turn: Turn, *, until: int, since: int = 0) -> KeptMemory | None:
    """Return a memory of the messages between two places in its stored form; None if it is too large."""
    body = zlib.compress(_encoder.encode(memory), _LEVEL)
    if len(body) > BODY_BYTES_MAX:
        return None
    return KeptMemory(MEMORY_VERSION, until, body, since, _left_out(turn, until))


def memory_of(kept: KeptMemory) -> Memory | None:
    """Return a stored memory, a copy each time; None if it cannot be read."""
    try:
        return _decoder.decode(zlib.decompress(kept.body))
    except (zlib.error, msgspec.DecodeError):
        return None


def newest(kept: Sequence[KeptMemory], turn: Turn, *, until: int, is_whole: bool) -> KeptMemory | None:
    """Return the memory to continue from for the messages before a place: from the first message on, or not."""
    valid = [one for one in kept if one.until <= until and (one.since == 0) == is_whole and is_valid(one, turn)]
    return max(valid, key=lambda one: one.until, default=None)


def is_valid(kept: KeptMemory, turn: Turn) -> bool:
    """Return whether a memory is the one that would be made now."""
    return kept.version == MEMORY_VERSION and kept.left_out == _left_out(turn, kept.until)


def retained(before: KeptMemory | None, added: KeptMemory, recent: KeptMemory | None) -> tuple[KeptMemory, ...]:
    """Return the memories to store: a new one, the one that it continues, and one of the newest messages alone."""
    whole = [one for one in (before, added) if one is not None]
    if before is not None and before.until == added.until:
        whole = [added]
    return (*whole[-_WHOLE_MAX:], *([recent] if recent is not None else []))


def _left_out(turn: Turn, until: int) -> str:
    """Return what identifies the messages and parts before a place that are excluded or retracted."""
    places = sorted((one.excluded, -1 if one.place is None else one.place, one.why) for one in turn.excluded)
    known: list[object] = [one for one in places if one[0] < until]
    known += [(first, min(last, until)) for first, last in turn.retracted if first < until]
    return hashlib.blake2b(msgspec.json.encode(known), digest_size=12).hexdigest() if known else ""
