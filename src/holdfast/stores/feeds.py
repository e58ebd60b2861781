"""Who waits for new records, and how each feed gets every record once.

A feed reads pages behind its own position and waits only when a page came back short and nothing rang since: what is
appended between the reading and the waiting rings the bell, so nothing is missed. A store that has just written records
rings with them: a feed that has come exactly so far takes them as they are, any other reads. Records are numbered
without a gap, so what follows its position is all there is up to there. Only the event loop touches these.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Self, TypeAlias
from weakref import WeakSet

from holdfast.errors import StoppingError
from holdfast.types.records import Logged, decode_record

# Records read at once by a feed: enough to catch up quickly, and a few MiB at most with the largest usual records.
FEED_PAGE = 200

# Reads records of a session, behind a seq, so many at most.
ReadPage = Callable[[str, int, int], Awaitable[list[Logged]]]
# A record that was just written, as it is kept: its seq, its time and its bytes.
Fresh: TypeAlias = tuple[int, float, bytes]


class Feed:
    """Every record of a session behind a position, in order, each once, without end.

    Unlike a generator it survives a cancelled wait: after `asyncio.wait_for(anext(feed), …)` has timed out the next
    call goes on where the last record was.
    """

    def __init__(self, bells: "Bells", session: str, after: int, read_page: ReadPage) -> None:
        self.session, self.position = session, max(after, 0)
        self._bells, self._read_page = bells, read_page
        self._page: deque[Logged] = deque()
        self._is_behind = True
        self._is_closed = False
        self._bell = asyncio.Event()
        bells.add(self)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Logged:
        while not self._page:
            if self._is_closed or self._bells.is_closed:
                raise StopAsyncIteration
            if self._is_behind:
                await self._fetch()
                continue
            with self._bells.waiting():
                await self._bell.wait()
            self._bell.clear()
        return self._page.popleft()

    async def _fetch(self) -> None:
        # Cleared before reading: a record appended during the read rings again.
        self._bell.clear()
        self._is_behind = True
        try:
            page = await self._read_page(self.session, self.position, FEED_PAGE)
        except StoppingError:
            return
        if page:
            self._page.extend(page)
            self.position = page[-1].seq
        self._is_behind = len(page) == FEED_PAGE or self._bell.is_set()

    def ring(self, fresh: Sequence[Logged] = ()) -> None:
        """Say that there may be something to read, or what there is: records that follow each other."""
        follows = fresh and not self._is_behind and fresh[0].seq == self.position + 1
        # A reader that is slow has its backlog in the store, not here.
        if follows and len(self._page) < FEED_PAGE:
            self._page.extend(fresh)
            self.position = fresh[-1].seq
        else:
            self._is_behind = True
        self._bell.set()

    async def aclose(self) -> None:
        """Stop. A task that waits in this feed ends too."""
        self._is_closed = True
        self._page.clear()
        self._bells.remove(self)
        self._bell.set()


class Bells:
    """All feeds of one store, by session. A feed that its reader dropped without closing disappears by itself."""

    def __init__(self) -> None:
        self.is_closed = False
        # Called when the first feed begins to wait; a store that has to look for news sets it.
        self.on_first_wait: Callable[[], None] = lambda: None
        # How many feeds wait for something new. Another thread may read it.
        self.waiting_count = 0
        self._feeds: dict[str, WeakSet[Feed]] = {}

    def add(self, feed: Feed) -> None:
        """Count a feed in."""
        self._feeds.setdefault(feed.session, WeakSet()).add(feed)

    def remove(self, feed: Feed) -> None:
        """Count a feed out."""
        feeds = self._feeds.get(feed.session)
        if feeds is not None:
            feeds.discard(feed)
            if not feeds:
                del self._feeds[feed.session]

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Count one more feed among those that wait, while the context is open."""
        self.waiting_count += 1
        if self.waiting_count == 1:
            self.on_first_wait()
        try:
            yield
        finally:
            self.waiting_count -= 1

    def positions(self) -> dict[str, int]:
        """Return each session that has a feed, with the lowest seq that one of its feeds has come to."""
        for session in [session for session, feeds in self._feeds.items() if not feeds]:
            # Its readers went without closing it.
            del self._feeds[session]
        lowest = (
            (session, min((feed.position for feed in feeds), default=0)) for session, feeds in self._feeds.items()
        )
        return dict(lowest)

    def ring(self, sessions: Iterable[str]) -> None:
        """Wake the feeds of these sessions."""
        for session in sessions:
            for feed in list(self._feeds.get(session, ())):
                feed.ring()

    def tell(self, news: Mapping[str, Sequence[Fresh]]) -> None:
        """Wake the feeds of these sessions with the records that they got just now, decoded once for all of them."""
        for session, rows in news.items():
            if feeds := list(self._feeds.get(session, ())):
                fresh = [Logged(seq, at, decode_record(body)) for seq, at, body in rows]
                for feed in feeds:
                    feed.ring(fresh)

    def close(self) -> None:
        """End all feeds."""
        self.is_closed = True
        self.ring(list(self._feeds))
