"""Sessions to test with: what must hold of every log, and a model that hangs."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

from holdfast.ports import Delta, TextDelta
from holdfast.runtime.sessions.session import Session
from holdfast.testing.crashes import check_log
from holdfast.testing.engines import FunctionModel, says
from holdfast.types.faults import Refusal
from holdfast.types.messages import Reply, Request
from holdfast.types.records import (
    CompactionApplied,
    CompactionOutcome,
    CompactionRequested,
    CompactionSettled,
    Logged,
    Trigger,
)

KEY = "telegram:42"
OVERFLOW = (
    "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens. "
    "Please reduce the length of the messages."
)


async def ended_well(session: Session) -> list[Logged]:
    """Return all records, after checking what must hold of every log."""
    records = await session.history(limit=10_000)
    check_log(records, accepted=())
    return records


async def next_record(session: Session, kind: type, *, after: int = 0) -> Logged:
    """Wait for the first record of a kind."""
    async with aclosing(session.watch(after=after)) as feed:
        async for logged in feed:
            if isinstance(logged.record, kind):
                return logged
    raise AssertionError("the feed ended")


class HangingModel(FunctionModel):
    """A model that says one word and then nothing, until it is closed."""

    def __init__(self) -> None:
        super().__init__(lambda _: says("never"))
        self.speaking = asyncio.Event()
        self.closed = asyncio.Event()

    async def stream(
        self, request: Request, blobs: Mapping[str, bytes]
    ) -> AsyncGenerator[Delta | Reply | Refusal, None]:
        del request, blobs
        try:
            yield TextDelta("well")
            self.speaking.set()
            await asyncio.Event().wait()
        finally:
            self.closed.set()


async def a_long_talk(session: Session, *, messages: int) -> None:
    for number in range(messages):
        await session.send(f"message {number}: " + f"the file src/part{number}.py has a bug in line {number}. " * 20)


def check_who_asked_before_got_it(records: list[Logged]) -> None:
    """Of one compaction: whoever asked before it was made has it as its outcome, and nobody else has."""
    (applied,) = [one.seq for one in records if isinstance(one.record, CompactionApplied)]
    settled = {one.record.request: one.record.outcome for one in records if isinstance(one.record, CompactionSettled)}
    for one in records:
        # What we want of our own accord gives way to a person's message, and has another outcome then.
        if isinstance(one.record, CompactionRequested) and one.record.trigger is Trigger.PERSON:
            was_before = one.seq < applied or one.record.seen < applied
            expected = CompactionOutcome.APPLIED if was_before else CompactionOutcome.NOTHING_TO_DO
            assert settled[one.seq] is expected, f"request {one.seq}, compaction {applied}"
