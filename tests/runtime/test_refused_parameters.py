"""A refused parameter in the engine: left out if it was sent, tested when it is old, and killed at every write."""

import asyncio
import logging
from collections.abc import Callable

import msgspec
import pytest

from holdfast.errors import TurnFailedError
from holdfast.ports import Store
from holdfast.runtime.engine.learning import Learning
from holdfast.stores.memory import MemoryStore
from holdfast.testing.builders import ManualClock
from holdfast.testing.crashes import CrashingStore, CrashPoint, check_log, every_point
from holdfast.testing.engines import FunctionModel, a_hold, an_engine, says
from holdfast.types.faults import Phase, Refusal, Rung
from holdfast.types.limits import Claim, Limits
from holdfast.types.messages import Reply, Request
from holdfast.types.records import ParameterDropped, ReplyRecorded, RungStarted

KEY = "chat"
MONTH = 31 * 86_400.0


def refuses_parameter(name: str) -> Refusal:
    error = {"message": "No.", "code": "unsupported_parameter", "param": name}
    body = msgspec.json.encode({"error": error}).decode()
    return Refusal("openai-chat", Phase.RESPONSE, status=400, body=body)


class ChatModel(FunctionModel):
    """A scripted model of the chat dialect, whose requests have an output limit."""

    def __init__(self, respond: Callable[[Request], Reply | Refusal]) -> None:
        super().__init__(respond, limits=Limits(200_000, 4_096))
        self.issuer = "openai-chat:nowhere:model"


def without_max_tokens(request: Request) -> Reply | Refusal:
    return says("ok") if "max_tokens" in request.omitted else refuses_parameter("max_tokens")


async def claims_in(store: Store) -> list[Claim]:
    return [claim for one in (await Learning(store).everything()).values() for claim in one.claims]


async def test_a_parameter_that_was_not_sent_is_not_left_out() -> None:
    """The words may be about another request; then the rest of the row follows, and nothing is claimed."""
    model, store = ChatModel(lambda _: refuses_parameter("temperature")), MemoryStore(clock=ManualClock())
    async with a_hold(an_engine(model, store=store)) as hold:
        session = await hold.session(KEY)
        with pytest.raises(TurnFailedError):
            await session.send("hello")
        records = [logged.record for logged in await store.read(KEY)]
    rungs = [record.rung for record in records if isinstance(record, RungStarted)]
    assert rungs.count(Rung.DROP_PARAMETER) == 1, "tried once, and it changed nothing"
    assert not any(isinstance(record, ParameterDropped) for record in records)
    assert await claims_in(store) == []


async def test_a_parameter_that_is_refused_again_is_not_left_out_again() -> None:
    """A server that names a parameter which the request no longer has: the row goes on."""
    model, store = ChatModel(lambda _: refuses_parameter("stream_options")), MemoryStore(clock=ManualClock())
    async with a_hold(an_engine(model, store=store)) as hold:
        with pytest.raises(TurnFailedError):
            await (await hold.session(KEY)).send("hello")
        records = [logged.record for logged in await store.read(KEY)]
    rungs = [record.rung for record in records if isinstance(record, RungStarted)]
    assert rungs.count(Rung.DROP_PARAMETER) == 1
    assert await claims_in(store) == [], "it was never answered without it"


async def test_an_old_claim_about_a_parameter_is_tested_and_goes_when_the_model_has_changed() -> None:
    clock = ManualClock()
    store, refusing = MemoryStore(clock=clock), [True]
    model = ChatModel(lambda request: without_max_tokens(request) if refusing[0] else says("ok"))
    async with a_hold(an_engine(model, store=store, clock=clock)) as hold:
        session = await hold.session(KEY)
        await session.send("one")
        await session.send("two")
        assert ["max_tokens" in request.omitted for request in model.requests] == [False, True, True]
        # Refused again after a month, and not for two months then.
        clock.advance(MONTH)
        await session.send("three")
        clock.advance(MONTH)
        await session.send("four")
        assert ["max_tokens" in request.omitted for request in model.requests[3:]] == [False, True, True]
        (claim,) = await claims_in(store)
        assert (claim.limit, claim.confirmed) == ("max_tokens", 1)
        refusing[0] = False
        clock.advance(2 * MONTH)
        await session.send("five")
        assert await claims_in(store) == []
        await session.send("six")
        assert "max_tokens" not in model.requests[-1].omitted


async def lived(store: MemoryStore, clock: ManualClock, point: CrashPoint | None) -> int:
    """Be one process that sends a message, until it is answered or the process is dead; return how often it wrote."""
    dying = CrashingStore(store, point)

    async def sent() -> None:
        async with a_hold(an_engine(ChatModel(without_max_tokens), store=dying, clock=clock)) as hold:
            session = await hold.session(KEY)
            await session.wait(await session.post("hello", client_id="one"))

    work, died = asyncio.create_task(sent()), asyncio.create_task(dying.died.wait())
    await asyncio.wait([work, died], return_when=asyncio.FIRST_COMPLETED)
    for task in (work, died):
        task.cancel()
    await asyncio.gather(work, died, return_exceptions=True)
    clock.advance(31)
    return dying.writes


async def test_killed_at_every_write_the_message_is_answered_and_the_parameter_is_learned(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.CRITICAL)
    asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)
    clock = ManualClock()
    writes = await lived(MemoryStore(clock=clock), clock, None)
    assert writes > 8
    for point in every_point(writes):
        clock = ManualClock()
        store = MemoryStore(clock=clock)
        await lived(store, clock, point)
        await lived(store, clock, None)
        records = await store.read(KEY)
        check_log(records, accepted=[1])
        kept = [logged.record for logged in records]
        assert sum(isinstance(record, ReplyRecorded) for record in kept) == 1, f"died {point}"
        assert sum(isinstance(record, ParameterDropped) for record in kept) == 1, f"died {point}"
        # A death between the answer and the claim costs one more refusal, in the next turn.
        async with a_hold(an_engine(model := ChatModel(without_max_tokens), store=store, clock=clock)) as hold:
            session = await hold.session(KEY)
            assert (await session.send("again")).text == "ok"
            assert len(model.requests) <= 2, f"died {point}"
            await session.send("and again")
            assert "max_tokens" in model.requests[-1].omitted
        assert [claim.limit for claim in await claims_in(store)] == ["max_tokens"]
