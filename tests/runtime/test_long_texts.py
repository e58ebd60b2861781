"""Recall in long texts, whose content is in blobs and not in the index."""

import json
from pathlib import Path

import pytest

import holdfast
from holdfast.core.limits.bounds import Bounds
from holdfast.ports import BlobRefs
from holdfast.runtime.tools import long_texts
from holdfast.runtime.tools.long_texts import LongTexts
from holdfast.runtime.tools.recall import Recall
from holdfast.runtime.tools.tool_context import CallPlace
from holdfast.stores.memory import MemoryBlobs, MemoryStore
from holdfast.testing.builders import ManualClock, a_tool_call, lease_on
from holdfast.types.messages import (
    BlobRef,
    LargeText,
    Media,
    Reply,
    Role,
    StopReason,
    Text,
    ToolCall,
    ToolResult,
    text_of,
)
from holdfast.types.records import InputAdmitted, MessageAppended, ReplyRecorded, ToolSettled, TurnStarted

FILLER = "the crew checked the ropes and wrote the usual lines into the book before the watch changed again. " * 400
FACT = "By the way, the anchor chain of Bergen pier 12 weighs 482913 grams. "
QUESTION = "How heavy is the anchor chain at pier 12 in Bergen?"


class Place:
    """A store with its blobs, and the search in long texts."""

    def __init__(self) -> None:
        self.store, self.blobs = MemoryStore(clock=ManualClock()), MemoryBlobs()
        self.texts = LongTexts(self.store, self.blobs)

    async def put(self, text: str) -> LargeText:
        return LargeText(await self.blobs.put(text.encode()), text[:400])


@pytest.fixture
def place() -> Place:
    return Place()


async def test_a_fact_in_the_middle_of_a_long_message_is_found_by_one_recall(tmp_path: Path) -> None:
    async with holdfast.open(tmp_path / "log.db") as client:
        session = await client.session("s")
        await session.send(FILLER + FACT + FILLER)
        await session.send("And now?")
        call = ToolCall("1", "recall", json.dumps({"query": QUESTION}))
        found = text_of((await client.engine.toolbox.run(call, place=CallPlace("s"))).parts)
        assert "482913" in found
        offset = int(found.partition("offset=")[2].partition(")")[0])
        blob = found.partition('blob="')[2].partition('"')[0]
        read = ToolCall("2", "recall", json.dumps({"blob": blob, "offset": offset}))
        assert "482913" in text_of((await client.engine.toolbox.run(read, place=CallPlace("s"))).parts)


async def test_originals_of_truncated_outputs_and_appended_messages_are_searched(place: Place) -> None:
    kept = await place.blobs.put((FILLER + FACT).encode())
    lease = await lease_on(place.store, "s")
    await place.store.append(
        lease,
        [
            InputAdmitted((Text("go"),)),
            TurnStarted(1),
            ReplyRecorded(1, 1, Reply((a_tool_call(),), StopReason.TOOL_CALLS, None, "m")),
            ToolSettled(1, ToolResult("call-1", (Text("truncated"),), originals=(kept,))),
        ],
        after=0,
    )
    (line,) = await place.texts.find("s", QUESTION, ())
    assert line.startswith("[#4] ")
    assert "482913" in line
    other = await place.put(FILLER + FACT.replace("482913", "555555"))
    await place.store.admit("s", MessageAppended(Role.USER, (other,)))
    assert [line[:4] for line in await place.texts.find("s", QUESTION, ())] == ["[#5]", "[#4]"]


async def test_retracted_texts_pictures_and_missing_blobs_are_left_out(place: Place) -> None:
    picture = Media(await place.blobs.put(b"\x89PNG\r\n\x1a\n" + bytes(100)), "image/png")
    gone = LargeText(BlobRef("0" * 64, 10), "gone")
    broken = LargeText(await place.blobs.put(b"\x00\x01 anchor chain pier 12 Bergen"), "")
    await place.store.admit("s", InputAdmitted((await place.put(FACT), picture, gone, broken)))
    assert len(await place.texts.find("s", QUESTION, ())) == 1
    assert await place.texts.find("s", QUESTION, ((0, 1),)) == []


async def test_older_texts_beyond_the_limit_are_named(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        await place.store.admit("s", InputAdmitted((await place.put(f"{number} {FACT}"),)))
    monkeypatch.setattr(long_texts, "READ_BYTES_MAX", 100)
    *found, last = await place.texts.find("s", QUESTION, ())
    assert [line[:4] for line in found] == ["[#3]"]
    assert last == "(2 older long texts were not searched; read them by their records)"


async def test_a_session_without_blobs_is_not_read(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(place.store, BlobRefs)
    await place.store.admit("s", InputAdmitted((Text("go"),)))

    async def read(*_: object, **__: object) -> None:
        raise AssertionError("the log was read")

    monkeypatch.setattr(place.store, "read", read)
    assert await place.texts.find("s", QUESTION, ()) == []


async def test_a_search_continues_from_the_record_read_last(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    await place.store.admit("s", InputAdmitted((await place.put(FACT),)))
    await place.texts.find("s", QUESTION, ())
    starts: list[int] = []
    read = place.store.read

    async def counted(session: str, *, after: int = 0, limit: int | None = None) -> object:
        starts.append(after)
        return await read(session, after=after, limit=limit)

    monkeypatch.setattr(place.store, "read", counted)
    monkeypatch.setattr(long_texts, "_SESSIONS_CACHED", 0)
    await place.texts.find("s", QUESTION, ())
    await place.texts.find("s", QUESTION, ())
    assert starts == [1, 0, 1]


async def test_words_that_are_nowhere_are_said_to_match_nothing(place: Place) -> None:
    recall = Recall(place.store, place.blobs, Bounds())
    await place.store.admit("s", InputAdmitted((await place.put(FACT),)))
    (answer,) = await recall.run("s", json.dumps({"query": "zebra"}))
    assert answer.startswith("Nothing in this conversation matches")
