"""What every store promises about mending a log, and about whole logs: taken over, renamed, deleted."""

import pytest

from holdfast.core.integrity.reconcile import DropSnapshot, MarkMissing, Recount, SetAside
from holdfast.errors import BadInputError, LeaseLostError, SeqMovedError
from holdfast.ports import Admission, Examined, Hit, Snapshot, Store
from holdfast.testing.builders import (
    a_notice,
    a_reply,
    a_tool_call,
    a_turn_ended,
    a_turn_started,
    an_attempt_started,
    an_input,
)
from holdfast.testing.store_fixture import StorePromises, lease_on, log_of
from holdfast.types.messages import Text, ToolResult
from holdfast.types.records import DamageSetAside, Logged, ToolSettled, ToolStarted, encode_record


async def _a_log(store: Store, session: str = "s") -> list[Logged]:
    """Five records: an input and four notices."""
    await store.admit(session, an_input("first", client_id="c"))
    lease = await lease_on(store, session)
    await store.append(lease, [a_notice(f"notice {number}") for number in range(2, 6)], after=1)
    await store.release(lease)
    return await store.read(session)


class HealingPromises(StorePromises):
    """`examine`, `mend`, `quarantine`, `adopt`, `rename`, `delete`."""

    async def test_a_healthy_log_is_whole_from_its_first_record_to_its_last(self, store: Store) -> None:
        await _a_log(store)

        assert await store.examine("nobody") == Examined((), (), None)
        page = await store.examine("s")
        assert ([seq for run in page.whole for seq in range(run.first, run.last + 1)], page.bad) == (
            [1, 2, 3, 4, 5],
            (),
        )
        assert page.until is None

    async def test_a_log_is_examined_page_by_page(self, store: Store) -> None:
        await _a_log(store)

        first = await store.examine("s", limit=3)
        rest = await store.examine("s", after=first.until, limit=3)

        assert (first.until, rest.until) == (3, None)
        assert [run.last for run in (first.whole[-1], rest.whole[-1])] == [3, 5]

    async def test_what_is_set_aside_leaves_a_mark_and_its_bytes_are_kept_as_they_were(self, store: Store) -> None:
        before = await _a_log(store)
        lease = await lease_on(store)

        last = await store.mend(lease, [SetAside(3, "torn")], [a_notice("mended")], after=5)

        after = await store.read("s")
        mark = after[2].record
        assert isinstance(mark, DamageSetAside)
        assert (mark.why, mark.until, last, after[5].record) == ("torn", 5, 6, a_notice("mended"))
        assert [each for each in after if each.seq not in {3, 6}] == [each for each in before if each.seq != 3]
        (kept,) = await store.quarantine("s")
        assert (kept.name, kept.seq, kept.why, kept.body) == (mark.kept, 3, "torn", encode_record(before[2].record))
        assert await store.quarantine("s", after=kept.name) == []
        assert (await store.examine("s")).bad == ()

    async def test_a_record_that_is_gone_is_marked_without_bytes(self, store: Store) -> None:
        await _a_log(store)
        lease = await lease_on(store)

        await store.mend(lease, [MarkMissing(2, "gone", is_owed=True)], after=5)

        assert (await store.read("s"))[1].record == DamageSetAside("gone", "", 5, is_owed=True)
        assert await store.quarantine("s") == []

    async def test_what_is_owed_and_the_fold_that_is_kept_are_set_with_the_repairs(self, store: Store) -> None:
        await _a_log(store)
        lease = await lease_on(store)
        await store.save_snapshot(lease, Snapshot(5, b"fold"))

        await store.mend(lease, [Recount(0, "why"), DropSnapshot(5, "why")], after=5)

        assert (await store.owing(), await store.load_snapshot("s")) == ([], None)
        await store.admit("s", an_input("next"))
        assert await store.owing() == ["s"]

    async def test_a_stale_worker_mends_nothing(self, store: Store) -> None:
        before = await _a_log(store)
        old = await lease_on(store)
        lease = await lease_on(store)

        with pytest.raises(LeaseLostError):
            await store.mend(old, [SetAside(3, "torn")], after=5)
        with pytest.raises(SeqMovedError):
            await store.mend(lease, [SetAside(3, "torn")], after=4)

        assert (await store.read("s"), await store.quarantine("s")) == (before, [])

    async def test_a_search_does_not_find_what_was_set_aside(self, store: Store) -> None:
        await store.admit("s", an_input("a lighthouse"))
        await store.admit("s", an_input("a harbour"))
        assert [hit.seq for hit in await store.search("s", "lighthouse")] == [1]
        lease = await lease_on(store)

        await store.mend(lease, [SetAside(1, "torn")], after=2)

        assert [hit.seq for hit in await store.search("s", "lighthouse")] == []
        assert [hit.seq for hit in await store.search("s", "harbour")] == [2]

    async def test_records_of_another_log_keep_their_numbers_their_times_and_their_client_ids(
        self, store: Store
    ) -> None:
        records = [
            Logged(1, 5.0, an_input("first", client_id="c")),
            Logged(2, 6.0, a_turn_started()),
            Logged(3, 7.0, DamageSetAside("torn", "quarantine:9", 4)),
            Logged(4, 8.0, an_input("second")),
            Logged(5, 9.0, a_turn_ended()),
        ]
        lease = await lease_on(store, "copy")

        await store.adopt(lease, records[:2])
        assert await store.adopt(lease, records[2:]) == 5

        assert await store.read("copy") == records
        known = await store.info("copy")
        assert known is not None
        assert (known.created_at, known.updated_at, known.owed) == (5.0, 9.0, 1)
        assert (await store.admit("copy", an_input("first", client_id="c"))).seq == 1

    async def test_records_that_do_not_follow_are_not_adopted(self, store: Store) -> None:
        await _a_log(store)
        old = await lease_on(store)
        lease = await lease_on(store)

        with pytest.raises(SeqMovedError):
            await store.adopt(lease, [Logged(6, 0.0, a_notice()), Logged(8, 0.0, a_notice())])
        with pytest.raises(LeaseLostError):
            await store.adopt(old, [Logged(6, 0.0, a_notice())])

        assert len(await log_of(store)) == 5

    async def test_a_session_under_another_key_is_the_same_session(self, store: Store) -> None:
        before = await _a_log(store)
        lease = await lease_on(store)
        await store.save_snapshot(lease, Snapshot(5, b"fold"))

        renamed = await store.rename(lease, "t")

        assert (await store.read("t"), await store.read("s"), await store.info("s")) == (before, [], None)
        assert await store.load_snapshot("t") == Snapshot(5, b"fold")
        assert (await store.admit("t", an_input("first", client_id="c"))).is_new is False
        assert await store.append(renamed, [a_notice()], after=5) == 6
        assert (await store.admit("s", an_input("anew"))).seq == 1

    async def test_a_key_that_has_a_log_is_not_given_again(self, store: Store) -> None:
        await _a_log(store)
        await store.admit("t", an_input("mine"))
        lease = await lease_on(store)

        with pytest.raises(BadInputError, match="'t'"):
            await store.rename(lease, "t")

        assert (len(await log_of(store)), await log_of(store, "t")) == (5, [an_input("mine")])

    async def test_a_session_to_which_something_came_keeps_its_key(self, store: Store) -> None:
        await _a_log(store)
        lease = await lease_on(store)
        await store.admit("s", an_input("wait for me"))

        with pytest.raises(SeqMovedError):
            await store.rename(lease, "t", after=5)
        assert (len(await log_of(store)), await log_of(store, "t")) == (6, [])

        await store.rename(lease, "t", after=6)
        assert (await log_of(store), len(await log_of(store, "t"))) == ([], 6)

    async def test_a_key_of_which_only_a_lease_is_known_is_free(self, store: Store) -> None:
        await _a_log(store)
        await lease_on(store, "t")

        await store.rename(await lease_on(store), "t")

        assert len(await log_of(store, "t")) == 5

    async def test_a_session_that_is_deleted_is_gone_and_its_key_begins_anew(self, store: Store) -> None:
        await _a_log(store)
        await _a_log(store, "other")
        assert await store.search("s", "first") != []
        lease = await lease_on(store)
        await store.mend(lease, [SetAside(3, "torn")], after=5)
        await store.save_snapshot(lease, Snapshot(5, b"fold"))

        await store.delete(lease)

        assert (await store.info("s"), await store.read("s"), await store.quarantine("s")) == (None, [], [])
        assert (await store.load_snapshot("s"), await store.owing()) == (None, ["other"])
        assert await store.search("s", "first") == []
        assert await store.admit("s", an_input("first", client_id="c")) == Admission(1, is_new=True)
        assert [hit.seq for hit in await store.search("other", "first")] == [1]

    async def test_a_stale_worker_neither_deletes_nor_renames(self, store: Store) -> None:
        await _a_log(store)
        old = await lease_on(store)
        await lease_on(store)

        for change in (store.delete(old), store.rename(old, "t")):
            with pytest.raises(LeaseLostError):
                await change

        assert len(await log_of(store)) == 5


