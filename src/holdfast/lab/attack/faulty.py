"""Run a command on a disk and a clock that fail on demand: `python -m holdfast.lab.attack.faulty serve`.

The environment variable names a file with the faults of the moment, which the attack writes. It is read at every
operation, so that a fault begins and ends while the gateway serves.
"""

import os
import sys
import threading
import time
from pathlib import Path

import apsw
import msgspec

from holdfast.cli import main
from holdfast.cli.parent_watch import die_with_parent

# Not a setting of Holdfast: those begin with HOLDFAST_.
FAULTS_FILE = "ATTACK_FAULTS_FILE"


class Faults(msgspec.Struct, frozen=True):
    """Operations of the database's files that fail, and the shift of the wall clock in seconds."""

    failing: tuple[str, ...] = ()
    clock: float = 0.0


# EIO of a failing disk, at each place where it can come; a file system that the kernel has remounted read-only.
DISK_FAULTS = {
    "EIO in writes": ("write",),
    "EIO in syncs": ("sync",),
    "EIO in reads": ("read",),
    "a read-only remount": ("write", "sync", "truncate", "delete", "open"),
}


def write_faults(path: Path, faults: Faults) -> None:
    """Replace the faults of the moment."""
    fresh = path.with_suffix(".new")
    fresh.write_bytes(msgspec.json.encode(faults))
    fresh.replace(path)


class FaultFile:
    """The faults of the moment."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> Faults:
        """Return them."""
        return msgspec.json.decode(self._path.read_bytes(), type=Faults)

    def meet(self, operation: str) -> None:
        """Raise the error of an operation that fails now."""
        if operation in self.read().failing:
            raise apsw.CantOpenError("read-only") if operation == "open" else apsw.IOError(f"EIO in {operation}")


class FaultyVfs(apsw.VFS):
    """SQLite VFS whose operations fail on demand; the default of all connections."""

    def __init__(self, faults: FaultFile) -> None:
        self._faults, self._usual = faults, apsw.vfs_names()[0]
        super().__init__("holdfast-faulty", self._usual, makedefault=True)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802 - SQLite's
        """Open a file."""
        self._faults.meet("open")
        return _FaultyFile(self._usual, name, flags, self._faults)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802, FBT001 - SQLite's
        """Delete a file."""
        self._faults.meet("delete")
        super().xDelete(filename, syncdir)


class _FaultyFile(apsw.VFSFile):
    def __init__(self, usual: str, name: str | apsw.URIFilename | None, flags: list[int], faults: FaultFile) -> None:
        self._faults = faults
        super().__init__(usual, name, flags)

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802 - SQLite's
        self._faults.meet("read")
        return super().xRead(amount, offset)

    def xWrite(self, body: bytes, place: int) -> None:  # noqa: N802 - SQLite's
        self._faults.meet("write")
        super().xWrite(body, place)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802 - SQLite's
        self._faults.meet("truncate")
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802 - SQLite's
        self._faults.meet("sync")
        super().xSync(flags)


def shift_clock(faults: FaultFile) -> None:
    """Let the wall clock of this process follow the faults; timeouts use another clock, as after a real jump."""
    real = time.time

    def shifted() -> float:
        return real() + faults.read().clock

    time.time = shifted


if __name__ == "__main__":
    at = FaultFile(Path(os.environ[FAULTS_FILE]))
    shim = FaultyVfs(at)
    shift_clock(at)
    threading.Thread(target=die_with_parent, args=(sys.stdin.fileno(),), name="parent-watch", daemon=True).start()
    main()
