"""Copy a SQLite database page by page while it is in use."""

import os
from pathlib import Path
from uuid import uuid4

import apsw

from holdfast.ports.model import Progress, ignore
from holdfast.stores.folder import sync_folder

# Pages between two progress reports: 8 MiB, some ten milliseconds.
_PAGES_AT_ONCE = 2_000


def copy_pages(theirs: apsw.Connection, target: Path, progress: Progress = ignore) -> None:
    """Copy a database to a new path atomically, without blocking writers."""
    incoming = target.with_name(f"{target.name}.{uuid4().hex}.incoming")
    try:
        # Conversations are private.
        os.close(os.open(incoming, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
        ours = apsw.Connection(str(incoming))
        try:
            _copy(theirs, ours, progress)
        finally:
            ours.close()
        os.link(incoming, target)
        sync_folder(target.parent)
    finally:
        for suffix in ("", "-wal", "-shm", "-journal"):
            incoming.with_name(incoming.name + suffix).unlink(missing_ok=True)


def _copy(theirs: apsw.Connection, ours: apsw.Connection, progress: Progress) -> None:
    # One transaction for all steps: a commit meanwhile does not restart the backup.
    with theirs:
        _ = theirs.execute("SELECT count(*) FROM sqlite_schema").get
        with ours.backup("main", theirs, "main") as backup:
            while not backup.done:
                backup.step(_PAGES_AT_ONCE)
                progress("copying the file", backup.page_count - backup.remaining, backup.page_count)
