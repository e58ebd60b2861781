"""Looking on: in order, joined where it waits, and over when it is over."""

import asyncio
from contextlib import aclosing

import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdfast
from holdfast.ports import ReasoningDelta, TextDelta, ToolCallDelta
from holdfast.runtime.engine.live import CHARS_MAX, WAITING_MAX, Live, LiveDelta, Mailbox
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


async def test_a_reader_that_is_slow_makes_records_wait_in_the_store() -> None:
    mailbox = Mailbox()
    for seq in range(1, WAITING_MAX + 1):
        await mailbox.room()
        mailbox.put(Logged(seq, 0.0, TurnStarted(seq)))
    waiting = asyncio.ensure_future(mailbox.room())
    await asyncio.sleep(0)
    assert not waiting.done()

    sights = mailbox.sights()
    first = await anext(sights)
    await waiting
    mailbox.put(Logged(WAITING_MAX + 1, 0.0, TurnStarted(1)))
    rest = [await anext(sights) for _ in range(WAITING_MAX)]

    assert [one.seq for one in (first, *rest) if isinstance(one, Logged)] == list(range(1, WAITING_MAX + 2))


async def test_a_reader_that_is_too_slow_loses_deltas_but_no_record() -> None:
    live = Live()
    with live.subscribe("a") as quick, live.subscribe("a") as slow:
        live.publish("a", text("lost", attempt=1))
        assert await anext(quick.sights()) == text("lost", attempt=1)
        slow.put(RECORD)
        live.publish("a", text("x" * (CHARS_MAX + 1), attempt=2))
        live.publish("a", text("kept", attempt=3))

        assert await everything(slow) == [RECORD, text("kept", attempt=3)]


async def test_deltas_that_everybody_has_read_are_dropped() -> None:
    live = Live()
    with live.subscribe("a") as mailbox:
        sights = mailbox.sights()
        for number in range(2_000):
            live.publish("a", LiveDelta(1, 1, ToolCallDelta(number, "x", "{")))
            await anext(sights)

        assert len(mailbox._deltas._runs) < 1_000


async def test_publishing_wakes_only_those_that_wait_for_more() -> None:
    """A stream that is blocked at its socket costs nothing while an answer is written."""
    live = Live()
    with live.subscribe("a") as reading, live.subscribe("a") as blocked:
        waiting = asyncio.ensure_future(anext(reading.sights()))
        await asyncio.sleep(0)
        assert blocked._deltas.idle == {reading}
        live.publish("a", text("x"))
        assert blocked._deltas.idle == set()
        assert await waiting == text("x")


async def test_deltas_within_the_interval_come_joined_and_a_record_does_not_wait_for_it() -> None:
    live = Live()
    with live.subscribe("a") as mailbox:
        async with aclosing(mailbox.sights(delta_seconds=3_600)) as sights:
            live.publish("a", text("a"))
            assert await anext(sights) == text("a")
            following = asyncio.ensure_future(anext(sights))
            for piece in "bcd":
                live.publish("a", text(piece))
                await asyncio.sleep(0)
            assert not following.done()
            mailbox.put(RECORD)
            assert await following == text("bcd")
            assert await anext(sights) == RECORD


async def test_readers_at_the_same_place_take_the_same_deltas() -> None:
    live = Live()
    with live.subscribe("a") as one, live.subscribe("a") as two:
        for piece in "abc":
            live.publish("a", text(piece))
        first, second = await anext(one.sights()), await anext(two.sights())
    assert first is second
    assert first == text("abc")


@given(
    st.lists(
        st.one_of(
            st.builds(text, st.text(max_size=3), st.integers(1, 2)),
            st.builds(
                lambda piece, opaque, name: LiveDelta(1, 1, ReasoningDelta(piece, opaque, name)),
                st.text(max_size=2),
                st.sampled_from(["", "", "s"]),
                st.sampled_from(["", "p"]),
            ),
            st.just(LiveDelta(1, 1, ToolCallDelta(0, "x", "{"))),
        )
    ),
    st.data(),
)
async def test_however_a_reader_reads_it_has_the_same_text(events: list[LiveDelta], data: st.DataObject) -> None:
    live = Live()
    with live.subscribe("a") as mailbox:
        read: list[LiveDelta] = []
        for event in events:
            live.publish("a", event)
            if data.draw(st.booleans()):
                read += mailbox._take(mailbox._deltas.end)
        read += mailbox._take(mailbox._deltas.end)
    assert flat(read) == flat(events)


def flat(events: list[LiveDelta]) -> list[object]:
    """Each character, signature and call with its place."""
    pieces: list[object] = []
    for event in events:
        match event.delta:
            case TextDelta(text=piece):
                pieces += [(event.attempt, "text", letter) for letter in piece]
            case ReasoningDelta(text=piece, opaque=opaque, part_id=name):
                pieces += [(event.attempt, name, letter) for letter in piece]
                pieces += [(event.attempt, name, "signed", opaque)] if opaque else []
            case _:
                pieces.append(event)
    return pieces


async def test_a_reader_of_records_is_not_woken_by_deltas() -> None:
    live = Live()
    with live.subscribe("a", with_deltas=False) as mailbox:
        waiting = asyncio.ensure_future(anext(mailbox.sights()))
        await asyncio.sleep(0)
        for piece in "abc":
            live.publish("a", text(piece))
        assert not mailbox._arrived.is_set()
        mailbox.put(RECORD)
        assert await waiting == RECORD
        live.publish("a", EOFError())
        assert await everything(mailbox) == []


async def test_deltas_are_dropped_while_only_records_are_read() -> None:
    live = Live()
    with live.subscribe("a", with_deltas=False):
        live.publish("a", text("x"))
        with live.subscribe("a") as late:
            live.publish("a", text("y"))
            assert await everything(late) == [text("y")]


async def test_who_waits_for_an_answer_is_woken_by_its_records_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    woken: list[Mailbox] = []
    wake = Mailbox.wake

    def counted(mailbox: Mailbox) -> None:
        woken.append(mailbox)
        wake(mailbox)

    monkeypatch.setattr(Mailbox, "wake", counted)
    async with holdfast.open(":memory:", model="sim") as client:
        session = await client.session("s")
        answer = await session.send("write 2000 words")
        records = await session.history()
    assert len(answer.text.split()) == 2_000
    assert len(woken) <= len(records)
