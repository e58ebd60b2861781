"""A session whose model fails, refuses or overflows: it is answered all the same, or told why not."""

import asyncio
from collections.abc import AsyncGenerator, Mapping

import pytest

from holdfast.core.limits.bounds import Bounds, Deadlines
from holdfast.core.limits.fit import measure
from holdfast.core.turn.ladder import LADDER
from holdfast.core.view.exclusion import NO_ANSWER
from holdfast.errors import TurnFailedError
from holdfast.ports import Delta, TextDelta
from holdfast.testing.builders import ManualClock
from holdfast.testing.engines import FunctionModel, ScriptedModel, a_hold, an_engine, refuses, says
from holdfast.types.faults import FaultKind, Phase, Refusal, Rung
from holdfast.types.limits import Limits
from holdfast.types.messages import Reasoning, Reply, Request, StopReason, Text, text_of
from holdfast.types.records import (
    AttemptFailed,
    CompactionApplied,
    InputAdmitted,
    NoticePosted,
    ReasoningDropped,
    ReplyRecorded,
    RungFinished,
    RungStarted,
)
from tests.runtime.talks import KEY, OVERFLOW, HangingModel, a_long_talk, ended_well, next_record

# Faults.


async def test_a_rate_limit_is_waited_out_as_long_as_the_provider_says() -> None:
    clock = ManualClock()
    model = ScriptedModel([refuses(429, "slow down", headers={"retry-after": "7"}), "here"])
    async with a_hold(an_engine(model, clock=clock)) as hold:
        session = await hold.session(KEY)
        asking = asyncio.create_task(session.send("hi"))
        rung = (await next_record(session, RungStarted)).record
        assert isinstance(rung, RungStarted)
        assert (rung.rung, 7 <= rung.seconds <= 10.5) == (Rung.BACKOFF, True)
        # The runner, whoever keeps its lease, and the watchdog.
        await clock.until_asleep(3)

        clock.advance(11)

        assert (await asking).text == "here"
        await ended_well(session)


async def test_the_next_model_answers_where_the_first_cannot() -> None:
    first = ScriptedModel([refuses(401, "invalid api key")], name="test:first")
    second = ScriptedModel(["from the second"], name="test:second")
    async with a_hold(an_engine(first, second)) as hold:
        session = await hold.session(KEY)

        assert (await session.send("hi")).text == "from the second"
        assert (len(first.requests), len(second.requests)) == (1, 1)


async def test_a_turn_that_cannot_be_answered_ends_with_what_to_do_and_the_next_message_works() -> None:
    model = ScriptedModel([refuses(401, "invalid api key"), "now it works"])
    async with a_hold(an_engine(model)) as hold:
        session = await hold.session(KEY)

        with pytest.raises(TurnFailedError, match="does not accept the key") as failure:
            await session.send("hi")

        assert (failure.value.session, failure.value.turn, failure.value.reason) == (KEY, 1, "auth")
        assert (await session.send("again")).text == "now it works"
        await ended_well(session)


async def test_errors_never_enter_the_view() -> None:
    """FM-021: failures must not make the next request larger."""
    model = ScriptedModel([refuses(401, "invalid api key"), "fine"])
    async with a_hold(an_engine(model)) as hold:
        session = await hold.session(KEY)
        with pytest.raises(TurnFailedError):
            await session.send("one")
        await session.send("two")

    assert [text_of(message.parts) for message in model.requests[-1].messages] == ["one", NO_ANSWER, "two"]


async def test_an_empty_answer_is_asked_for_again() -> None:
    empty = Reply((), StopReason.END, None, "test:model")
    model = ScriptedModel([empty, "something"])
    async with a_hold(an_engine(model)) as hold:
        session = await hold.session(KEY)

        assert (await session.send("hi")).text == "something"
        failed = (await next_record(session, AttemptFailed)).record
        assert isinstance(failed, AttemptFailed)
        assert failed.fault.kind is FaultKind.EMPTY_RESPONSE


