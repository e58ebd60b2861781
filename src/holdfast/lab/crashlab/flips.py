"""Bit-flip test: every flipped bit is detected, damages one place only, and is repaired by `doctor`.

One small store is filled with everything that a store can have: live and sealed records, snapshots, an index, blobs.
Each bit is flipped in a copy of it, which is then checked by `doctor`, read, and repaired.
"""

import asyncio
import random
import shutil
import struct
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import apsw
import msgspec

from holdfast.errors import HoldfastError
from holdfast.lab.crashlab.workload import scratch
from holdfast.ports.model import ignore
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.engine.log import open_log
from holdfast.runtime.maintenance.sealing import put_segment
from holdfast.stores.archived import ArchivedStore
from holdfast.stores.archives import FolderArchive
from holdfast.stores.blobs import FolderBlobs
from holdfast.stores.sqlite import SqliteStore
from holdfast.types.messages import LargeText, Reply, StopReason, Text
from holdfast.types.records import (
    AttemptStarted,
    DamageSetAside,
    InputAdmitted,
    Logged,
    Outcome,
    ReplyRecorded,
    TurnEnded,
    TurnStarted,
    WorkRecord,
)
from holdfast.wiring.doctor import check_store, repair

# --- Flipping a bit ---


# Targets of a flip, weighted: most bytes of a store are record bodies.
_TARGETS = ("body", "body", "body", "seq", "at", "crc32", "snapshot", "blob", "segment")


class Flip(msgspec.Struct, frozen=True):
    """One flipped bit: its target, and the session number and record, or the file."""

    target: str
    bit: int
    session: int = 0
    seq: int = 0
    file: str = ""


