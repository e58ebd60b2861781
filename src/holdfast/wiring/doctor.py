"""Checks and repairs of `holdfast doctor`: the store file, every session, and their repair."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from holdfast.core.integrity.reconcile import DropSnapshot
from holdfast.core.limits.bounds import RESERVED_KEYS, Bounds
from holdfast.errors import ConflictError, RetryLaterError
from holdfast.ports import Archive, Progress, Segment, Store
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.engine.lease import kept_lease, try_lease, unique_owner
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
_CLOCK = SystemClock()
# A younger blob may belong to a message that is being sent.
_BLOB_SECONDS_MIN = 3_600.0

_GIVEN_UP = (
    "the disk was full: the space reserved for turn endings is used up, and messages are rejected until there is room"
)


class Checkup(msgspec.Struct, frozen=True):
    """Result of a check. `notes` are informational and need no repair."""

    store: str
    layout: int
    layout_newest: int
    # Without reserved keys, whose logs are checked too.
    sessions: int
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()


def _user_sessions(keys: Sequence[str]) -> int:
    return sum(not key.startswith(RESERVED_KEYS) for key in keys)


async def check_store(path: Path, only: str | None, progress: Progress) -> Checkup:
    """Check a whole store, or one session of it, without writing."""
    found, newest = await asyncio.to_thread(layout_of, path)
    findings = await asyncio.to_thread(_file_findings, path, progress) if only is None else []
    notes = [f"layout {found}; the next command that writes migrates it to layout {newest}"] if found < newest else []
    view, archive = SqliteView(path), open_archive(None, path)
    store: Store = view if archive is None else ArchivedStore(view, archive)
    try:
        doctor = Doctor(store, FolderBlobs(beside(path, "-blobs")), archive)
        keys = await _session_keys(store, only)
        findings += await _check_sessions(doctor, keys, progress)
        if only is None:
            lost_seals, seal_notes = await _check_seals(doctor, keys)
            findings += lost_seals
            notes += seal_notes + await asyncio.to_thread(_file_notes, path, doctor)
    finally:
        await store.close()
    return Checkup(str(path), found, newest, _user_sessions(keys), tuple(findings), tuple(notes))


async def check_server(url: str, only: str | None, progress: Progress) -> Checkup:
    """Check every session of a store on a database server, or one session, through the store port.

    Check the pages of the database with its own tools (`pg_amcheck`). Opening migrates an older layout, as on every
    node.
    """
    from holdfast.stores.postgres.migrations import migrations  # noqa: PLC0415 - an extra, and only where it is used

    archive = open_archive(None, url)
    store, blobs = open_store(url, Bounds(), archive)
    notes: list[str] = []
    try:
        doctor = Doctor(store, blobs, archive)
        keys = await _session_keys(store, only)
        findings = await _check_sessions(doctor, keys, progress)
        if only is None:
            lost_seals, notes = await _check_seals(doctor, keys)
            # A seal is restored in the store file, which is not possible on a server.
            findings += [msgspec.structs.replace(finding, remedy="") for finding in lost_seals]
    finally:
        await store.close()
    newest = migrations()[-1][0]
    return Checkup(shown_place(url), newest, newest, _user_sessions(keys), tuple(findings), tuple(notes))


async def _session_keys(store: Store, only: str | None) -> list[str]:
    return [only] if only is not None else [known.key async for known in every_session(store)]


async def _check_sessions(doctor: Doctor, keys: Sequence[str], progress: Progress) -> list[Finding]:
    findings: list[Finding] = []
    for place, key in enumerate(keys):
        progress(key, place, len(keys))
        findings += await doctor.check(key)
    progress("", len(keys), len(keys))
    return findings


async def _check_seals(doctor: Doctor, keys: Sequence[str]) -> tuple[list[Finding], list[str]]:
    """Return the lost seals, and a note on segments that wait for their seal."""
    lost_seals, waiting = await doctor.unsealed(keys)
    notes = [f"{waiting:,} segments that wait for their seal"] if waiting else []
    return [_lost_seal(segment) for segment in lost_seals], notes


def _lost_seal(segment: Segment) -> Finding:
    what = f"records {segment.first} to {segment.last} are only in segment {segment.name}, and its seal is lost"
    return Finding("lost_seal", what, segment.session, segment.first, "restore the seal")


def _file_notes(path: Path, doctor: Doctor) -> list[str]:
    """Return notes on orphaned blobs, leases of dead processes and the reserved space."""
    orphans = _orphan_blobs(path, doctor)
    notes = [f"{len(orphans):,} blobs that no record names, {sum(orphans):,} bytes"] if orphans else []
    notes += _dead_leases(path)
    return [*notes, _GIVEN_UP] if is_released(path) else notes


def _file_findings(path: Path, progress: Progress) -> list[Finding]:
    """Check the pages table by table, then the layout, orphaned rows and snapshots."""
    tables = inspect.tables_of(path)
    faults: list[inspect.FileFault] = []
    for place, table in enumerate(tables):
        progress(f"table {table}", place, len(tables))
        faults += inspect.faults_of_table(path, table)
    advice = "; do not change the file, and restore a backup beside it (`holdfast restore`)"
    findings = [Finding(fault.code, fault.what + advice) for fault in faults]
    if faults:
        # Rows on damaged pages are not reliable.
        return findings
    for fault in inspect.layout_faults(path):
        is_missing = "is missing" in fault.what
        findings.append(Finding(fault.code, fault.what, remedy="create it, empty" if is_missing else ""))
    findings += [
        Finding(fault.code, fault.what, remedy=f"move them to the session 'recovered:{fault.number}'")
        for fault in inspect.orphaned_rows(path)
        if fault.table in {"records", "recent"}
    ]
    findings += [
        Finding("snapshot", "the snapshot does not match its checksum", key, seq, "drop it and build it again")
        for key, seq in inspect.damaged_snapshots(path)
    ]
    return findings


def _orphan_blobs(path: Path, doctor: Doctor) -> list[int]:
    """Return the sizes of blobs that no record names, except those that may belong to a message being sent."""
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
    return [f"{len(dead):,} leases of dead processes; the next worker takes them over"] if dead else []


# --- Repair ---


def copy_first(path: Path) -> Path:
    """Copy a store before its repair, and return the path of the copy."""
    stamp = datetime.now(tz=UTC).strftime("%Y%m%dT%H%M%S")
    target = path.with_name(f"{path.stem}-before-fix-{stamp}{path.suffix}")
    copy_store(path, target)
    return target


async def repair_server(url: str, checkup: Checkup) -> list[str]:
    """Repair the findings in a store on a server, under the leases of its sessions; see `repair`."""
    return await _repair_sessions(url, checkup, [])


async def repair(path: Path, checkup: Checkup) -> list[str]:
    """Repair the findings session by session, and return a sentence for each repair that was not possible now."""
    if any(finding.code == "pages" for finding in checkup.findings):
        return ["pages of the file are damaged; nothing was changed"]
    await asyncio.to_thread(inspect.create_missing, path)
    keys = await asyncio.to_thread(inspect.adopt_orphaned_rows, path)
    await _restore_seals(path)
    return await _repair_sessions(path, checkup, keys)


async def _repair_sessions(place: Place, checkup: Checkup, keys: list[str]) -> list[str]:
    keys += sorted({finding.session for finding in checkup.findings if finding.session and finding.remedy})
    snapshots = {finding.session: finding for finding in checkup.findings if finding.code == "snapshot"}
    unreferenced = {finding.session for finding in checkup.findings if finding.code == UNNOTED}
    failures: list[str] = []
    archive = open_archive(None, place)
    store, _ = open_store(place, Bounds(), archive)
    try:
        # Segments first: sealed records that are still live are cleared only if the archive has them.
        await _put_segments_again(store, archive, checkup)
        for key in keys:
            try:
                await _repair_session(store, key, snapshots.get(key))
            except (RetryLaterError, ConflictError) as error:
                failures.append(f"session {key!r}: {error}")
            # Adding blob references needs no lease.
            if key in unreferenced and not await learn_blobs_of(store, key):
                failures.append(
                    f"session {key!r}: a part of its log is unreadable, so some blob references are missing"
                )
    finally:
        await store.close()
    return failures


async def _put_segments_again(store: Store, archive: Archive | None, checkup: Checkup) -> None:
    if archive is None:
        return
    for finding in checkup.findings:
        if finding.code == SEGMENT and finding.remedy:
            for segment in await store.segments(finding.session):
                if segment.first == finding.seq:
                    await put_again(store, archive, segment)


async def _restore_seals(path: Path) -> None:
    """Restore lost seals first, so that the records of their segments are not marked as missing."""
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
    lease = await try_lease(store, key, unique_owner("doctor"), seconds=_LEASE_SECONDS)
    if lease is None:
        raise RetryLaterError("a worker holds it and repairs damage that it reads; retry later for the rest")
    async with kept_lease(store, _CLOCK, lease, seconds=_LEASE_SECONDS):
        if snapshot is not None:
            seq = (await fold_whole(store, key)).turn.seq
            await store.repair(lease, [DropSnapshot(snapshot.seq, snapshot.what)], after=seq)
        await heal_whole(lease, store)