async def test_a_model_that_goes_silent_is_cut_off_and_asked_again() -> None:
    """FM-099."""
    hanging = HangingModel()
    fine = ScriptedModel(["better"])
    engine = an_engine(fine, deadlines=Deadlines(idle_seconds=0.01))
    object.__setattr__(engine, "models", lambda _: [hanging if not hanging.closed.is_set() else fine])
    async with a_hold(engine) as hold:
        session = await hold.session(KEY)

        assert (await session.send("hi")).text == "better"
        failed = (await next_record(session, AttemptFailed)).record
        assert isinstance(failed, AttemptFailed)
        assert (failed.fault.kind, failed.refusal.phase) == (FaultKind.STREAM_STALL, Phase.STALL)


async def test_a_stream_that_ends_without_an_answer_is_a_failure() -> None:
    class Mute(FunctionModel):
        async def stream(
            self, request: Request, blobs: Mapping[str, bytes]
        ) -> AsyncGenerator[Delta | Reply | Refusal, None]:
            del request, blobs
            for _ in ():
                yield TextDelta("")

    async with a_hold(an_engine(Mute(lambda _: says("")), ScriptedModel(["spare"]), clock=ManualClock())) as hold:
        session = await hold.session(KEY)
        await session.post("hi")

        failed = (await next_record(session, AttemptFailed)).record

        assert isinstance(failed, AttemptFailed)
        assert failed.refusal.cause == "the stream ended without an answer"


# Overflow.


async def test_a_request_that_would_not_fit_is_shrunk_before_it_is_sent() -> None:
    model = FunctionModel(lambda request: says(f"saw {len(request.messages)}"), limits=Limits(window_tokens=4_000))
    async with a_hold(an_engine(model)) as hold:
        session = await hold.session(KEY)

        await a_long_talk(session, messages=16)

        records = await ended_well(session)
        compactions = [logged.record for logged in records if isinstance(logged.record, CompactionApplied)]
        told = [logged.record for logged in records if isinstance(logged.record, NoticePosted)]
        notices = [notice for notice in told if notice.code == "compacted"]
        assert compactions
        assert len(notices) == len(compactions)
        assert all(compaction.tokens_after < compaction.tokens_before for compaction in compactions)
        view = await session.view()
        assert view.tokens_estimated < 4_000
        assert view.boundary == compactions[-1].boundary
        assert "src/part0.py" in text_of(view.messages[0].parts), "the digest names what was said at the beginning"


async def test_a_refusal_for_its_length_is_answered_by_a_smaller_request_in_the_same_turn() -> None:
    def respond(request: Request) -> Reply | Refusal:
        return refuses(400, OVERFLOW) if len(request.messages) > 11 else says("ok")

    model = FunctionModel(respond)
    async with a_hold(an_engine(model)) as hold:
        session = await hold.session(KEY)

        await a_long_talk(session, messages=8)

        records = await ended_well(session)
        assert any(isinstance(logged.record, CompactionApplied) for logged in records)


async def test_what_cannot_fit_at_all_ends_the_turn_and_says_so() -> None:
    def respond(request: Request) -> Reply | Refusal:
        return refuses(400, OVERFLOW) if measure(request).tokens > 1_000 else says("ok")

    rules = ["rule " * 5_000]
    engine = an_engine(FunctionModel(respond, limits=Limits(window_tokens=1_000)))
    object.__setattr__(engine, "system", lambda: rules[-1])
    async with a_hold(engine) as hold:
        session = await hold.session(KEY)

        with pytest.raises(TurnFailedError, match="window") as failure:
            await session.send("hi")

        assert failure.value.reason == "token_overflow"
        records = await ended_well(session)
        climbed = [logged.record.rung for logged in records if isinstance(logged.record, RungFinished)]
        assert tuple(climbed) == LADDER[FaultKind.TOKEN_OVERFLOW]
        rules.append("short rules")
        assert (await session.send("and now?")).text == "ok"


