"""The list of sessions of a PostgreSQL store: its rows, and pages of it."""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.ports import SessionFilter, SessionOrder, SessionPage
from holdfast.stores.listing import READ_MAX, ListingChange, RecentPage, Row, page_of_rows
from holdfast.stores.postgres.migrations import SQL

if TYPE_CHECKING:
    from holdfast.stores.postgres.connections import Connection

# Sorts after every key with the same beginning: no byte is higher.
_LAST = b"\xff"
# Rows per round trip.
_FETCHED = 200

_metadata: Callable[[bytes], dict[str, str]] = msgspec.json.Decoder(dict[str, str]).decode


async def write_row(connection: "Connection", number: int, change: ListingChange, hour: int) -> None:
    """Within a transaction: change the row of a session."""
    await connection.execute(SQL["upsert_listing"], number, change.opening.encode(), hour)
    if (labels := change.labels) is not None:
        tags = [tag.encode() for tag in labels.tags]
        metadata = msgspec.json.encode(labels.metadata)
        await connection.execute(SQL["set_labels"], number, labels.title.encode(), tags, metadata)
    if change.configured is not None:
        await connection.execute(SQL["set_model"], number, (change.configured.model or "").encode())


class ListingArguments:
    """The rows of the list that a batch changes, as the array arguments of `holdfast.write_listing`."""

    def __init__(self) -> None:
        self._changes: dict[int, tuple[ListingChange, int]] = {}

    def add(self, place: int, change: ListingChange, hour: int) -> None:
        """Add the change of a session, by its place in the batch."""
        before, _ = self._changes.get(place, (ListingChange(), 0))
        self._changes[place] = before.followed_by(change), hour

    def arguments(self) -> tuple[Any, ...]:
        """Return the arguments; empty if no row changes."""
        if not self._changes:
            return ()
        rows = [_columns(change, hour) for change, hour in self._changes.values()]
        tags = [(place, tag) for place, (change, _) in self._changes.items() for tag in _tags(change)]
        return (
            list(self._changes),
            *(list(column) for column in zip(*rows, strict=True)),
            [place for place, _ in tags],
            [tag for _, tag in tags],
        )


def _columns(change: ListingChange, hour: int) -> tuple[Any, ...]:
    """Return the hour, the beginning, the title, the metadata and the model of a change; None: it stays as it is."""
    labels, configured = change.labels, change.configured
    return (
        hour,
        change.opening.encode(),
        None if labels is None else labels.title.encode(),
        None if labels is None else msgspec.json.encode(labels.metadata),
        None if configured is None else (configured.model or "").encode(),
    )


def _tags(change: ListingChange) -> list[bytes]:
    return [tag.encode() for tag in change.labels.tags] if change.labels is not None else []


async def list_sessions(
    connection: "Connection", wanted: SessionFilter, order: SessionOrder, after: str, limit: int
) -> SessionPage:
    """Return a page of sessions; see `Directory.list_sessions`."""
    where, values = _where(wanted)
    # Rows are fetched as they are needed, so the query ends with the page.
    async with connection.transaction(readonly=True):
        if order is SessionOrder.KEY:
            values.append(after.encode("utf-8", "surrogatepass"))
            rows = _rows(connection, f"{where} AND key > ${len(values)} ORDER BY key", values)
            return await _page_by_key(rows, wanted, max(limit, 0))
        page = RecentPage(wanted, after, limit)
        if page.hour is not None:
            values.append(page.hour)
            where += f" AND used_hour <= ${len(values)}"
        hour: list[Row] = []
        async for row in _rows(connection, f"{where} ORDER BY used_hour DESC", values):
            if hour and row[-1] != hour[0][-1]:
                if not page.add(hour, hour[0][-1]):
                    return page.page(is_end=False)
                hour = []
            hour.append(row)
        is_wanted = not hour or page.add(hour, hour[0][-1])
    return page.page(is_end=is_wanted)


async def _page_by_key(rows: AsyncIterator[Row], wanted: SessionFilter, limit: int) -> SessionPage:
    found: list[Row] = []
    count = 0
    async for row in rows:
        found.append(row)
        count += bool(page_of_rows((row,), wanted, 1).sessions)
        if count > limit or len(found) >= READ_MAX:
            break
    return page_of_rows(found, wanted, limit)


def _where(wanted: SessionFilter) -> tuple[str, list[Any]]:
    """Return the conditions that leave rows out before they are read, and their values."""
    where, values = "", list[Any]()
    prefixes = [(wanted.prefix, " AND {}")] if wanted.prefix else []
    for prefix, condition in (*prefixes, *((left_out, " AND NOT ({})") for left_out in wanted.prefixes_left_out)):
        values += [prefix.encode(), prefix.encode() + _LAST]
        where += condition.format(f"key >= ${len(values) - 1} AND key < ${len(values)}")
    if wanted.is_pending is not None:
        where += " AND owed > 0" if wanted.is_pending else " AND owed <= 0"
    if wanted.model:
        values.append(wanted.model.encode())
        where += f" AND model = ${len(values)}"
    if wanted.tags:
        values.append([tag.encode() for tag in wanted.tags])
        where += f" AND tags @> ${len(values)}::bytea[]"
    return where, values


async def _rows(connection: "Connection", where: str, values: Sequence[Any]) -> AsyncIterator[Row]:
    async for row in connection.cursor(f"{SQL['list_labelled']}{where}", *values, prefetch=_FETCHED):
        key, last_seq, owed, created_at, updated_at, opening, title, tags, metadata, model, hour = row
        yield (
            bytes(key).decode(),
            last_seq,
            owed,
            created_at,
            updated_at,
            bytes(opening).decode(errors="ignore"),
            bytes(title).decode(),
            [bytes(tag).decode() for tag in tags],
            _metadata(metadata) if metadata else {},
            bytes(model).decode() or None,
            hour,
        )
