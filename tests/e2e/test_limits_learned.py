"""A limit that nobody declared, or declared wrongly: one refusal teaches it to all sessions and processes."""

from pathlib import Path

import pytest

from holdfast.ports import Attachment
from holdfast.types.limits import Limits
from tests.e2e import child
from tests.e2e.images import a_png
from tests.e2e.world import DIALECTS, HASTY, KEY, WINDOW, a_world, ended_well, talk


@pytest.mark.parametrize("declared", [Limits(2 * WINDOW, 1_000), Limits()], ids=["half", "unknown"])
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_the_real_window_is_learned_from_one_refusal(tmp_path: Path, dialect: str, declared: Limits) -> None:
    """FM-006, FM-007: a window half of what is declared, or not declared at all."""
    async with a_world(tmp_path, dialect) as world:
        async with world.open(world.model(declared=declared), bounds=HASTY) as hold:
            session = await hold.session(KEY)
            await talk(session, messages=8)
            assert len(world.refused) == 1
            await ended_well(session)

            await talk(await hold.session("another"), messages=8)
            assert len(world.refused) == 1, "what one session learned the others know"

        async with world.open(world.model(declared=declared), bounds=HASTY) as hold:
            view = await (await hold.session("third")).view()
            assert view.window_tokens == WINDOW
            await talk(await hold.session("third"), messages=8)
        code, said = await child.finished(child.start(world, "asks", "write 10 words " + "and more " * 3_000))
        assert (code, len(said)) == (0, 1)
        assert len(world.refused) == 1, "and whoever comes later"


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_cap_on_bytes_that_nobody_declared_is_learned(tmp_path: Path, dialect: str) -> None:
    """FM-008, FM-017."""
    real = Limits(wire_bytes_max=1_000_000)
    async with a_world(tmp_path, dialect, real) as world:
        for opened in range(2):
            async with world.open(bounds=HASTY) as hold:
                for number in range(2):
                    session = await hold.session(f"{opened}:{number}")
                    for turn in range(3):
                        image = a_png(size_bytes=600_000, seed=turn)
                        await session.send("look", attachments=[Attachment(image, f"{turn}.png")])
                    await ended_well(session)

        assert len(world.refused) == 1, "two images are too many, and that is known from then on"


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_limit_on_images_is_learned(tmp_path: Path, dialect: str) -> None:
    """FM-080."""
    async with a_world(tmp_path, dialect, Limits(media_count_max=3)) as world, world.open(bounds=HASTY) as hold:
        for name in ("one", "two"):
            session = await hold.session(name)
            for turn in range(6):
                await session.send("look", attachments=[Attachment(a_png(seed=turn), f"{turn}.png")])
            await ended_well(session)

        assert len(world.refused) == 1
