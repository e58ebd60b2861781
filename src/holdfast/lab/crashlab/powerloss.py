"""Power-loss test: acknowledged records, segments and blobs survive on every disk state that may result.

The workload runs once with recording, in a few processes so that log files come and go. Each simulated disk is then
opened with the real store and compared with the complete log: live rows, sealed segments and referenced blobs.
"""

import asyncio
import random
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from holdfast.core.integrity.segments import Kept, SegmentTornError, unpack_segment
from holdfast.errors import HoldfastError
from holdfast.lab.crashlab.disk import Change, Disk, Recorder, disks, record_disk
from holdfast.lab.crashlab.workload import SESSIONS, STORE, Accepted, ChildMessage, Script, Task, run_workload, scratch
from holdfast.ports import Segment
from holdfast.runtime.clock import SystemClock
from holdfast.stores.archives import FolderArchive
from holdfast.stores.blobs import FolderBlobs
from holdfast.stores.sqlite import SqliteStore
from holdfast.types.messages import Text
from holdfast.types.records import InputAdmitted, Logged, decode_record, refs_of

# Enough for every kind of step and for a restart of the write-ahead log. Each life closes the store.
_LIVES, _STEPS_PER_LIFE = 3, 8
_ROWS_MAX = 1_000_000


class PowerFigures(msgspec.Struct):
    """Figures of a power-loss run."""

    states: int = 0
    acknowledged: int = 0
    writes: int = 0
    syncs: int = 0
    # Read back from the simulated disks: sealed segments and referenced blobs.
    segments: int = 0
    blobs: int = 0
    seconds: float = 0.0
    lost: list[str] = []
    third_states: list[str] = []

    def add(self, other: "PowerFigures") -> None:
        """Add the figures of another lane."""
        self.states += other.states
        self.acknowledged += other.acknowledged
        self.writes += other.writes
        self.syncs += other.syncs
        self.segments += other.segments
        self.blobs += other.blobs
        self.lost += other.lost
        self.third_states += other.third_states

    def rows(self) -> list[tuple[str, str]]:
        """Return the rows of the printed table."""
        return [
            ("states", f"{self.states:,} disks after power loss, in {self.seconds:.0f} s"),
            ("recorded", f"{self.writes:,} writes, {self.syncs:,} syncs"),
            ("acknowledged", f"{self.acknowledged:,} records"),
            ("read back", f"{self.segments:,} segments, {self.blobs:,} blobs"),
            ("lost", f"{len(self.lost):,}"),
            ("invalid states", f"{len(self.third_states):,}"),
        ]

    def broken(self) -> list[str]:
        """Return the broken promises as sentences."""
        return [*(f"lost: {one}" for one in self.lost), *(f"invalid state: {one}" for one in self.third_states)]


class Truth(msgspec.Struct, frozen=True):
    """All stored records of each session, and its sealed ranges, without a power loss."""

    bodies: Mapping[str, list[bytes]]
    sealed: Mapping[str, list[tuple[int, int]]]


def lose_power(states: int, seed: int, *, ignores_syncs: bool = False) -> PowerFigures:
    """Record the workload, then simulate power loss at random points. Nothing else in this process may use SQLite."""
    began = time.monotonic()
    chance = random.Random(seed)  # noqa: S311 - a run can be repeated by its seed
    with scratch("power") as folder:
        recorder = Recorder(ignores_syncs=ignores_syncs)
        kept = folder / "kept"
        kept.mkdir()
        record_disk(recorder, kept, lambda: asyncio.run(_work(kept, seed, recorder)))
        truth = asyncio.run(_truth(kept))
        figures = PowerFigures(
            acknowledged=sum(map(len, truth.bodies.values())),
            writes=sum(event.change is Change.WRITE for event in recorder.events),
            syncs=sum(event.change in {Change.SYNC, Change.SYNC_NAMES} for event in recorder.events),
        )
        points = sorted(chance.randint(0, len(recorder.events)) for _ in range(states))
        asyncio.run(_check_all(disks(recorder.events, points, chance), folder / "state", truth, figures))
        figures.seconds = time.monotonic() - began
        return figures


async def _work(folder: Path, seed: int, recorder: Recorder) -> None:
    """Run the workload, and record each acknowledgement at its time."""

    def observe(session: str, logged: Logged) -> None:
        recorder.acknowledge(session, logged.seq)

    def send(message: ChildMessage) -> None:
        if isinstance(message, Accepted):
            recorder.acknowledge(message.session, message.turn)

    for number in range(_LIVES):
        next_steps = dict.fromkeys(SESSIONS, 1 + number * _STEPS_PER_LIFE)
        task = Task(str(folder), Script(seed, seed), next_steps, {}, _STEPS_PER_LIFE)
        await run_workload(task, send, time.monotonic, observe)


