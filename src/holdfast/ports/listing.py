"""Lists of sessions, and all store ports together."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Protocol, runtime_checkable

import msgspec

from holdfast.ports.store import (
    Appends,
    BlobRefs,
    Log,
    Maintenance,
    SearchIndex,
    SessionAdmin,
    SessionInfo,
    Snapshots,
)


class SessionOrder(StrEnum):
    """Order of a list of sessions."""

    KEY = "key"
    # Newest change first.
    RECENT = "recent"


class ListedSession(SessionInfo, frozen=True):
    """A session in a list, with its labels. The title is the given one, or made from the first message."""

    title: str = ""
    # True if the title was made, not given.
    is_title_made: bool = False
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, str] = {}
    # The model that the session was configured with; None: that of the process.
    model: str | None = None
    # Where a list in the order of the last change continues after this row; of no meaning elsewhere.
    cursor: str = ""


class SessionFilter(msgspec.Struct, frozen=True):
    """Filter of a list of sessions; an empty field matches every session."""

    # Keys with this beginning, and keys with none of these.
    prefix: str = ""
    prefixes_left_out: tuple[str, ...] = ()
    # The title, the key or a tag contains this, in any case; the key contains this. The prefix is not searched.
    text: str = ""
    key_text: str = ""
    # All of these tags.
    tags: tuple[str, ...] = ()
    # The configured model.
    model: str = ""
    # True: a message or a request has no outcome yet; False: none; None: either.
    is_pending: bool | None = None

    def accepts(self, row: ListedSession) -> bool:
        """Return whether a session matches."""
        return (
            row.key.startswith(self.prefix)
            and not row.key.startswith(self.prefixes_left_out)
            and set(self.tags) <= set(row.tags)
            and (not self.model or row.model == self.model)
            and self.is_pending in (None, row.owed > 0)
            and self.matches_text(row)
        )

    def matches_text(self, row: ListedSession) -> bool:
        """Return whether the text is in the title, the key or a tag, and that for the key in the key."""
        wanted, key = self.text.casefold(), row.key.removeprefix(self.prefix).casefold()
        is_found = wanted in key or any(wanted in one.casefold() for one in (row.title, *row.tags))
        return is_found and self.key_text.casefold() in key


class SessionPage(msgspec.Struct, frozen=True):
    """A page of a list. `next` is where the next page starts; None at the end.

    A page may be shorter than its limit and have a next one: a list reads a bounded number of rows.
    """

    # The rows, in the order of the list.
    sessions: list[ListedSession]
    next: str | None = None


@runtime_checkable
class Directory(Log, Protocol):
    """Lists of sessions with their labels. Without this port a list folds the log of every session."""

    async def list_sessions(
        self, wanted: SessionFilter, *, order: SessionOrder, after: str = "", limit: int = 100
    ) -> SessionPage:
        """Return a page of sessions, from `after`: the `next` of the page before; in key order, any key.

        Costs what the rows of the page cost, plus those that the filter leaves out, of which it reads a bounded number.
        The labels are those of the newest record of a session. One that was written before stores kept them has a title
        and no model.
        """
        ...


@runtime_checkable
class Store(Snapshots, Appends, SearchIndex, BlobRefs, Maintenance, SessionAdmin, Directory, Protocol):
    """All store ports together, as the shipped stores implement them."""
