"""Any flipped bit is found, hurts one place alone, is told, and once repaired is gone; and whoever looks can fail.

`holdfast crashlab --flips 10000` flips so many instead of a few.
"""

import asyncio
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from holdfast.cli.commands.lab import crashlab
from holdfast.lab.crashlab import flips
from holdfast.lab.crashlab.flips import RECORDS, SEALED, Flip, FlipFigures, copy_files, fill, flip, flip_all, spread
from holdfast.runtime.maintenance.doctor import Doctor, Finding
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing.builders import ManualClock, a_notice
from holdfast.types.records import DamageSetAside, Logged

# `make crashlab` flips 300 more in CI.
FLIPS = 80
KINDS = {"body", "seq", "at", "crc32", "snapshot", "blob", "segment"}


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("flips") / "s.db"
    asyncio.run(fill(path))
    return path


def test_any_flipped_bit_is_detected_contained_reported_and_repaired() -> None:
    messages: list[FlipFigures] = []
    flip_all(range(FLIPS), messages.append)

    total = FlipFigures()
    for figures in messages:
        total.add(figures)
    assert total.broken() == []
    assert total.count > FLIPS * 0.8
    assert total.count + total.skipped == FLIPS
    assert set(total.flips) == KINDS


def test_the_command_tells_how_many_were_flipped_in_what_and_what_came_of_it() -> None:
    ran = CliRunner().invoke(crashlab, ["--flips", "6", "--seed", "1", "--lanes", "2", "--json"])

    assert ran.exit_code == 0, ran.output
    told = msgspec.json.decode(ran.output, type=FlipFigures)
    assert (told.count + told.skipped, told.broken()) == (6, [])


def test_a_doctor_that_finds_nothing_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    async def blind(_doctor: Doctor, _session: str) -> list[Finding]:
        return []

    monkeypatch.setattr(Doctor, "check", blind)
    messages: list[FlipFigures] = []
    # Only what the rows themselves tell is flipped.
    monkeypatch.setattr(flips, "flip", lambda path, seed: flip(path, seed, ["body"]))
    flip_all(range(3), messages.append)

    # On a slow machine they are told one by one.
    assert sum(len(figures.undetected) for figures in messages) == 3
    assert sum(len(figures.broken()) for figures in messages) >= 3


def test_damage_beyond_the_place_that_was_hit_is_found_out() -> None:
    before = [Logged(seq, 0.0, a_notice(str(seq))) for seq in range(1, RECORDS + 1)]
    marked = [Logged(one.seq, 0.0, DamageSetAside("x")) for one in before]
    body, segment = Flip("body", 1, 1, 3), Flip("segment", 1)

    assert spread(body, before, before) == []
    assert spread(body, before, [*before[:2], marked[2], *before[3:]]) == []
    assert spread(segment, before, [*marked[:SEALED], *before[SEALED:]]) == []
    assert spread(body, before, [*marked[:2], *before[2:]]) == ["records [1, 2] are damaged"]
    assert spread(body, before, before[:-1]) == [f"{RECORDS} records before, {RECORDS - 1} after"]
    another = Logged(1, 0.0, a_notice("another"))
    assert spread(body, before, [another, *before[1:]]) == ["records [1] have another content"]


def test_the_same_seed_flips_the_same_bit_and_an_empty_store_has_none(original: Path, tmp_path: Path) -> None:
    first = [flip(copy_files(original, tmp_path / "copy"), seed) for seed in range(5)]
    again = [flip(copy_files(original, tmp_path / "copy"), seed) for seed in range(5)]

    assert first == again
    empty = tmp_path / "empty.db"
    asyncio.run(SqliteStore(empty, clock=ManualClock()).close())
    assert [flip(empty, 1, [target]) for target in ("body", "snapshot", "blob", "segment")] == [None] * 4
