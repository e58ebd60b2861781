"""Attachments far beyond what a provider takes: answered, the original kept, memory flat."""

from pathlib import Path

import pytest

from holdfast.ports import Attachment
from holdfast.runtime.sessions.session import Session
from holdfast.stores.blobs import FolderBlobs
from holdfast.types.limits import Limits
from holdfast.types.messages import LargeText, Media
from holdfast.types.records import InputAdmitted, PartReplaced
from tests.e2e import child
from tests.e2e.images import a_photo, a_png
from tests.e2e.world import DIALECTS, HASTY, KEY, World, a_world, ended_well, records_of, rungs_of

MIB = 2**20
# What a large provider takes.
ANTHROPIC = Limits(200_000, 8_000, 32 * MIB, 100, 5 * MIB, 8_000)


async def originals(world: World, session: Session) -> list[bytes]:
    """Return what was attached, as it is kept."""
    blobs = FolderBlobs(world.store.with_name(world.store.name + "-blobs"))
    parts = [part for admitted in await records_of(session, InputAdmitted) for part in admitted.parts]
    return [await blobs.get(part.blob) for part in parts if isinstance(part, Media | LargeText)]


@pytest.mark.parametrize("declared", [Limits(), ANTHROPIC], ids=["unknown", "declared"])
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_an_image_of_30_mb_is_made_smaller_and_its_original_kept(
    tmp_path: Path, dialect: str, declared: Limits
) -> None:
    """FM-017, FM-079, FM-080: before anything is sent, and for good."""
    image = a_photo(width=4_000, height=3_000, size_bytes=30_000_000)
    async with a_world(tmp_path, dialect, ANTHROPIC) as world:
        async with world.open(world.model(declared=declared), bounds=HASTY) as hold:
            session = await hold.session(KEY)

            answer = await session.send("describe the photo", attachments=[Attachment(image, "photo.png")])

            assert "I see an attachment: image/jpeg, 2000x1500 pixels" in answer.text
            assert world.refused == []
            (replaced,) = await records_of(session, PartReplaced)
            assert isinstance(replaced.shown, Media)
            (notice,) = answer.notices
            assert "photo.png (image/png, 30,000,000 bytes, 4000x3000 pixels)" in notice
            assert f"2000x1500 pixels, {replaced.shown.blob.size_bytes:,} bytes" in notice
            assert "The original is kept: record 1 has it." in notice
            assert await originals(world, session) == [image]
            await ended_well(session)

        async with world.open(world.model(declared=declared), bounds=HASTY) as hold:
            count = world.simulation.request_count
            await (await hold.session(KEY)).send("go on")
            assert world.simulation.request_count == count + 1, "what was made smaller once is not tried again"
            assert b"image/jpeg" in world.simulation.requests[-1].body, "and is still seen after a restart"


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_damaged_image_of_30_mb_is_left_out_and_its_original_kept(tmp_path: Path, dialect: str) -> None:
    """FM-079, FM-080: what cannot be made smaller is shown by a line."""
    image = a_photo(width=4_000, height=3_000, size_bytes=30_000_000)[:-20_000]
    async with a_world(tmp_path, dialect, ANTHROPIC) as world, world.open(bounds=HASTY) as hold:
        session = await hold.session(KEY)

        answer = await session.send("describe the photo", attachments=[Attachment(image, "photo.png")])

        assert answer.text.startswith('You said: "describe the photo')
        assert "I see an attachment" not in answer.text
        assert (await rungs_of(session))[:2] == ["shrink_image", "replace_largest"]
        assert any("photo.png" in notice for notice in answer.notices)
        assert await originals(world, session) == [image]
        assert len(world.simulation.requests[-1].body) < MIB
        await ended_well(session)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("real", "seen"),
    [
        (Limits(media_bytes_max=100_000), ""),
        (Limits(media_pixels_max=500), "500x333 pixels"),
        (Limits(wire_bytes_max=900_000), ""),
    ],
    ids=["bytes", "pixels", "wire"],
)
async def test_an_image_that_the_provider_refuses_is_made_to_fit_what_it_said(
    tmp_path: Path, dialect: str, real: Limits, seen: str
) -> None:
    """FM-006, FM-080: the limit that a refusal names, or teaches, is met at once and by whoever comes later."""
    image = a_photo(width=1_200, height=800, size_bytes=900_000)
    async with a_world(tmp_path, dialect, real) as world, world.open(bounds=HASTY) as hold:
        for name in ("one", "two"):
            session = await hold.session(name)
            answer = await session.send("look", attachments=[Attachment(image, "photo.png")])

            assert f"I see an attachment: image/jpeg, {seen}" in answer.text
            assert await rungs_of(session) == ["shrink_image"]
            await ended_well(session)
        assert len(world.refused) == 1


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_message_with_150_images_is_answered_with_as_many_as_the_provider_takes(
    tmp_path: Path, dialect: str
) -> None:
    """FM-017, FM-080."""
    images = [a_png(seed=number, width=64 + number) for number in range(150)]
    async with a_world(tmp_path, dialect, ANTHROPIC) as world, world.open(bounds=HASTY) as hold:
        session = await hold.session(KEY)

        answer = await session.send(
            "look at these", attachments=[Attachment(image, f"{at}.png") for at, image in enumerate(images)]
        )

        assert answer.text.startswith('You said: "look at these')
        assert answer.text.count("I see an attachment") == 100
        assert len(await records_of(session, PartReplaced)) == 50
        assert len(world.refused) == 1
        assert await originals(world, session) == images
        await ended_well(session)


async def test_150_photos_that_are_too_much_together_are_all_seen_and_memory_stays_flat(tmp_path: Path) -> None:
    """FM-017, FM-080, FM-128: one image is in hand at a time."""
    folder = tmp_path / "photos"
    folder.mkdir()
    for number in range(150):
        photo = a_photo(width=600, height=400, size_bytes=300_000, seed=number)
        (folder / f"{number:03}.png").write_bytes(photo)
    async with a_world(tmp_path, "anthropic", Limits(wire_bytes_max=32 * MIB)) as world:
        code, said = await child.finished(child.start(world, "attaches", str(folder)))

        assert code == 0
        assert said[1].count("I see an attachment") == 150
        assert world.refused == [], "60 MB of base64 are known to be too much for any provider"
        # What is sent is in memory, as bytes, as base64 and as the request; one decoded image is nothing beside it.
        assert int(said[0]) < 5 * 32 * MIB


async def test_a_text_of_200_mb_is_answered_without_being_held_in_memory(tmp_path: Path) -> None:
    """FM-082, FM-127, FM-128."""
    path = tmp_path / "journal.log"
    line = b"2026-01-01 12:00:00 the ship keeps its course while the wind turns\n"
    with path.open("wb") as file:
        for _ in range(200):
            file.write(line * (MIB // len(line)))
    size = path.stat().st_size
    async with a_world(tmp_path) as world:
        code, said = await child.finished(child.start(world, "attaches", str(path)))

        assert code == 0
        assert said[1].startswith('You said: "what is in this file?')
        assert int(said[0]) < 64 * MIB, "a third of the file would already be too much"
        blobs = FolderBlobs(world.store.with_name(world.store.name + "-blobs"))
        async with world.open() as hold:
            admitted = (await records_of(await hold.session(KEY), InputAdmitted))[1]
        kept = next(part for part in admitted.parts if isinstance(part, LargeText))
        assert kept.blob.size_bytes == size
        assert await blobs.read(kept.blob, start=size - len(line), length=len(line)) == line
        assert max(len(seen.body) for seen in world.simulation.requests) < MIB
