"""The recall tool: a model finds and reads what has left its view, byte for byte, of its own session alone."""

import json

import pytest

from holdfast.core.limits.bounds import Bounds
from holdfast.core.view import Lens, conversation
from holdfast.errors import BadInputError
from holdfast.ports import Attachment
from holdfast.runtime.tools.recall import PAGE_BYTES, Recall
from holdfast.runtime.tools.toolbox import Toolbox
from holdfast.stores.memory import MemoryBlobs, MemoryStore
from holdfast.testing.builders import ManualClock, a_message, a_reply, a_tool_call, an_input, lease_on
from holdfast.testing.engines import FunctionModel, ScriptedModel, a_hold, an_engine, says
from holdfast.types.limits import Limits
from holdfast.types.messages import (
    BlobRef,
    Media,
    Reasoning,
    Reply,
    Request,
    StopReason,
    Text,
    ToolCall,
    ToolOutcome,
    ToolResult,
    text_of,
)
from holdfast.types.records import (
    CompactionApplied,
    CompactionOutcome,
    InputAdmitted,
    ReplyRecorded,
    ToolSettled,
    TurnStarted,
)

LONG = "".join(f"line {number}: naïve café 東京\n" for number in range(2_000))


class Place:
    """A store with its blobs, and the tool that reads them."""

    def __init__(self) -> None:
        self.store = MemoryStore(clock=ManualClock())
        self.blobs = MemoryBlobs()
        self.recall = Recall(self.store, self.blobs, Bounds())

    async def ask(self, session: str = "s", /, **arguments: str | int) -> str:
        [answer] = await self.recall.run(session, json.dumps(arguments))
        return answer


@pytest.fixture
def place() -> Place:
    return Place()


async def read_all(place: Place, **arguments: str | int) -> str:
    """Read page after page, as the pages say."""
    text, offset = "", 0
    while True:
        head, _, page = (await place.ask(**arguments, offset=offset)).partition("\n")
        assert len(page.encode()) <= PAGE_BYTES
        text += page
        if "continue with" not in head:
            return text
        offset = int(head.partition("offset=")[2].partition(")")[0])


async def test_a_query_gives_records_to_read(place: Place) -> None:
    await place.store.admit("s", an_input("the colour of the harbour is teal"))

    assert await place.ask(query="harbour") == (
        "Best matches first; recall(seq=n) reads all of [#n].\n"
        "[#1] user, 2027-01-15 08:00 UTC: the colour of the harbour is teal"
    )
    assert await place.ask(query="narwhal") == (
        "Nothing in this conversation matches 'narwhal'. Try other words, or fewer."
    )


async def test_a_short_message_is_shown_with_the_messages_around_it(place: Place) -> None:
    lease, seq = await lease_on(place.store), 0
    for asked, answered in (("hello", "hi"), ("which colour?", "the harbour is teal"), ("thanks", "welcome")):
        seq = (await place.store.admit("s", an_input(asked))).seq
        seq = await place.store.append(lease, [TurnStarted(seq), a_reply(answered, turn=seq)], after=seq)

    assert await place.ask(query="harbour") == (
        "Best matches first; recall(seq=n) reads all of [#n].\n"
        "[#6] assistant, 2027-01-15 08:00 UTC: the harbour is teal\n"
        "  before it, [#4] user: which colour?\n"
        "  after it, [#7] user: thanks"
    )


async def test_the_matching_part_of_a_long_message_is_read_on_from_its_byte(place: Place) -> None:
    text = f"{'naïve filler ' * 400}the needle is in the haystack {'more filler ' * 400}"
    await place.store.admit("s", an_input(text))

    found = await place.ask(query="needle haystack")
    offset = int(found.partition("from byte ")[2].partition(": ")[0].replace(",", ""))

    assert "needle is in the haystack" in found
    assert "needle is in the haystack" in (await place.ask(seq=1, offset=offset))[:600]


async def test_found_text_is_no_longer_than_a_page(place: Place) -> None:
    lease = await lease_on(place.store)
    for number in range(30):
        seq = (await place.store.admit("s", an_input(f"港口 {number} {'東京' * 200}"))).seq
        await place.store.append(lease, [a_reply(f"港口 {'大阪' * 200}", turn=seq)], after=seq)

    assert len((await place.ask(query="港口")).encode()) <= PAGE_BYTES


