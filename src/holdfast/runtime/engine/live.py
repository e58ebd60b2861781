"""What is happening right now, for whoever looks on in this process.

Deltas are decoration: they are never stored, and a reader who has only the records ends up with the same text. A slow
reader costs no more memory than the answer itself: pieces that wait are joined.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from typing import TypeAlias

import msgspec

from holdfast.ports import Delta, ReasoningDelta, TextDelta
from holdfast.types.records import Logged

# What one reader may leave unread before records wait for it and deltas are dropped: enough that a reader who is only
# a little slow never notices, and a few MiB at most with the largest usual records.
WAITING_MAX = 200


class LiveDelta(msgspec.Struct, frozen=True):
    """A piece of an answer, and the attempt it belongs to."""

    turn: int
    attempt: int
    delta: Delta


Sight: TypeAlias = LiveDelta | Logged | BaseException


class Mailbox:
    """What one reader has not seen yet."""

    def __init__(self) -> None:
        self._waiting: deque[Sight] = deque()
        self._arrived = asyncio.Event()
        self._left = asyncio.Event()

    async def room(self) -> None:
        """Return when there is room for a record: a slow reader makes records wait in the store, not here."""
        while len(self._waiting) >= WAITING_MAX:
            self._left.clear()
            await self._left.wait()

    def put(self, sight: Sight) -> None:
        """Add something to see; a piece of text joins the piece before it. Of a delta too many nothing is kept."""
        joined = _join(self._waiting[-1], sight) if self._waiting else None
        if joined is not None:
            self._waiting[-1] = joined
        elif not isinstance(sight, LiveDelta) or len(self._waiting) < WAITING_MAX:
            self._waiting.append(sight)
        self._arrived.set()

    async def sights(self) -> AsyncGenerator[LiveDelta | Logged, None]:
        """Yield what arrives, without end. A failure that was put is raised."""
        while True:
            await self._arrived.wait()
            while self._waiting:
                sight = self._waiting.popleft()
                self._left.set()
                if isinstance(sight, BaseException):
                    raise sight
                yield sight
            self._arrived.clear()


def _join(before: Sight, after: Sight) -> LiveDelta | None:
    if not (isinstance(before, LiveDelta) and isinstance(after, LiveDelta)):
        return None
    if (before.turn, before.attempt) != (after.turn, after.attempt):
        return None
    match before.delta, after.delta:
        case TextDelta(text=first), TextDelta(text=second):
            return LiveDelta(before.turn, before.attempt, TextDelta(first + second))
        case ReasoningDelta(text=first, opaque="", part_id=name), ReasoningDelta(text=second, part_id=same) if (
            name == same
        ):
            # Behind an `opaque` the next thinking begins.
            return LiveDelta(before.turn, before.attempt, ReasoningDelta(first + second, after.delta.opaque, name))
        case _:
            return None


class Live:
    """Who looks on, by session."""

    def __init__(self) -> None:
        self._mailboxes: dict[str, set[Mailbox]] = {}

    def publish(self, session: str, sight: LiveDelta | BaseException) -> None:
        """Show something to everyone who looks on at a session."""
        for mailbox in self._mailboxes.get(session, ()):
            mailbox.put(sight)

    def end(self, error: BaseException) -> None:
        """Tell everyone who looks on at anything that there will be no more to see, and why."""
        for session in list(self._mailboxes):
            self.publish(session, error)

    @contextmanager
    def subscribe(self, session: str) -> Iterator[Mailbox]:
        """Look on at a session for a while."""
        mailbox = Mailbox()
        self._mailboxes.setdefault(session, set()).add(mailbox)
        try:
            yield mailbox
        finally:
            mailboxes = self._mailboxes[session]
            mailboxes.discard(mailbox)
            if not mailboxes:
                del self._mailboxes[session]
