"""Edit, answer again, list branches and switch between them; compare-and-set on every write."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from holdfast.errors import BadInputError, ClientIdReusedError, RetryLaterError, SeqMovedError
from holdfast.ports import Store
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.maintenance.supervisor import Supervisor
from holdfast.runtime.sessions.client import Client
from holdfast.runtime.sessions.session import Session
from holdfast.stores.memory import MemoryStore
from holdfast.testing.builders import ManualClock
from holdfast.testing.crashes import CrashingStore, CrashPoint, Died, Side, check_log, every_point
from holdfast.testing.engines import FunctionModel, a_hold, an_engine, says
from holdfast.types.messages import Message, Reply, Request, Role, Text, text_of
from holdfast.types.records import InputAdmitted, MessagesRetracted, TurnEnded


def echo(request: Request) -> Reply:
    users = [text_of(one.parts) for one in request.messages if one.role is Role.USER]
    return says(f"{len(users)}: {users[-1]}")


@asynccontextmanager
async def opened(store: Store | None = None) -> AsyncIterator[Client]:
    async with a_hold(an_engine(FunctionModel(echo), store=store)) as client:
        yield client


async def texts(chat: Session) -> list[str]:
    return [text_of(one.parts) for one in (await chat.view()).messages]


async def test_an_edit_answers_the_new_message_and_keeps_the_old_one_as_a_branch() -> None:
    async with opened() as client:
        chat = await client.session("s")
        await chat.send("one")
        second = await chat.send("two")
        await chat.send("three")

        edited = await chat.edit(second.turn, "zwei")

        assert edited.text == "2: zwei"
        assert await texts(chat) == ["one", "1: one", "zwei", "2: zwei"]
        old, current = await chat.branches()
        assert (old.text, old.is_current, current.text, current.is_current) == ("three", False, "zwei", True)
        assert old.since == second.turn - 1


async def test_a_switch_continues_the_other_branch_and_back() -> None:
    async with opened() as client:
        chat = await client.session("s")
        await chat.send("one")
        await chat.edit(1, "eins")
        old, _ = await chat.branches()

        await chat.switch(old.head)
        assert await texts(chat) == ["one", "1: one"]
        assert (await chat.send("two")).text == "2: two"

        (other, current) = await chat.branches()
        assert (other.text, current.text) == ("eins", "two")
        await chat.switch(other.head)
        assert await texts(chat) == ["eins", "1: eins"]
        assert [one.text for one in await chat.branches()] == ["two", "eins"]


async def test_regenerate_answers_the_newest_message_again() -> None:
    async with opened() as client:
        chat = await client.session("s")
        await chat.send("one")
        first = await chat.send("two")

        again = await chat.regenerate()

        assert (first.text, again.text) == ("2: two", "2: two")
        assert await texts(chat) == ["one", "1: one", "two", "2: two"]
        assert [one.turn for one in await chat.branches()] == [first.turn, again.turn]
        assert again.turn > first.turn


async def test_a_search_finds_only_the_current_branch() -> None:
    async with opened() as client:
        chat = await client.session("s")
        await chat.send("about Kiel")
        await chat.edit(1, "about Oslo")
        old, _ = await chat.branches()

        assert await chat.search("Kiel") == []
        await chat.switch(old.head)
        assert [hit.seq for hit in await chat.search("Kiel", limit=1)]
        assert await chat.search("Oslo") == []


async def test_an_appended_message_is_edited_and_answered() -> None:
    async with opened() as client:
        chat = await client.session("s")
        await chat.append([Message(Role.USER, (Text("one"),)), Message(Role.ASSISTANT, (Text("1"),))])

        assert (await chat.regenerate()).text == "1: one"
        other = await client.session("other")
        await other.append([Message(Role.ASSISTANT, (Text("1"),))])
        with pytest.raises(BadInputError, match="not a message of the user"):
            await other.edit(1, "x")
        branch = (await chat.branches())[0]
        await chat.switch(branch.head)
        assert (await chat.edit(1, "eins")).text == "1: eins"


async def test_messages_that_waited_while_another_turn_ran_are_edited_with_those_behind_them() -> None:
    async with opened() as client:
        chat = await client.session("s")
        turns = [await chat.post(text) for text in ("one", "two", "three")]
        for turn in turns:
            await chat.wait(turn)

        assert (await chat.edit(turns[1], "zwei")).text == "2: zwei"

        assert await texts(chat) == ["one", "1: one", "zwei", "2: zwei"]
        old, _ = await chat.branches()
        await chat.switch(old.head)
        assert await texts(chat) == ["one", "1: one", "two", "2: two", "three", "3: three"]


async def test_what_cannot_be_edited_or_switched_to_is_said() -> None:
    async with opened() as client:
        chat = await client.session("s")
        with pytest.raises(BadInputError, match="no message to answer again"):
            await chat.regenerate()
        await chat.send("one")
        await chat.edit(1, "eins")

        for seq in (1, 2, 99, 0, -1):
            with pytest.raises(BadInputError, match="is not a message in this branch"):
                await chat.edit(seq, "x")
        with pytest.raises(BadInputError, match="no branch that ends at record 2"):
            await chat.switch(2)


async def test_an_edit_that_is_sent_twice_is_one_edit() -> None:
    async with opened() as client:
        chat = await client.session("s")
        await chat.send("one")

        answers = [await chat.edit(1, "eins", client_id="e"), await chat.edit(1, "eins", client_id="e")]

        assert answers[0].turn == answers[1].turn
        assert len(await chat.branches()) == 2
        with pytest.raises(ClientIdReusedError):
            await chat.edit(1, "uno", client_id="e")


WRITES: dict[str, Callable[[Session, int], Awaitable[object]]] = {
    "send": lambda chat, seq: chat.send("on", expect=seq),
    "post": lambda chat, seq: chat.post("on", expect=seq),
    "edit": lambda chat, seq: chat.edit(1, "eins", expect=seq),
    "regenerate": lambda chat, seq: chat.regenerate(expect=seq),
    "append": lambda chat, seq: chat.append([Message(Role.USER, (Text("a"),))], expect=seq),
    "retract": lambda chat, seq: chat.retract(after=1, expect=seq),
    "label": lambda chat, seq: chat.label(title="t", expect=seq),
    "tag": lambda chat, seq: chat.tag("t", expect=seq),
    "pin": lambda chat, seq: chat.pin(1, expect=seq),
    "exclude": lambda chat, seq: chat.exclude(1, expect=seq),
    "compact": lambda chat, seq: chat.compact(expect=seq),
}


@pytest.mark.parametrize("name", WRITES)
async def test_a_write_after_another_record_than_the_expected_is_rejected(name: str) -> None:
    async with opened() as client:
        chat = await client.session("s")
        await chat.send("one")
        before = await chat.history()

        for wrong in (before[-1].seq - 1, before[-1].seq + 1):
            with pytest.raises(SeqMovedError):
                await WRITES[name](chat, wrong)

        assert await chat.history() == before
        await WRITES[name](chat, before[-1].seq)
        assert len(await chat.history()) > len(before)


async def test_a_switch_after_another_record_than_the_expected_is_rejected() -> None:
    async with opened() as client:
        chat = await client.session("s")
        await chat.send("one")
        await chat.edit(1, "eins")
        head = (await chat.branches())[0].head
        with pytest.raises(SeqMovedError):
            await chat.switch(head, expect=1)


async def test_a_message_with_a_client_id_is_the_same_message_whatever_came_since() -> None:
    async with opened() as client:
        chat = await client.session("s")
        first = await chat.send("one", client_id="a", expect=0)

        assert (await chat.send("one", client_id="a", expect=0)).turn == first.turn


async def test_nothing_is_edited_while_a_turn_waits() -> None:
    store = MemoryStore(clock=SystemClock())
    await store.admit("s", InputAdmitted((Text("one"),)))
    engine = an_engine(FunctionModel(echo), store=store)
    chat = await Client(engine, Supervisor(engine, owner="idle", lease_seconds=30)).session("s")

    with pytest.raises(RetryLaterError, match="runs or waits"):
        await chat.edit(1, "eins")


# --- Crashes ---


async def _switch_to_oldest(chat: Session) -> None:
    await chat.switch((await chat.branches())[0].head)


async def _edit_newest(chat: Session) -> None:
    await chat.edit((await chat.branches())[-1].turn, "eins", client_id="e")


CRASHING: dict[str, Callable[[Session], Awaitable[object]]] = {
    "edit": _edit_newest,
    "regenerate": lambda chat: chat.repost(),
    "switch": _switch_to_oldest,
    "label": lambda chat: chat.label(title="t"),
}


@pytest.mark.parametrize("side", Side)
@pytest.mark.parametrize("name", CRASHING)
async def test_a_crash_in_a_write_leaves_all_of_it_or_nothing(name: str, side: Side) -> None:
    store = MemoryStore(clock=SystemClock())
    async with opened(store) as client:
        chat = await client.session("s")
        await chat.send("one")
        await chat.regenerate()
        before = await chat.history(limit=1_000)
    crashing = CrashingStore(store, CrashPoint(1, side))
    engine = an_engine(FunctionModel(echo), store=crashing)
    dying = Client(engine, Supervisor(engine, owner="dying", lease_seconds=30))
    with pytest.raises(Died):
        await CRASHING[name](await dying.session("s"))

    written = [logged.record for logged in await store.read("s", after=len(before))]
    assert len(written) == (0 if side is Side.BEFORE else {"edit": 2, "regenerate": 2}.get(name, 1))
    async with opened(store) as client:
        chat = await client.session("s")
        for logged in await chat.history(limit=1_000):
            if isinstance(logged.record, InputAdmitted):
                await chat.wait(logged.seq)
        records = await chat.history(limit=1_000)
        check_log(records, accepted=[one.seq for one in records if isinstance(one.record, InputAdmitted)])
        assert (await chat.send("on")).text.endswith(": on")


@pytest.mark.parametrize("point", tuple(every_point(6)), ids=str)
async def test_an_edit_that_dies_at_any_write_ends_in_one_branch_with_one_answer(point: CrashPoint) -> None:
    clock = ManualClock()
    store = MemoryStore(clock=clock)
    async with opened(store) as client:
        await (await client.session("s")).send("one")
    crashing = CrashingStore(store, point)
    async with a_hold(an_engine(FunctionModel(echo), store=crashing), owner="dying") as client:
        work = asyncio.create_task((await client.session("s")).edit(1, "eins", client_id="e"))
        dying = asyncio.create_task(crashing.died.wait())
        await asyncio.wait([work, dying], return_when=asyncio.FIRST_COMPLETED)
        for task in (work, dying):
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError, Died):
            await work
    clock.advance(31)

    async with opened(store) as client:
        chat = await client.session("s")
        answer = await chat.edit(1, "eins", client_id="e")
        records = [logged.record for logged in await chat.history()]

    assert answer.text == "1: eins"
    assert sum(isinstance(record, MessagesRetracted) for record in records) == 1
    assert sum(isinstance(record, TurnEnded) for record in records) == 2
