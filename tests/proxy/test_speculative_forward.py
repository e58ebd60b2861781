"""A request that surely goes as it is goes before it is read; one that should not have gone is called back."""

import asyncio
from typing import Any

import pytest

from holdfast.gateway.proxy.upstream import PassThroughCache, SpeculativeForward, UpstreamResponse
from holdfast.models.fake import Simulation
from holdfast.models.transport import UnreachableError
from holdfast.runtime.clock import SystemClock
from holdfast.stores.memory import MemoryStore
from holdfast.types.limits import Limits
from tests.proxy.proxies import DropInRunning, a_dropin

LONG = "one of the many words that a conversation begins with " * 30


class _Answer(UpstreamResponse):
    """An answer without a connection, which knows when it was let go."""

    def __init__(self, told: list[str]) -> None:
        self._told = told

    def close(self) -> None:
        self._told.append("closed")


class _Sending:
    """A sending whose answer comes when the test says so."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.raw = _Answer(self.told)
        self.answer: asyncio.Future[UpstreamResponse] = asyncio.get_running_loop().create_future()

    async def send(self) -> UpstreamResponse:
        self.told.append("sent")
        return await self.answer


async def test_it_is_on_its_way_before_anybody_asks_for_its_answer() -> None:
    sending = _Sending()
    ahead = SpeculativeForward(sending.send())
    await ahead.sent()
    assert sending.told == ["sent"]
    sending.answer.set_result(sending.raw)
    assert await ahead.take() is sending.raw
    await ahead.cancel()
    assert sending.told == ["sent"]


@pytest.mark.parametrize("has_answered", [False, True])
async def test_what_nobody_takes_is_called_back(*, has_answered: bool) -> None:
    sending = _Sending()
    ahead = SpeculativeForward(sending.send())
    await ahead.sent()
    if has_answered:
        sending.answer.set_result(sending.raw)
        await asyncio.sleep(0)
    await ahead.cancel()
    assert sending.told == (["sent", "closed"] if has_answered else ["sent"])
    assert sending.answer.cancelled() != has_answered


async def test_an_answer_that_comes_as_its_client_goes_is_closed() -> None:
    sending = _Sending()
    taking = asyncio.create_task(SpeculativeForward(sending.send()).take())
    await asyncio.sleep(0)
    sending.answer.set_result(sending.raw)
    # The answer is there, and nobody has been woken by it yet.
    await asyncio.sleep(0)
    taking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await taking
    assert sending.told == ["sent", "closed"]


async def test_an_upstream_that_cannot_be_reached_is_told_to_whoever_takes_it_and_to_nobody_else() -> None:
    for is_taken in (True, False):
        sending = _Sending()
        ahead = SpeculativeForward(sending.send())
        sending.answer.set_exception(UnreachableError("nobody there"))
        if is_taken:
            with pytest.raises(UnreachableError, match="nobody there"):
                await ahead.take()
        await ahead.sent()
        await ahead.cancel()


def test_one_conversation_that_was_rescued_speaks_for_all_that_begin_alike() -> None:
    heads = PassThroughCache()
    plain, other = LONG.encode() + b"plain", LONG.encode() + b"rescued"
    assert not heads.has("me", plain)
    heads.learn("me", plain, is_plain=True)
    assert heads.has("me", plain)
    assert heads.has("me", other)
    assert not heads.has("you", plain)
    heads.learn("me", other, is_plain=False)
    heads.learn("me", plain, is_plain=True)
    assert not heads.has("me", plain)


async def _ask(running: DropInRunning, *texts: str) -> str:
    roles = ("user", "assistant")
    messages: Any = [{"role": roles[place % 2], "content": text} for place, text in enumerate(texts)]
    answered = await running.openai.chat.completions.create(model="sim", messages=messages)
    return answered.choices[0].message.content or ""


async def test_a_conversation_whose_requests_go_ahead_is_asked_once_per_request_and_kept() -> None:
    async with a_dropin() as running:
        first = await _ask(running, f"{LONG} remember harbour = Kiel")
        second = await _ask(running, f"{LONG} remember harbour = Kiel", first, "and again")
        third = await _ask(running, f"{LONG} remember harbour = Kiel", first, "and again", second, "what is harbour?")
        keys = await running.sessions()
    assert "Kiel" in third
    assert len(running.sent) == 3
    assert len(keys) == 1


async def test_a_rescued_conversation_of_an_earlier_process_is_called_back_and_rescued_again() -> None:
    store = MemoryStore(clock=SystemClock())
    small = Simulation(Limits(window_tokens=8_000))
    grown = [f"{LONG} remember harbour = Kiel", "noted", "word " * 9_000, "noted"]
    async with a_dropin(small, store=store) as running:
        first = await _ask(running, *grown, "what is harbour?")
    large = Simulation(Limits(window_tokens=400_000))
    async with a_dropin(large, store=store) as running:
        await _ask(running, f"{LONG} something else")
        answer = await _ask(running, *grown, "what is harbour?", first, "and once more: what is harbour?")
    assert "Kiel" in first
    assert "Kiel" in answer
    # The model is shown the compacted past, although all of it would fit by now: the conversation goes on as it was.
    assert len(running.sent[-1]) < len("word " * 9_000)
