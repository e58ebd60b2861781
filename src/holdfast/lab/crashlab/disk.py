"""Simulated power loss: record all disk writes, then build disk contents that a power loss may leave.

A SQLite VFS records every write, truncation, sync and deletion of the database files; a `DiskObserver` records the
folders of blobs and segments. After a power loss at any point, synced data is intact; each unsynced write may be
present, missing, or torn at sector boundaries, in any order; an unsynced directory entry may be missing or still name
the previous file.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path

import apsw
import msgspec

from holdfast.stores.folder import DiskObserver, observe_disk

# Smallest unit that a disk writes atomically.
SECTOR_BYTES = 512
# Offset of an append, whatever the length of the file.
AT_THE_END = -1
# Name of the VFS in SQLite.
_NAME = "holdfast-recorder"


class Change(StrEnum):
    """Kind of an event. `ACKNOWLEDGED` is not a file operation: a record was acknowledged at this point."""

    CREATE = "create"
    WRITE = "write"
    TRUNCATE = "truncate"
    SYNC = "sync"
    DELETE = "delete"
    # Blob and segment folders: folder created, hard link created, directory entries synced.
    FOLDER = "folder"
    LINK = "link"
    SYNC_NAMES = "sync_names"
    ACKNOWLEDGED = "acknowledged"


class Event(msgspec.Struct, frozen=True):
    """One event: offset and bytes of a write; for a deletion, whether its folder was synced."""

    change: Change
    # Path relative to the folder of the store.
    file: str = ""
    place: int = 0
    body: bytes = b""
    is_synced: bool = False
    # Acknowledged: the session has records up to this one.
    session: str = ""
    seq: int = 0
    # For a link, the existing name.
    source: str = ""


class Recorder:
    """The events of a store in order, from all threads."""

    def __init__(self, *, ignores_syncs: bool = False) -> None:
        """With `ignores_syncs` no sync counts, as on a disk that lies: the check must then find losses."""
        self.events: list[Event] = []
        self._ignores_syncs = ignores_syncs

    def add(self, event: Event) -> None:
        """Append an event."""
        if event.change not in {Change.SYNC, Change.SYNC_NAMES} or not self._ignores_syncs:
            self.events.append(event)

    def acknowledge(self, session: str, seq: int) -> None:
        """Record that a record was acknowledged."""
        self.events.append(Event(Change.ACKNOWLEDGED, session=session, seq=seq))


class RecordingWitness(DiskObserver):
    """Records file operations on blobs and segments."""

    def __init__(self, recorder: Recorder, root: Path) -> None:
        self._recorder, self._root = recorder, root

    def made(self, folder: Path) -> None:
        """A folder was created."""
        self._recorder.add(Event(Change.FOLDER, self._name(folder)))

    def wrote(self, path: Path, content: bytes) -> None:
        """Bytes were appended to a file."""
        self._recorder.add(Event(Change.WRITE, self._name(path), AT_THE_END, content))

    def linked(self, path: Path, source: Path) -> None:
        """A hard link was created."""
        self._recorder.add(Event(Change.LINK, self._name(path), source=self._name(source)))

    def synced(self, path: Path) -> None:
        """A file, or the entries of a folder, were synced."""
        self._recorder.add(Event(Change.SYNC_NAMES if path.is_dir() else Change.SYNC, self._name(path)))

    def removed(self, path: Path) -> None:
        """A file was removed."""
        self._recorder.add(Event(Change.DELETE, self._name(path)))

    def _name(self, path: Path) -> str:
        name = path.relative_to(self._root).as_posix()
        return "" if name == "." else name


class RecordingVfs(apsw.VFS):
    """SQLite VFS that records its operations. It is the default for all connections while registered."""

    def __init__(self, recorder: Recorder, usual: str) -> None:
        self._recorder, self._usual = recorder, usual
        super().__init__(_NAME, usual, makedefault=True)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802 - SQLite's
        """Open a file. Unnamed files are SQLite's temporary files and are not recorded."""
        if name is None:
            return apsw.VFSFile(self._usual, name, flags)
        path = _path_of(name)
        if not path.exists():
            self._recorder.add(Event(Change.CREATE, path.name))
        return _RecordedFile(self._usual, name, flags, self._recorder)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802, FBT001 - SQLite's
        """Delete a file."""
        super().xDelete(filename, syncdir)
        self._recorder.add(Event(Change.DELETE, Path(filename).name, is_synced=syncdir))


