"""Rolling over: what nothing else makes fit is answered, nothing is lost, and it can be taken back."""

import asyncio
import copy
from collections.abc import Callable

import pytest

from holdfast.core.limits.bounds import Bounds
from holdfast.core.limits.fit import measure
from holdfast.errors import StoreDamagedError, TurnFailedError
from holdfast.ports import Store
from holdfast.runtime.engine.compaction import roll_over
from holdfast.runtime.engine.log import open_log
from holdfast.runtime.sessions.session import Session
from holdfast.runtime.tools.function_tool import tool
from holdfast.stores.memory import MemoryStore
from holdfast.testing.builders import ManualClock, a_tool_call
from holdfast.testing.crashes import CrashingStore, every_point
from holdfast.testing.engines import FunctionModel, a_hold, an_engine, refuses, says
from holdfast.types.faults import Refusal, Rung
from holdfast.types.limits import Limits
from holdfast.types.messages import Message, Reply, Request, Role, Text, ToolCall, text_of
from holdfast.types.records import (
    CompactionApplied,
    GenerationStarted,
    Logged,
    NoticePosted,
    PartReplaced,
    RungFinished,
    RungResult,
    RungStarted,
    TurnEnded,
)
from tests.runtime.summarisers import is_for_notes, records_of
from tests.runtime.talks import KEY, OVERFLOW, ended_well

WINDOW = 6_000
BOUNDS = Bounds(compacts_ahead=False)


class Narrow(FunctionModel):
    """A model that refuses what exceeds its window and writes no notes; otherwise it answers as it is told to."""

    def __init__(
        self,
        answer: Callable[[Request], Reply] = lambda _: says("ok"),
        *,
        name: str = "test:model",
        window: int = WINDOW,
    ) -> None:
        def respond(request: Request) -> Reply | Refusal:
            if is_for_notes(request):
                return refuses(403, "blocked by content filter policy")
            if measure(request).tokens > window:
                said = OVERFLOW.replace("8192", str(window)).replace("9001", str(measure(request).tokens))
                return refuses(400, said)
            return answer(request)

        super().__init__(respond, name=name, limits=Limits(window_tokens=window))


def a_rule(number: int) -> str:
    """Return a message of about 900 tokens, too short for any part of it to be replaced."""
    return f"rule {number}: " + f"never touch src/part{number}.py, whatever else is asked. " * 60


# So many fit word for word and no more.
RULES = 6
ONE_MORE = a_rule(RULES)


async def pin_all_that_fits(session: Session) -> None:
    """Pin so much that one message more cannot be answered."""
    for number in range(RULES):
        turn = await session.post(a_rule(number))
        await session.wait(turn)
        await session.pin(turn)


async def rolled_over(session: Session) -> list[GenerationStarted]:
    return [one for one in await records_of(session, GenerationStarted) if isinstance(one, GenerationStarted)]


async def test_pins_that_fill_the_window_are_left_behind_and_the_message_is_answered() -> None:
    model = Narrow()
    async with a_hold(an_engine(model, bounds=BOUNDS)) as hold:
        session = await hold.session(KEY)
        await pin_all_that_fits(session)

        answer = await session.send(ONE_MORE)

        (started,) = await rolled_over(session)
        assert answer.text == "ok"
        assert any(
            "generation 2" in notice and "pinned messages are not carried" in notice for notice in answer.notices
        )
        assert started.tokens_after < started.tokens_before
        assert len(started.pins_left) == RULES
        view = await session.view()
        assert (view.generation, await session.generation(), view.boundary) == (2, 2, started.boundary)
        seed, *rest = model.requests[-1].messages
        assert seed == Message(Role.USER, (Text(started.summary),))
        assert "src/part3.py" in started.summary, "exact facts of the old generation"
        assert all(a_rule(number) not in str(rest) for number in range(RULES))
        await ended_well(session)


async def test_what_a_generation_leaves_is_read_searched_and_recalled_as_before() -> None:
    async with a_hold(an_engine(Narrow(), bounds=BOUNDS)) as hold:
        session = await hold.session(KEY)
        await pin_all_that_fits(session)
        await session.send(ONE_MORE)
        assert await session.generation() == 2

        first, *_ = await session.history()
        hits = await session.search("rule 0 src/part0.py")

        assert (await session.read(1)) == first
        assert hits[0].seq == 1
        assert text_of(getattr(first.record, "parts", ())) == a_rule(0)


async def test_pins_made_in_the_new_generation_stay_in_its_view() -> None:
    model = Narrow()
    async with a_hold(an_engine(model, bounds=BOUNDS)) as hold:
        session = await hold.session(KEY)
        await pin_all_that_fits(session)
        await session.send(ONE_MORE)
        (started,) = await rolled_over(session)

        await session.pin(started.pins_left[0])
        await session.send("go on")

        assert model.requests[-1].messages[0] == Message(Role.USER, (Text(a_rule(0)),))


