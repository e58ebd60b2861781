"""Fallbacks for optional store ports.

Each function uses an optional port if the store implements it. Otherwise it does the same with `Log` alone, does
nothing, or raises `UnsupportedError`.
"""

from collections.abc import Sequence

from holdfast.core.search.rank import Index, read_rows, rebuild_row, snippet
from holdfast.errors import UnsupportedError
from holdfast.ports import (
    Appends,
    Hit,
    Lease,
    Log,
    Maintenance,
    SearchIndex,
    Segment,
    SessionAdmin,
    SessionInfo,
    Snapshot,
    Snapshots,
)


async def load_snapshot(store: Log, session: str) -> Snapshot | None:
    """Return the newest snapshot, or None: the caller then folds the whole log."""
    return await store.load_snapshot(session) if isinstance(store, Snapshots) else None


async def save_snapshot(store: Log, lease: Lease, snapshot: Snapshot) -> None:
    """Save a snapshot. No-op without `Snapshots`."""
    if isinstance(store, Snapshots):
        await store.save_snapshot(lease, snapshot)


async def search(store: Log, session: str, query: str, *, limit: int = 10) -> list[Hit]:
    """Search a session. Without `SearchIndex` this scans its log."""
    if isinstance(store, SearchIndex):
        return await store.search(session, query, limit=limit)
    return await scan(store, session, query, limit=limit)


async def candidates(store: Log, sessions: Sequence[SessionInfo], query: str) -> list[str]:
    """Return the sessions that may contain a match: all of them without `SearchIndex`."""
    if isinstance(store, SearchIndex):
        return await store.candidates(sessions, query)
    return [one.key for one in sessions]


async def scan(store: Log, session: str, query: str, *, limit: int = 10) -> list[Hit]:
    """Search a session with an index that is built in memory for this query."""
    index, records = Index(), await store.read(session)
    for row in read_rows(records, after=0).rows:
        index.add(row)
    by_seq = {logged.seq: logged for logged in records}
    hits: list[Hit] = []
    for scored in index.find(query, limit=limit):
        size = index.rows[scored.row]
        shown = [by_seq[seq] for seq in sorted({size.call, size.seq} - {0})]
        hits.append(Hit(size.seq, scored.score, snippet(rebuild_row(size, shown), query), size.call))
    return hits


async def segments(store: Log, session: str) -> list[Segment]:
    """Return the sealed segments of a session: none without `Maintenance`."""
    return await store.segments(session) if isinstance(store, Maintenance) else []


def need_session_admin(store: Log, action: str) -> SessionAdmin:
    """Return the store as a `SessionAdmin`. Raises `UnsupportedError` with the action that needs it."""
    if not isinstance(store, SessionAdmin):
        raise UnsupportedError(action, SessionAdmin.__name__)
    return store


def need_appends(store: Log) -> Appends:
    """Return the store as an `Appends`. Raises `UnsupportedError` without that port."""
    if not isinstance(store, Appends):
        raise UnsupportedError("appending without a turn", Appends.__name__)
    return store


def need_maintenance(store: Log, action: str) -> Maintenance:
    """Return the store as a `Maintenance`. Raises `UnsupportedError` with the action that needs it."""
    if not isinstance(store, Maintenance):
        raise UnsupportedError(action, Maintenance.__name__)
    return store