async def _truth(folder: Path) -> Truth:
    store, archive = SqliteStore(folder / STORE, clock=SystemClock()), FolderArchive(folder / f"{STORE}-archive")
    bodies: dict[str, list[bytes]] = {}
    sealed: dict[str, list[tuple[int, int]]] = {}
    try:
        for session in SESSIONS:
            segments = await store.segments(session)
            sealed[session] = [(segment.first, segment.last) for segment in segments]
            rows = [row for one in segments for row in unpack_segment(await archive.get(one.name))[1]]
            rows += await store.live_rows(session, limit=_ROWS_MAX)
            assert [row.seq for row in rows] == list(range(1, len(rows) + 1)), "nothing failed yet"
            bodies[session] = [row.body for row in rows]
    finally:
        await store.close()
    return Truth(bodies, sealed)


async def _check_all(found: Iterable[Disk], folder: Path, truth: Truth, figures: PowerFigures) -> None:
    for disk in found:
        folder.mkdir()  # noqa: ASYNC240 - nothing else runs here, and the folder is in memory
        for name, content in disk.files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        try:
            await _check(disk, folder, truth, figures)
        except HoldfastError as error:
            figures.third_states.append(f"power lost after event {disk.point}: cannot be opened: {error}")
        figures.states += 1
        shutil.rmtree(folder)


async def _check(disk: Disk, folder: Path, truth: Truth, figures: PowerFigures) -> None:
    """Open one disk as the next start would, compare it with the truth, and check that it accepts input."""
    store = SqliteStore(folder / STORE, clock=SystemClock())
    try:
        for session in SESSIONS:
            where = f"power lost after event {disk.point}: {session}"
            segments = await store.segments(session)
            rows = await store.live_rows(session, limit=_ROWS_MAX)
            sealed = segments[-1].last if segments else 0
            last = rows[-1].seq if rows else sealed
            if last < disk.acknowledged.get(session, 0):
                figures.lost.append(f"{where} ends with {last}, {disk.acknowledged[session]} was acknowledged")
            invalid = [
                *_invalid_rows(rows, sealed, truth.bodies[session]),
                *_invalid_seals(segments, truth.sealed[session]),
            ]
            lost = [
                *await _lost_segments(folder, session, segments, truth, figures),
                *await _lost_blobs(folder, truth.bodies[session][:last], figures),
            ]
            figures.third_states += [f"{where}: {sentence}" for sentence in invalid]
            figures.lost += [f"{where}: {sentence}" for sentence in lost]
        await store.admit("lab:after", InputAdmitted((Text("still there?"),)))
    finally:
        await store.close()


def _invalid_rows(rows: Sequence[Kept], sealed: int, bodies: Sequence[bytes]) -> list[str]:
    """Return a sentence if the live rows are not those after the sealed ones."""
    last = rows[-1].seq if rows else sealed
    if [row.seq for row in rows] != list(range(sealed + 1, last + 1)):
        return [f"it has a gap or an overlap after {sealed}"]
    if [row.body for row in rows] != bodies[sealed:last]:
        return ["it has records that were never written"]
    return []


def _invalid_seals(segments: Sequence[Segment], sealed: Sequence[tuple[int, int]]) -> list[str]:
    if [(one.first, one.last) for one in segments] != sealed[: len(segments)]:
        return ["its sealed ranges differ from those that were written"]
    return []


async def _lost_segments(
    folder: Path, session: str, segments: Sequence[Segment], truth: Truth, figures: PowerFigures
) -> list[str]:
    """Return a sentence for each missing or changed segment."""
    archive, lost = FolderArchive(folder / f"{STORE}-archive"), []
    for segment in segments:
        figures.segments += 1
        try:
            rows = unpack_segment(await archive.get(segment.name))[1]
        except (HoldfastError, SegmentTornError) as error:
            lost.append(str(error))
            continue
        if [row.body for row in rows] != truth.bodies[session][segment.first - 1 : segment.last]:
            lost.append(f"segment {segment.name} has other records than were sealed")
    return lost


async def _lost_blobs(folder: Path, bodies: Sequence[bytes], figures: PowerFigures) -> list[str]:
    """Return a sentence for each referenced blob that is missing or changed."""
    blobs, lost = FolderBlobs(folder / f"{STORE}-blobs"), []
    # Only records with a hash refer to blobs; the others need not be decoded.
    named = {ref for body in bodies if b'"sha256"' in body for ref in refs_of(decode_record(body))}
    for ref in named:
        figures.blobs += 1
        try:
            await blobs.get(ref)
        except HoldfastError as error:
            lost.append(str(error))
    return lost