async def test_work_of_a_turn_that_nothing_can_shorten_is_represented_and_the_turn_is_answered() -> None:
    """What a model wrote into a call cannot be replaced or masked, and the newest step always stayed so far."""
    written = "x = compute(17)\n" * 3_000

    @tool
    def write(path: str, text: str) -> str:
        """Write a file."""
        return f"wrote {len(text)} characters to {path}"

    def answer(request: Request) -> Reply:
        newest = request.messages[-1]
        if newest.role is Role.USER and "earlier-conversation" not in str(request.messages[0]):
            call = ToolCall("c1", "write", '{"path": "src/big.py", "text": "' + written.replace("\n", "\\n") + '"}')
            return says("I write it.", call)
        return says("It is written.")

    model = Narrow(answer)
    async with a_hold(an_engine(model, bounds=BOUNDS, tools=[write])) as hold:
        session = await hold.session(KEY)

        answered = await session.send("Write src/big.py, please.")

        (started,) = await rolled_over(session)
        assert answered.text == "It is written."
        assert [message.role for message in model.requests[-1].messages] == [Role.USER, Role.USER]
        assert text_of(model.requests[-1].messages[-1].parts) == "Write src/big.py, please."
        assert "src/big.py" in started.summary
        assert (await session.send("thanks")).text == "It is written."
        await ended_well(session)


async def test_a_message_that_is_too_long_for_a_small_window_is_shown_in_part() -> None:
    """It is not large enough to be replaced by itself, and the window is smaller than it."""
    model = Narrow(window=900)
    async with a_hold(an_engine(model, bounds=BOUNDS)) as hold:
        session = await hold.session(KEY)

        answer = await session.send("hollow words, many of them " * 140)

        assert answer.text == "ok"
        replaced = await records_of(session, PartReplaced)
        assert replaced
        assert "recall(seq=1) reads" in str(model.requests[-1].messages[-1])


async def test_every_model_is_asked_before_a_generation_begins() -> None:
    small, large = Narrow(name="test:small"), Narrow(name="test:large", window=40_000)
    async with a_hold(an_engine(small, large, bounds=BOUNDS)) as hold:
        session = await hold.session(KEY)

        await pin_all_that_fits(session)
        answer = await session.send(ONE_MORE)

        assert answer.text == "ok"
        assert await rolled_over(session) == []
        assert len(large.requests[-1].messages) > 6, "all pins are there"


async def test_where_system_and_tools_alone_exceed_the_window_nothing_is_given_up_and_the_sizes_are_told() -> None:
    rules = ["short rules"]
    engine = an_engine(Narrow(window=1_000), bounds=BOUNDS)
    object.__setattr__(engine, "system", lambda: rules[-1])
    async with a_hold(engine) as hold:
        session = await hold.session(KEY)
        await session.send("hello")
        rules.append("rule " * 2_000)

        with pytest.raises(TurnFailedError) as failed:
            await session.send("hi")

        assert failed.value.reason == "token_overflow"
        assert "the window has 1,000" in failed.value.sentence
        assert "System text and tools alone exceed the window: shorten the system text" in failed.value.sentence
        assert await rolled_over(session) == []
        last = [one for one in await records_of(session, RungFinished) if isinstance(one, RungFinished)][-1]
        assert (last.rung, last.result) == (Rung.ROLL_OVER, RungResult.UNCHANGED)
        rules.append("short rules")
        assert (await session.send("and now?")).text == "ok"


async def test_a_turn_that_not_even_a_generation_saves_ends_with_its_sizes_and_the_next_is_answered() -> None:
    is_stubborn = [False]

    def answer(_: Request) -> Reply:
        return says("ok")

    def respond(request: Request) -> Reply | Refusal:
        return refuses(400, OVERFLOW) if is_stubborn[0] or is_for_notes(request) else answer(request)

    model = FunctionModel(respond, limits=Limits(window_tokens=WINDOW))
    async with a_hold(an_engine(model, bounds=BOUNDS)) as hold:
        session = await hold.session(KEY)
        await session.send(a_rule(1))
        is_stubborn[0] = True

        with pytest.raises(TurnFailedError, match="The smallest request came to about"):
            await session.send(a_rule(2))

        is_stubborn[0] = False
        assert (await session.send("and now?")).text == "ok"
        await ended_well(session)


async def test_a_roll_over_is_undone_like_a_compaction_and_the_pins_are_back() -> None:
    async with a_hold(an_engine(Narrow(), bounds=BOUNDS)) as hold:
        session = await hold.session(KEY)
        await pin_all_that_fits(session)
        before = await session.view()
        await session.send(ONE_MORE)
        (started,) = await rolled_over(session)

        assert await session.undo() is True

        after = await session.view()
        assert (after.generation, after.boundary) == (1, before.boundary)
        assert all(Message(Role.USER, (Text(a_rule(number)),)) in after.messages for number in range(RULES))
        # What overflowed overflows again, and is answered again; no number of a generation is given twice.
        assert (await session.send(a_rule(RULES + 1))).text == "ok"
        assert [one.generation for one in await rolled_over(session)] == [2, 3]
        assert started.left == 1


