"""What a disk may hold after the power failed: recorded writes, of which those that were not synced are at its mercy.

A shim below SQLite records every write, truncation, sync and deletion of the database and its logs, and a witness does
the same for the folders of blobs and segments. From the recording disks are made as they may be after a loss of power
at any point: what was synced is there; of the rest each write may be there, missing, or torn at the borders of sectors,
in any order; and a name that was not synced may be missing or be that of the file before it.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path

import apsw
import msgspec

from holdfast.stores.folder import Witness, witnessed

# The smallest unit that disks write as a whole.
SECTOR_BYTES = 512
# The place of a write that adds to a file, wherever that ends.
AT_THE_END = -1
# Name under which the shim is known to SQLite.
_NAME = "holdfast-recorder"


class Change(StrEnum):
    """What happened to a file. `SAID` is nothing to a file: from here on, something is acknowledged."""

    CREATE = "create"
    WRITE = "write"
    TRUNCATE = "truncate"
    SYNC = "sync"
    DELETE = "delete"
    # Of the folders beside the database: one was made, a file has a second name, the names in one are on the disk.
    FOLDER = "folder"
    LINK = "link"
    SYNC_NAMES = "sync_names"
    ACKNOWLEDGED = "said"


class Event(msgspec.Struct, frozen=True):
    """One event: at which place of a file, with which bytes; of a deletion, whether its folder was synced."""

    change: Change
    # By its path from the folder of the store.
    file: str = ""
    place: int = 0
    body: bytes = b""
    is_synced: bool = False
    # What was acknowledged: a session has records up to this one.
    session: str = ""
    seq: int = 0
    # Of a link, the name that the file had before.
    source: str = ""


class Recorder:
    """The events of a store, in order, whichever thread they come from."""

    def __init__(self, *, ignores_syncs: bool = False) -> None:
        """With `ignores_syncs` no sync counts, as on a disk that lies: then losses must be found."""
        self.events: list[Event] = []
        self._ignores_syncs = ignores_syncs

    def add(self, event: Event) -> None:
        """Add an event."""
        if event.change not in {Change.SYNC, Change.SYNC_NAMES} or not self._ignores_syncs:
            self.events.append(event)

    def acknowledge(self, session: str, seq: int) -> None:
        """Note that somebody was told of a record."""
        self.events.append(Event(Change.ACKNOWLEDGED, session=session, seq=seq))


class RecordingWitness(Witness):
    """Records what is asked of the disk for blobs and segments."""

    def __init__(self, recorder: Recorder, root: Path) -> None:
        self._recorder, self._root = recorder, root

    def made(self, folder: Path) -> None:
        """A folder has its name."""
        self._recorder.add(Event(Change.FOLDER, self._name(folder)))

    def wrote(self, path: Path, content: bytes) -> None:
        """Bytes were added at the end of a file."""
        self._recorder.add(Event(Change.WRITE, self._name(path), AT_THE_END, content))

    def linked(self, path: Path, source: Path) -> None:
        """A file has another name."""
        self._recorder.add(Event(Change.LINK, self._name(path), source=self._name(source)))

    def synced(self, path: Path) -> None:
        """The bytes of a file, or the names in a folder, are on the disk."""
        self._recorder.add(Event(Change.SYNC_NAMES if path.is_dir() else Change.SYNC, self._name(path)))

    def removed(self, path: Path) -> None:
        """A name is gone."""
        self._recorder.add(Event(Change.DELETE, self._name(path)))

    def _name(self, path: Path) -> str:
        name = path.relative_to(self._root).as_posix()
        return "" if name == "." else name


class RecordingVfs(apsw.VFS):
    """SQLite's own way to the disk, with a recorder beside it. The default for all connections while it is open."""

    def __init__(self, recorder: Recorder, usual: str) -> None:
        self._recorder, self._usual = recorder, usual
        super().__init__(_NAME, usual, makedefault=True)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802 - SQLite's
        """Open a file. Those without a name are SQLite's own scratch paper."""
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
        # The real disk need not do it: what it would keep is worked out from the recording.
        self._recorder.add(Event(Change.SYNC, self._file))


