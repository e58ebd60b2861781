"""The list of sessions of a SQLite store: its rows, and pages of it."""

from collections.abc import Callable, Generator, Sequence
from itertools import groupby
from typing import Any

import apsw
import msgspec

from holdfast.ports import SessionFilter, SessionOrder, SessionPage
from holdfast.stores.listing import ListingChange, RecentPage, Row, page_of_rows

# Sorts after every key with the same beginning: no character is higher.
_LAST = "\U0010ffff"

_UPSERT = """
    INSERT INTO labels (session, opening, title, tags, metadata, model, used_hour)
    VALUES (?, ?, '', '[]', '{}', NULL, ?)
    ON CONFLICT (session) DO UPDATE SET used_hour = max(used_hour, excluded.used_hour),
        opening = CASE WHEN opening = '' THEN excluded.opening ELSE opening END
"""
_SET_LABELS = "UPDATE labels SET title = ?, tags = ?, metadata = ? WHERE session = ?"
_SET_MODEL = "UPDATE labels SET model = ? WHERE session = ?"
# The small table of recent records is read once for any number of sessions; see `reading`.
_SELECT = """
    WITH ends (session, seq, at) AS MATERIALIZED (SELECT session, max(seq), at FROM recent GROUP BY session)
    SELECT key,
           coalesce(ends.seq, (SELECT max(seq) FROM records WHERE session = number)),
           owed, created_at,
           coalesce(ends.at, (SELECT at FROM records WHERE session = number ORDER BY seq DESC LIMIT 1)),
           opening, title, tags, metadata, model, used_hour
    FROM sessions JOIN labels ON labels.session = number LEFT JOIN ends ON ends.session = number
    WHERE created_at IS NOT NULL
"""
_TAGGED = " AND number IN (SELECT session FROM session_tags WHERE tag = ?)"

_tags: Callable[[str], Sequence[str]] = msgspec.json.Decoder(list[str]).decode
_metadata: Callable[[str], dict[str, str]] = msgspec.json.Decoder(dict[str, str]).decode


def write_row(db: apsw.Connection, number: int, change: ListingChange, hour: int) -> None:
    """Within a transaction: change the row of a session."""
    db.execute(_UPSERT, (number, change.opening, hour))
    if (labels := change.labels) is not None:
        tags, metadata = msgspec.json.encode(labels.tags).decode(), msgspec.json.encode(labels.metadata).decode()
        db.execute(_SET_LABELS, (labels.title, tags, metadata, number))
        db.execute("DELETE FROM session_tags WHERE session = ?", (number,))
        db.executemany("INSERT OR IGNORE INTO session_tags VALUES (?, ?)", [(tag, number) for tag in labels.tags])
    if change.configured is not None:
        db.execute(_SET_MODEL, (change.configured.model, number))


def list_sessions(
    db: apsw.Connection, wanted: SessionFilter, order: SessionOrder, after: str, limit: int
) -> SessionPage:
    """Return a page of sessions; see `Directory.list_sessions`."""
    where, values = _where(wanted)
    if order is SessionOrder.KEY:
        rows = _rows(db, f"{where} AND key > ? ORDER BY key", (*values, after))
        return page_of_rows(rows, wanted, max(limit, 0))
    page = RecentPage(wanted, after, limit)
    bound = () if page.hour is None else (page.hour,)
    rows = _rows(db, f"{where}{' AND used_hour <= ?' * len(bound)} ORDER BY used_hour DESC", (*values, *bound))
    # Rows are read one by one, so the query ends with the hour that fills the page.
    is_end = all(page.add(group, hour) for hour, group in groupby(rows, key=lambda row: row[-1]))
    rows.close()
    return page.page(is_end=is_end)


def _where(wanted: SessionFilter) -> tuple[str, tuple[Any, ...]]:
    """Return the conditions that leave rows out before they are read, and their values."""
    where, values = "", list[Any]()
    if wanted.prefix:
        where, values = where + " AND key >= ? AND key < ?", [*values, wanted.prefix, wanted.prefix + _LAST]
    for prefix in wanted.prefixes_left_out:
        where, values = where + " AND NOT (key >= ? AND key < ?)", [*values, prefix, prefix + _LAST]
    if wanted.is_pending is not None:
        where += " AND owed > 0" if wanted.is_pending else " AND owed <= 0"
    if wanted.model:
        where, values = where + " AND model = ?", [*values, wanted.model]
    return where + _TAGGED * len(wanted.tags), (*values, *wanted.tags)


def _rows(db: apsw.Connection, where: str, values: tuple[Any, ...]) -> Generator[Row, None, None]:
    cursor = db.cursor()
    try:
        for row in cursor.execute(_SELECT + where, values):
            *known, tags, metadata, model, hour = row
            yield (*known, _tags(tags), _metadata(metadata), model, hour)
    finally:
        # An open query would pin an old snapshot.
        cursor.close(force=True)
