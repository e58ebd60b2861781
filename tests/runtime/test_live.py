"""Looking on: in order, joined where it waits, and over when it is over."""

import asyncio
from contextlib import aclosing

import pytest

from holdfast.ports import ReasoningDelta, TextDelta, ToolCallDelta
from holdfast.runtime.engine.live import WAITING_MAX, Live, LiveDelta, Mailbox
from holdfast.testing.builders import an_input
from holdfast.types.records import Logged, TurnStarted

RECORD = Logged(1, 0.0, an_input())


def text(piece: str, attempt: int = 1) -> LiveDelta:
    return LiveDelta(1, attempt, TextDelta(piece))


async def everything(mailbox: Mailbox) -> list[LiveDelta | Logged]:
    """Return what waits, by putting an end behind it."""
    mailbox.put(EOFError())
    sights: list[LiveDelta | Logged] = []
    try:
        async with aclosing(mailbox.sights()) as waiting:
            async for sight in waiting:
                sights.append(sight)  # noqa: PERF401 - a comprehension would lose what came before the end
    except EOFError:
        pass
    return sights


async def test_pieces_that_wait_are_joined_and_the_order_is_kept() -> None:
    """FM-136: a reader who is slow costs no more than the answer itself."""
    mailbox = Mailbox()
    thought = [LiveDelta(1, 2, ReasoningDelta(piece)) for piece in "cd"]
    call = LiveDelta(1, 2, ToolCallDelta(0, "x", "{"))
    sights: list[LiveDelta | Logged] = [text("a"), text("b"), RECORD, text("c"), text("d", attempt=2)]
    for sight in [*sights, *thought, call, call]:
        mailbox.put(sight)

    joined = LiveDelta(1, 2, ReasoningDelta("cd"))
    assert await everything(mailbox) == [text("ab"), RECORD, text("c"), text("d", attempt=2), joined, call, call]


async def test_only_those_who_look_on_at_a_session_see_it() -> None:
    live = Live()
    with live.subscribe("a") as one, live.subscribe("a") as two, live.subscribe("b") as other:
        live.publish("a", text("x"))

        assert [await everything(mailbox) for mailbox in (one, two, other)] == [[text("x")], [text("x")], []]
    live.publish("a", text("nobody looks"))


async def test_the_end_is_told_to_everyone() -> None:
    live = Live()
    with live.subscribe("a") as one, live.subscribe("b") as other:
        live.end(EOFError())

        for mailbox in (one, other):
            with pytest.raises(EOFError):
                await anext(mailbox.sights())


async def test_a_reader_that_is_slow_makes_records_wait_and_loses_deltas_but_no_record() -> None:
    mailbox = Mailbox()
    for seq in range(1, WAITING_MAX + 1):
        await mailbox.room()
        mailbox.put(Logged(seq, 0.0, TurnStarted(seq)))
    mailbox.put(LiveDelta(1, 1, TextDelta("too much")))
    waiting = asyncio.ensure_future(mailbox.room())
    await asyncio.sleep(0)
    assert not waiting.done()

    sights = mailbox.sights()
    first = await anext(sights)
    await waiting
    mailbox.put(Logged(WAITING_MAX + 1, 0.0, TurnStarted(1)))
    rest = [await anext(sights) for _ in range(WAITING_MAX)]

    assert [one.seq for one in (first, *rest) if isinstance(one, Logged)] == list(range(1, WAITING_MAX + 2))
