"""An imported session behaves like any other."""

from pathlib import Path

import pytest

from holdfast.core.limits.bounds import Bounds
from holdfast.errors import RetryLaterError
from holdfast.rescue import importing
from holdfast.rescue.importing import import_session
from holdfast.rescue.neutral import NeutralMessage, read_neutral
from holdfast.runtime.engine.context import Engine
from holdfast.testing.engines import ScriptedModel, a_hold, an_engine
from holdfast.types.limits import Limits
from holdfast.types.messages import LargeText, Text, text_of
from holdfast.types.records import CompactionOutcome, InputAdmitted, ToolSettled
from tests.cli.transcripts import a_call, a_message, a_result, write_transcript

OUTPUT = "".join(f"line {number} of the report\n" for number in range(3_000))


def a_session(tmp_path: Path, *, turns: int = 6) -> list[NeutralMessage]:
    lines = [
        line
        for turn in range(turns)
        for line in (
            a_message("s", 10 * turn, "user", f"question {turn} {'and more ' * 30}"),
            a_message("s", 10 * turn + 1, "assistant", a_call("read", path=f"file{turn}.txt")),
            a_message("s", 10 * turn + 2, "tool", a_result(OUTPUT if turn == 0 else f"content {turn}")),
            a_message("s", 10 * turn + 3, "assistant", f"answer {turn} {'and so on ' * 30}"),
        )
    ]
    return list(read_neutral(write_transcript(tmp_path / "t.jsonl", *lines)))


async def bring_in(engine: Engine, messages: list[NeutralMessage]) -> importing.Imported:
    return await import_session(messages, "s", store=engine.store, blobs=engine.blobs, bounds=engine.bounds)


@pytest.mark.parametrize("batch", [1, 400])
async def test_it_is_viewed_continued_compacted_and_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    monkeypatch.setattr(importing, "BATCH_RECORDS", batch)
    engine = an_engine(
        ScriptedModel(["Goal: to read files."], limits=Limits(window_tokens=40_000)),
        bounds=Bounds(compacts_ahead=False),
    )
    imported = await bring_in(engine, a_session(tmp_path))
    assert (imported.messages, imported.already_there) == (24, 0)

    async with a_hold(engine) as hold:
        chat = await hold.session("s")
        roles = [message.role for message in (await chat.view()).messages]
        assert roles == ["user", "assistant", "tool", "assistant"] * 6
        assert (await chat.send("Go on.")).text == "Goal: to read files."
        assert (await chat.compact()).outcome is CompactionOutcome.APPLIED
        [hit, *_] = await chat.search("file0.txt")
        record = (await chat.read(hit.seq)).record

    assert isinstance(record, ToolSettled)
    assert (record.origin, await engine.blobs.get(record.result.originals[0])) == (2, OUTPUT.encode())
    assert (await bring_in(engine, a_session(tmp_path))).messages == 0


async def test_long_text_goes_to_a_blob_as_in_any_session(tmp_path: Path) -> None:
    engine = an_engine(ScriptedModel(["hi"], limits=Limits()))
    lines = [a_message("s", 1, "user", "x" * 40_000), a_message("s", 2, "user", "")]
    await bring_in(engine, list(read_neutral(write_transcript(tmp_path / "t.jsonl", *lines))))

    inputs = [one.record for one in await engine.store.read("s") if isinstance(one.record, InputAdmitted)]

    assert isinstance(inputs[0].parts[0], LargeText)
    assert (text_of(inputs[1].parts), inputs[1].origin) == ("", 2)


async def test_a_session_that_is_being_worked_on_is_left_alone(tmp_path: Path) -> None:
    engine = an_engine(ScriptedModel(["hi"]))
    await engine.store.acquire("s", "a worker", seconds=60)

    with pytest.raises(RetryLaterError, match="is being worked on elsewhere"):
        await bring_in(engine, a_session(tmp_path))

    assert await engine.store.info("s") is None


async def test_the_same_number_twice_in_a_file_is_one_message(tmp_path: Path) -> None:
    engine = an_engine(ScriptedModel(["hi"]))
    lines = [a_message("s", 1, "user", "first"), a_message("s", 1, "user", "again")]

    imported = await bring_in(engine, list(read_neutral(write_transcript(tmp_path / "t.jsonl", *lines))))

    assert (imported.messages, imported.already_there) == (1, 1)
    inputs = [one.record for one in await engine.store.read("s") if isinstance(one.record, InputAdmitted)]
    assert inputs == [InputAdmitted((Text("first"),), origin=1)]