class Unreadable(MemoryStore):
    """A store whose first records turn out to be damaged."""

    damaged_until = 0

    async def read(self, session: str, *, after: int = 0, limit: int | None = None) -> list[Logged]:
        if after < self.damaged_until and session == KEY:
            raise StoreDamagedError(session, after + 1, "does not match its checksum")
        return await super().read(session, after=after, limit=limit)


async def test_a_generation_begins_although_what_lies_far_back_cannot_be_read() -> None:
    written = "y = compute(23)\n" * 3_000
    clock = ManualClock()
    store = Unreadable(clock=clock)

    @tool
    def write(text: str) -> str:
        """Write something."""
        return f"wrote {len(text)} characters to src/other.py"

    def answer(request: Request) -> Reply:
        if "damage" in text_of(request.messages[-1].parts) and len(request.messages) > 1 and not _has_seed(request):
            store.damaged_until = 3
            return says("", a_tool_call("write", '{"text": "' + written.replace("\n", "\\n") + '"}'))
        return says("done")

    async with a_hold(an_engine(Narrow(answer), store=store, clock=clock, bounds=BOUNDS, tools=[write])) as hold:
        session = await hold.session(KEY)
        await session.send("hello")

        answered = await session.send("now comes the damage")

        store.damaged_until = 0
        (started,) = await rolled_over(session)
        assert answered.text == "done"
        assert "src/other.py" in started.summary


async def test_whoever_mends_a_session_begins_a_generation_at_rest() -> None:
    clock = ManualClock()
    store = MemoryStore(clock=clock)
    engine = an_engine(Narrow(), store=store, clock=clock, bounds=BOUNDS)
    async with a_hold(engine) as hold:
        await pin_all_that_fits(await hold.session(KEY))
    lease = await store.acquire(KEY, "mender", seconds=30)
    assert lease is not None
    log = await open_log(store, KEY)

    done = await roll_over(log, engine)

    assert done is not None
    began, ended = RungStarted(0, Rung.ROLL_OVER, None), RungFinished(0, Rung.ROLL_OVER, RungResult.CHANGED)
    await store.append(lease, [began, *done, ended], after=log.turn.seq)
    await store.release(lease)
    async with a_hold(engine) as hold:
        session = await hold.session(KEY)
        assert await session.generation() == 2
        assert (await session.send(ONE_MORE)).text == "ok"
        await ended_well(session)


def _has_seed(request: Request) -> bool:
    return any("earlier-conversation" in text_of(message.parts) for message in request.messages)


async def test_killed_at_every_write_of_a_roll_over_the_session_is_in_the_old_generation_or_the_new_one() -> None:
    """FM-101: never a third state; the turn is answered in the end, and the generation begins once."""
    asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)

    started = ManualClock()
    original = MemoryStore(clock=started)
    async with a_hold(an_engine(Narrow(), store=original, clock=started, bounds=BOUNDS)) as hold:
        await pin_all_that_fits(await hold.session(KEY))

    # Filling the session takes longer than the roll-over: every death gets a copy of it.
    def prepared() -> tuple[MemoryStore, ManualClock]:
        clock = ManualClock()
        return copy.deepcopy(original, {id(started): clock}), clock

    async def sent(store: Store, clock: ManualClock) -> None:
        async with a_hold(an_engine(Narrow(), store=store, clock=clock, bounds=BOUNDS)) as hold:
            await (await hold.session(KEY)).send(ONE_MORE, client_id="newest")

    store, clock = prepared()
    counting = CrashingStore(store)
    await sent(counting, clock)
    for point in every_point(counting.writes):
        store, clock = prepared()
        dying = CrashingStore(store, point)
        work = asyncio.create_task(sent(dying, clock))
        died = asyncio.create_task(dying.died.wait())
        await asyncio.wait([work, died], return_when=asyncio.FIRST_COMPLETED)
        for task in (work, died):
            task.cancel()
        await asyncio.gather(work, died, return_exceptions=True)
        clock.advance(31)

        await _check_whole(store, clock, str(point))


async def _check_whole(store: Store, clock: ManualClock, point: str) -> None:
    async with a_hold(an_engine(Narrow(), store=store, clock=clock, bounds=BOUNDS)) as hold:
        session = await hold.session(KEY)
        # As it was left, before anybody works on it.
        generations = {one.generation for one in await rolled_over(session)}
        assert (await session.view()).generation == max(generations, default=1), point
        assert (await session.send(ONE_MORE, client_id="newest")).text == "ok", point
        started = await rolled_over(session)
        assert [one.generation for one in started] == [2], point
        told = [one for one in await records_of(session, NoticePosted) if isinstance(one, NoticePosted)]
        assert [one.code for one in told].count("generation") == 1, point
        assert len(await records_of(session, TurnEnded)) == 7, point
        applied = [one for one in await records_of(session, CompactionApplied) if isinstance(one, CompactionApplied)]
        assert applied[-1] == started[-1], point
        await ended_well(session)