async def test_a_record_is_read_in_pages_that_join_byte_for_byte(place: Place) -> None:
    lease = await lease_on(place.store)
    await place.store.append(lease, [a_reply(LONG)], after=0)

    assert await read_all(place, seq=1) == LONG
    assert (await place.ask(seq=1)).startswith(
        f"[record 1, bytes 0 to {PAGE_BYTES:,} of {len(LONG.encode()):,}; continue"
    )
    assert await place.ask(seq=1, offset=10**6) == (
        f"[record 1 has {len(LONG.encode()):,} bytes; the offset is past its end]"
    )


async def test_a_spilled_output_is_read_whole_by_its_record_and_by_its_blob(place: Place) -> None:
    async def give() -> list[str | Attachment]:
        return [LONG, Attachment(b"\x00\x01\x02", name="core.bin")]

    result = await Toolbox([give], blobs=place.blobs, bounds=Bounds()).run(ToolCall("c1", "give", "{}"))
    shown, blob = text_of(result.parts), result.originals[-1].sha256[:12]
    assert f"recall(blob='{blob}') reads it" in shown
    lease = await lease_on(place.store)
    await place.store.append(lease, [a_reply("", a_tool_call("give")), ToolSettled(1, result)], after=0)

    assert LONG in await read_all(place, seq=2)
    assert (await read_all(place, blob=blob)).startswith(LONG)


async def test_a_blob_of_another_session_cannot_be_read(place: Place) -> None:
    ref = await place.blobs.put(b"a secret")
    await place.store.admit("other", InputAdmitted((Media(ref, "text/plain"),)))
    await place.store.admit("s", an_input(f"please read {ref.sha256}"))

    with pytest.raises(BadInputError, match="no record of this conversation names a blob"):
        await place.ask(blob=ref.sha256)
    assert "a secret" in await place.ask("other", blob=ref.sha256[:12])


async def test_records_of_another_session_are_neither_found_nor_read(place: Place) -> None:
    await place.store.admit("other", an_input("hello"))
    await place.store.admit("other", an_input("a secret"))
    await place.store.admit("s", an_input("hello"))

    assert "secret" not in (await place.ask(query="secret")).partition("matches 'secret'")[2]
    with pytest.raises(BadInputError, match="there is no record 2; the last one is 1"):
        await place.ask(seq=2)
    with pytest.raises(BadInputError, match="the last one is 0"):
        await place.ask("nobody", seq=2)


async def test_every_kind_of_record_can_be_read(place: Place) -> None:
    image = await place.blobs.put(b"\x89PNG\r\n\x1a\n" + bytes(40))
    reply = Reply((Reasoning("hm"), Text("yes"), a_tool_call("read", '{"a": 1}')), StopReason.END, None, "m")
    await place.store.admit("s", InputAdmitted((Text("see"), Media(image, "image/png", "cat.png"))))
    lease = await lease_on(place.store)
    applied = CompactionApplied(1, 1, "the past", 10, 5)
    last = await place.store.append(lease, [ReplyRecorded(1, 1, reply), applied], after=1)

    assert await place.ask(seq=1) == "[record 1, all 34 bytes]\nsee\n[cat.png, image/png, 48 bytes]"
    assert await place.ask(seq=2) == '[record 2, all 37 bytes]\n(thinking) hm\nyes\ncalls read {"a": 1}'
    assert await place.ask(seq=last) == "[record 3, all 8 bytes]\nthe past"


@pytest.mark.parametrize(
    "arguments", ["", "{}", "{broken", '{"seq": "many"}', '{"seq": -1}', '{"seq": 1, "offset": -1}', '{"blob": "ab"}']
)
async def test_whoever_asks_wrongly_is_told_how(place: Place, arguments: str) -> None:
    await place.store.admit("s", an_input("hello"))

    with pytest.raises(BadInputError):
        await place.recall.run("s", arguments)


async def test_a_number_written_as_text_is_understood(place: Place) -> None:
    await place.store.admit("s", an_input("hello"))

    assert await place.ask(seq="1") == "[record 1, all 5 bytes]\nhello"


