"""Images that a provider refuses inside of a tool's result: the one it names goes first, for good, and is told."""

from pathlib import Path

import holdfast
from holdfast.ports import Attachment
from holdfast.types.limits import Limits
from holdfast.types.messages import Media, Text
from holdfast.types.records import NoticePosted, PartReplaced, ToolSettled
from tests.e2e.images import a_png
from tests.e2e.world import HASTY, KEY, a_world, ended_well, failures_of, records_of

REAL = Limits(media_bytes_max=100_000)
FIRST, LARGER, HARMLESS = a_png(size_bytes=150_000, seed=1), a_png(size_bytes=300_000, seed=2), a_png(size_bytes=900)


@holdfast.tool
def photographs() -> list[Attachment]:
    """Return what the cameras saw."""
    return [Attachment(HARMLESS, "small.png"), Attachment(FIRST, "first.png"), Attachment(LARGER, "larger.png")]


async def test_an_image_inside_a_tool_result_is_replaced_by_what_the_error_names_and_stays_so(tmp_path: Path) -> None:
    """FM-079, FM-080: named in the error comes before larger; durable over a restart; never summarised; told."""
    async with a_world(tmp_path, "anthropic", REAL) as world:
        async with world.open(bounds=HASTY, tools=[photographs]) as hold:
            session = await hold.session(KEY)

            answer = await session.send("call photographs {}")

            assert answer.text.startswith("The tool photographs returned")
            assert set(await failures_of(session)) == {"media_overflow"}
            assert world.notes_asked == []
            (settled,) = await records_of(session, ToolSettled)
            named = [part.name for part in settled.result.parts if isinstance(part, Media)]
            assert named == ["small.png", "first.png", "larger.png"], "the record has them all"
            replaced = await records_of(session, PartReplaced)
            assert [one.place for one in replaced] == [1, 2]
            assert [one.code for one in await records_of(session, NoticePosted)] != []
            assert any("first.png" in notice for notice in answer.notices)
            refusals = len(world.refused)
            await ended_well(session)

        async with world.open(bounds=HASTY, tools=[photographs]) as hold:
            session = await hold.session(KEY)
            assert (await session.send("still there?")).text.startswith("You said")
            view = await session.view()
            assert len(await records_of(session, PartReplaced)) == 2
            await ended_well(session)

        assert len(world.refused) == refusals, "still replaced after a restart"
    shown = [part for message in view.messages for result in message.parts for part in getattr(result, "parts", ())]
    assert [part.name for part in shown if isinstance(part, Media) and part.blob.size_bytes == len(HARMLESS)] == [
        "small.png"
    ]
    assert all(part.blob.size_bytes <= 100_000 for part in shown if isinstance(part, Media))
    assert all("record" in part.text for part in shown if isinstance(part, Text))