def _path_of(name: str | apsw.URIFilename) -> Path:
    return Path(name.filename() if isinstance(name, apsw.URIFilename) else name)


class _RecordedFile(apsw.VFSFile):
    def __init__(self, usual: str, name: str | apsw.URIFilename, flags: list[int], recorder: Recorder) -> None:
        self._file, self._recorder = _path_of(name).name, recorder
        super().__init__(usual, name, flags)

    def xWrite(self, body: bytes, place: int) -> None:  # noqa: N802 - SQLite's
        super().xWrite(body, place)
        self._recorder.add(Event(Change.WRITE, self._file, place, bytes(body)))

    def xTruncate(self, newsize: int) -> None:  # noqa: N802 - SQLite's
        super().xTruncate(newsize)
        self._recorder.add(Event(Change.TRUNCATE, self._file, newsize))

    def xSync(self, flags: int) -> None:  # noqa: ARG002, N802 - SQLite's
        # Skip the real sync: its effect is simulated from the recording.
        self._recorder.add(Event(Change.SYNC, self._file))


class _File:
    """One file: its durable content, and the writes since the last sync."""

    def __init__(self, before: "_File | None" = None, *, is_folder: bool = False) -> None:
        self.is_folder = is_folder
        self.durable = bytearray()
        self.pending: list[Event] = []
        # Whether the directory entry is durable; otherwise it may still name the previous file.
        self.is_named = False
        self.before = before

    def settle(self) -> None:
        """Make all pending writes durable."""
        for event in self.pending:
            _apply(self.durable, event)
        # Clear in place: hard links share this list.
        self.pending.clear()

    def linked(self, before: "_File | None") -> "_File":
        """Return the same file under another name that is not durable yet."""
        other = _File(before)
        other.durable, other.pending = self.durable, self.pending
        return other

    def after_power_loss(self, chance: random.Random) -> bytes:
        """Return one possible content after a power loss."""
        left = bytearray(self.durable)
        match chance.randrange(4):
            case 0:
                kept: Sequence[Event] = self.pending
            case 1:
                kept = self.pending[: chance.randint(0, len(self.pending))]
            case _:
                # Each write independently, complete or torn, in any order.
                kept = [piece for event in self.pending for piece in _torn(event, chance)]
                if chance.random() < 0.5:  # noqa: PLR2004 - half of the time
                    kept = chance.sample(kept, len(kept))
        for event in kept:
            _apply(left, event)
        return bytes(left)


class Disk(msgspec.Struct, frozen=True):
    """Files after a power loss, and the last acknowledged record of each session."""

    files: dict[str, bytes]
    acknowledged: dict[str, int]
    # Number of events before the power loss.
    point: int


def disks(events: Sequence[Event], points: Sequence[int], chance: random.Random) -> Iterator[Disk]:
    """Yield a disk for each point (number of events before the power loss), given in ascending order."""
    table = _FileTable()
    done = 0
    for point in points:
        for event in events[done:point]:
            table.apply(event)
        done = point
        yield Disk(table.after_power_loss(chance), dict(table.acknowledged), point)


