"""Inputs of the demo: facts, pages of text, a large image and a flipped bit, all determined by a seed."""

import asyncio
import random
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import msgspec

from holdfast.stores.sqlite.read_only import SqliteView
from holdfast.types.records import DamageSetAside, Logged, ReplyRecorded, encode_record

# Six kinds of facts: a name, a number, a path, a time, a phrase, an id.
_HARBOURS = ("Kiel", "Malmö", "Riga", "Turku", "Visby", "Gdynia", "Tallinn", "Rostock")
_HINTS = ("the blue door", "two lanterns", "a broken oar", "the seventh step", "salt and tar")

# A sentence of a page takes one of each.
_WHEN = ("At dawn", "Before noon", "In the dog watch", "After the squall", "At dusk", "During the night watch", "Later")
_WHO = ("the captain", "our cook", "a sailor", "the carpenter", "the pilot")
_DID = ("mended", "inspected", "painted", "took down", "complained about", "praised", "lost", "found again", "sketched")
_WHAT = ("the main sail", "a lamp", "the rudder", "some rope", "the pump", "a chart", "the bell", "an anchor chain")
_WHY = ("as the wind fell", "while it rained", "without a word", "to pass the time", "in good cheer")

# Random pixels do not compress.
IMAGE_BYTES = 30_000_000
_IMAGE_WIDTH = 4_000
_RGB_BYTES = 3


class Inputs:
    """Everything that one seed determines."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self.facts: Mapping[str, str] = MappingProxyType(_facts(random.Random(f"facts {seed}")))  # noqa: S311 - no secret

    def page(self, number: int, sentences: int) -> str:
        """Return a page of text, determined by its number."""
        chosen = random.Random(f"page {self._seed} {number}")  # noqa: S311 - no secret
        return " ".join(
            f"{chosen.choice(_WHEN)} {chosen.choice(_WHO)} {chosen.choice(_DID)} {chosen.choice(_WHAT)} "
            f"{chosen.choice(_WHY)}."
            for _ in range(sentences)
        )

    def image(self, size_bytes: int = IMAGE_BYTES) -> bytes:
        """Return a PNG of noise with at least this many bytes."""
        height = -(-size_bytes // (_IMAGE_WIDTH * _RGB_BYTES))
        noise = random.Random(f"image {self._seed}").randbytes(height * _IMAGE_WIDTH * _RGB_BYTES)  # noqa: S311 - no secret
        row = _IMAGE_WIDTH * _RGB_BYTES
        # Each row starts with its filter type: none.
        rows = b"".join(b"\x00" + noise[at : at + row] for at in range(0, len(noise), row))
        head = struct.pack(">IIBBBBB", _IMAGE_WIDTH, height, 8, 2, 0, 0, 0)
        chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(rows, 0)), (b"IEND", b""))
        return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, body) for name, body in chunks)

    def chance(self, purpose: str) -> random.Random:
        """Return a random generator for a purpose."""
        return random.Random(f"{purpose} {self._seed}")  # noqa: S311 - no secret


def _facts(chosen: random.Random) -> dict[str, str]:
    return {
        "harbour": chosen.choice(_HARBOURS),
        "berth": f"{chosen.randrange(10, 99)}-{chosen.choice('ABCDEF')}",
        "chart": f"/charts/baltic/{chosen.randrange(2020, 2040)}.pdf",
        "departure": f"20{chosen.randrange(26, 40)}-0{chosen.randrange(1, 10)}-1{chosen.randrange(10)} 06:40",
        "password-hint": chosen.choice(_HINTS),
        "voucher": f"HF-{chosen.getrandbits(32):08x}",
    }


def _chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(body, zlib.crc32(name)))


# --- Flipped bit ---


# A store of the demo has a few MiB.
_FILE_BYTES_MAX = 100 * 2**20


class Flip(msgspec.Struct, frozen=True):
    """The flipped bit: its record, the offset of its byte in the file, and its position."""

    seq: int
    at: int
    bit: int


async def flip_bit(path: Path, key: str, after: int, chance: random.Random) -> Flip | None:
    """Flip one bit of an answer after a record number, directly in the file; None if there is no such answer.

    The store must be closed. A free page may contain an old copy of a row, so the flip is tried at each copy until the
    record is unreadable.
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
