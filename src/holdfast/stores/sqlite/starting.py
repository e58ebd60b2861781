"""Whether a SQLite file that a dead process left can be gone on with: a look at its pages that has a bound.

A log of changes protects itself, and a row tells by its checksum. What neither shows is a page that leads nowhere, as
file systems without real locks or syncs leave it; whoever writes on then makes it worse. Looking at all of a large file
takes minutes and is what `holdfast doctor` is for.
"""

import time
from pathlib import Path

import apsw

from holdfast.errors import StoreIoError
from holdfast.stores.sqlite.owners import Owners

# What a start after a death may take longer. Small stores are looked at whole in that time (10,000 pages), of larger
# ones the tables that are written to all the time.
CHECK_SECONDS_MAX = 0.05
# Steps of SQLite between two looks at the clock: some ten microseconds.
_STEPS_PER_LOOK = 1_000

# Newest records first, then who has sessions; the others as they come.
_FIRST = ("recent", "sessions")
_SELECT_TABLES = (
    "SELECT name FROM sqlite_schema"
    " WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%' AND name NOT LIKE 'sqlite_%'"
)


def is_unclean(path: Path, owners: Owners) -> bool:
    """Whether whoever had the store last died with it: its place was not given up, or the log not taken over."""
    log = path.with_name(f"{path.name}-wal")
    return owners.found_dead or (owners.is_alone and log.exists() and log.stat().st_size > 0)


def check_pages(db: apsw.Connection, path: Path, *, seconds_max: float = CHECK_SECONDS_MAX) -> int:
    """Look at the pages of one table after the other for so long, and return how many were looked at to their end.

    Raises `StoreIoError` where a page is not what it must be. Nothing is changed.
    """
    deadline = time.monotonic() + seconds_max
    names = [str(name) for (name,) in db.execute(_SELECT_TABLES)]
    names.sort(key=lambda name: _FIRST.index(name) if name in _FIRST else len(_FIRST))
    db.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS_PER_LOOK)
    try:
        for looked_at, name in enumerate(names):
            try:
                found = [str(line) for (line,) in db.execute(f"PRAGMA quick_check('{name}')")]
            except apsw.InterruptError:
                return looked_at
            if found != ["ok"] and found[0] != "interrupted":
                raise StoreIoError(
                    f"{path} is damaged (table {name}: {found[0]}); nothing was changed. Keep the file as it is, see "
                    f"`holdfast doctor --store {path}`, and restore a backup beside it (`holdfast restore`)"
                )
            if time.monotonic() > deadline:
                return looked_at
    finally:
        db.set_progress_handler(None)
    return len(names)
