"""Content that no provider takes: named by its own code, replaced for good, the original kept byte for byte."""

import base64
from pathlib import Path

import pytest

from holdfast.core.limits.bounds import Bounds
from holdfast.errors import TurnFailedError
from holdfast.ports import Attachment
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.sessions.session import Session
from holdfast.stores.blobs import FolderBlobs
from holdfast.stores.sqlite import SqliteStore
from holdfast.types.limits import Limits
from holdfast.types.messages import LargeText, Media, Text
from holdfast.types.records import InputAdmitted, NoticePosted, PartReplaced
from tests.e2e.images import a_png
from tests.e2e.world import (
    DIALECTS,
    HASTY,
    KEY,
    SMALL,
    World,
    a_message,
    a_world,
    ended_well,
    failures_of,
    records_of,
    rungs_of,
    talk,
)

MIB = 2**20
STOP = Bounds(compacts_ahead=False, on_oversize="stop")


async def originals(world: World, session: Session) -> list[bytes]:
    """Return what was attached, as it is kept."""
    blobs = FolderBlobs(world.store.with_name(world.store.name + "-blobs"))
    parts = [part for admitted in await records_of(session, InputAdmitted) for part in admitted.parts]
    return [await blobs.get(part.blob) for part in parts if isinstance(part, Media | LargeText)]


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_request_with_too_many_bytes_is_answered_without_the_culprit_and_never_summarised(
    tmp_path: Path, dialect: str
) -> None:
    """FM-017, FM-079: durable over a restart, and the person is told."""
    real = Limits(window_tokens=2_000_000, wire_bytes_max=MIB)
    document = "the quick brown fox jumps over the lazy dog\n" * 40_000
    async with a_world(tmp_path, dialect, real) as world:
        async with world.open(bounds=HASTY) as hold:
            session = await hold.session(KEY)
            await session.send("remember harbour = Tromso")

            answer = await session.send("read this", attachments=[Attachment(document.encode(), "fox.txt")])

            assert answer.text.startswith('You said: "read this')
            assert [seen.status for seen in world.refused] == [413]
            assert await failures_of(session) == ["wire_overflow"]
            assert world.notes_asked == []
            assert any("fox.txt" in notice for notice in answer.notices)
            assert await originals(world, session) == [document.encode()]
            await ended_well(session)

        async with world.open(bounds=HASTY) as hold:
            session = await hold.session(KEY)
            assert (await session.send("what is harbour?")).text == "harbour = Tromso."
            assert len(world.refused) == 1, "still replaced after a restart"
            assert len(await records_of(session, PartReplaced)) == 1


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("real", "image"),
    [
        (Limits(media_bytes_max=100_000), a_png(size_bytes=300_000)),
        (Limits(media_pixels_max=2_000), a_png(width=4_000, height=100)),
        (Limits(media_count_max=0), a_png()),
    ],
    ids=["bytes", "pixels", "count"],
)
async def test_an_image_that_the_provider_refuses_is_replaced_and_never_summarised(
    tmp_path: Path, dialect: str, real: Limits, image: bytes
) -> None:
    """FM-079, FM-080: also where another, harmless image came before it."""
    async with a_world(tmp_path, dialect, real) as world:
        async with world.open(bounds=HASTY) as hold:
            session = await hold.session(KEY)
            await session.send("hello")

            answer = await session.send("look", attachments=[Attachment(image, "photo.png")])

            assert answer.text.startswith('You said: "look')
            assert len(world.refused) == 1
            assert await failures_of(session) == ["media_overflow"]
            assert world.notes_asked == []
            (replaced,) = await records_of(session, PartReplaced)
            assert isinstance(replaced.shown, Text | Media)
            assert any(notice.code == "media_overflow" for notice in await records_of(session, NoticePosted))
            assert await originals(world, session) == [image]
        async with world.open(bounds=HASTY) as hold:
            await (await hold.session(KEY)).send("still there?")
            assert len(world.refused) == 1


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_harmless_image_stays_where_a_later_one_is_refused(tmp_path: Path, dialect: str) -> None:
    """FM-080: what came since the last success is to blame."""
    real = Limits(media_bytes_max=100_000)
    async with a_world(tmp_path, dialect, real) as world, world.open(bounds=HASTY) as hold:
        session = await hold.session(KEY)
        harmless = a_png(size_bytes=90_000, seed=1)
        first = await session.post("look", attachments=[Attachment(harmless, "small.png")])
        await session.wait(first)

        second = await session.post("and here", attachments=[Attachment(a_png(size_bytes=120_000), "large.png")])
        await session.wait(second)

        assert [one.seq for one in await records_of(session, PartReplaced)] == [second]
        assert base64.b64encode(harmless) in world.simulation.requests[-1].body


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("kind", "real", "content"),
    [
        ("wire_overflow", Limits(wire_bytes_max=MIB), Attachment(b"the fox runs\n" * 150_000, "fox.txt")),
        # Nothing that can be seen has so few bytes.
        ("media_overflow", Limits(media_bytes_max=100), Attachment(a_png(size_bytes=300_000), "photo.png")),
    ],
    ids=["wire", "media"],
)
async def test_whoever_wants_to_be_asked_gets_the_code_of_what_is_too_large_and_the_next_message_works(
    tmp_path: Path, dialect: str, kind: str, real: Limits, content: Attachment
) -> None:
    """FM-026, FM-079: `on_oversize` is "stop"."""
    async with a_world(tmp_path, dialect, real) as world, world.open(bounds=STOP) as hold:
        session = await hold.session(KEY)

        with pytest.raises(TurnFailedError) as failed:
            await session.send("take this", attachments=[content])

        assert failed.value.reason == kind
        assert (await session.send("then without it")).text.startswith("You said")
        assert len(world.refused) == 1
        await ended_well(session)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_what_cannot_be_made_to_fit_ends_the_turn_with_its_own_code(tmp_path: Path, dialect: str) -> None:
    """FM-001, FM-043: a system text larger than the window, a body cap below the system text."""
    system = "You are thorough. " * 2_000
    async with a_world(tmp_path, dialect) as world:
        async with world.open(world.model(declared=SMALL), bounds=HASTY, system=system) as hold:
            with pytest.raises(TurnFailedError) as failed:
                await (await hold.session("tokens")).send("hello")
            assert failed.value.reason == "token_overflow"
        world.simulation.limits = Limits(wire_bytes_max=10_000)
        async with world.open(world.model("other"), bounds=HASTY, system=system) as hold:
            with pytest.raises(TurnFailedError) as failed:
                await (await hold.session("wire")).send("hello")
            assert failed.value.reason == "wire_overflow"
        async with world.open(world.model("other"), bounds=HASTY) as hold:
            assert (await (await hold.session("wire")).send("hello")).text.startswith("You said")


