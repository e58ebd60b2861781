"""Flipping single bits of a SQLite store where it hurts: records, folds, blobs and segments, chosen by a seed.

What is flipped is returned, so that whoever examines the store afterwards knows what must be found. The same seed on
the same store flips the same bit.
"""

import random
import struct
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import apsw
import msgspec

# Where a bit may be flipped, and how often each is chosen: most of a store is bodies.
_TARGETS = ("body", "body", "body", "seq", "at", "crc32", "snapshot", "blob", "segment")


class Flip(msgspec.Struct, frozen=True):
    """One bit that was flipped: in what, of which session (by its number) and record, or in which file."""

    target: str
    bit: int
    session: int = 0
    seq: int = 0
    file: str = ""


def flip(path: Path, seed: int, targets: Sequence[str] = _TARGETS) -> Flip | None:
    """Flip one bit of a store that nobody has open, and say which; None where it has nothing of that kind."""
    chance = random.Random(seed)  # noqa: S311 - the same bit every time is the point
    target = chance.choice(targets)
    if target in {"blob", "segment"}:
        return _flip_file(path, target, chance)
    if target == "snapshot":
        return _flip_snapshot(path, chance)
    return _flip_record(path, target, chance)


def _flip_record(path: Path, column: str, chance: random.Random) -> Flip | None:
    with closing(apsw.Connection(str(path))) as db:
        rows = [
            (table, rowid)
            for table in ("records", "recent")
            for (rowid,) in db.execute(f"SELECT rowid FROM {table} ORDER BY session, seq")  # noqa: S608 - ours
        ]
        if not rows:
            return None
        table, rowid = chance.choice(rows)
        select = f"SELECT session, seq, {column} FROM {table} WHERE rowid = ?"  # noqa: S608 - a name of ours
        session, seq, value = db.execute(select, (rowid,)).get
        bit, flipped = _flipped(value, chance)
        try:
            db.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (flipped, rowid))  # noqa: S608 - ours
        except apsw.ConstraintError:
            # Another row has that number already.
            return None
    return Flip(column, bit, session, seq)


def _flip_snapshot(path: Path, chance: random.Random) -> Flip | None:
    with closing(apsw.Connection(str(path))) as db:
        select = "SELECT session, seq, body FROM snapshots ORDER BY session"
        rows: list[tuple[int, int, bytes]] = db.execute(select).fetchall()  # type: ignore[assignment]  # by its layout
        if not rows:
            return None
        session, seq, body = chance.choice(rows)
        bit, flipped = _flipped(body, chance)
        db.execute("UPDATE snapshots SET body = ? WHERE session = ?", (flipped, session))
    return Flip("snapshot", bit, session, seq)


def _flip_file(path: Path, target: str, chance: random.Random) -> Flip | None:
    folder = path.with_name(path.name + ("-blobs" if target == "blob" else "-archive"))
    files = [each for each in sorted(folder.rglob("*")) if each.is_file() and each.stat().st_size]
    if not files:
        return None
    file = chance.choice(files)
    bit, flipped = _flipped(file.read_bytes(), chance)
    assert isinstance(flipped, bytes)
    file.write_bytes(flipped)
    return Flip(target, bit, file=str(file.relative_to(folder)))


def _flipped(value: object, chance: random.Random) -> tuple[int, bytes | int | float]:
    """Return which bit was flipped, and the value with it."""
    match value:
        case bytes():
            bit = chance.randrange(len(value) * 8)
            content = bytearray(value)
            content[bit // 8] ^= 1 << bit % 8
            return bit, bytes(content)
        case float():
            # The sign and the exponent's highest bits would give what SQLite keeps as NULL, and refuses here.
            bit = chance.randrange(52)
            (number,) = struct.unpack("<q", struct.pack("<d", value))
            (flipped,) = struct.unpack("<d", struct.pack("<q", number ^ (1 << bit)))
            return bit, float(flipped)
        case int():
            bit = chance.randrange(32)
            return bit, value ^ (1 << bit)
        case _:
            raise TypeError(f"no bit of a {type(value).__name__} can be flipped")
