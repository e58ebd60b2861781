"""Bodies of appended records are packed in the file, and nowhere else."""

import json
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import apsw
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.core.integrity.segments import unpack_segment
from holdfast.errors import ClientIdReusedError
from holdfast.stores.rows import packed, unpacked
from holdfast.stores.sqlite import SqliteStore
from holdfast.stores.sqlite.batch import RECENT_RECORDS_MAX
from holdfast.testing.builders import ManualClock, lease_on
from holdfast.testing.maintenance_contract import segment_of
from holdfast.types.messages import Payload, Role, Text
from holdfast.types.records import DamageSetAside, InboxRecord, Logged, MessageAppended, PayloadStored, encode_record

TEXT = "Sounding {} found sand and shells, and the lead came up clean; the crew wrote down what it saw on this day."


def an_entry(number: int, client_id: str = "") -> MessageAppended:
    """Return a message with the bytes of a framework, which have its text again."""
    text = TEXT.format(number)
    payload = json.dumps({"role": "user", "content": text, "id": f"item_{number * 7919}"})
    return MessageAppended(Role.USER, (Text(text),), client_id=client_id, payload=Payload("frame", text=payload))


def bodies(store: SqliteStore) -> list[bytes]:
    with closing(apsw.Connection(str(store._path))) as db:
        select = "SELECT body FROM (SELECT seq, body FROM records UNION ALL SELECT seq, body FROM recent) ORDER BY seq"
        return [body for (body,) in db.execute(select)]


async def records_of(store: SqliteStore, session: str = "s") -> list[InboxRecord]:
    return [logged.record for logged in await store.read(session)]  # type: ignore[misc]  # a log of appended records


@given(st.binary(max_size=600), st.binary(max_size=300))
@example(b"", b"")
@example(b"x", b"\x00" * 200)
def test_every_body_is_unpacked_as_it_was(text: bytes, content: bytes) -> None:
    record = PayloadStored(Payload("frame", content=content), text.hex())
    quoted = [b'"content":"' + some + b'"}' for some in (text, b"A" * 201, b"B" * 202 + b"==", b"A" * 200 + b"====")]
    for body in [encode_record(record), *(b"{" + one for one in (text, *quoted))]:
        assert unpacked(packed(body)) == body


async def test_appended_records_take_less_than_half_of_their_json(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "s.db", clock=ManualClock())
    entries = [an_entry(number) for number in range(5)]
    content = PayloadStored(Payload("frame", content=b"\xff\x00" + "".join(map(TEXT.format, range(3))).encode()))
    appended: list[InboxRecord] = [*entries, content]
    await store.extend("s", appended, after=0)

    sizes = [(len(body), len(encode_record(one))) for body, one in zip(bodies(store), appended, strict=True)]
    found = await records_of(store)
    await store.close()

    assert found == appended
    assert all(stored < plain / 2 for stored, plain in sizes), sizes


async def test_the_same_client_id_is_known_again_by_the_body_as_it_was_appended(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "s.db", clock=ManualClock())
    await store.extend("s", [an_entry(1, "one")], after=0)

    admitted = await store.admit("s", an_entry(1, "one"))
    with pytest.raises(ClientIdReusedError):
        await store.admit("s", an_entry(2, "one"))
    await store.close()

    assert (admitted.seq, admitted.is_new) == (1, False)


async def test_a_flipped_bit_of_a_packed_body_is_found_or_changes_nothing(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "s.db", clock=ManualClock())
    entries = [an_entry(number) for number in range(3)]
    await store.extend("s", entries, after=0)
    whole = bodies(store)[1]
    found = 0

    for bit in range(0, len(whole) * 8, 5):
        altered = bytearray(whole)
        altered[bit // 8] ^= 1 << bit % 8
        _set_body(store, bytes(altered))
        read = await records_of(store)
        assert [read[0], read[2]] == [entries[0], entries[2]]
        assert read[1] == entries[1] or isinstance(read[1], DamageSetAside)
        found += isinstance(read[1], DamageSetAside)
    _set_body(store, whole)

    assert await records_of(store) == entries
    # The last bits of a compressed stream mean nothing.
    assert found > len(whole) * 8 // 5 - 3
    await store.close()


def _set_body(store: SqliteStore, body: bytes) -> None:
    with closing(apsw.Connection(str(store._path))) as db:
        db.execute("UPDATE recent SET body = ? WHERE seq = 2", (body,))


async def test_sealed_rows_and_copied_sessions_have_the_records_as_they_were_appended(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "s.db", clock=ManualClock())
    entries = [an_entry(number) for number in range(4)]
    await store.extend("s", entries, after=0)
    kept = await store.live_rows("s", limit=4)
    _, content = await segment_of(store, 3, session="s")

    await store.adopt(await lease_on(store, "copy"), await store.read("s"))

    assert [row.body for row in kept] == [encode_record(one) for one in entries]
    assert [row.body for row in unpack_segment(content)[1]] == [encode_record(one) for one in entries[:3]]
    assert await records_of(store, "copy") == entries
    assert [body[:1] for body in bodies(store)] == [b"\x01"] * 8
    await store.close()


@pytest.mark.parametrize("sessions", [1, 4, 5])
async def test_recent_records_are_moved_whole_and_in_order(tmp_path: Path, sessions: int) -> None:
    path = tmp_path / "s.db"
    store = SqliteStore(path, clock=ManualClock())
    count = RECENT_RECORDS_MAX // sessions + 20
    keys = [f"s{number}" for number in range(sessions)]
    for start in range(0, count, 20):
        for key in keys:
            await store.extend(key, [an_entry(number) for number in range(start, start + 20)], after=start)
    await store.close()

    again = SqliteStore(path, clock=ManualClock())
    found: dict[str, Sequence[Logged]] = {key: await again.read(key) for key in keys}
    await again.close()
    with closing(apsw.Connection(str(path))) as db:
        moved, free, pages = (
            db.execute(sql).get
            for sql in ("SELECT count(*) FROM records", "PRAGMA freelist_count", "PRAGMA page_count")
        )

    entries = [an_entry(number) for number in range(start + 20)]
    assert all([one.record for one in log] == entries for log in found.values())
    assert moved >= RECENT_RECORDS_MAX
    if sessions == 1:
        # The file has no room left over that only the next thousand records would use.
        assert free < pages / 10, (free, pages)