# --- Searching: whatever was appended is found, of this session alone, and no question is an error.


# What people and programs paste into a search box.
ODD_QUESTIONS = (
    "",
    " \n\t",
    '"',
    "'; DROP TABLE search_rows; --",
    'NEAR("a" "b") AND NOT (OR) col:term* ^first -x',
    "*",
    "\x00",
    "\ud800",
    "🙂 👨‍👩‍👧 🏳️‍🌈",
    "%_%",
    "a" * 10_000,
    "what is said of hello " * 500,
    "..//..//--//::",
)


async def seqs(store: Store, query: str, *, session: str = "s", limit: int = 10) -> list[int]:
    """Return only where the hits are."""
    return [hit.seq for hit in await store.search(session, query, limit=limit)]


async def tool_step(store: Store, name: str, arguments: str, output: str) -> int:
    """Append a whole turn in which a tool ran, and return the seq of its result."""
    turn = (await store.admit("s", an_input("please"))).seq
    lease = await lease_on(store)
    call = a_tool_call(name, arguments, call_id=f"call-{turn}")
    settled = await store.append(
        lease,
        [
            a_turn_started(turn),
            an_attempt_started(turn),
            a_reply("", call, turn=turn),
            ToolStarted(turn, call.call_id, name),
            ToolSettled(turn, ToolResult(call.call_id, (Text(output),))),
        ],
        after=turn,
    )
    await store.append(lease, [a_turn_ended(turn)], after=settled)
    return settled