async def poisoned(world: World, *parts: Text) -> None:
    """Put a message into the log that no admission would take today."""
    store = SqliteStore(world.store, clock=SystemClock())
    await store.admit(KEY, InputAdmitted(parts))
    await store.close()


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "parts",
    [
        (Text(""),),
        (Text(" \n\t"),),
        (Text(""), Text("and this")),
    ],
    ids=["empty", "blank", "empty-among-others"],
)
async def test_a_session_poisoned_by_empty_text_heals(tmp_path: Path, dialect: str, parts: tuple[Text, ...]) -> None:
    """FM-086."""
    async with a_world(tmp_path, dialect) as world:
        await poisoned(world, *parts)

        async with world.open(bounds=HASTY) as hold:
            session = await hold.session(KEY)
            assert (await session.send("are you there?")).text.startswith("You said")

            assert world.refused == []
            await ended_well(session)


@pytest.mark.parametrize(
    ("dialect", "text"),
    [
        ("openai", "data:image/png;base64," + base64.b64encode(a_png(size_bytes=700_000)).decode()),
        ("anthropic", "data:image/png;base64," + base64.b64encode(a_png(size_bytes=700_000)).decode()),
        # Once, because it takes its time.
        ("openai", "all work and no play makes a long text\n" * (60 * MIB // 39)),
    ],
    ids=["base64-openai", "base64-anthropic", "60-mb"],
)
async def test_a_session_poisoned_by_a_huge_text_in_a_record_heals(tmp_path: Path, dialect: str, text: str) -> None:
    """FM-018, FM-079, FM-082: the record keeps it byte for byte."""
    async with a_world(tmp_path, dialect) as world:
        await poisoned(world, Text(text))

        async with world.open(world.model(declared=SMALL), bounds=HASTY) as hold:
            session = await hold.session(KEY)
            answer = await session.send("are you there?")

            assert answer.text.startswith('You said: "are you there?"')
            assert world.refused == []
            assert (await records_of(session, InputAdmitted))[0].parts == (Text(text),)
            await ended_well(session)


async def test_several_results_of_tools_that_fill_the_window_together_are_masked(tmp_path: Path) -> None:
    """FM-029, FM-030, FM-031, FM-083."""

    def look(number: int) -> str:
        """Look something up."""
        return a_message(number)

    bounds = Bounds(compacts_ahead=False, outputs_kept=2)
    calls = " then ".join(f'call look {{"number": {number}}}' for number in range(9))
    async with (
        a_world(tmp_path) as world,
        world.open(world.model(declared=SMALL), bounds=bounds, tools=[look]) as hold,
    ):
        session = await hold.session(KEY)

        answer = await session.send(calls)

        assert answer.text.startswith("The tool look returned: message 8")
        assert world.refused == []
        assert "mask" in await rungs_of(session)
        assert world.notes_asked == []
        await talk(session, messages=1)
        await ended_well(session)
