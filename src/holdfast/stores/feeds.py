"""Feeds: deliver every record of a session to each reader once.

A feed reads pages after its own position. It waits only if the last page was short and no wake-up came since, so a
record appended between the read and the wait is not missed. A store wakes its feeds with the rows that it has just
written: a feed that is exactly at that position takes them, any other feed reads. Seqs have no gap, so the rows after
its position are complete. Only the event loop uses these classes.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Self, TypeAlias
from weakref import WeakSet

from holdfast.errors import StoppingError
from holdfast.types.records import Logged, decode_record

# Records per page: enough to catch up quickly, and a few MiB at most with the largest usual records.
FEED_PAGE = 200

# Reads a page: session, position, limit.
ReadPage = Callable[[str, int, int], Awaitable[list[Logged]]]
# A row that was just written: seq, time and body.
NewRow: TypeAlias = tuple[int, float, bytes]


class Feed:
    """Every record of a session after a position, in order, each once, without end.

    Unlike a generator it survives a cancelled wait: after `asyncio.wait_for(anext(feed), …)` timed out, the next call
    continues after the last record.
    """

    def __init__(self, registry: "FeedRegistry", session: str, after: int, read_page: ReadPage) -> None:
        self.session, self.position = session, max(after, 0)
        self._registry, self._read_page = registry, read_page
        self._page: deque[Logged] = deque()
        self._is_behind = True
        self._is_closed = False
        self._wakeup = asyncio.Event()
        registry.add(self)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Logged:
        while not self._page:
            if self._is_closed or self._registry.is_closed:
                raise StopAsyncIteration
            if self._is_behind:
                await self._fetch()
                continue
            with self._registry.waiting():
                await self._wakeup.wait()
            self._wakeup.clear()
        return self._page.popleft()

    async def _fetch(self) -> None:
        # Cleared before the read: a record appended during the read sets it again.
        self._wakeup.clear()
        self._is_behind = True
        try:
            page = await self._read_page(self.session, self.position, FEED_PAGE)
        except StoppingError:
            return
        if page:
            self._page.extend(page)
            self.position = page[-1].seq
        self._is_behind = len(page) == FEED_PAGE or self._wakeup.is_set()

    def wake(self, fresh: Sequence[Logged] = ()) -> None:
        """Wake the reader, with consecutive new records if they are at hand."""
        follows = fresh and not self._is_behind and fresh[0].seq == self.position + 1
        # The backlog of a slow reader stays in the store.
        if follows and len(self._page) < FEED_PAGE:
            self._page.extend(fresh)
            self.position = fresh[-1].seq
        else:
            self._is_behind = True
        self._wakeup.set()

    async def aclose(self) -> None:
        """End the feed, also for a task that waits in it."""
        self._is_closed = True
        self._page.clear()
        self._registry.remove(self)
        self._wakeup.set()


class FeedRegistry:
    """All feeds of one store, by session. Feeds are held weakly, so one that was not closed disappears too."""

    def __init__(self) -> None:
        self.is_closed = False
        # Called when the first feed begins to wait; a store that has to poll for records sets it.
        self.on_first_wait: Callable[[], None] = lambda: None
        # Number of waiting feeds. Another thread may read it.
        self.waiting_count = 0
        self._feeds: dict[str, WeakSet[Feed]] = {}

    def add(self, feed: Feed) -> None:
        """Register a feed."""
        self._feeds.setdefault(feed.session, WeakSet()).add(feed)

    def remove(self, feed: Feed) -> None:
        """Remove a feed."""
        feeds = self._feeds.get(feed.session)
        if feeds is not None:
            feeds.discard(feed)
            if not feeds:
                del self._feeds[feed.session]

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Count one more waiting feed while the context is open."""
        self.waiting_count += 1
        if self.waiting_count == 1:
            self.on_first_wait()
        try:
            yield
        finally:
            self.waiting_count -= 1

    def positions(self) -> dict[str, int]:
        """Return each session that has a feed, with the lowest position of its feeds."""
        for session in [session for session, feeds in self._feeds.items() if not feeds]:
            # All its feeds were dropped without being closed.
            del self._feeds[session]
        lowest = (
            (session, min((feed.position for feed in feeds), default=0)) for session, feeds in self._feeds.items()
        )
        return dict(lowest)

    def wake(self, sessions: Iterable[str]) -> None:
        """Wake the feeds of these sessions."""
        for session in sessions:
            for feed in list(self._feeds.get(session, ())):
                feed.wake()

    def deliver(self, written: Mapping[str, Sequence[NewRow]]) -> None:
        """Wake the feeds of these sessions with new rows, decoded once for all of them."""
        for session, rows in written.items():
            if feeds := list(self._feeds.get(session, ())):
                fresh = [Logged(seq, at, decode_record(body)) for seq, at, body in rows]
                for feed in feeds:
                    feed.wake(fresh)

    def close(self) -> None:
        """End all feeds."""
        self.is_closed = True
        self.wake(list(self._feeds))
