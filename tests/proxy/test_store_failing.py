"""A store that cannot be written while clients are served: they are answered, and nothing is lost or doubled later."""

import logging
from collections.abc import Sequence
from typing import Any

import openai
import pytest

from holdfast.core.limits.bounds import Bounds
from holdfast.errors import StoreFullError
from holdfast.models.fake import Simulation
from holdfast.ports import Admission, Lease
from holdfast.runtime.clock import SystemClock
from holdfast.stores.memory import MemoryStore
from holdfast.types.limits import Limits
from holdfast.types.messages import Text
from holdfast.types.records import InboxRecord, InputAdmitted, LeasedRecord, ReplyRecorded
from tests.proxy.proxies import DropInRunning, a_dropin

FILLER = "the crew writes down what it saw on this day and what it means to do on the next. " * 40


class FullStore(MemoryStore):
    """A store on a disk that is full, for a while."""

    is_full = False

    async def append(self, lease: Lease, records: Sequence[LeasedRecord], *, after: int) -> int:
        """Refuse while the disk is full."""
        if self.is_full:
            raise StoreFullError("no space is left")
        return await super().append(lease, records, after=after)

    async def admit(self, session: str, record: InboxRecord) -> Admission:
        """Refuse while the disk is full."""
        if self.is_full:
            raise StoreFullError("no space is left")
        return await super().admit(session, record)


async def _chat(running: DropInRunning, messages: list[Any], text: str) -> None:
    messages.append({"role": "user", "content": text})
    reply = await running.openai.chat.completions.create(model="sim", messages=messages, max_tokens=200)
    messages.append({"role": "assistant", "content": reply.choices[0].message.content})


async def _kept(running: DropInRunning, key: str) -> list[str]:
    said: list[str] = []
    for record in await running.records(key):
        if isinstance(record, InputAdmitted):
            said += [part.text for part in record.parts if isinstance(part, Text)]
        if isinstance(record, ReplyRecorded):
            said += [part.text for part in record.reply.parts if isinstance(part, Text)]
    return said


async def test_what_could_not_be_kept_is_kept_with_the_next_request_each_message_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """FM-123, FM-130, FM-131: the client is answered, the operator told, and nothing stays missing."""
    caplog.set_level(logging.WARNING)
    store = FullStore(clock=SystemClock(), bounds=Bounds())
    messages: list[Any] = []
    async with a_dropin(store=store) as running:
        await _chat(running, messages, "remember a = 1")
        store.is_full = True
        await _chat(running, messages, "remember b = 2")
        await _chat(running, messages, "remember c = 3")
        (key,) = await running.sessions()
        assert await _kept(running, key) == [one["content"] for one in messages[:2]]
        store.is_full = False
        await _chat(running, messages, "what is b?")

        assert await running.sessions() == [key]
        assert await _kept(running, key) == [one["content"] for one in messages]
    warned = [record for record in caplog.records if record.getMessage() == "conversation not recorded yet"]
    assert [record.__dict__["code"] for record in warned] == ["store_full"] * 2


async def test_a_request_that_cannot_be_rescued_while_nothing_can_be_written_is_told_so_and_rescued_later() -> None:
    """FM-124: the error says what is wrong, and the same request works afterwards."""
    store = FullStore(clock=SystemClock(), bounds=Bounds())
    simulation = Simulation(Limits(window_tokens=6_000, output_tokens_max=1_000))
    messages: list[Any] = []
    async with a_dropin(simulation, store=store) as running:
        await _chat(running, messages, f"remember a = 1\n{FILLER}")
        messages += [{"role": "user", "content": FILLER * 9}, {"role": "assistant", "content": "aye"}]
        store.is_full = True
        with pytest.raises(openai.APIStatusError) as told:
            await _chat(running, messages, "what is a?")
        assert told.value.status_code == 507
        assert told.value.code == "store_full"
        assert told.value.message.endswith("whose log has the details"), "as its library reads it"
        messages.pop()
        store.is_full = False
        await _chat(running, messages, "what is a?")

        assert "a = 1" in messages[-1]["content"]
        (key,) = await running.sessions()
        inputs = [record for record in await running.records(key) if isinstance(record, InputAdmitted)]
    assert len(inputs) == 3