class _File:
    """One file, as the disk surely holds it, and what was asked of it since."""

    def __init__(self, before: "_File | None" = None, *, is_folder: bool = False) -> None:
        self.is_folder = is_folder
        self.durable = bytearray()
        self.pending: list[Event] = []
        # Whether a loss of power leaves the name; where it does not, the name may be that of the file before.
        self.is_named = False
        self.before = before

    def settle(self) -> None:
        """Have everything asked for so far be on the disk."""
        for event in self.pending:
            _apply(self.durable, event)
        # Not another list: a file may have two names.
        self.pending.clear()

    def linked(self, before: "_File | None") -> "_File":
        """Return the same file under another name, which no loss of power need leave."""
        other = _File(before)
        other.durable, other.pending = self.durable, self.pending
        return other

    def after_power_loss(self, chance: random.Random) -> bytes:
        """Return what may be left of it."""
        left = bytearray(self.durable)
        match chance.randrange(4):
            case 0:
                kept: Sequence[Event] = self.pending
            case 1:
                kept = self.pending[: chance.randint(0, len(self.pending))]
            case _:
                # Each on its own, torn or whole, in any order.
                kept = [piece for event in self.pending for piece in _torn(event, chance)]
                if chance.random() < 0.5:  # noqa: PLR2004 - half of the time
                    kept = chance.sample(kept, len(kept))
        for event in kept:
            _apply(left, event)
        return bytes(left)


class Disk(msgspec.Struct, frozen=True):
    """Files after a loss of power, and the records of each session that were acknowledged before."""

    files: dict[str, bytes]
    acknowledged: dict[str, int]
    # After how many events the power failed.
    point: int


def disks(events: Sequence[Event], points: Sequence[int], chance: random.Random) -> Iterator[Disk]:
    """Yield a disk for every point, given in order: how many events came before the power failed."""
    table = _FileTable()
    done = 0
    for point in points:
        for event in events[done:point]:
            table.apply(event)
        done = point
        yield Disk(table.after_power_loss(chance), dict(table.acknowledged), point)


class _FileTable:
    """All files of a folder."""

    def __init__(self) -> None:
        # None stands for a name that is gone for sure; a deletion that was not synced leaves the file with a doubt.
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
                gone = self._files.pop(event.file, None)
                if gone is not None and not event.is_synced:
                    self._doubtful[event.file] = gone
                if event.is_synced:
                    self._sync_names(_folder_of(event.file))
            case Change.SYNC:
                self._of(event.file).settle()
                if _is_log(event.file):
                    # SQLite syncs the folder together with a log that it has just made.
                    self._sync_names("")
            case Change.SYNC_NAMES:
                self._sync_names(event.file)
            case Change.FOLDER:
                self._files.setdefault(event.file, _File(is_folder=True))
            case Change.LINK:
                self._files[event.file] = self._of(event.source).linked(self._doubtful.pop(event.file, None))
            case _:
                self._of(event.file).pending.append(event)

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
        # Folders before what is in them: with a folder goes all of it.
        folders = {""}
        for name, file in sorted(self._files.items()):
            if _folder_of(name) not in folders:
                continue
            is_there = file.is_named or chance.random() < 0.5  # noqa: PLR2004 - half of the time
            if file.is_folder and is_there:
                folders.add(name)
            elif is_there:
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
    """Yield what is left of one write: all, nothing, or some of its sectors."""
    fate = chance.randrange(3)
    if fate == 0:
        return
    if fate == 1 or event.change is not Change.WRITE:
        yield event
        return
    if event.place == AT_THE_END:
        # What was added may have come through up to some sector.
        yield Event(Change.WRITE, event.file, event.place, event.body[: chance.randint(0, len(event.body))])
        return
    start, end = event.place, event.place + len(event.body)
    while start < end:
        border = min(start - start % SECTOR_BYTES + SECTOR_BYTES, end)
        if chance.random() < 0.5:  # noqa: PLR2004 - half of the time
            yield Event(Change.WRITE, event.file, start, event.body[start - event.place : border - event.place])
        start = border


def record_disk(recorder: Recorder, root: Path, work: Callable[[], None]) -> None:
    """Do some work in a folder, with every connection going through the shim, and blobs and segments seen."""
    usual = apsw.vfs_names()[0]
    shim = RecordingVfs(recorder, usual)
    try:
        with witnessed(RecordingWitness(recorder, root)):
            work()
    finally:
        apsw.set_default_vfs(usual)
        shim.unregister()