def flip(path: Path, seed: int, targets: Sequence[str] = _TARGETS) -> Flip | None:
    """Flip one bit of a closed store and return it; None if the store has no such target."""
    chance = random.Random(seed)  # noqa: S311 - repeatable by its seed
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
            # Another row has that number.
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
    """Return the position of the flipped bit, and the changed value."""
    match value:
        case bytes():
            bit = chance.randrange(len(value) * 8)
            content = bytearray(value)
            content[bit // 8] ^= 1 << bit % 8
            return bit, bytes(content)
        case float():
            # Only the mantissa: flips in the exponent may give NaN, which SQLite stores as NULL and rejects here.
            bit = chance.randrange(52)
            (number,) = struct.unpack("<q", struct.pack("<d", value))
            (flipped,) = struct.unpack("<d", struct.pack("<q", number ^ (1 << bit)))
            return bit, float(flipped)
        case int():
            bit = chance.randrange(32)
            return bit, value ^ (1 << bit)
        case _:
            raise TypeError(f"no bit of a {type(value).__name__} can be flipped")


KEYS = ("one", "two")
# Turns per session, records per turn, and sealed records of the first session.
_TURNS, _RECORDS_PER_TURN, SEALED = 4, 5, 10
RECORDS = _TURNS * _RECORDS_PER_TURN
_LEASE_SECONDS = 600.0
# Interval of progress reports.
_REPORT_SECONDS = 0.5


class FlipFigures(msgspec.Struct):
    """Figures of a bit-flip run."""

    # Flips by target.
    flips: dict[str, int] = {}
    # Seeds whose flip was impossible, such as a number that another row has.
    skipped: int = 0
    seconds: float = 0.0
    undetected: list[str] = []
    spread: list[str] = []
    unrepaired: list[str] = []

    def add(self, other: "FlipFigures") -> None:
        """Add the figures of another lane."""
        self.flips = dict(Counter(self.flips) + Counter(other.flips))
        self.skipped += other.skipped
        self.undetected += other.undetected
        self.spread += other.spread
        self.unrepaired += other.unrepaired

    @property
    def count(self) -> int:
        """Number of flipped bits."""
        return sum(self.flips.values())

    def rows(self) -> list[tuple[str, str]]:
        """Return the rows of the printed table."""
        kinds = ", ".join(f"{count:,} in a {what}" for what, count in sorted(self.flips.items()))
        return [
            ("flips", f"{self.count:,} in {self.seconds:.0f} s: {kinds}"),
            ("undetected", f"{len(self.undetected):,}"),
            ("spread", f"{len(self.spread):,} damaged more than one place"),
            ("unrepaired", f"{len(self.unrepaired):,} that should be repairable without a backup"),
        ]

    def broken(self) -> list[str]:
        """Return the broken promises as sentences."""
        return [
            *(f"undetected: {one}" for one in self.undetected),
            *(f"spread: {one}" for one in self.spread),
            *(f"unrepaired: {one}" for one in self.unrepaired),
        ]


def flip_all(seeds: Sequence[int], report: Callable[[FlipFigures], None]) -> None:
    """Flip one bit per seed, each in a copy of a store, check the result and report progress."""
    with scratch("flips") as folder:
        original = folder / "original" / "s.db"
        original.parent.mkdir()
        asyncio.run(fill(original))
        before = asyncio.run(_records(original))
        figures, reported_at = FlipFigures(), time.monotonic()
        for seed in seeds:
            _flip_one(copy_files(original, folder / "copy"), seed, before, figures)
            if time.monotonic() - reported_at > _REPORT_SECONDS:
                report(figures)
                figures, reported_at = FlipFigures(), time.monotonic()
        report(figures)


def _flip_one(path: Path, seed: int, before: dict[str, list[Logged]], figures: FlipFigures) -> None:
    flipped = flip(path, seed)
    if flipped is None:
        figures.skipped += 1
        return
    figures.flips[flipped.target] = figures.flips.get(flipped.target, 0) + 1
    where = f"seed {seed}, {flipped}"
    try:
        asyncio.run(_check_flip(path, flipped, before, figures, where))
    except HoldfastError as error:
        figures.spread.append(f"{where}: the store cannot be opened: {error}")


async def _check_flip(
    path: Path, flipped: Flip, before: dict[str, list[Logged]], figures: FlipFigures, where: str
) -> None:
    found = await check_store(path, None, ignore)
    if not found.findings:
        figures.undetected.append(where)
    after = await _records(path)
    figures.spread += [f"{where}: {sentence}" for key in KEYS for sentence in spread(flipped, before[key], after[key])]
    if flipped.target in {"blob", "segment"}:
        # Only a backup has the original bytes: doctor must not offer a repair.
        figures.unrepaired += [f"{where}: {one.remedy}" for one in found.findings if one.remedy]
        return
    figures.unrepaired += [f"{where}: {sentence}" for sentence in await repair(path, found)]
    left = (await check_store(path, None, ignore)).findings
    figures.unrepaired += [f"{where}: {finding.what}" for finding in left]
    figures.unrepaired += [f"{where}: {sentence}" for sentence in _gaps(await _records(path))]


def _gaps(records_by_key: dict[str, list[Logged]]) -> list[str]:
    numbers = list(range(1, RECORDS + 1))
    return [
        f"the records of {key} have a gap"
        for key, records in records_by_key.items()
        if [each.seq for each in records[:RECORDS]] != numbers
    ]


def spread(flipped: Flip, before: Sequence[Logged], after: Sequence[Logged]) -> list[str]:
    """Return damage beyond one record of one session, or beyond the segment that was hit."""
    damaged = [old.seq for old, new in zip(before, after, strict=False) if old != new]
    found: list[str] = []
    # A flipped number may move the newest record among the others; then only the check can notice that it is missing.
    if len(after) < len(before) - (flipped.target == "seq" and flipped.seq == len(before)):
        found.append(f"{len(before)} records before, {len(after)} after")
    if not all(isinstance(after[seq - 1].record, DamageSetAside) for seq in damaged):
        found.append(f"records {damaged} have another content")
    if len(damaged) > (SEALED if flipped.target == "segment" else 1):
        found.append(f"records {damaged} are damaged")
    return found


async def fill(path: Path) -> None:
    """Fill a store: two sessions of four turns, each with a snapshot and a blob; two turns of the first are sealed."""
    clock = SystemClock()
    store, blobs = SqliteStore(path, clock=clock), FolderBlobs(path.with_name(path.name + "-blobs"))
    archive = FolderArchive(path.with_name(path.name + "-archive"))
    try:
        for key in KEYS:
            lease = await store.acquire(key, "laboratory", seconds=_LEASE_SECONDS)
            assert lease is not None, "the store is new"
            long = LargeText(await blobs.put(key.encode() * 50), "long")
            for turn in range(1, RECORDS, _RECORDS_PER_TURN):
                await store.admit(key, InputAdmitted((Text(f"message {turn}") if turn > 1 else long,)))
                await store.append(lease, _work(turn), after=turn)
            await store.save_snapshot(lease, (await open_log(store, key)).snapshot())
            await store.search(key, "answer")
            if key == KEYS[0]:
                rows = await store.live_rows(key, limit=SEALED)
                await store.seal(lease, await put_segment(archive, key, rows), after=RECORDS)
            await store.release(lease)
    finally:
        await store.close()


def _work(turn: int) -> tuple[WorkRecord, ...]:
    reply = Reply((Text(f"answer {turn}"),), StopReason.END, None, "lab")
    return (
        TurnStarted(turn),
        AttemptStarted(turn, 1, "lab"),
        ReplyRecorded(turn, 1, reply),
        TurnEnded(turn, Outcome.ANSWERED),
    )


def copy_files(original: Path, folder: Path) -> Path:
    """Replace a folder by a copy of a closed store, and return the path of the copy."""
    shutil.rmtree(folder, ignore_errors=True)
    # The reserve file has no data.
    shutil.copytree(original.parent, folder, ignore=shutil.ignore_patterns("*-reserve"))
    return folder / original.name


async def _records(path: Path) -> dict[str, list[Logged]]:
    archive = FolderArchive(path.with_name(path.name + "-archive"))
    store = ArchivedStore(SqliteStore(path, clock=SystemClock()), archive)
    try:
        return {key: await store.read(key) for key in KEYS}
    finally:
        await store.close()