async def test_a_message_larger_than_the_window_is_shown_by_its_ends_and_answered() -> None:
    """FM-079, FM-082: said, answered without it, and not sent again for ever."""

    def respond(request: Request) -> Reply | Refusal:
        return refuses(400, OVERFLOW) if measure(request).tokens > 3_000 else says("ok")

    model = FunctionModel(respond, limits=Limits(window_tokens=3_000))
    async with a_hold(an_engine(model)) as hold:
        session = await hold.session(KEY)

        answer = await session.send("begin " + "word " * 5_000 + "end")
        await session.send("next")

        assert answer.text == "ok"
        assert any("25,009 bytes" in notice for notice in answer.notices)
        shown = text_of(model.requests[-1].messages[0].parts)
        assert (shown[:5], shown[-3:], "recall(seq=1, offset=n) reads on" in shown) == ("begin", "end", True)
        records = await ended_well(session)
        assert records[0].record == InputAdmitted((Text("begin " + "word " * 5_000 + "end"),))


async def test_an_estimate_that_is_wrong_never_ends_a_turn() -> None:
    """FM-012, FM-013: what we believe leads to smaller requests, but the model has the last word."""
    model = ScriptedModel(["it fits"], limits=Limits(window_tokens=100))
    async with a_hold(an_engine(model)) as hold:
        session = await hold.session(KEY)

        assert (await session.send("word " * 1_000)).text == "it fits"
        await ended_well(session)


async def test_requests_between_compactions_share_their_beginning() -> None:
    """FM-148: prompt caches stay warm."""
    model = FunctionModel(lambda _: says("ok"))
    async with a_hold(an_engine(model)) as hold:
        await a_long_talk(await hold.session(KEY), messages=5)

    for earlier, later in zip(model.requests, model.requests[1:], strict=False):
        assert later.messages[: len(earlier.messages)] == earlier.messages


# Thinking.


def thought(text: str, *, opaque: str = "") -> Reply:
    parts = (Reasoning("hm", "test:issuer", opaque), Text(text))
    return Reply(parts, StopReason.END, None, "test:model")


async def test_thinking_that_its_issuer_refuses_is_not_sent_again_for_ever() -> None:
    """FM-011, FM-064, FM-067: repaired in the view, kept in the log."""

    def respond(request: Request) -> Reply | Refusal:
        has_thoughts = any(isinstance(part, Reasoning) for message in request.messages for part in message.parts)
        return refuses(400, "Invalid `signature` in `thinking` block") if has_thoughts else thought("ok", opaque="c2ln")

    async with a_hold(an_engine(FunctionModel(respond))) as hold:
        session = await hold.session(KEY)
        await session.send("one")

        assert (await session.send("two")).text == "ok"

        records = await ended_well(session)
        assert any(isinstance(logged.record, ReasoningDropped) for logged in records)
        kept = [logged.record.reply for logged in records if isinstance(logged.record, ReplyRecorded)]
        assert kept == [thought("ok", opaque="c2ln")] * 2


async def test_a_model_that_insists_on_thinking_is_asked_for_some() -> None:
    """FM-010."""

    def respond(request: Request) -> Reply | Refusal:
        return says("thought through") if request.effort else refuses(400, "reasoning is required for this model")

    async with a_hold(an_engine(FunctionModel(respond))) as hold:
        session = await hold.session(KEY)

        assert (await session.send("one")).text == "thought through"
        assert (await session.send("two")).text == "thought through"

        failed = [logged for logged in await ended_well(session) if isinstance(logged.record, AttemptFailed)]
        assert len(failed) == 1, "what was learned is kept for the next message"


async def test_a_part_that_is_too_large_ends_the_turn_where_that_is_the_rule() -> None:
    def respond(request: Request) -> Reply | Refusal:
        return refuses(413, "Request too large") if measure(request).wire_bytes > 20_000 else says("ok")

    async with a_hold(an_engine(FunctionModel(respond), bounds=Bounds(on_oversize="stop"))) as hold:
        session = await hold.session(KEY)

        with pytest.raises(TurnFailedError, match="left out") as failure:
            await session.send("word " * 6_000)

        assert failure.value.reason == "wire_overflow"
        assert (await session.send("short")).text == "ok"
        await ended_well(session)
