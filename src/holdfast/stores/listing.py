"""Rows of the list of sessions: what an append changes in them, and pages in the order of the last change.

A row has the labels of a session, its configured model, the beginning of its first message and the hour of its last
change. The hour is indexed in place of the time: an index on the time would be written with every record.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from holdfast.core.text.title import opening_of, title_from
from holdfast.errors import BadInputError
from holdfast.ports import ListedSession, SessionFilter, SessionInfo, SessionOrder, SessionPage
from holdfast.types.messages import Role
from holdfast.types.records import AnyRecord, InputAdmitted, MessageAppended, SessionConfigured, SessionLabelled

# Rows that one page reads at most: some 100 ms.
READ_MAX = 20_000
_SECONDS_PER_HOUR = 3_600
_LISTED: frozenset[type[AnyRecord]] = frozenset({InputAdmitted, MessageAppended, SessionConfigured, SessionLabelled})
# Hour of a session without a row.
NO_HOUR = -1

# The columns of a row: key, last seq, pending, times; beginning, title, tags, metadata, model, hour.
Row: TypeAlias = tuple[str, int, int, float, float, str, str, Sequence[str], Mapping[str, str], str | None, int]


class ListingChange(msgspec.Struct, frozen=True):
    """Changes of a row: the beginning of a message, if it is the first; the labels; the configured model."""

    opening: str = ""
    labels: SessionLabelled | None = None
    configured: SessionConfigured | None = None

    def followed_by(self, later: "ListingChange") -> "ListingChange":
        """Return both changes as one."""
        return ListingChange(
            self.opening or later.opening, later.labels or self.labels, later.configured or self.configured
        )


NO_CHANGE = ListingChange()


def listing_change(records: Iterable[AnyRecord]) -> ListingChange:
    """Return the changes that records make in the row of their session."""
    change = NO_CHANGE
    for record in records:
        if type(record) not in _LISTED:
            continue
        match record:
            case (
                InputAdmitted(parts=parts, is_heartbeat=False)
                | MessageAppended(role=Role.USER, parts=parts, is_heartbeat=False)
            ):
                change = replace(change, opening=change.opening or opening_of(parts))
            case SessionLabelled():
                change = replace(change, labels=record)
            case SessionConfigured():
                change = replace(change, configured=record)
            case _:
                pass
    return change


def hour_of(at: float) -> int:
    """Return the hour of a time."""
    return int(at // _SECONDS_PER_HOUR)


def end_of_hour(hour: int) -> float:
    """Return the time at which an hour ends."""
    return float((hour + 1) * _SECONDS_PER_HOUR)


def listed(row: Row) -> ListedSession:
    """Return a session of a list."""
    key, last_seq, owed, created_at, updated_at, opening, title, tags, metadata, model, hour = row
    return ListedSession(
        key,
        last_seq,
        owed,
        created_at,
        updated_at,
        title=title or title_from(opening),
        is_title_made=bool(opening) and not title,
        tags=tuple(tags),
        metadata=metadata,
        model=model or None,
        cursor=f"{hour}:{updated_at!r}:{key}",
    )


def place_of(cursor: str) -> tuple[int, float, str] | None:
    """Return the hour, the time and the key of a cursor; None for an empty one."""
    if not cursor:
        return None
    hour, _, rest = cursor.partition(":")
    at, _, key = rest.partition(":")
    try:
        return int(hour), float(at), key
    except ValueError as error:
        raise BadInputError("this is not the cursor of a list by last change; use the `next` of a page") from error


class RecentPage:
    """A page in the order of the last change, filled hour by hour from the newest."""

    def __init__(self, wanted: SessionFilter, after: str, limit: int) -> None:
        self._wanted, self._limit, self._place = wanted, max(limit, 0), place_of(after)
        # The newest hour to read; None: the newest of all.
        self.hour = self._place[0] if self._place else None
        self._found: list[ListedSession] = []
        self._read = 0

    def add(self, rows: Iterable[Row], hour: int) -> bool:
        """Add the sessions whose last change was in an hour, and return whether the page needs an earlier one."""
        sessions = [listed(row) for row in rows]
        self._read += len(sessions)
        if self._place is not None and self._place[0] == hour:
            _, at, key = self._place
            sessions = [one for one in sessions if (-one.updated_at, one.key) > (-at, key)]
        self._found += sorted(filter(self._wanted.accepts, sessions), key=lambda one: (-one.updated_at, one.key))
        self.hour = hour - 1
        return len(self._found) <= self._limit and self._read < READ_MAX

    def page(self, *, is_end: bool) -> SessionPage:
        """Return the page."""
        shown = self._found[: self._limit]
        if len(self._found) > len(shown):
            return SessionPage(shown, shown[-1].cursor if shown else None)
        # The end of the hour that was read last: nothing of it is left.
        return SessionPage(shown, None if is_end or self.hour is None else f"{self.hour}:inf:")


def page_of_rows(rows: Iterable[Row], wanted: SessionFilter, limit: int) -> SessionPage:
    """Return a page of rows in the order of their keys. Reads only as many as it needs."""
    found: list[ListedSession] = []
    for count, row in enumerate(rows, start=1):
        one = listed(row)
        if wanted.accepts(one):
            found.append(one)
        if len(found) > limit:
            return SessionPage(found[:limit], found[limit - 1].key if limit > 0 else None)
        if count >= READ_MAX:
            return SessionPage(found, one.key)
    return SessionPage(found)


def page_of_all(rows: Sequence[Row], wanted: SessionFilter, order: SessionOrder, after: str, limit: int) -> SessionPage:
    """Return a page of rows that are all at hand, in the order of their keys."""
    if order is SessionOrder.KEY:
        return page_of_rows((row for row in rows if row[0] > after), wanted, max(limit, 0))
    page = RecentPage(wanted, after, limit)
    newest = sorted((row for row in rows if page.hour is None or row[-1] <= page.hour), key=lambda row: -row[-1])
    is_end = all(page.add(group, hour) for hour, group in groupby(newest, key=lambda row: row[-1]))
    return page.page(is_end=is_end)


def row_of(info: SessionInfo, change: ListingChange, hour: int) -> Row:
    """Return the row of a session from everything that its records changed."""
    labels = change.labels or SessionLabelled()
    model = change.configured.model if change.configured else None
    about = (change.opening, labels.title, labels.tags, labels.metadata, model, hour)
    return (info.key, info.last_seq, info.owed, info.created_at, info.updated_at, *about)
