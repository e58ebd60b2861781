"""Append without a turn, retraction, entries and foreign ids, through the public session."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping

import pytest

import holdfast
from holdfast.core.limits.bounds import Bounds
from holdfast.errors import BadInputError, ClientIdReusedError, RetryLaterError, SeqMovedError, UnsupportedError
from holdfast.ports import Delta
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.maintenance.supervisor import Supervisor
from holdfast.runtime.sessions.appending import Appended, Draft, StoredMessage, session_key
from holdfast.runtime.sessions.client import Client
from holdfast.runtime.sessions.session import Session
from holdfast.stores.memory import MemoryStore
from holdfast.testing.crashes import CrashingStore, CrashPoint, Died, Side, check_log
from holdfast.testing.engines import FunctionModel, ScriptedModel, a_hold, an_engine, says
from holdfast.types.faults import Refusal, Rung
from holdfast.types.messages import (
    BlobRef,
    LargeText,
    Media,
    Message,
    Reasoning,
    Reply,
    Request,
    Role,
    Text,
    ToolCall,
    ToolResult,
    text_of,
)
from holdfast.types.records import (
    GenerationStarted,
    LeasedRecord,
    Logged,
    MessageAppended,
    MessagesRetracted,
    PayloadStored,
    RungFinished,
    RungResult,
    RungStarted,
)
from tests.stores.minimal_store import MinimalStore

CALL = ToolCall("c1", "depth", "{}")
CONVERSATION = [
    Message(Role.USER, (Text("remember harbour = Kiel"),)),
    Message(Role.ASSISTANT, (CALL,)),
    Message(Role.TOOL, (ToolResult("c1", (Text("12 fathoms"),)),)),
    Message(Role.ASSISTANT, (Text("noted"),)),
]


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with a_hold(an_engine(ScriptedModel(["the answer"]))) as made:
        yield made


@pytest.fixture
async def chat(client: Client) -> Session:
    return await client.session("s")


async def test_appended_messages_are_one_record_each_and_run_no_turn(chat: Session) -> None:
    appended = await chat.append(CONVERSATION)

    assert appended == Appended(1, 4)
    assert [type(logged.record) for logged in await chat.history()] == [MessageAppended] * 4
    assert (await chat.view()).messages == tuple(CONVERSATION)
    assert (await chat.state()).owed == 0


async def test_the_next_turn_reads_appended_messages(chat: Session) -> None:
    await chat.append(CONVERSATION)

    answer = await chat.send("what is harbour?")

    assert answer.text == "the answer"
    assert [text_of(message.parts) for message in (await chat.view()).messages] == [
        "remember harbour = Kiel", "", "", "noted", "what is harbour?", "the answer",
    ]  # fmt: skip


async def test_open_calls_are_matched_by_a_later_append(chat: Session) -> None:
    await chat.append(CONVERSATION[:1])
    await chat.append(CONVERSATION[1:2])
    await chat.append(CONVERSATION[2:])

    assert (await chat.view()).messages == tuple(CONVERSATION)


async def test_a_message_with_several_results_has_a_record_for_each(chat: Session) -> None:
    calls = (CALL, ToolCall("c2", "depth", "{}"))
    results = tuple(ToolResult(one.call_id, (Text(one.call_id),)) for one in calls)

    appended = await chat.append(
        [Message(Role.ASSISTANT, calls), Draft(Message(Role.TOOL, results), b"p", tag="t", client_id="id")]
    )

    assert appended == Appended(1, 3)
    assert (await chat.view()).messages[1:] == (Message(Role.ASSISTANT, calls), Message(Role.TOOL, results))
    assert [one.payload for one in await chat.stored()] == [None, b"p", None]


async def test_expect_is_compare_and_set(chat: Session) -> None:
    await chat.append(CONVERSATION[:1], expect=0)

    for expect in (0, 2):
        with pytest.raises(SeqMovedError):
            await chat.append(CONVERSATION[:1], expect=expect)
        with pytest.raises(SeqMovedError):
            await chat.retract(after=0, expect=expect)
    assert len(await chat.history()) == 1
    assert await chat.retract(after=0, expect=1)


async def test_two_appends_with_one_client_id_are_one(chat: Session) -> None:
    first = await chat.append(CONVERSATION, client_id="a")
    await chat.append([Message(Role.USER, (Text("between"),))])

    again = await chat.append(CONVERSATION, client_id="a", expect=0)

    assert (first, again) == (Appended(1, 4), Appended(1, 4, is_new=False))
    assert len(await chat.history()) == 5
    with pytest.raises(ClientIdReusedError):
        await chat.append(CONVERSATION[1:], client_id="a")


async def test_ten_appends_at_once_are_ten_messages(chat: Session) -> None:
    await asyncio.gather(*(chat.append([Message(Role.USER, (Text(f"{n}"),))]) for n in range(10)))

    assert sorted(text_of(one.message.parts) for one in await chat.stored() if one.message) == [*"0123456789"]


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (Message(Role.USER, (CALL,)), "no ToolCall"),
        (Message(Role.ASSISTANT, (Media(BlobRef("a", 1), "image/png"),)), "no Media"),
        (Message(Role.TOOL, ()), "at least one result"),
        (Draft(), "empty"),
        (Draft(payload=b"x"), "tag"),
        (Draft(Message(Role.USER, ()), client_id=" x"), "white space"),
    ],
)
async def test_an_entry_that_cannot_be_stored_is_rejected_before_anything_is(
    chat: Session, entry: Message | Draft, why: str
) -> None:
    with pytest.raises(BadInputError, match=why):
        await chat.append([CONVERSATION[0], entry])

    assert await chat.history() == []


async def test_an_empty_append_and_a_negative_retraction_are_rejected(chat: Session) -> None:
    with pytest.raises(BadInputError, match="nothing to append"):
        await chat.append([])
    with pytest.raises(BadInputError, match="not a record"):
        await chat.retract(after=-1)


async def test_a_session_of_the_proxy_is_written_by_its_client_alone(client: Client) -> None:
    chat = await client.session("dropin:1")

    with pytest.raises(BadInputError, match="proxy"):
        await chat.append(CONVERSATION)


async def test_a_store_without_the_port_says_so() -> None:
    async with a_hold(
        an_engine(ScriptedModel(["hi"]), store=MinimalStore({}, clock=SystemClock(), bounds=Bounds()))
    ) as client:
        with pytest.raises(UnsupportedError, match="Appends"):
            await (await client.session("s")).append(CONVERSATION)


async def test_nothing_is_appended_or_retracted_while_a_turn_runs() -> None:
    asked, gate = asyncio.Event(), asyncio.Event()

    class Slow(FunctionModel):
        async def stream(
            self, request: Request, blobs: Mapping[str, bytes]
        ) -> AsyncGenerator[Delta | Reply | Refusal, None]:
            asked.set()
            await gate.wait()
            async for one in super().stream(request, blobs):
                yield one

    async with a_hold(an_engine(Slow(lambda _: says("done")))) as client:
        chat = await client.session("s")
        turn = await chat.post("hello")
        await asked.wait()
        for write in (chat.append(CONVERSATION), chat.retract(after=0), chat.pop()):
            with pytest.raises(RetryLaterError, match="runs or waits"):
                await write
        await chat.append([Draft(payload=b"x", tag="t")])
        gate.set()
        assert (await chat.wait(turn)).text == "done"
        await chat.append(CONVERSATION)


# --- Payloads ---


@pytest.mark.parametrize(
    "payload", [b"", b'{"a": "\xc3\xa9\\u0000"}', b"\xff\x00\xfe", b"data:image/png;base64," + b"A" * 80_000]
)
async def test_a_payload_comes_back_byte_for_byte(chat: Session, payload: bytes) -> None:
    await chat.append([Draft(CONVERSATION[0], payload, "t", "id")])

    expected = StoredMessage(1, (await chat.history())[0].at, CONVERSATION[0], payload, "t", "id")
    assert await chat.stored() == [expected]
    assert await chat.lookup("id") == expected
    assert await chat.lookup("other") is None


async def test_a_large_message_is_kept_in_a_blob_that_the_client_reads(client: Client, chat: Session) -> None:
    text = "0123456789" * 10_000

    await chat.append([Message(Role.USER, (Text(text),))])

    (entry,) = await chat.stored()
    assert entry.message is not None
    (part,) = entry.message.parts
    assert isinstance(part, LargeText)
    assert await client.blob(part.blob.sha256) == text.encode()


async def test_reasoning_is_kept_unaltered(chat: Session) -> None:
    thought = Reasoning("", "issuer", "opaque==")

    await chat.append([CONVERSATION[0], Message(Role.ASSISTANT, (thought, Text("x")))])

    assert (await chat.view()).messages[1].parts == (thought, Text("x"))


async def test_a_payload_alone_is_not_in_the_view(chat: Session) -> None:
    await chat.append([Draft(payload=b"x", tag="t"), CONVERSATION[0]])

    assert (await chat.view()).messages == tuple(CONVERSATION[:1])
    assert isinstance((await chat.read(1)).record, PayloadStored)


async def test_the_newest_entries_are_read_without_the_rest() -> None:
    reads: list[int] = []

    class Counting(MemoryStore):
        async def read(self, session: str, *, after: int = 0, limit: int | None = None) -> list[Logged]:
            found = await super().read(session, after=after, limit=limit)
            reads.append(len(found))
            return found

    async with a_hold(an_engine(ScriptedModel(["hi"]), store=Counting(clock=SystemClock()))) as client:
        chat = await client.session("s")
        for number in range(300):
            await chat.append([Draft(payload=b"%d" % number, tag="t", client_id=f"{number}")])
        reads.clear()
        newest = await chat.stored(limit=2)
        by_id = await chat.lookup("7")
    assert [one.payload for one in newest] == [b"298", b"299"]
    assert by_id is not None
    assert by_id.payload == b"7"
    assert sum(reads) <= 5


# --- Retraction ---


async def test_a_retraction_is_a_record_and_the_log_stays_whole(chat: Session) -> None:
    await chat.append(CONVERSATION)

    assert await chat.retract(after=1)

    assert (await chat.view()).messages == tuple(CONVERSATION[:1])
    assert [one.seq for one in await chat.stored()] == [1]
    assert [type(one.record) for one in await chat.history()] == [*[MessageAppended] * 4, MessagesRetracted]
    assert (await chat.recall(seq=4)).text == "noted"


async def test_a_retraction_of_nothing_writes_nothing(chat: Session) -> None:
    assert not await chat.retract(after=0)
    await chat.append(CONVERSATION)
    assert not await chat.retract(after=4)
    assert await chat.retract(after=2)
    for after in (2, 3, 4):
        assert not await chat.retract(after=after)
    assert len(await chat.history()) == 5


async def test_a_search_does_not_find_a_retracted_message(chat: Session) -> None:
    await chat.append([Message(Role.USER, (Text(f"lighthouse {n}"),)) for n in range(12)])
    assert len(await chat.search("lighthouse")) == 10

    await chat.retract(after=2)

    assert sorted(hit.seq for hit in await chat.search("lighthouse")) == [1, 2]


async def test_an_appended_reply_belongs_to_the_newest_turn_that_stays(chat: Session) -> None:
    await chat.append([CONVERSATION[0], CONVERSATION[3]])
    await chat.append([Message(Role.USER, (Text("second"),))])
    await chat.retract(after=2)

    await chat.append([Message(Role.ASSISTANT, (Text("more"),))])

    (newest,) = [one.record for one in await chat.history(after=4)]
    assert isinstance(newest, MessageAppended)
    assert newest.turn == 1


async def test_an_answer_can_be_retracted_and_asked_for_again(chat: Session) -> None:
    answer = await chat.send("hello")

    await chat.retract(after=answer.turn)

    assert [text_of(one.parts) for one in (await chat.view()).messages] == ["hello"]
    assert (await chat.send("again")).text == "the answer"


async def test_ten_pops_at_once_return_ten_entries(chat: Session) -> None:
    await chat.append([Draft(payload=b"%d" % number, tag="t") for number in range(12)])

    popped = await asyncio.gather(*(chat.pop() for _ in range(10)))

    assert sorted(int(one.payload or b"") for one in popped if one) == list(range(2, 12))
    assert [one.payload for one in await chat.stored()] == [b"0", b"1"]
    assert [await chat.pop(), await chat.pop(), await chat.pop()][-1] is None


async def test_a_retraction_of_a_represented_message_restores_the_compaction_before() -> None:
    model = FunctionModel(lambda _: says("the answer"), limits=holdfast.Limits(window_tokens=8_000))
    async with a_hold(an_engine(model)) as client:
        await _retract_represented(await client.session("s"))


async def _retract_represented(chat: Session) -> None:
    long = "word " * 1_200
    await chat.append([Message(Role.USER, (Text(f"one {long}"),)), Message(Role.USER, (Text(f"two {long}"),))])
    assert (await chat.compact()).outcome.value == "applied"
    first = await chat.state()
    await chat.append([Message(Role.USER, (Text(f"{n} {long}"),)) for n in ("three", "four", "five")])
    assert (await chat.compact()).outcome.value == "applied"
    second = await chat.state()
    assert second.boundary > first.boundary > 0

    assert await chat.retract(after=first.boundary)

    restored = await chat.state()
    assert (restored.compaction, restored.compaction_seq) == (first.compaction, first.compaction_seq)
    shown = [text_of(one.parts) for one in (await chat.view()).messages]
    assert "two" in shown[-1]
    assert "three" not in str(shown)
    assert await chat.retract(after=0)
    assert ((await chat.state()).compaction, (await chat.view()).messages) == (None, ())
    assert (await chat.send("hello")).text == "the answer"


async def test_a_retraction_across_a_roll_over_returns_to_the_generation_before() -> None:
    model = FunctionModel(lambda _: says("fine"), limits=holdfast.Limits(window_tokens=3_000))
    async with a_hold(an_engine(model)) as client:
        chat = await client.session("s")
        for number in range(3):
            await chat.append([Message(Role.USER, (Text(f"pin {number} " + "word " * 700),))])
        state = await chat.state()
        seq = (await client.engine.store.info("s")).last_seq  # type: ignore[union-attr]  # it exists
        started = GenerationStarted(0, 3, "a digest", 5_000, 900, step=seq, generation=2, left=1, pins_left=(1,))
        await _apply(client, "s", started)
        assert (await chat.state()).generation == 2

        await chat.retract(after=1)

        after = await chat.state()
        assert (after.generation, after.compaction, after.pins, state.generation) == (1, None, (1,), 1)
        assert [text_of(one.parts)[:5] for one in (await chat.view()).messages] == ["pin 0"]


async def _apply(client: Client, key: str, record: GenerationStarted) -> None:
    store = client.engine.store
    lease = await store.acquire(key, "test", seconds=30)
    assert lease is not None
    known = await store.info(key)
    assert known is not None
    rung = Rung.ROLL_OVER
    records: list[LeasedRecord] = [RungStarted(0, rung, None), record, RungFinished(0, rung, RungResult.CHANGED)]
    await store.append(lease, records, after=known.last_seq)
    await store.release(lease)


# --- Crashes ---

WRITES: dict[str, Callable[[Session], Awaitable[object]]] = {
    "append": lambda chat: chat.append(CONVERSATION, client_id="a"),
    "payload": lambda chat: chat.append([Draft(payload=b"x" * 40_000, tag="t", client_id="p")], client_id="p"),
    "retract": lambda chat: chat.retract(after=1),
    "pop": lambda chat: chat.pop(),
}


@pytest.mark.parametrize("side", Side)
@pytest.mark.parametrize("name", WRITES)
async def test_a_crash_in_a_write_leaves_all_of_it_or_nothing(name: str, side: Side) -> None:
    store = MemoryStore(clock=SystemClock())
    async with a_hold(an_engine(ScriptedModel(["hi"]), store=store)) as client:
        await (await client.session("s")).append(CONVERSATION)
    crashing = CrashingStore(store, CrashPoint(1, side))
    engine = an_engine(ScriptedModel(["hi"]), store=crashing)
    dying = Client(engine, Supervisor(engine, owner="dying", lease_seconds=30))
    with pytest.raises(Died):
        await WRITES[name](await dying.session("s"))
    async with a_hold(an_engine(ScriptedModel(["hi"]), store=store, blobs=engine.blobs)) as client:
        chat = await client.session("s")
        written = len(await chat.history()) - 4
        assert written == (0 if side is Side.BEFORE else {"append": 4}.get(name, 1))
        if name in {"append", "payload"}:
            await WRITES[name](chat)
            assert len(await chat.stored()) == (8 if name == "append" else 5)
        assert (await chat.send("on")).text == "hi"
        check_log(await chat.history(), accepted=[])


# --- Foreign ids ---


def test_different_ids_have_different_keys_that_are_accepted() -> None:
    ids = [("a", "b"), ("a:b",), ("a", "", "b"), ("a", "b", ""), ("a%3Ab",), ("",), ("%",), (" a\n",), ("é" * 200,)]
    ids += [("x" * 300,), ("x" * 301,), ("x" * 150, "x" * 150), ("~",), ("\ud800",), ("a~" + "0" * 64,)]

    keys = [session_key(*one) for one in ids]

    assert len(set(keys)) == len(ids)
    assert all(len(key.encode()) <= Bounds().session_key_bytes_max and key.isprintable() for key in keys)
    assert session_key("openai", "user-1") == "openai:user-1"
    with pytest.raises(BadInputError):
        session_key()
