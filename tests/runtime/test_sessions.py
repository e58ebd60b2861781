"""Sessions, end to end over memory: what is sent is answered, once, in order, whatever happens meanwhile."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

import pytest

from holdfast.core.faults import FaultKind, Phase, Refusal
from holdfast.core.fit import measure
from holdfast.core.ladder import LADDER, Rung
from holdfast.core.limits import Bounds, Deadlines, Limits
from holdfast.core.messages import Reasoning, Reply, Request, Role, StopReason, Text, ToolOutcome, text_of
from holdfast.core.records import (
    Abandonment,
    AttemptAbandoned,
    AttemptFailed,
    CompactionApplied,
    InputAdmitted,
    Logged,
    NoticePosted,
    Outcome,
    ReasoningDropped,
    ReplyRecorded,
    RungFinished,
    RungStarted,
    SessionConfigured,
    ToolSettled,
    TurnEnded,
    TurnStarted,
)
from holdfast.errors import BadInputError, ClientIdReusedError, StoppingError, TurnFailedError
from holdfast.ports import Attachment, Delta, TextDelta
from holdfast.runtime.sessions import Session
from holdfast.runtime.toolbox import tool
from holdfast.stores.memory import MemoryBlobs, MemoryStore
from holdfast.testing.builders import a_tool_call
from holdfast.testing.clock import ManualClock
from holdfast.testing.crashes import check_log
from holdfast.testing.engines import a_hold, an_engine
from holdfast.testing.scripted import FunctionModel, ScriptedModel, refuses, says

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


# The normal course.


async def test_a_message_is_answered_and_the_next_sees_it() -> None:
    model = ScriptedModel(["hello", "you said hi"])
    async with a_hold(an_engine(model)) as hold:
        session = await hold.session(KEY)

        first = await session.send("hi")
        second = await session.send("what did I say?")

        assert (first.text, second.text) == ("hello", "you said hi")
        assert [text_of(message.parts) for message in model.requests[1].messages] == ["hi", "hello", "what did I say?"]
        await ended_well(session)


async def test_a_stream_shows_the_text_as_it_is_written_and_ends_with_the_outcome() -> None:
    async with a_hold(an_engine(ScriptedModel(["one\ntwo\n"]))) as hold:
        session = await hold.session(KEY)

        events = [event async for event in session.stream("hi")]

        assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "one\ntwo\n"
        assert isinstance(events[-1], Logged)
        assert events[-1].record == TurnEnded(1, Outcome.ANSWERED)


async def test_someone_who_looks_on_from_another_process_gets_the_whole_text_from_the_record() -> None:
    store = MemoryStore(clock=ManualClock())
    elsewhere = an_engine(ScriptedModel(["answered elsewhere"]), store=store)
    async with a_hold(elsewhere, owner="worker") as working:
        turn = await (await working.session(KEY)).post("hi", client_id="m1")
        await (await working.session(KEY)).wait(turn)

    async with a_hold(an_engine(ScriptedModel(["not asked"]), store=store), owner="reader") as reading:
        events = [event async for event in (await reading.session(KEY)).stream("hi", client_id="m1")]

    assert [event for event in events if isinstance(event, TextDelta)] == [TextDelta("answered elsewhere")]


async def test_tools_are_run_and_their_results_read() -> None:
    @tool
    def add(left: int, right: int) -> int:
        """Add two numbers."""
        return left + right

    model = ScriptedModel([says("", a_tool_call("add", '{"left": 1, "right": 2}')), "three"])
    async with a_hold(an_engine(model, tools=[add])) as hold:
        session = await hold.session(KEY)

        answer = await session.send("1 + 2?")

        assert answer.text == "three"
        (result,) = model.requests[1].messages[-1].parts
        assert (model.requests[1].messages[-1].role, result.parts) == (Role.TOOL, (Text("3"),))  # type: ignore[union-attr] # a tool message holds results
        await ended_well(session)


async def test_attachments_reach_the_model_with_their_bytes() -> None:
    seen: dict[str, bytes] = {}

    class Looking(FunctionModel):
        async def stream(
            self, request: Request, blobs: Mapping[str, bytes]
        ) -> AsyncGenerator[Delta | Reply | Refusal, None]:
            seen.update(blobs)
            yield self._respond(request)

    async with a_hold(an_engine(Looking(lambda _: says("a dot")))) as hold:
        session = await hold.session(KEY)
        png = (
            bytes.fromhex("89504e470d0a1a0a0000000d4948445200000001000000010806000000 1f15c489".replace(" ", ""))
            + b"\x00" * 32
        )

        await session.send("look", attachments=[Attachment(png, name="dot.png")])

        assert list(seen.values()) == [png]


async def test_a_blob_that_is_gone_does_not_silence_the_session() -> None:
    blobs = MemoryBlobs()
    model = ScriptedModel(["read it", "still here"])
    engine = an_engine(model, blobs=blobs)
    async with a_hold(engine) as hold:
        session = await hold.session(KEY)
        await session.send("x" * 100_000)
        blobs._blobs.clear()

        answer = await session.send("and now?")

        assert answer.text == "still here"
        assert "original is missing" in text_of(model.requests[-1].messages[0].parts)


async def test_the_system_text_is_read_again_for_every_request() -> None:
    """FM-070: rules are never only in a summary."""
    model = ScriptedModel(["a", "b"])
    rules = ["first rules"]
    engine = an_engine(model)
    object.__setattr__(engine, "system", lambda: rules[-1])
    async with a_hold(engine) as hold:
        session = await hold.session(KEY)
        await session.send("1")
        rules.append("second rules")
        await session.send("2")

    assert [request.system for request in model.requests] == ["first rules", "second rules"]


async def test_what_a_session_was_told_is_kept_with_it_and_written_once() -> None:
    model = ScriptedModel(["yes"])
    async with a_hold(an_engine(model)) as hold:
        await hold.session(KEY, system="Be brief.")
        session = await hold.session(KEY, system="Be brief.", model="test:model")
        await hold.session(KEY)

        await session.send("hi")

        assert model.requests[0].system == "Be brief."
        told = [logged.record for logged in await session.history() if isinstance(logged.record, SessionConfigured)]
        assert told == [SessionConfigured(system="Be brief."), SessionConfigured("test:model", "Be brief.")]


async def test_the_view_is_what_the_next_request_would_show() -> None:
    model = ScriptedModel(["hello", "again"], limits=Limits(window_tokens=8_000))
    async with a_hold(an_engine(model)) as hold:
        session = await hold.session(KEY)
        await session.send("hi")

        view = await session.view()

        assert [text_of(message.parts) for message in view.messages] == ["hi", "hello"]
        assert (view.window_tokens, view.boundary, view.system) == (8_000, 0, "You are tested.")
        assert 0 < view.tokens_estimated < 400


# Once, in order.


async def test_a_message_sent_twice_under_one_client_id_is_one_message_with_one_answer() -> None:
    model = ScriptedModel(["first answer", "second answer"])
    async with a_hold(an_engine(model)) as hold:
        session = await hold.session(KEY)

        both = await asyncio.gather(session.send("hi", client_id="m1"), session.send("hi", client_id="m1"))

        assert both[0] == both[1]
        assert len(model.requests) == 1
        with pytest.raises(ClientIdReusedError, match="m1"):
            await session.send("something else", client_id="m1")
        await ended_well(session)


async def test_inputs_that_arrive_during_a_turn_are_answered_in_order() -> None:
    gate = asyncio.Event()
    seen: list[str] = []

    @tool
    async def slow() -> str:
        """Wait."""
        await gate.wait()
        return "ok"

    def respond(request: Request) -> Reply:
        newest = request.messages[-1]
        if newest.role is Role.USER and text_of(newest.parts) == "first":
            return says("", a_tool_call("slow"))
        seen.append(next(text_of(m.parts) for m in reversed(request.messages) if m.role is Role.USER))
        return says(f"to {seen[-1]}")

    async with a_hold(an_engine(FunctionModel(respond), tools=[slow])) as hold:
        session = await hold.session(KEY)
        turns = [await session.post(text) for text in ("first", "second", "third")]
        gate.set()

        answers = [(await session.wait(turn)).text for turn in turns]

        assert answers == ["to first", "to second", "to third"]
        assert seen == ["first", "second", "third"]
        await ended_well(session)


async def test_sessions_do_not_wait_for_each_other() -> None:
    """FM-041."""
    hanging = HangingModel()
    engine = an_engine(ScriptedModel(["fine"]))
    object.__setattr__(engine, "models", lambda name: [hanging] if name == "slow" else [ScriptedModel(["fine"])])
    async with a_hold(engine) as hold:
        await (await hold.session("slow", model="slow")).post("hi")
        await hanging.speaking.wait()

        assert (await (await hold.session("quick")).send("hi")).text == "fine"


async def test_two_workers_on_one_store_answer_each_input_once() -> None:
    store = MemoryStore(clock=ManualClock())
    models = [FunctionModel(lambda request: says(f"to {text_of(request.messages[-1].parts)}")) for _ in range(2)]
    engines = [an_engine(model, store=store) for model in models]
    async with a_hold(engines[0], owner="one") as one, a_hold(engines[1], owner="two") as two:
        sessions = [await one.session(KEY), await two.session(KEY)]

        answers = await asyncio.gather(*(sessions[n % 2].send(f"m{n}") for n in range(10)))

        assert sorted(answer.text for answer in answers) == sorted(f"to m{n}" for n in range(10))
        assert sum(len(model.requests) for model in models) == 10
        await ended_well(sessions[0])


# Faults.


async def test_a_rate_limit_is_waited_out_as_long_as_the_provider_says() -> None:
    clock = ManualClock()
    model = ScriptedModel([refuses(429, "slow down", headers={"retry-after": "7"}), "here"])
    async with a_hold(an_engine(model, clock=clock)) as hold:
        session = await hold.session(KEY)
        asking = asyncio.create_task(session.send("hi"))
        rung = (await next_record(session, RungStarted)).record
        assert isinstance(rung, RungStarted)
        assert (rung.rung, 7 <= rung.seconds <= 10.5) == (Rung.BACK_OFF, True)
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

    assert [text_of(message.parts) for message in model.requests[-1].messages] == ["one", "two"]


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


async def a_long_talk(session: Session, *, messages: int) -> None:
    for number in range(messages):
        await session.send(f"message {number}: " + f"the file src/part{number}.py has a bug in line {number}. " * 20)


async def test_a_request_that_would_not_fit_is_shrunk_before_it_is_sent() -> None:
    model = FunctionModel(lambda request: says(f"saw {len(request.messages)}"), limits=Limits(window_tokens=4_000))
    async with a_hold(an_engine(model)) as hold:
        session = await hold.session(KEY)

        await a_long_talk(session, messages=16)

        records = await ended_well(session)
        compactions = [logged.record for logged in records if isinstance(logged.record, CompactionApplied)]
        notices = [logged.record for logged in records if isinstance(logged.record, NoticePosted)]
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
        assert (shown[:5], shown[-3:], "recall(seq=1) reads all of it" in shown) == ("begin", "end", True)
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


# Cancelling.


async def test_a_cancel_stops_the_model_at_once() -> None:
    model = HangingModel()
    async with a_hold(an_engine(model)) as hold:
        session = await hold.session(KEY)
        turn = await session.post("hi")
        await model.speaking.wait()

        await session.cancel(turn)

        with pytest.raises(TurnFailedError) as failure:
            await session.wait(turn)
        assert failure.value.reason == "cancelled"
        assert model.closed.is_set()
        abandoned = (await next_record(session, AttemptAbandoned)).record
        assert abandoned == AttemptAbandoned(1, 1, Abandonment.CANCELLED)
        await ended_well(session)


async def test_a_cancel_from_another_worker_reaches_the_one_who_works() -> None:
    store = MemoryStore(clock=ManualClock())
    model = HangingModel()
    engines = an_engine(model, store=store), an_engine(model, store=store)
    async with a_hold(engines[0], owner="one") as one, a_hold(engines[1], owner="two") as two:
        turn = await (await one.session(KEY)).post("hi")
        await model.speaking.wait()

        await (await two.session(KEY)).cancel()

        with pytest.raises(TurnFailedError, match="cancelled"):
            await (await one.session(KEY)).wait(turn)


async def test_a_cancelled_tool_is_told_to_the_model_as_such() -> None:
    running = asyncio.Event()
    stopped = asyncio.Event()

    @tool
    async def slow() -> str:
        """Wait for ever."""
        running.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return "never"

    model = ScriptedModel([says("", a_tool_call("slow")), "after"])
    async with a_hold(an_engine(model, tools=[slow])) as hold:
        session = await hold.session(KEY)
        await session.post("hi")
        await running.wait()

        await session.cancel()
        answer = await session.send("what happened?")

        assert answer.text == "after"
        assert stopped.is_set()
        settled = (await next_record(session, ToolSettled)).record
        assert isinstance(settled, ToolSettled)
        assert settled.result.outcome is ToolOutcome.CANCELLED
        await ended_well(session)


async def test_cancelling_a_wait_does_not_wait() -> None:
    clock = ManualClock()
    async with a_hold(an_engine(ScriptedModel([refuses(529, "overloaded")]), clock=clock)) as hold:
        session = await hold.session(KEY)
        turn = await session.post("hi")
        await next_record(session, RungStarted)

        await session.cancel(turn)

        with pytest.raises(TurnFailedError, match="cancelled"):
            await session.wait(turn)
        await ended_well(session)


async def test_an_input_cancelled_while_it_waits_is_never_seen_by_the_model() -> None:
    model = HangingModel()
    engine = an_engine(model)
    async with a_hold(engine) as hold:
        session = await hold.session(KEY)
        first = await session.post("first")
        await model.speaking.wait()
        second = await session.post("second")

        await session.cancel(second)
        await session.cancel(first)

        for turn in (first, second):
            with pytest.raises(TurnFailedError, match="cancelled"):
                await session.wait(turn)
        started = [logged.record for logged in await session.history() if isinstance(logged.record, TurnStarted)]
        assert started == [TurnStarted(first)]


# Stopping and failing.


async def test_closing_leaves_the_turn_to_the_next_start_and_tells_who_waits() -> None:
    store = MemoryStore(clock=ManualClock())
    model = HangingModel()
    async with a_hold(an_engine(model, store=store)) as hold:
        session = await hold.session(KEY)
        waiting = asyncio.create_task(session.send("hi"))
        await model.speaking.wait()

    with pytest.raises(StoppingError):
        await waiting
    with pytest.raises(StoppingError):
        await session.send("too late")
    async with a_hold(an_engine(ScriptedModel(["resumed"]), store=store)) as again:
        answer = await (await again.session(KEY)).wait(1)

    assert answer.text == "resumed"


@pytest.mark.parametrize("turn", [0, -1, 2, 99])
async def test_waiting_for_a_turn_that_never_was_is_refused(turn: int) -> None:
    async with a_hold(an_engine(ScriptedModel(["ok"]))) as hold:
        session = await hold.session(KEY)
        await session.send("hi")

        with pytest.raises(BadInputError, match=f"no turn {turn}"):
            await session.wait(turn)
        with pytest.raises(BadInputError, match=f"no turn {turn}"):
            await session.cancel(turn)


async def test_bad_input_leaves_nothing_behind() -> None:
    async with a_hold(an_engine(ScriptedModel(["ok"]))) as hold:
        session = await hold.session(KEY)

        for text in ("", "  ", "\ud800"):
            with pytest.raises(BadInputError):
                await session.send(text)
        with pytest.raises(BadInputError):
            await hold.session("")

        assert await hold.sessions() == []


async def test_a_bug_in_the_work_is_told_and_does_not_stop_other_sessions(caplog: pytest.LogCaptureFixture) -> None:
    def respond(request: Request) -> Reply:
        if text_of(request.messages[-1].parts) == "break":
            raise ZeroDivisionError
        return says("fine")

    async with a_hold(an_engine(FunctionModel(respond))) as hold:
        broken = await hold.session("broken")

        with pytest.raises(Exception, match=r"'broken'.*ZeroDivisionError"):
            await broken.send("break")

        assert (await (await hold.session("other")).send("hi")).text == "fine"
        assert any(record.message == "session stopped" for record in caplog.records)


async def test_a_session_with_a_bounded_queue_says_when_it_is_full() -> None:
    model = HangingModel()
    async with a_hold(an_engine(model, bounds=Bounds(inputs_waiting_max=2))) as hold:
        session = await hold.session(KEY)
        await session.post("1")
        await session.post("2")

        with pytest.raises(Exception, match="2 inputs without an answer"):
            await session.post("3")


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
