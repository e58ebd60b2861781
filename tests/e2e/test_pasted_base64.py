"""A file that was pasted into a message as base64."""

import base64
import random
from pathlib import Path

import pytest

from holdfast.types.records import InputAdmitted
from tests.e2e.world import DIALECTS, HASTY, KEY, SMALL, a_world, ended_well, records_of

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_file_pasted_as_base64_is_left_out_kept_and_told(tmp_path: Path, dialect: str) -> None:
    """FM-018: 600 kB of base64 are more tokens than any window, and noise."""
    pasted = base64.b64encode(PNG + random.Random(1).randbytes(450_000)).decode()
    text = f"What is in this picture? data:image/png;base64,{pasted}\nAnd what is harbour?"
    async with a_world(tmp_path, dialect) as world, world.open(world.model(declared=SMALL), bounds=HASTY) as hold:
        session = await hold.session(KEY)

        answer = await session.send(text, client_id="m1")

        assert any("attach it as a file" in notice for notice in answer.notices)
        assert world.refused == []
        assert max(len(seen.body) for seen in world.simulation.requests) < 4_000
        shown = str((await session.view()).messages)
        assert "What is in this picture?" in shown
        assert "And what is harbour?" in shown
        assert "characters of base64 left out: 450,008 bytes, a PNG image; kept whole: recall(blob=" in shown
        (admitted,) = await records_of(session, InputAdmitted)
        (original,) = admitted.originals
        assert (await hold.engine.blobs.get(original)).decode() == text, "byte for byte"
        assert (await session.send(text, client_id="m1")).turn == answer.turn, "the same message is one message"
        await ended_well(session)


async def test_base64_that_somebody_may_want_read_stays(tmp_path: Path) -> None:
    pasted = base64.b64encode(random.Random(1).randbytes(3_000)).decode()
    async with a_world(tmp_path) as world, world.open(world.model(declared=SMALL), bounds=HASTY) as hold:
        session = await hold.session(KEY)

        answer = await session.send(f"decode this: {pasted}")

        assert answer.notices == ()
        assert pasted.encode() in world.simulation.requests[-1].body