def answer_by(request: Request, script: list[str | Reply]) -> Reply:
    """Go on with the script, and write short notes for whoever asks for a summary."""
    if request.system.startswith("You write the working notes"):
        return says("Goal: to talk about harbours.")
    line = script.pop(0)
    return says(line) if isinstance(line, str) else line


async def test_a_model_finds_what_it_lost_to_a_compaction() -> None:
    """What left the view is found by a word of it and read word for word."""
    fact = f"The harbour code is ZX-4711. {'Remember it well. ' * 20}"
    script: list[str | Reply] = [
        "noted",
        *(f"reply {number} {'and so on ' * 40}" for number in range(6)),
        a_message("", a_tool_call("recall", '{"query": "harbour code"}', call_id="c1")),
        a_message("", a_tool_call("recall", '{"seq": 1}', call_id="c2")),
        "it is ZX-4711",
    ]
    model = FunctionModel(lambda request: answer_by(request, script), limits=Limits(window_tokens=8_000))
    engine = an_engine(model, bounds=Bounds(compacts_ahead=False))
    async with a_hold(engine) as hold:
        chat = await hold.session("s")
        await chat.send(fact)
        for number in range(6):
            await chat.send(f"message {number} {'on and on ' * 40}")
        assert (await chat.compact()).outcome is CompactionOutcome.APPLIED
        assert fact not in str((await chat.view()).messages)
        answer = await chat.send("What is the harbour code?")

        results = [each.record.result for each in await chat.history(limit=500) if isinstance(each.record, ToolSettled)]

    assert answer.text == "it is ZX-4711"
    assert [result.outcome for result in results] == [ToolOutcome.DONE, ToolOutcome.DONE]
    assert "[#1] " in text_of(results[0].parts)
    assert fact in text_of(results[1].parts)


async def test_a_session_can_be_searched_and_read_by_a_program() -> None:
    engine = an_engine(ScriptedModel(["teal"]))
    async with a_hold(engine) as hold:
        chat = await hold.session("s")
        await chat.send("the colour of the harbour")

        [hit] = await chat.search("harbour")

        assert (await chat.read(hit.seq)).record == an_input("the colour of the harbour")
        with pytest.raises(BadInputError, match="has no record 99"):
            await chat.read(99)
        with pytest.raises(BadInputError, match="has no record 0"):
            await chat.read(0)


async def test_a_blob_that_only_the_log_names_is_found_too(place: Place) -> None:
    ref = await place.blobs.put(b"x" * 10)
    for number in range(3):
        await place.store.admit("s", an_input(f"message {number}"))
    await place.store.admit("s", InputAdmitted((Media(BlobRef(ref.sha256, 10), "text/plain"),)))

    assert await place.ask(blob=ref.sha256[:12].upper()) == f"[blob {ref.sha256[:12]}, all 10 bytes]\n{'x' * 10}"


async def test_a_masked_output_names_the_record_that_reads_it_back(place: Place) -> None:
    output = "".join(f"row {number}\n" for number in range(300))
    call = a_tool_call("read")
    turn = (await place.store.admit("s", an_input("please"))).seq
    lease = await lease_on(place.store)
    settled = ToolSettled(turn, ToolResult(call.call_id, (Text(output),)))
    await place.store.append(lease, [TurnStarted(turn), a_reply("", call), settled], after=turn)

    shown = conversation(await place.store.read("s"), lens=Lens(masked_before=100))[-1].message.parts[0]
    assert isinstance(shown, ToolResult)
    seq = int(text_of(shown.parts).partition("recall(seq=")[2].partition(")")[0])

    assert await read_all(place, seq=seq) == output


async def test_where_tools_may_show_less_than_a_page_pages_are_shorter_and_still_join(place: Place) -> None:
    await place.store.admit("s", an_input(LONG))
    recall = Recall(place.store, place.blobs, Bounds(tool_output_bytes_max=1_024))

    page = await recall.read("s", seq=1)
    following = await recall.read("s", seq=1, offset=page.end)

    assert len(page.as_text().encode()) <= 1_024
    assert page.text + following.text == LONG.encode()[: following.end].decode()
    assert (page.seq, page.start, following.start) == (1, 0, page.end)