class _FileTable:
    """All files of a store."""

    def __init__(self) -> None:
        # `_doubtful` has deleted files whose deletion is not durable yet.
        self._files: dict[str, _File] = {}
        self._doubtful: dict[str, _File] = {}
        self.acknowledged: dict[str, int] = {}

    def apply(self, event: Event) -> None:
        match event.change:
            case Change.ACKNOWLEDGED:
                self.acknowledged[event.session] = max(self.acknowledged.get(event.session, 0), event.seq)
            case Change.CREATE:
                self._files[event.file] = _File(self._doubtful.pop(event.file, None))
            case Change.DELETE:
                self._delete(event)
            case Change.SYNC:
                self._of(event.file).settle()
                if _is_log(event.file):
                    # SQLite syncs the folder together with a log that it has just created.
                    self._sync_names("")
            case Change.SYNC_NAMES:
                self._sync_names(event.file)
            case Change.FOLDER:
                self._files.setdefault(event.file, _File(is_folder=True))
            case Change.LINK:
                self._files[event.file] = self._of(event.source).linked(self._doubtful.pop(event.file, None))
            case _:
                self._of(event.file).pending.append(event)

    def _delete(self, event: Event) -> None:
        deleted = self._files.pop(event.file, None)
        if deleted is not None and not event.is_synced:
            self._doubtful[event.file] = deleted
        if event.is_synced:
            self._sync_names(_folder_of(event.file))

    def _of(self, name: str) -> _File:
        return self._files.setdefault(name, _File())

    def _sync_names(self, folder: str) -> None:
        for name, file in self._files.items():
            if _folder_of(name) == folder:
                file.is_named, file.before = True, None
        for name in [name for name in self._doubtful if _folder_of(name) == folder]:
            del self._doubtful[name]

    def after_power_loss(self, chance: random.Random) -> dict[str, bytes]:
        left: dict[str, bytes] = {}
        # Sorted: a folder comes before its files, and a lost folder loses all of them.
        folders = {""}
        for name, file in sorted(self._files.items()):
            if _folder_of(name) not in folders:
                continue
            is_present = file.is_named or chance.random() < 0.5  # noqa: PLR2004 - half of the time
            if file.is_folder and is_present:
                folders.add(name)
            elif is_present:
                left[name] = file.after_power_loss(chance)
            elif file.before is not None and chance.random() < 0.5:  # noqa: PLR2004
                left[name] = file.before.after_power_loss(chance)
        for name, file in self._doubtful.items():
            if _folder_of(name) in folders and chance.random() < 0.5:  # noqa: PLR2004
                left[name] = file.after_power_loss(chance)
        return left


def _folder_of(name: str) -> str:
    return name.rpartition("/")[0]


def _is_log(name: str) -> bool:
    return name.endswith(("-wal", "-journal"))


def _apply(content: bytearray, event: Event) -> None:
    if event.change is Change.TRUNCATE:
        del content[event.place :]
        content.extend(bytes(max(event.place - len(content), 0)))
        return
    place = len(content) if event.place == AT_THE_END else event.place
    content.extend(bytes(max(place - len(content), 0)))
    content[place : place + len(event.body)] = event.body


def _torn(event: Event, chance: random.Random) -> Iterator[Event]:
    """Yield the surviving part of a write: all, nothing, or some of its sectors."""
    fate = chance.randrange(3)
    if fate == 0:
        return
    if fate == 1 or event.change is not Change.WRITE:
        yield event
        return
    if event.place == AT_THE_END:
        # An append may survive up to any length.
        yield Event(Change.WRITE, event.file, event.place, event.body[: chance.randint(0, len(event.body))])
        return
    start, end = event.place, event.place + len(event.body)
    while start < end:
        border = min(start - start % SECTOR_BYTES + SECTOR_BYTES, end)
        if chance.random() < 0.5:  # noqa: PLR2004 - half of the time
            yield Event(Change.WRITE, event.file, start, event.body[start - event.place : border - event.place])
        start = border


def record_disk(recorder: Recorder, root: Path, work: Callable[[], None]) -> None:
    """Run work in a folder, and record all operations on databases, blobs and segments."""
    usual = apsw.vfs_names()[0]
    shim = RecordingVfs(recorder, usual)
    try:
        with observe_disk(RecordingWitness(recorder, root)):
            work()
    finally:
        apsw.set_default_vfs(usual)
        shim.unregister()
