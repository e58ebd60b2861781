"""Removing sessions that nobody has touched for long: what is listed goes, and nothing else."""

import asyncio
import time
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from holdfast.cli import command_line
from holdfast.cli.commands.sessions import Pruned
from holdfast.runtime.sessions.delete import SECONDS_PER_DAY
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing.builders import ManualClock, a_notice, an_input, lease_on
from tests.cli.test_commands import invoked


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store with two sessions of a hundred days ago, one of them with an open turn, and one of yesterday."""
    path = tmp_path / "store.db"

    async def fill() -> None:
        old, new = (ManualClock(time.time() - days * SECONDS_PER_DAY) for days in (100, 1))
        for clock, key in ((old, "old"), (old, "open"), (new, "new")):
            logs = SqliteStore(path, clock=clock)
            lease = await lease_on(logs, key)
            await logs.append(lease, [a_notice("long ago")], after=0)
            if key == "open":
                await logs.admit(key, an_input("not answered"))
            await logs.release(lease)
            await logs.close()

    asyncio.run(fill())
    return path


def listed(path: Path) -> list[str]:
    lines = invoked("sessions", "--json", "--store", path).splitlines()
    return [msgspec.json.decode(line)["key"] for line in lines]


def test_a_dry_run_lists_what_would_go_and_removes_nothing(store: Path) -> None:
    told = invoked("prune", "--older-than", "90", "--dry-run", "--store", store)

    assert told.splitlines()[1].split()[:2] == ["old", "1"]
    assert told.splitlines()[2:] == ["1 sessions would be deleted; nothing was changed"]
    assert listed(store) == ["new", "old", "open"]


def test_what_nobody_touched_goes_and_what_is_open_or_new_stays(store: Path) -> None:
    told = msgspec.json.decode(invoked("prune", "--older-than", "90", "--json", "--store", store), type=Pruned)

    assert [one.key for one in told.found] == ["old"]
    assert told.deleted is not None
    assert (told.deleted.sessions, told.deleted.stayed, told.deleted.records) == (("old",), {}, 1)
    assert listed(store) == ["new", "open"]
    again = invoked("prune", "--older-than", "90", "--store", store)
    assert again == "No session is older than 90 days.\n"


def test_a_session_that_somebody_holds_stays_and_it_is_said_why(store: Path) -> None:
    async def held() -> str:
        logs = SqliteStore(store, clock=ManualClock(time.time()))
        await lease_on(logs, "old")
        try:
            return await asyncio.to_thread(invoked, "prune", "--older-than", "90", "--store", store)
        finally:
            await logs.close()

    told = asyncio.run(held())

    assert "session 'old' is being worked on" in told
    assert "0 sessions deleted" in told
    assert listed(store) == ["new", "old", "open"]


@pytest.mark.parametrize("days", ["0", "-1", "nan", "inf"])
def test_days_that_are_none_are_refused(store: Path, days: str) -> None:
    ran = CliRunner().invoke(command_line, ["prune", "--older-than", days, "--store", str(store)])

    assert ran.exit_code != 0
    assert listed(store) == ["new", "old", "open"]
