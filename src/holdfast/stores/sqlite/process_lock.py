"""Process locks of a SQLite store: liveness of store instances, and a fair queue for writers.

Every open store has a file in the folder `<database>-owners` and keeps it locked (flock). The kernel drops the lock
when the process ends, however it ends, so a file that can be locked belongs to a dead instance. The lock on the folder
itself is the write queue: a writer takes it, waits for the database while holding it, and releases it once it has the
database. So a process that has just written cannot overtake one that waits.
"""

import os
import time
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from holdfast.stores.flock import try_lock, unlock

# Poll interval for a lock. A commit takes about a millisecond.
LOCK_POLL_SECONDS = 0.0005


class Instances:
    """Registration of this store among the stores that are open on the same database."""

    def __init__(self, database: Path) -> None:
        self._folder = database.with_name(f"{database.name}-owners")
        self.instance = uuid4().hex
        self._folder_fd, self._own_fd = self._register()
        # Lock files of dead instances were found; no other instance is alive.
        self.found_dead, self.is_alone = self._sweep()

    def enter_queue(self, seconds_max: float) -> None:
        """Wait for the write queue. Raises `TimeoutError`."""
        if try_lock(self._folder_fd):
            return
        deadline = time.monotonic() + seconds_max
        while not try_lock(self._folder_fd):
            if time.monotonic() >= deadline:
                raise TimeoutError
            time.sleep(LOCK_POLL_SECONDS)

    def leave_queue(self) -> None:
        """Let the next writer enter the queue."""
        unlock(self._folder_fd)

    def is_dead(self, instance: str) -> bool:
        """Return whether an instance is dead, and remove its file."""
        if instance == self.instance:
            return False
        try:
            fd = os.open(instance, os.O_RDWR | os.O_CLOEXEC, dir_fd=self._folder_fd)
        except FileNotFoundError:
            return True
        try:
            is_dead = try_lock(fd)
            if is_dead:
                # Removed while locked: a process that is about to lock the same file notices it (see `_register`).
                self._remove(instance)
            return is_dead
        finally:
            os.close(fd)

    def close(self) -> None:
        """Unregister. The last instance removes the folder."""
        self._remove(self.instance)
        os.close(self._own_fd)
        os.close(self._folder_fd)
        with suppress(OSError):
            # Not empty: other instances are open.
            self._folder.rmdir()

    def _register(self) -> tuple[int, int]:
        """Create the folder and the locked file in it; retry if another process swept either of them."""
        while True:
            # Private: a user who may lock files here could block the store.
            with suppress(FileExistsError):
                self._folder.mkdir(mode=0o700)
            try:
                folder_fd = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            except FileNotFoundError:
                continue
            try:
                own_fd = os.open(self.instance, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600, dir_fd=folder_fd)
            except FileNotFoundError:
                os.close(folder_fd)
                continue
            if try_lock(own_fd) and os.fstat(own_fd).st_nlink:
                return folder_fd, own_fd
            os.close(own_fd)
            os.close(folder_fd)

    def _sweep(self) -> tuple[bool, bool]:
        names = set(os.listdir(self._folder_fd)) - {self.instance}  # noqa: PTH208 - pathlib cannot list an open folder
        dead = {name for name in names if self.is_dead(name)}
        return bool(dead), dead == names

    def _remove(self, instance: str) -> None:
        with suppress(FileNotFoundError):
            os.unlink(instance, dir_fd=self._folder_fd)


def live_instances(database: Path) -> set[str]:
    """Return the instances that are open on a database, without registering."""
    folder = database.with_name(f"{database.name}-owners")
    alive: set[str] = set()
    for path in folder.iterdir() if folder.is_dir() else ():
        with suppress(FileNotFoundError), path.open("rb") as file:
            if not try_lock(file.fileno()):
                alive.add(path.name)
    return alive
