"""The commands `export` and `import` of a whole session, also from a store of an older layout."""

import asyncio
import json
from pathlib import Path

import pytest

from holdfast.cli import command_line
from holdfast.cli.exit_codes import run
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing.builders import ManualClock, a_reply, a_turn_ended, a_turn_started, an_attempt_started, an_input
from tests.stores.older import a_store_of_layout, fill, schema_of

TURN = (an_input("ahoy"), a_turn_started(), an_attempt_started(), a_reply("aye"), a_turn_ended())


def holdfast(*arguments: str | Path) -> int:
    return run(command_line, [str(argument) for argument in arguments])


def shown(key: str, store: Path, capfd: pytest.CaptureFixture[str]) -> list[object]:
    capfd.readouterr()
    assert holdfast("show", key, "--store", store, "--json") == 0
    return [json.loads(line) for line in capfd.readouterr().out.splitlines()]


def test_a_session_goes_into_a_file_and_comes_back_in_another_store_under_another_key(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    old, there, file = a_store_of_layout(2, tmp_path / "old.db"), tmp_path / "there.db", tmp_path / "s.jsonl"
    fill(old, *TURN)
    before = schema_of(old)

    assert holdfast("export", "s", "--out", file, "--store", old) == 0
    assert holdfast("import", file, "--as", "t", "--store", there) == 0
    assert "t: 5 records and 0 blobs imported" in capfd.readouterr().out

    assert shown("t", there, capfd) == shown("s", old, capfd)
    assert schema_of(old) == before
    assert holdfast("import", file, "--key", "t", "--store", there) == 2
    assert "session 't' already exists" in capfd.readouterr().err
    assert holdfast("import", file, "--json", "--store", there) == 0
    assert json.loads(capfd.readouterr().out)["origin"] == "s"


def test_an_export_goes_to_standard_output_and_never_over_a_file(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    old, file = a_store_of_layout(1, tmp_path / "old.db"), tmp_path / "s.jsonl"
    fill(old, *TURN)
    file.write_text("mine")

    assert holdfast("export", "s", "--store", old) == 0
    assert capfd.readouterr().out.count("\n") == 7
    assert holdfast("export", "s", "--out", file, "--store", old) == 2
    assert holdfast("export", "nobody", "--store", old) == 2
    assert file.read_text() == "mine"


def test_whatever_only_reads_leaves_an_older_store_as_it_is_and_what_writes_does_not(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    old = a_store_of_layout(1, tmp_path / "old.db")
    fill(old, *TURN)
    before = schema_of(old)

    for command in (["sessions"], ["show", "s"], ["view", "s"], ["search", "s", "ahoy"], ["doctor"], ["export", "s"]):
        assert holdfast(*command, "--store", old) == 0, command
        assert schema_of(old) == before, command
    capfd.readouterr()
    assert holdfast("cancel", "s", "--store", old) == 0

    asyncio.run(SqliteStore(tmp_path / "fresh.db", clock=ManualClock()).close())
    assert schema_of(old) == schema_of(tmp_path / "fresh.db")
