"""Live events of sessions for subscribers in this process.

Deltas are never stored; the records alone give the same text. All subscribers of a session share one buffer of deltas,
so that publishing costs the same for any number of subscribers that are busy or slow. A subscriber that comes late
takes the waiting deltas joined.
"""

import asyncio
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from typing import TypeAlias

import msgspec

from holdfast.ports import Delta, ReasoningDelta, TextDelta
from holdfast.runtime.tools.tool_context import ToolProgress
from holdfast.types.records import Logged

# Unread records of one subscriber; further ones wait in the store. Enough for a slightly slow subscriber, and a few MiB
# at most with the largest usual records.
WAITING_MAX = 200
# Characters of deltas that are kept for the slowest subscriber of a session; older ones are dropped. An answer of the
# longest usual output has fewer.
CHARS_MAX = 2**20
# Deltas between two removals of those that all subscribers have read.
_TRIM_EVERY = 256
# Ranges of joined deltas that are remembered: subscribers that read at the same moment take the same range.
_RANGES_MAX = 16


# A tuple: a union would be made anew for each delta.
_WITH_TEXT = (TextDelta, ReasoningDelta, ToolProgress)


class LiveDelta(msgspec.Struct, frozen=True):
    """A delta of an answer, and the attempt it belongs to."""

    # The turn, and the number of its attempt.
    turn: int
    attempt: int
    delta: Delta | ToolProgress


_Event: TypeAlias = LiveDelta | Logged | BaseException


class _Run:
    """Consecutive deltas that can be joined to one."""

    __slots__ = ("first", "is_closed", "opaque", "pieces", "start")

    def __init__(self, start: int, first: LiveDelta) -> None:
        # The position of the first delta, the delta itself, and the text of each.
        self.start, self.first = start, first
        self.pieces = [_text_of(first.delta)]
        self.opaque = first.delta.opaque if isinstance(first.delta, ReasoningDelta) else ""
        # After `opaque` a new reasoning part begins, and calls are never joined.
        self.is_closed = bool(self.opaque) or not isinstance(first.delta, TextDelta | ReasoningDelta)

    def extend(self, event: LiveDelta, text: str) -> bool:
        """Add a delta with its text; return False if it cannot be joined."""
        first = self.first
        if self.is_closed or first.turn != event.turn or first.attempt != event.attempt:
            return False
        before, after = first.delta, event.delta
        if isinstance(after, ReasoningDelta):
            if not isinstance(before, ReasoningDelta) or before.part_id != after.part_id:
                return False
            self.opaque = after.opaque
            self.is_closed = bool(after.opaque)
        elif not (isinstance(after, TextDelta) and isinstance(before, TextDelta)):
            return False
        self.pieces.append(text)
        return True

    def joined(self, start: int, end: int) -> LiveDelta:
        """Return the deltas from one position to another as one."""
        delta = self.first.delta
        text = "".join(self.pieces[max(start - self.start, 0) : end - self.start])
        if isinstance(delta, TextDelta):
            delta = TextDelta(text)
        elif isinstance(delta, ReasoningDelta):
            is_whole = end - self.start >= len(self.pieces)
            delta = ReasoningDelta(text, self.opaque if is_whole else "", delta.part_id)
        return LiveDelta(self.first.turn, self.first.attempt, delta)


def _start_of(run: _Run) -> int:
    return run.start


def _text_of(delta: Delta | ToolProgress) -> str:
    return delta.text if isinstance(delta, _WITH_TEXT) else ""


class DeltaBuffer:
    """Deltas of a session, shared by its subscribers. A position counts all deltas since the first."""

    def __init__(self) -> None:
        self.end = 0
        # All subscribers, and those that read deltas.
        self.mailboxes: set[Mailbox] = set()
        self.readers: set[Mailbox] = set()
        # Subscribers that have read everything, and wait.
        self.idle: set[Mailbox] = set()
        self._runs: list[_Run] = []
        self._chars = 0
        self._trimmed_at = 0
        self._ranges: dict[tuple[int, int], tuple[LiveDelta, ...]] = {}

    def append(self, event: LiveDelta) -> None:
        """Add a delta and wake the subscribers that wait."""
        text = _text_of(event.delta)
        if not self._runs or not self._runs[-1].extend(event, text):
            self._runs.append(_Run(self.end, event))
        self.end += 1
        self._chars += len(text)
        if self.end - self._trimmed_at >= _TRIM_EVERY:
            self._trim(min((mailbox.position for mailbox in self.readers), default=self.end))
        if self._chars > CHARS_MAX:
            self._trim(self.end)
        for mailbox in self.idle:
            mailbox.wake()
        self.idle.clear()

    def joined(self, start: int, end: int) -> tuple[LiveDelta, ...]:
        """Return the deltas from one position to another, joined; without those that were dropped."""
        key = (start, end)
        if key not in self._ranges:
            if len(self._ranges) >= _RANGES_MAX:
                del self._ranges[next(iter(self._ranges))]
            # From the run that holds `start`, or the first one that was not dropped.
            first = max(bisect_right(self._runs, start, key=_start_of) - 1, 0)
            last = bisect_left(self._runs, end, key=_start_of)
            runs = (run for run in self._runs[first:last] if run.start + len(run.pieces) > start)
            self._ranges[key] = tuple(run.joined(start, end) for run in runs)
        return self._ranges[key]

    def _trim(self, read_until: int) -> None:
        """Drop the runs that end at or before a position."""
        self._trimmed_at = self.end
        kept = bisect_right(self._runs, read_until, key=lambda run: run.start + len(run.pieces))
        self._chars -= sum(len(piece) for run in self._runs[:kept] for piece in run.pieces)
        del self._runs[:kept]
        self._ranges.clear()


