"""Live events of sessions for subscribers in this process.

Deltas are never stored; the records alone give the same text. A slow subscriber takes no more memory than the answer
itself: waiting deltas are joined.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from typing import TypeAlias

import msgspec

from holdfast.ports import Delta, ReasoningDelta, TextDelta
from holdfast.types.records import Logged

# Unread events of one subscriber; above it records wait in the store and deltas are dropped. Enough for a slightly slow
# subscriber, and a few MiB at most with the largest usual records.
WAITING_MAX = 200


class LiveDelta(msgspec.Struct, frozen=True):
    """A delta of an answer, and the attempt it belongs to."""

    turn: int
    attempt: int
    delta: Delta


_Event: TypeAlias = LiveDelta | Logged | BaseException


class Mailbox:
    """Unread events of one subscriber."""

    def __init__(self) -> None:
        self._waiting: deque[_Event] = deque()
        self._arrived = asyncio.Event()
        self._left = asyncio.Event()

    async def room(self) -> None:
        """Wait until there is room for a record: records for a slow subscriber stay in the store."""
        while len(self._waiting) >= WAITING_MAX:
            self._left.clear()
            await self._left.wait()

    def put(self, event: _Event) -> None:
        """Add an event; a delta is joined to the one before it. Deltas above the limit are dropped."""
        joined = _join(self._waiting[-1], event) if self._waiting else None
        if joined is not None:
            self._waiting[-1] = joined
        elif not isinstance(event, LiveDelta) or len(self._waiting) < WAITING_MAX:
            self._waiting.append(event)
        self._arrived.set()

    async def sights(self) -> AsyncGenerator[LiveDelta | Logged, None]:
        """Yield events as they arrive, without end. An exception that was put is raised."""
        while True:
            await self._arrived.wait()
            while self._waiting:
                event = self._waiting.popleft()
                self._left.set()
                if isinstance(event, BaseException):
                    raise event
                yield event
            self._arrived.clear()


def _join(before: _Event, after: _Event) -> LiveDelta | None:
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
            # After `opaque` a new reasoning part begins.
            return LiveDelta(before.turn, before.attempt, ReasoningDelta(first + second, after.delta.opaque, name))
        case _:
            return None


class Live:
    """Subscribers by session."""

    def __init__(self) -> None:
        self._mailboxes: dict[str, set[Mailbox]] = {}

    def publish(self, session: str, event: LiveDelta | BaseException) -> None:
        """Send an event to all subscribers of a session."""
        for mailbox in self._mailboxes.get(session, ()):
            mailbox.put(event)

    def end(self, error: BaseException) -> None:
        """End all subscriptions with an error."""
        for session in list(self._mailboxes):
            self.publish(session, error)

    @contextmanager
    def subscribe(self, session: str) -> Iterator[Mailbox]:
        """Subscribe to a session for the duration of the block."""
        mailbox = Mailbox()
        self._mailboxes.setdefault(session, set()).add(mailbox)
        try:
            yield mailbox
        finally:
            mailboxes = self._mailboxes[session]
            mailboxes.discard(mailbox)
            if not mailboxes:
                del self._mailboxes[session]
