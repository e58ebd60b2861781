"""Simulated power loss: synced data survives, unsynced data may not, and the check finds losses."""

import asyncio
import random
import subprocess
import sys

import msgspec
import pytest

from holdfast.lab.crashlab.disk import AT_THE_END, SECTOR_BYTES, Change, Disk, Event, disks
from holdfast.lab.crashlab.powerloss import PowerFigures

STATES = 200


def lose_power_elsewhere(*, ignores_syncs: bool) -> PowerFigures:
    """In a process of its own: the shim below SQLite is for all connections of a process."""
    code = (
        "import sys, msgspec; from holdfast.lab.crashlab.powerloss import lose_power; "
        f"print(msgspec.json.encode(lose_power({STATES}, 5, ignores_syncs={ignores_syncs})).decode())"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True)
    return msgspec.json.decode(ended.stdout, type=PowerFigures)


async def test_no_acknowledged_record_is_lost_with_the_power() -> None:
    figures = await asyncio.to_thread(lose_power_elsewhere, ignores_syncs=False)

    assert figures.broken() == []
    assert figures.states == STATES
    assert figures.syncs > 100
    assert figures.acknowledged > 100
    assert figures.segments > STATES / 4
    assert figures.blobs > STATES


async def test_on_a_disk_that_ignores_syncs_losses_are_found() -> None:
    figures = await asyncio.to_thread(lose_power_elsewhere, ignores_syncs=True)

    assert any("was acknowledged" in sentence for sentence in figures.lost)
    assert any("blob" in sentence for sentence in figures.lost)
    assert any("segment" in sentence for sentence in figures.lost)


async def test_the_command_counts_states_and_writes_them_down() -> None:
    command = [sys.executable, "-m", "holdfast", "crashlab", "--power-loss", "--states", "40", "--seed", "2", "--json"]

    ended = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=300, check=False)

    assert ended.returncode == 0, ended
    assert msgspec.json.decode(ended.stdout, type=PowerFigures).states == 40


def after(*events: Event, seed: int = 0) -> Disk:
    return next(disks(events, [len(events)], random.Random(seed)))


LOG = "store.db-wal"
CREATE, SYNC = Event(Change.CREATE, LOG), Event(Change.SYNC, LOG)


def write(place: int, body: bytes) -> Event:
    return Event(Change.WRITE, LOG, place, body)


@pytest.mark.parametrize("seed", range(20))
def test_what_was_synced_is_there_whatever_happens(seed: int) -> None:
    disk = after(
        CREATE, write(0, b"kept"), SYNC, write(2, b"....."), Event(Change.ACKNOWLEDGED, session="s", seq=3), seed=seed
    )

    assert disk.files[LOG][:2] == b"ke"
    assert disk.acknowledged == {"s": 3}


def test_what_was_not_synced_may_be_there_or_missing_or_torn_by_sectors() -> None:
    body = b"a" * SECTOR_BYTES + b"b" * SECTOR_BYTES
    left = {after(CREATE, write(0, b"-" * len(body)), SYNC, write(0, body), seed=seed).files[LOG] for seed in range(60)}

    assert left == {
        b"-" * len(body),
        body,
        body[:SECTOR_BYTES] + b"-" * SECTOR_BYTES,
        b"-" * SECTOR_BYTES + body[SECTOR_BYTES:],
    }


def test_writes_that_were_not_synced_may_change_places() -> None:
    events = (CREATE, write(0, b"--"), SYNC, write(0, b"11"), write(0, b"22"))

    assert {after(*events, seed=seed).files[LOG] for seed in range(60)} == {b"--", b"11", b"22"}


def test_a_name_that_was_not_synced_may_be_missing_and_one_that_was_deleted_may_be_back() -> None:
    fresh = {LOG in after(CREATE, write(0, b"x"), seed=seed).files for seed in range(20)}
    gone = (CREATE, write(0, b"x"), SYNC, Event(Change.DELETE, LOG))
    back = {after(*gone, seed=seed).files.get(LOG) for seed in range(20)}
    again = {after(*gone, CREATE, write(0, b"y"), seed=seed).files.get(LOG) for seed in range(80)}
    surely = {
        LOG in after(*gone[:-1], Event(Change.DELETE, LOG, is_synced=True), seed=seed).files for seed in range(20)
    }

    assert fresh == {True, False}
    assert back == {b"x", None}
    assert again == {b"x", b"y", b"", None}
    assert surely == {False}


def test_a_file_that_was_cut_is_short_once_that_was_synced() -> None:
    cut = Event(Change.TRUNCATE, LOG, 2)

    assert after(CREATE, write(0, b"1234"), SYNC, cut, SYNC).files[LOG] == b"12"
    assert {after(CREATE, write(0, b"1234"), SYNC, cut, seed=seed).files[LOG] for seed in range(20)} == {b"12", b"1234"}


FOLDER, INCOMING, BLOB = "store.db-blobs", "store.db-blobs/incoming", "store.db-blobs/ab"
PUT = (
    Event(Change.FOLDER, FOLDER),
    Event(Change.SYNC_NAMES, ""),
    Event(Change.WRITE, INCOMING, AT_THE_END, b"by"),
    Event(Change.WRITE, INCOMING, AT_THE_END, b"tes"),
    Event(Change.SYNC, INCOMING),
    Event(Change.LINK, BLOB, source=INCOMING),
    Event(Change.SYNC_NAMES, FOLDER),
    Event(Change.DELETE, INCOMING),
)


@pytest.mark.parametrize("seed", range(20))
def test_a_file_that_was_synced_linked_and_whose_folder_was_synced_is_there(seed: int) -> None:
    assert after(*PUT, seed=seed).files[BLOB] == b"bytes"


@pytest.mark.parametrize("left_out", [Event(Change.SYNC_NAMES, ""), PUT[4], Event(Change.SYNC_NAMES, FOLDER)], ids=str)
def test_where_one_sync_is_left_out_a_file_in_a_folder_may_be_missing_or_short(left_out: Event) -> None:
    events = [event for event in PUT if event != left_out]

    left = {after(*events, seed=seed).files.get(BLOB) for seed in range(60)}

    assert b"bytes" in left
    assert len(left) > 1