class Mailbox:
    """Unread events of one subscriber: its records, and its position among the shared deltas."""

    def __init__(self, deltas: DeltaBuffer | None = None) -> None:
        """Without a buffer of deltas it is for records alone."""
        self._deltas = deltas or DeltaBuffer()
        self.position = self._deltas.end
        # Records and errors, and before them the position up to which deltas come first.
        self._waiting: deque[Logged | BaseException | int] = deque()
        self._records = 0
        self._arrived = asyncio.Event()
        self._left = asyncio.Event()

    async def room(self) -> None:
        """Wait until there is room for a record: records for a slow subscriber stay in the store."""
        while self._records >= WAITING_MAX:
            self._left.clear()
            await self._left.wait()

    def put(self, event: _Event) -> None:
        """Add an event after all deltas so far."""
        if isinstance(event, LiveDelta):
            self._deltas.append(event)
        else:
            self._waiting += (self._deltas.end, event)
            self._records += 1
        self.wake()

    def wake(self) -> None:
        """Wake the reader."""
        self._arrived.set()

    async def sights(self, *, delta_seconds: float = 0.0) -> AsyncGenerator[LiveDelta | Logged, None]:
        """Yield events as they arrive, without end. An exception that was put is raised.

        After a delta, further ones wait for the next multiple of `delta_seconds`, and come joined; a record comes at
        once. Subscribers with the same interval take the same deltas.
        """
        while True:
            while self._waiting:
                event = self._waiting.popleft()
                if isinstance(event, int):
                    for delta in self._take(event):
                        yield delta
                    continue
                self._records -= 1
                self._left.set()
                if isinstance(event, BaseException):
                    raise event
                yield event
            if self.position < self._deltas.end:
                for delta in self._take(self._deltas.end):
                    yield delta
                if delta_seconds:
                    await self._pause(delta_seconds)
            elif not self._waiting:
                self._arrived.clear()
                self._deltas.idle.add(self)
                await self._arrived.wait()
                self._deltas.idle.discard(self)

    async def _pause(self, seconds: float) -> None:
        """Wait for the next multiple of an interval, or for a record."""
        self._arrived.clear()
        if self._waiting:
            return
        loop = asyncio.get_running_loop()
        timer = loop.call_at((loop.time() // seconds + 1) * seconds, self.wake)
        try:
            await self._arrived.wait()
        finally:
            timer.cancel()

    def _take(self, end: int) -> tuple[LiveDelta, ...]:
        """Return the deltas up to a position, and move there."""
        start, self.position = self.position, max(end, self.position)
        return self._deltas.joined(start, end) if start < end else ()


class Live:
    """Subscribers by session."""

    def __init__(self) -> None:
        self._buffers: dict[str, DeltaBuffer] = {}

    def publish(self, session: str, event: LiveDelta | BaseException) -> None:
        """Send an event to all subscribers of a session."""
        deltas = self._buffers.get(session)
        if deltas is None:
            return
        if isinstance(event, LiveDelta):
            if deltas.readers:
                deltas.append(event)
        else:
            for mailbox in deltas.mailboxes:
                mailbox.put(event)

    def end(self, error: BaseException) -> None:
        """End all subscriptions with an error."""
        for session in list(self._buffers):
            self.publish(session, error)

    @contextmanager
    def subscribe(self, session: str, *, with_deltas: bool = True) -> Iterator[Mailbox]:
        """Subscribe to a session for the duration of the block; without deltas, no delta wakes the subscriber."""
        deltas = self._buffers.setdefault(session, DeltaBuffer())
        mailbox = Mailbox(deltas if with_deltas else None)
        deltas.mailboxes.add(mailbox)
        if with_deltas:
            deltas.readers.add(mailbox)
        try:
            yield mailbox
        finally:
            deltas.mailboxes.discard(mailbox)
            deltas.readers.discard(mailbox)
            deltas.idle.discard(mailbox)
            if not deltas.mailboxes:
                del self._buffers[session]
