"""Sessions, end to end over memory: what is sent is answered, once and in order."""

import asyncio
from collections.abc import AsyncGenerator, Mapping

import pytest

from holdfast.core.limits.bounds import Bounds
from holdfast.errors import BadInputError, ClientIdReusedError, StoppingError
from holdfast.ports import Attachment, Delta, TextDelta
from holdfast.runtime.tools.function_tool import tool
from holdfast.stores.memory import MemoryBlobs, MemoryStore
from holdfast.testing.builders import ManualClock, a_tool_call
from holdfast.testing.engines import FunctionModel, ScriptedModel, a_hold, an_engine, says
from holdfast.types.faults import Refusal
from holdfast.types.limits import Limits
from holdfast.types.messages import Reply, Request, Role, Text, text_of
from holdfast.types.records import Logged, Outcome, SessionConfigured, TurnEnded
from tests.runtime.talks import KEY, HangingModel, ended_well

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

        with pytest.raises(Exception, match="2 pending inputs"):
            await session.post("3")
