"""One bit of the store's file, flipped where a record stands: what a disk does that fails without saying so."""

import asyncio
import random
from pathlib import Path

import msgspec

from holdfast.core.records import DamageSetAside, Logged, ReplyRecorded, encode_record
from holdfast.stores.sqlite.read_only import SqliteView

# A store of the demo has a few MiB at most; a hundred are a store of somebody else.
_FILE_BYTES_MAX = 100 * 2**20


class Flip(msgspec.Struct, frozen=True):
    """What was flipped: a bit of the byte at this place of the file, in the body of this record."""

    seq: int
    at: int
    bit: int


async def flip_a_bit(path: Path, key: str, after: int, chance: random.Random) -> Flip | None:
    """Flip one bit of an answer behind a number, in the file itself; None where there is no such answer.

    Nobody may have the store open. An old copy of a row may lie in a page that is free, so it is made sure that the
    record cannot be read any more.
    """
    records = await _read(path, key)
    candidates = [logged for logged in records if logged.seq > after and isinstance(logged.record, ReplyRecorded)]
    chance.shuffle(candidates)
    for logged in candidates:
        flip = await _flip(path, key, logged, chance)
        if flip is not None:
            return flip
    return None


async def _flip(path: Path, key: str, logged: Logged, chance: random.Random) -> Flip | None:
    content, body = await asyncio.to_thread(path.read_bytes), encode_record(logged.record)
    assert len(content) <= _FILE_BYTES_MAX, "a store of the demo"
    within, bit = chance.randrange(len(body)), chance.randrange(8)
    start = content.find(body)
    while start >= 0:
        flip = Flip(logged.seq, start + within, bit)
        await asyncio.to_thread(_toggle, path, flip)
        found = (await _read(path, key))[logged.seq - 1]
        if isinstance(found.record, DamageSetAside):
            return flip
        await asyncio.to_thread(_toggle, path, flip)
        start = content.find(body, start + 1)
    return None


def _toggle(path: Path, flip: Flip) -> None:
    with path.open("r+b") as file:
        file.seek(flip.at)
        (byte,) = file.read(1)
        file.seek(flip.at)
        file.write(bytes([byte ^ (1 << flip.bit)]))


async def _read(path: Path, key: str) -> list[Logged]:
    store = SqliteView(path)
    try:
        return await store.read(key)
    finally:
        await store.close()