class SearchPromises(StorePromises):
    """Promises of `search`."""

    async def test_what_was_appended_is_found_at_once(self, store: Store) -> None:
        lease = await lease_on(store)
        for number in range(1, 6):
            await store.admit("s", an_input(f"about whales, part {number}"))
            await store.append(lease, [a_reply(f"the answer on narwhal{number}")], after=2 * number - 1)

            assert (await seqs(store, f"narwhal{number}"))[0] == 2 * number

    async def test_a_hit_says_where_it_is_and_shows_what_was_asked_for(self, store: Store) -> None:
        seq = (await store.admit("s", an_input("the colour of the harbour is teal"))).seq

        [hit] = await store.search("s", "Harbour colours")

        assert hit == Hit(seq, hit.score, "the colour of the harbour is teal")
        assert hit.score > 0

    async def test_nothing_of_another_session_is_found(self, store: Store) -> None:
        await store.admit("s", an_input("a secret of s"))
        await store.admit("other", an_input("a secret of other"))

        assert [hit.excerpt for hit in await store.search("s", "secret other")] == ["a secret of s"]
        assert await store.search("nobody", "secret") == []

    async def test_of_equals_the_newest_comes_first(self, store: Store) -> None:
        for _ in range(2):
            await store.admit("s", an_input("the same words again"))
        assert await seqs(store, "same words") == [2, 1]

        outputs = [await tool_step(store, "read", '{"path": "a.txt"}', "content") for _ in range(3)]
        assert await seqs(store, "a.txt") == outputs[::-1]

    async def test_a_file_is_found_by_the_path_it_was_read_from(self, store: Store) -> None:
        path = "/srv/repos/cli/src/setup_test.go"
        await tool_step(store, "run", '{"command": "grep -r setup ."}', f"{path}: one\n{path}: two\n{path}: three")
        read = await tool_step(store, "read", f'{{"path": "{path}"}}', "package cli\nfunc TestAll() {}")
        await store.admit("s", an_input(f"I wonder what is in {path} and in setup_test.go"))

        for query in (path, "setup_test.go", "src/setup_test.go", path.upper()):
            [first, *_] = await store.search("s", query)
            assert (first.seq, first.call) == (read, read - 2)
            assert first.excerpt == f"read {path}: package cli func TestAll() {{}}"

    async def test_names_and_ids_are_found_whole_and_by_their_pieces(self, store: Store) -> None:
        text = "parseHttpHeader failed in order_items.total for 3f9a2c71d04be85566aa77bb and JIRA-4711"
        await store.admit("s", an_input("nothing of the kind"))
        seq = (await store.admit("s", an_input(text))).seq

        for query in ("parsehttpheader", "http header", "order_items", "total", "3f9a2c71d04b", "jira-4711", "4711"):
            assert await seqs(store, query) == [seq]

    async def test_words_of_two_characters_are_found_where_nothing_separates_them(self, store: Store) -> None:
        await store.admit("s", an_input("私は大阪に行きました"))
        seq = (await store.admit("s", an_input("昨日東京タワーを見学した。"))).seq

        assert await seqs(store, "東京") == [seq]
        assert await seqs(store, "見学") == [seq]

    async def test_case_and_accents_do_not_matter(self, store: Store) -> None:
        seq = (await store.admit("s", an_input("Der Fußweg zum CAFÉ Zürich"))).seq

        for query in ("cafe", "Café", "zurich", "FUSSWEG"):
            assert await seqs(store, query) == [seq]

    async def test_there_are_never_more_hits_than_asked_for(self, store: Store) -> None:
        await store.append(await lease_on(store), [a_reply(f"pebble {number}") for number in range(30)], after=0)

        assert len(await store.search("s", "pebble")) == 10
        assert len(await store.search("s", "pebble", limit=3)) == 3
        assert len(await store.search("s", "pebble", limit=100)) == 30
        assert await store.search("s", "pebble", limit=0) == []
        assert await store.search("s", "pebble", limit=-1) == []

    async def test_an_excerpt_stays_short_however_long_the_record(self, store: Store) -> None:
        await store.admit("s", an_input("filler words " * 20_000 + "the needle is here"))

        [hit] = await store.search("s", "needle")

        assert len(hit.excerpt) <= 400

    async def test_a_call_without_a_result_is_found_once_its_turn_is_over(self, store: Store) -> None:
        turn = (await store.admit("s", an_input("please"))).seq
        lease = await lease_on(store)
        reply = a_reply("", a_tool_call("deploy", '{"host": "db7.example"}'), turn=turn)
        asked = await store.append(lease, [a_turn_started(turn), an_attempt_started(turn), reply], after=turn)
        assert await seqs(store, "db7.example") == []

        await store.append(lease, [a_turn_ended(turn)], after=asked)

        assert await store.search("s", "db7.example") == [
            Hit(asked, (await store.search("s", "db7.example"))[0].score, "deploy db7.example", call=asked)
        ]

    async def test_a_result_that_comes_after_a_search_is_still_joined_to_its_call(self, store: Store) -> None:
        turn = (await store.admit("s", an_input("please"))).seq
        lease = await lease_on(store)
        reply = a_reply("", a_tool_call("read", '{"path": "notes.txt"}'), turn=turn)
        asked = await store.append(lease, [a_turn_started(turn), an_attempt_started(turn), reply], after=turn)
        await store.search("s", "anything")

        started, settled = ToolStarted(turn, "call-1", "read"), ToolResult("call-1", (Text("buy milk"),))
        last = await store.append(lease, [started, ToolSettled(turn, settled)], after=asked)

        assert await seqs(store, "notes.txt") == [last]

    async def test_no_question_is_an_error(self, store: Store) -> None:
        await store.admit("s", an_input("hello"))

        for query in ODD_QUESTIONS:
            assert all(hit.seq == 1 for hit in await store.search("s", query))

    async def test_of_many_sessions_those_are_told_in_which_a_search_may_find_something(self, store: Store) -> None:
        for key, text in (("b", "the tide at Kiel"), ("a", "nothing of it"), ("c", "Kiel and the harbour")):
            await store.admit(key, an_input(text))
        known = sorted(await store.sessions(), key=lambda one: one.key, reverse=True)
        for key in "abc":
            await store.search(key, "anything")
        told = [await store.mentioning(known, query) for query in ("kiel", "harbour tide", "of", "fathoms", "")]
        assert told == [["c", "b"], ["c", "b"], ["a"], [], []]
        assert await store.mentioning(known[1:], "kiel") == ["b"]

    async def test_what_was_said_since_the_last_search_may_be_anything(self, store: Store) -> None:
        await store.admit("s", an_input("hello"))
        await store.search("s", "hello")
        await store.admit("s", an_input("the tide at Kiel"))
        assert await store.mentioning(await store.sessions(), "kiel") == ["s"]
        await store.search("s", "kiel")
        assert await store.mentioning(await store.sessions(), "fathoms") == []

    async def test_no_question_about_many_is_an_error(self, store: Store) -> None:
        await store.admit("s", an_input("hello"))
        await store.search("s", "hello")
        known = await store.sessions()
        for query in ODD_QUESTIONS:
            assert set(await store.mentioning(known, query)) <= {"s"}, query

    async def test_a_key_that_cannot_be_is_refused(self, store: Store) -> None:
        for key in ("", "\ud800"):
            with pytest.raises(BadInputError):
                await store.search(key, "anything")
