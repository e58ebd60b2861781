"""The commands `doctor`, `backup` and `restore`: what is found is said, repaired after a backup, and then gone."""

import asyncio
import json
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from holdfast.cli import command_line
from holdfast.cli.exit_codes import run
from holdfast.core.integrity.segments import Kept, unpack_segment
from holdfast.runtime.maintenance.sealing import put_segment
from holdfast.runtime.sessions.delete import delete_session
from holdfast.stores.archives import FolderArchive
from holdfast.stores.blobs import FolderBlobs
from holdfast.stores.rows import record_crc32
from holdfast.stores.sqlite import SqliteStore
from holdfast.stores.sqlite.process_lock import Instances
from holdfast.testing.builders import (
    ManualClock,
    a_notice,
    a_reply,
    a_turn_ended,
    a_turn_started,
    an_attempt_started,
    an_input,
    lease_on,
)
from holdfast.types.messages import LargeText
from holdfast.types.records import InputAdmitted, encode_record
from tests.stores.older import a_store_of_layout, fill, schema_of

TURN = (a_turn_started(), an_attempt_started(), a_reply("aye"), a_turn_ended())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with two sessions of five records, one of which names a blob."""
    asyncio.run(_fill(tmp_path / "s.db"))
    return tmp_path / "s.db"


async def _fill(path: Path) -> None:
    store, blobs = SqliteStore(path, clock=ManualClock()), FolderBlobs(path.with_name("s.db-blobs"))
    ref = await blobs.put(b"a long text")
    for key in ("one", "two"):
        await store.admit(key, InputAdmitted((LargeText(ref, "a long"),)) if key == "one" else an_input())
        lease = await lease_on(store, key)
        await store.append(lease, list(TURN), after=1)
        await store.release(lease)
    await store.close()


def damage(path: Path, sql: str, *values: int | bytes) -> None:
    with closing(apsw.Connection(str(path))) as db:
        db.execute(sql, values)
        assert db.changes() >= 1


def doctor(path: Path, *options: str) -> int:
    return run(command_line, ["doctor", "--store", str(path), *options])


def report(path: Path, capfd: pytest.CaptureFixture[str], *options: str) -> dict[str, object]:
    doctor(path, "--json", *options)
    said: dict[str, object] = json.loads(capfd.readouterr().out)
    return said


def codes(path: Path, capfd: pytest.CaptureFixture[str], *options: str) -> list[tuple[str, str, int]]:
    found = report(path, capfd, *options)["found"]
    assert isinstance(found, dict)
    return [(one["code"], one["session"], one["seq"]) for one in found["findings"]]


def test_a_healthy_store_is_said_to_be_well_and_nothing_is_written(
    path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    before = path.read_bytes()

    assert doctor(path) == 0

    said = capfd.readouterr()
    assert (said.out.splitlines()[-1], said.err) == ("No problems found.", "")
    assert "2 sessions checked" in said.out
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("sql", "code", "seq"),
    [
        ("UPDATE recent SET body = x'00' WHERE session = 1 AND seq = 3", "damaged_record", 3),
        ("DELETE FROM recent WHERE session = 1 AND seq = 3", "missing_record", 3),
        ("UPDATE recent SET seq = seq | 1024 WHERE session = 1 AND seq = 3", "moved_record", 1027),
        ("UPDATE sessions SET owed = 5 WHERE number = 1", "counter", 0),
    ],
)
def test_each_kind_of_damage_is_named_with_its_place_repaired_after_a_backup_and_then_gone(
    path: Path, capfd: pytest.CaptureFixture[str], sql: str, code: str, seq: int
) -> None:
    damage(path, sql)

    assert codes(path, capfd) == [(code, "one", seq)]
    assert doctor(path) == 3
    assert "Nothing was changed" in capfd.readouterr().out
    assert doctor(path, "--fix") == 0

    said = capfd.readouterr().out
    assert "Repaired; no problems left." in said
    (backup,) = path.parent.glob("s-before-fix-*.db")
    assert f"Backup: {backup}" in said
    assert codes(backup, capfd) == [(code, "one", seq)]
    assert doctor(path) == 0


def test_one_session_can_be_looked_at_alone(path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    damage(path, "UPDATE recent SET body = x'00' WHERE session = 1 AND seq = 3")

    assert doctor(path, "--session", "two") == 0
    assert doctor(path, "--session", "one") == 3
    assert doctor(path, "--session", "three") == 2
    assert "there is no session 'three'" in capfd.readouterr().err


def test_a_kept_fold_that_is_damaged_is_dropped(path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    damage(path, "INSERT INTO snapshots (session, seq, crc32, body) VALUES (1, 5, 7, x'00')")

    assert codes(path, capfd) == [("snapshot", "one", 5)]
    assert doctor(path, "--fix") == 0


def test_a_blob_that_is_altered_or_gone_is_named_with_the_record_and_left_to_a_person(
    path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (blob,) = (path.parent / "s.db-blobs").glob("??/*")
    blob.write_bytes(b"A long text")
    assert codes(path, capfd) == [("blob", "one", 1)]

    blob.unlink()

    assert codes(path, capfd) == [("blob", "one", 1)]
    assert doctor(path, "--fix") == 3
    assert "restore it from a backup" in capfd.readouterr().out


def test_blobs_that_are_named_and_not_noted_are_noted_again(path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    damage(path, "DELETE FROM blob_names")

    assert codes(path, capfd) == [("unnoted_blobs", "one", 0)]
    assert doctor(path, "--fix") == 0
    capfd.readouterr()
    assert codes(path, capfd) == []
    with closing(apsw.Connection(str(path))) as db:
        assert db.execute("SELECT count(*) FROM blob_names").get == 1


def test_a_table_of_names_that_had_to_be_made_again_is_not_taken_for_the_word_that_nobody_names_a_blob(
    path: Path,
) -> None:
    with closing(apsw.Connection(str(path))) as db:
        db.execute("DROP TABLE blob_names")

    assert doctor(path, "--fix") == 0

    async def known() -> tuple[list[str], int, list[str]]:
        store, blobs = SqliteStore(path, clock=ManualClock()), FolderBlobs(path.with_name("s.db-blobs"))
        before = await store.unscanned_sessions()
        await delete_session(store, blobs, None, "two")
        after = (len(await store.blob_refs("one")), await store.unscanned_sessions())
        await store.close()
        return before, *after

    # What the doctor did not look for in vain it has noted; the rest is read by whoever deletes first.
    assert asyncio.run(known()) == (["two"], 1, [])


def test_rows_of_a_session_that_is_gone_become_one_again(path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    damage(path, "DELETE FROM sessions WHERE number = 2")

    assert codes(path, capfd) == [("orphan_rows", "", 0)]
    assert doctor(path, "--fix") == 0
    capfd.readouterr()
    assert run(command_line, ["show", "recovered:2", "--store", str(path)]) == 0
    assert "answer: aye" in capfd.readouterr().out


def test_a_migration_that_was_half_applied_is_finished(path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with closing(apsw.Connection(str(path))) as db:
        db.execute("DROP TABLE quarantine; DROP INDEX sessions_owing")
    before = codes(path, capfd)

    assert {code for code, _, _ in before} == {"layout"}
    assert len(before) == 3
    assert doctor(path, "--fix") == 0


def test_an_index_that_disagrees_with_its_table_is_found_by_sqlites_own_check(
    path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with closing(apsw.Connection(str(path))) as db:
        root = db.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'sessions'").get
    content = bytearray(path.read_bytes())
    content[(root - 1) * 4096 + 8 : (root - 1) * 4096 + 12] = b"\xff\xff\xff\xff"
    path.write_bytes(bytes(content))

    assert doctor(path) in {3, 74}
    said = capfd.readouterr()
    assert "damaged" in said.out + said.err or "cannot be read" in said.out + said.err


def test_an_older_store_is_checked_as_it_is(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    old = a_store_of_layout(1, tmp_path / "old.db")
    fill(old, an_input(), *TURN)
    before = schema_of(old)

    assert doctor(old) == 0

    assert "layout 1; the next command that writes migrates it to layout" in capfd.readouterr().out
    assert schema_of(old) == before


async def a_sealed_session(path: Path) -> FolderArchive:
    store, archive = SqliteStore(path, clock=ManualClock()), FolderArchive(path.with_name("s.db-archive"))
    lease = await lease_on(store, "sealed")
    await store.append(lease, [a_notice(f"notice {number}") for number in range(1, 8)], after=0)
    rows: list[Kept] = await store.live_rows("sealed", limit=4)
    await store.search("sealed", "notice")
    await store.seal(lease, await put_segment(archive, "sealed", rows), after=7)
    await store.release(lease)
    await store.close()
    return archive


def test_a_segment_that_is_gone_is_named_and_left_to_a_person(path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    archive = asyncio.run(a_sealed_session(path))
    assert doctor(path) == 0
    (name,) = asyncio.run(archive.names())
    body = asyncio.run(archive.get(name))
    asyncio.run(archive.remove(name))
    capfd.readouterr()

    assert codes(path, capfd) == [("segment", "sealed", 1)]

    asyncio.run(archive.put(name, body[:-9] + b"altered!!"))
    assert codes(path, capfd) == [("segment", "sealed", 1)]


def test_a_seal_that_was_lost_is_noted_again_and_nothing_is_taken_for_missing(
    path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    asyncio.run(a_sealed_session(path))
    damage(path, "DELETE FROM segments")

    assert ("lost_seal", "sealed", 1) in codes(path, capfd)
    assert doctor(path, "--fix") == 0
    capfd.readouterr()
    assert run(command_line, ["show", "sealed", "--store", str(path)]) == 0
    said = capfd.readouterr().out
    assert "notice 1" in said
    assert "damaged" not in said


def test_records_that_are_sealed_and_still_live_are_taken_out(path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    asyncio.run(a_sealed_session(path))
    at, body = ManualClock().now(), encode_record(a_notice("notice 1"))
    with closing(apsw.Connection(str(path))) as db:
        row = (3, 1, at, record_crc32(3, 1, at, body), body)
        db.execute("INSERT INTO records (session, seq, at, crc32, body) VALUES (?, ?, ?, ?, ?)", row)

    assert codes(path, capfd) == [("sealed_and_live", "sealed", 0)]
    assert doctor(path, "--fix") == 0


def test_a_segment_that_is_gone_is_put_again_where_its_records_are_live(
    path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """As where an older copy of the file is put beside an archive that was lost."""
    archive = asyncio.run(a_sealed_session(path))
    (name,) = asyncio.run(archive.names())
    _, rows = unpack_segment(asyncio.run(archive.get(name)))
    with closing(apsw.Connection(str(path))) as db:
        for row in rows:
            values = (3, row.seq, row.at, row.crc32, row.body)
            db.execute("INSERT INTO records (session, seq, at, crc32, body) VALUES (?, ?, ?, ?, ?)", values)
    asyncio.run(archive.remove(name))

    assert codes(path, capfd) == [("sealed_and_live", "sealed", 1), ("segment", "sealed", 1)]
    assert doctor(path, "--fix") == 0
    assert asyncio.run(archive.names()) == [name]
    capfd.readouterr()
    assert codes(path, capfd) == []


# --- backup and restore --------------------------------------------------------------------------------------------


def test_a_backup_is_a_store_itself_and_is_restored_where_nothing_is(
    path: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    copy, again = tmp_path / "copy.db", tmp_path / "again.db"

    async def back_up_while_it_is_open() -> int:
        busy = SqliteStore(path, clock=ManualClock())
        await busy.admit("three", an_input("while it is open"))
        code = await asyncio.to_thread(run, command_line, ["backup", str(copy), "--store", str(path)])
        await busy.close()
        return code

    assert asyncio.run(back_up_while_it_is_open()) == 0
    assert run(command_line, ["restore", str(copy), "--store", str(again)]) == 0

    for place in (copy, again):
        capfd.readouterr()
        assert run(command_line, ["sessions", "--json", "--store", str(place)]) == 0
        assert [json.loads(line)["key"] for line in capfd.readouterr().out.splitlines()] == ["one", "three", "two"]
        assert doctor(place) == 0


def test_nothing_is_overwritten(path: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    copy = tmp_path / "copy.db"
    assert run(command_line, ["backup", str(copy), "--store", str(path)]) == 0

    assert run(command_line, ["backup", str(copy), "--store", str(path)]) == 2
    assert run(command_line, ["restore", str(copy), "--store", str(path)]) == 2
    assert "--force renames it" in capfd.readouterr().err
    assert run(command_line, ["restore", str(copy), "--store", str(path), "--force"]) == 0

    (moved,) = tmp_path.glob("s-replaced-*.db")
    assert f"the previous store is now {moved}" in capfd.readouterr().out
    assert (doctor(moved), doctor(path)) == (0, 0)


def test_a_store_in_use_is_not_replaced_and_a_damaged_backup_not_restored(
    path: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "copy.db"
    run(command_line, ["backup", str(copy), "--store", str(path)])
    busy = Instances(path)
    assert run(command_line, ["restore", str(copy), "--store", str(path), "--force"]) == 75
    busy.close()
    damage(copy, "UPDATE recent SET body = x'00' WHERE session = 1 AND seq = 3")

    assert run(command_line, ["restore", str(copy), "--store", str(tmp_path / "other.db")]) == 74

    assert "is damaged" in capfd.readouterr().err
    assert not (tmp_path / "other.db").exists()


async def _seal_elsewhere(path: Path, archive: FolderArchive) -> None:
    store = SqliteStore(path, clock=ManualClock())
    lease = await lease_on(store, "two")
    await store.search("two", "aye")
    rows = await store.live_rows("two", limit=2)
    await store.seal(lease, await put_segment(archive, "two", rows), after=5)
    await store.release(lease)
    await store.close()


def test_a_backup_does_not_leave_out_an_archive_elsewhere_without_being_told_to(
    path: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """As with an archive in a bucket."""
    asyncio.run(_seal_elsewhere(path, FolderArchive(tmp_path / "elsewhere")))
    copy = tmp_path / "copy.db"

    assert run(command_line, ["backup", str(copy), "--store", str(path)]) == 2
    assert "--without-archive" in capfd.readouterr().err
    assert not copy.exists()
    assert run(command_line, ["backup", str(copy), "--store", str(path), "--without-archive"]) == 0
    assert copy.exists()
