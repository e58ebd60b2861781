"""What `doctor` does with a store: look at the file, look at every session, and repair what can be repaired."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from holdfast.core.integrity.reconcile import DropSnapshot
from holdfast.core.limits.bounds import RESERVED_KEYS, Bounds
from holdfast.errors import ConflictError, RetryLaterError
from holdfast.ports import Archive, Progress, Segment, Store
from holdfast.runtime.engine.log import every_session
from holdfast.runtime.maintenance.doctor import SEGMENT, UNNOTED, Doctor, Finding
from holdfast.runtime.maintenance.healing import fold_whole, heal_whole
from holdfast.runtime.maintenance.sealing import put_again
from holdfast.runtime.sessions.delete import learn_blobs_of
from holdfast.stores.archived import ArchivedStore
from holdfast.stores.blobs import FolderBlobs
from holdfast.stores.sqlite import inspect
from holdfast.stores.sqlite.copy import beside, copy_store
from holdfast.stores.sqlite.file import layout_of
from holdfast.stores.sqlite.process_lock import live_instances
from holdfast.stores.sqlite.read_only import SqliteView
from holdfast.stores.sqlite.reserve import is_released
from holdfast.wiring.stores import Place, open_archive, open_store, shown_place

_LEASE_SECONDS = 60.0
_OWNER = "doctor"
# A blob that is younger may belong to a message that is being sent.
_BLOB_SECONDS_MIN = 3_600.0

_GIVEN_UP = (
    "the disk was full: the space kept for the ends of turns was given up, and messages are refused until there is room"
)


class Checkup(msgspec.Struct, frozen=True):
    """What was looked at and found. `notes` are worth knowing and nothing is wrong with them."""

    store: str
    layout: int
    layout_newest: int
    # Those of people: what is known of models is a log as well, is looked at, and is none of them.
    sessions: int
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()


def _of_people(keys: Sequence[str]) -> int:
    return sum(not key.startswith(RESERVED_KEYS) for key in keys)


async def look_over(path: Path, only: str | None, progress: Progress) -> Checkup:
    """Look at a whole store, or at one session of it. Nothing is written."""
    found, newest = await asyncio.to_thread(layout_of, path)
    findings = await asyncio.to_thread(_file_findings, path, progress) if only is None else []
    notes = [f"layout {found}; the next command that writes brings it to layout {newest}"] if found < newest else []
    view, archive = SqliteView(path), open_archive(None, path)
    store: Store = view if archive is None else ArchivedStore(view, archive)
    try:
        doctor = Doctor(store, FolderBlobs(beside(path, "-blobs")), archive)
        keys = [only] if only is not None else [known.key async for known in every_session(store)]
        for place, key in enumerate(keys):
            progress(key, place, len(keys))
            findings += await doctor.look_at(key)
        progress("", len(keys), len(keys))
        if only is None:
            lost_seals, waiting = await doctor.unsealed(keys)
            findings += [_lost_seal(segment) for segment in lost_seals]
            notes += [f"{waiting:,} segments that wait for their seal"] if waiting else []
            orphans = await asyncio.to_thread(_orphan_blobs, path, doctor)
            notes += [f"{len(orphans):,} blobs that no record names, {sum(orphans):,} bytes"] if orphans else []
            notes += await asyncio.to_thread(_dead_leases, path)
            notes += [_GIVEN_UP] if await asyncio.to_thread(is_released, path) else []
    finally:
        await store.close()
    return Checkup(str(path), found, newest, _of_people(keys), tuple(findings), tuple(notes))


async def look_over_server(url: str, only: str | None, progress: Progress) -> Checkup:
    """Look at every session of a store on a database server, or at one, through the same port as everybody.

    The database itself has tools of its own for its pages (`pg_amcheck`). Where its layout is older, opening brings it
    to the newest, as every node does.
    """
    from holdfast.stores.postgres.migrations import migrations  # noqa: PLC0415 - an extra, and only where it is used

    archive = open_archive(None, url)
    store, blobs = open_store(url, Bounds(), archive)
    notes: list[str] = []
    try:
        doctor = Doctor(store, blobs, archive)
        keys = [only] if only is not None else [known.key async for known in every_session(store)]
        findings: list[Finding] = []
        for place, key in enumerate(keys):
            progress(key, place, len(keys))
            findings += await doctor.look_at(key)
        progress("", len(keys), len(keys))
        if only is None:
            lost_seals, waiting = await doctor.unsealed(keys)
            # Noting a seal again is done in the file itself, for which there is no way on a server.
            findings += [msgspec.structs.replace(_lost_seal(segment), remedy="") for segment in lost_seals]
            notes += [f"{waiting:,} segments that wait for their seal"] if waiting else []
    finally:
        await store.close()
    newest = migrations()[-1][0]
    return Checkup(shown_place(url), newest, newest, _of_people(keys), tuple(findings), tuple(notes))


def _lost_seal(segment: Segment) -> Finding:
    what = f"segment {segment.name} alone has records {segment.first} to {segment.last}, and its seal is lost"
    return Finding("lost_seal", what, segment.session, segment.first, "its seal is noted again")


def _file_findings(path: Path, progress: Progress) -> list[Finding]:
    """Look at the pages table by table, then at the layout, at rows of nobody and at kept folds."""
    tables = inspect.tables_of(path)
    faults: list[inspect.FileFault] = []
    for place, table in enumerate(tables):
        progress(f"table {table}", place, len(tables))
        faults += inspect.faults_of_table(path, table)
    advice = "; keep the file as it is and restore a backup beside it (`holdfast restore`)"
    findings = [Finding(fault.code, fault.what + advice) for fault in faults]
    if faults:
        # What the rows say is not to be believed before the pages are.
        return findings
    for fault in inspect.layout_faults(path):
        is_missing = "is missing" in fault.what
        findings.append(Finding(fault.code, fault.what, remedy="it is made, empty" if is_missing else ""))
    findings += [
        Finding(fault.code, fault.what, remedy=f"they become the session 'recovered:{fault.number}'")
        for fault in inspect.orphaned_rows(path)
        if fault.table in {"records", "recent"}
    ]
    findings += [
        Finding("snapshot", "the kept fold does not match its checksum", key, seq, "it is dropped and made again")
        for key, seq in inspect.damaged_snapshots(path)
    ]
    return findings


def _orphan_blobs(path: Path, doctor: Doctor) -> list[int]:
    """Return the sizes of blobs that no record names and that are not just being sent."""
    folder, now = beside(path, "-blobs"), datetime.now(tz=UTC).timestamp()
    sizes: list[int] = []
    for blob in folder.glob("??/*"):
        stat = blob.stat()
        if now - stat.st_mtime > _BLOB_SECONDS_MIN and not doctor.names(blob.name):
            sizes.append(stat.st_size)
    return sizes


def _dead_leases(path: Path) -> list[str]:
    alive = live_instances(path)
    dead = [key for key, _, instance in inspect.lease_holders(path) if instance not in alive]
    return [f"{len(dead):,} leases of processes that are gone; whoever asks next gets them"] if dead else []


# --- repairing -----------------------------------------------------------------------------------------------------


def copy_first(path: Path) -> Path:
    """Copy a store before it is repaired, and return where the copy is."""
    stamp = datetime.now(tz=UTC).strftime("%Y%m%dT%H%M%S")
    target = path.with_name(f"{path.stem}-before-fix-{stamp}{path.suffix}")
    copy_store(path, target)
    return target


async def repair_server(url: str, checkup: Checkup) -> list[str]:
    """Repair what was found in a store on a server, as whoever works on a session would; see `repair`."""
    return await _repair_sessions(url, checkup, [])


async def repair(path: Path, checkup: Checkup) -> list[str]:
    """Repair what was found, session by session, and return what could not be done now, in words."""
    if any(finding.code == "pages" for finding in checkup.findings):
        return ["pages of the file are damaged; nothing was changed"]
    await asyncio.to_thread(inspect.create_missing, path)
    keys = await asyncio.to_thread(inspect.adopt_orphaned_rows, path)
    await _note_seals(path)
    return await _repair_sessions(path, checkup, keys)


async def _repair_sessions(place: Place, checkup: Checkup, keys: list[str]) -> list[str]:
    keys += sorted({finding.session for finding in checkup.findings if finding.session and finding.remedy})
    snapshots = {finding.session: finding for finding in checkup.findings if finding.code == "snapshot"}
    unnoted = {finding.session for finding in checkup.findings if finding.code == UNNOTED}
    left: list[str] = []
    archive = open_archive(None, place)
    store, _ = open_store(place, Bounds(), archive)
    try:
        if archive is not None:
            # First: what is sealed and live is cleared only where the archive has it.
            await _put_segments_again(store, archive, checkup)
        for key in keys:
            try:
                await _repair_session(store, key, snapshots.get(key))
            except (RetryLaterError, ConflictError) as error:
                left.append(f"session {key!r}: {error}")
            # Nobody's lease is needed to add to what is noted.
            if key in unnoted and not await learn_blobs_of(store, key):
                left.append(f"session {key!r}: a part of its log cannot be read, so what it names is not all noted")
    finally:
        await store.close()
    return left


async def _put_segments_again(store: Store, archive: Archive, checkup: Checkup) -> None:
    for finding in checkup.findings:
        if finding.code == SEGMENT and finding.remedy:
            for segment in await store.segments(finding.session):
                if segment.first == finding.seq:
                    await put_again(store, archive, segment)


async def _note_seals(path: Path) -> None:
    """Note the seals again that were lost, before anybody takes the records of their segments for missing."""
    archive = open_archive(None, path)
    view = SqliteView(path)
    try:
        doctor = Doctor(view, FolderBlobs(beside(path, "-blobs")), archive)
        lost, _ = await doctor.unsealed([known.key async for known in every_session(view)])
    finally:
        await view.close()
    for segment in sorted(lost, key=lambda one: one.first):
        await asyncio.to_thread(inspect.restore_seal, path, segment)


async def _repair_session(store: Store, key: str, snapshot: Finding | None) -> None:
    lease = await store.acquire(key, _OWNER, seconds=_LEASE_SECONDS)
    if lease is None:
        raise RetryLaterError("somebody works on it; whoever does heals what is in its way, or ask again later")
    try:
        if snapshot is not None:
            seq = (await fold_whole(store, key)).turn.seq
            await store.repair(lease, [DropSnapshot(snapshot.seq, snapshot.what)], after=seq)
        await heal_whole(lease, store)
    finally:
        await store.release(lease)
