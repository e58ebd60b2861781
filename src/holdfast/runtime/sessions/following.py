"""Live events of a session: its records and the deltas of answers and tools, in one order."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from typing import TypeAlias

from holdfast.errors import HoldfastError, TurnFailedError
from holdfast.ports import ReasoningDelta, TextDelta
from holdfast.runtime.engine.context import Engine
from holdfast.runtime.engine.live import LiveDelta, Mailbox
from holdfast.runtime.tools.tool_context import ToolProgress
from holdfast.types.messages import text_of
from holdfast.types.records import Logged, Outcome, ReplyRecorded, TurnEnded, turn_of

Event: TypeAlias = TextDelta | ReasoningDelta | ToolProgress | Logged


class Following:
    """Live events, as a part of `Session`."""

    key: str
    _engine: Engine

    async def live(
        self, *, after: int = 0, delta_seconds: float = 0.0, with_deltas: bool = True
    ) -> AsyncGenerator[LiveDelta | Logged, None]:
        """Yield every record after the seq `after` and the live deltas of answers, in one order, without end.

        The queue is bounded: a slow reader misses deltas, never records. Deltas that follow each other within
        `delta_seconds` come joined. Without deltas, only records wake the reader.
        """
        with self._engine.live.subscribe(self.key, with_deltas=with_deltas) as mailbox:
            sights = mailbox.sights(delta_seconds=delta_seconds)
            async with self._pumping(mailbox, after=after), aclosing(sights) as updates:
                async for update in updates:
                    yield update

    async def _events(self, turn: int) -> AsyncGenerator[Event, None]:
        async with aclosing(self._follow(turn)) as updates:
            async for update in updates:
                if isinstance(update, Logged):
                    yield update
                elif isinstance(update.delta, TextDelta | ReasoningDelta | ToolProgress):
                    yield update.delta

    async def _follow(self, turn: int, *, with_deltas: bool = True) -> AsyncGenerator[LiveDelta | Logged, None]:
        """Yield the records and deltas of a turn until it ends, and raise if it ends without an answer."""
        streamed_attempts: set[int] = set()
        async with aclosing(self.live(after=turn, with_deltas=with_deltas)) as updates:
            async for update in updates:
                if isinstance(update, LiveDelta):
                    if update.turn == turn:
                        streamed_attempts.add(update.attempt)
                        yield update
                    continue
                if turn_of(update.record) != turn:
                    continue
                record = update.record
                if with_deltas and isinstance(record, ReplyRecorded) and record.attempt not in streamed_attempts:
                    # Written by another process: yield its text as one delta, so that readers of deltas have it all.
                    yield LiveDelta(turn, record.attempt, TextDelta(text_of(record.reply.parts)))
                yield update
                if isinstance(update.record, TurnEnded):
                    self._check_answered(update.record)
                    return

    def _check_answered(self, ended: TurnEnded) -> None:
        if ended.outcome is not Outcome.ANSWERED:
            raise TurnFailedError(self.key, ended.turn, ended.code, ended.sentence)

    @asynccontextmanager
    async def _pumping(self, mailbox: Mailbox, *, after: int) -> AsyncGenerator[None, None]:
        """Copy records into the mailbox while the block runs."""
        pump = asyncio.create_task(self._pump(mailbox, after=after), name=f"pump {self.key}")
        try:
            yield
        finally:
            pump.cancel()
            await asyncio.wait([pump])

    async def _pump(self, mailbox: Mailbox, *, after: int) -> None:
        """Copy records into the mailbox, which puts them and the deltas into one order."""
        try:
            async with aclosing(self._engine.store.feed(self.key, after=after)) as feed:
                async for logged in feed:
                    await mailbox.room()
                    mailbox.put(logged)
        except HoldfastError as error:
            mailbox.put(error)
