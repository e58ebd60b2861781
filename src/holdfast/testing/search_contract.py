"""Promises of the `SearchIndex` port."""

import pytest

from holdfast.errors import BadInputError
from holdfast.ports import Hit, SearchIndex
from holdfast.testing.builders import (
    StorePromises,
    a_reply,
    a_tool_call,
    a_turn_ended,
    a_turn_started,
    an_attempt_started,
    an_input,
    lease_on,
)
from holdfast.types.messages import Text, ToolResult
from holdfast.types.records import ToolSettled, ToolStarted

# Queries that users and programs paste into a search box.
ODD_QUERIES = (
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


async def seqs(store: SearchIndex, query: str, *, session: str = "s", limit: int = 10) -> list[int]:
    """Return the seqs of the hits."""
    return [hit.seq for hit in await store.search(session, query, limit=limit)]


async def tool_step(store: SearchIndex, name: str, arguments: str, output: str) -> int:
    """Append a complete turn with a tool call, and return the seq of the result."""
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


class SearchContract(StorePromises):
    """All promises of `holdfast.ports.SearchIndex`."""

    async def test_what_was_appended_is_found_at_once(self, store: SearchIndex) -> None:
        lease = await lease_on(store)
        for number in range(1, 6):
            await store.admit("s", an_input(f"about whales, part {number}"))
            await store.append(lease, [a_reply(f"the answer on narwhal{number}")], after=2 * number - 1)

            assert (await seqs(store, f"narwhal{number}"))[0] == 2 * number

    async def test_a_hit_says_where_it_is_and_shows_what_was_asked_for(self, store: SearchIndex) -> None:
        seq = (await store.admit("s", an_input("the colour of the harbour is teal"))).seq

        [hit] = await store.search("s", "Harbour colours")

        assert hit == Hit(seq, hit.score, "the colour of the harbour is teal")
        assert hit.score > 0

    async def test_nothing_of_another_session_is_found(self, store: SearchIndex) -> None:
        await store.admit("s", an_input("a secret of s"))
        await store.admit("other", an_input("a secret of other"))

        assert [hit.excerpt for hit in await store.search("s", "secret other")] == ["a secret of s"]
        assert await store.search("nobody", "secret") == []

    async def test_of_equals_the_newest_comes_first(self, store: SearchIndex) -> None:
        for _ in range(2):
            await store.admit("s", an_input("the same words again"))
        assert await seqs(store, "same words") == [2, 1]

        outputs = [await tool_step(store, "read", '{"path": "a.txt"}', "content") for _ in range(3)]
        assert await seqs(store, "a.txt") == outputs[::-1]

    async def test_a_file_is_found_by_the_path_it_was_read_from(self, store: SearchIndex) -> None:
        path = "/srv/repos/cli/src/setup_test.go"
        await tool_step(store, "run", '{"command": "grep -r setup ."}', f"{path}: one\n{path}: two\n{path}: three")
        read = await tool_step(store, "read", f'{{"path": "{path}"}}', "package cli\nfunc TestAll() {}")
        await store.admit("s", an_input(f"I wonder what is in {path} and in setup_test.go"))

        for query in (path, "setup_test.go", "src/setup_test.go", path.upper()):
            [first, *_] = await store.search("s", query)
            assert (first.seq, first.call) == (read, read - 2)
            assert first.excerpt == f"read {path}: package cli func TestAll() {{}}"

    async def test_names_and_ids_are_found_whole_and_by_their_pieces(self, store: SearchIndex) -> None:
        text = "parseHttpHeader failed in order_items.total for 3f9a2c71d04be85566aa77bb and JIRA-4711"
        await store.admit("s", an_input("nothing of the kind"))
        seq = (await store.admit("s", an_input(text))).seq

        for query in ("parsehttpheader", "http header", "order_items", "total", "3f9a2c71d04b", "jira-4711", "4711"):
            assert await seqs(store, query) == [seq]

    async def test_words_of_two_characters_are_found_where_nothing_separates_them(self, store: SearchIndex) -> None:
        await store.admit("s", an_input("私は大阪に行きました"))
        seq = (await store.admit("s", an_input("昨日東京タワーを見学した。"))).seq

        assert await seqs(store, "東京") == [seq]
        assert await seqs(store, "見学") == [seq]

    async def test_case_and_accents_do_not_matter(self, store: SearchIndex) -> None:
        seq = (await store.admit("s", an_input("Der Fußweg zum CAFÉ Zürich"))).seq

        for query in ("cafe", "Café", "zurich", "FUSSWEG"):
            assert await seqs(store, query) == [seq]

    async def test_there_are_never_more_hits_than_asked_for(self, store: SearchIndex) -> None:
        await store.append(await lease_on(store), [a_reply(f"pebble {number}") for number in range(30)], after=0)

        assert len(await store.search("s", "pebble")) == 10
        assert len(await store.search("s", "pebble", limit=3)) == 3
        assert len(await store.search("s", "pebble", limit=100)) == 30
        assert await store.search("s", "pebble", limit=0) == []
        assert await store.search("s", "pebble", limit=-1) == []

    async def test_an_excerpt_stays_short_however_long_the_record(self, store: SearchIndex) -> None:
        await store.admit("s", an_input("filler words " * 20_000 + "the needle is here"))

        [hit] = await store.search("s", "needle")

        assert len(hit.excerpt) <= 400

    async def test_a_call_without_a_result_is_found_once_its_turn_is_over(self, store: SearchIndex) -> None:
        turn = (await store.admit("s", an_input("please"))).seq
        lease = await lease_on(store)
        reply = a_reply("", a_tool_call("deploy", '{"host": "db7.example"}'), turn=turn)
        asked = await store.append(lease, [a_turn_started(turn), an_attempt_started(turn), reply], after=turn)
        assert await seqs(store, "db7.example") == []

        await store.append(lease, [a_turn_ended(turn)], after=asked)

        assert await store.search("s", "db7.example") == [
            Hit(asked, (await store.search("s", "db7.example"))[0].score, "deploy db7.example", call=asked)
        ]

    async def test_a_result_that_comes_after_a_search_is_still_joined_to_its_call(self, store: SearchIndex) -> None:
        turn = (await store.admit("s", an_input("please"))).seq
        lease = await lease_on(store)
        reply = a_reply("", a_tool_call("read", '{"path": "notes.txt"}'), turn=turn)
        asked = await store.append(lease, [a_turn_started(turn), an_attempt_started(turn), reply], after=turn)
        await store.search("s", "anything")

        started, settled = ToolStarted(turn, "call-1", "read"), ToolResult("call-1", (Text("buy milk"),))
        last = await store.append(lease, [started, ToolSettled(turn, settled)], after=asked)

        assert await seqs(store, "notes.txt") == [last]

    async def test_no_question_is_an_error(self, store: SearchIndex) -> None:
        await store.admit("s", an_input("hello"))

        for query in ODD_QUERIES:
            assert all(hit.seq == 1 for hit in await store.search("s", query))

    async def test_of_many_sessions_those_are_told_in_which_a_search_may_find_something(
        self, store: SearchIndex
    ) -> None:
        for key, text in (("b", "the tide at Kiel"), ("a", "nothing of it"), ("c", "Kiel and the harbour")):
            await store.admit(key, an_input(text))
        known = sorted(await store.sessions(), key=lambda one: one.key, reverse=True)
        for key in "abc":
            await store.search(key, "anything")
        told = [await store.candidates(known, query) for query in ("kiel", "harbour tide", "of", "fathoms", "")]
        assert told == [["c", "b"], ["c", "b"], ["a"], [], []]
        assert await store.candidates(known[1:], "kiel") == ["b"]

    async def test_what_was_said_since_the_last_search_may_be_anything(self, store: SearchIndex) -> None:
        await store.admit("s", an_input("hello"))
        await store.search("s", "hello")
        await store.admit("s", an_input("the tide at Kiel"))
        assert await store.candidates(await store.sessions(), "kiel") == ["s"]
        await store.search("s", "kiel")
        assert await store.candidates(await store.sessions(), "fathoms") == []

    async def test_no_question_about_many_is_an_error(self, store: SearchIndex) -> None:
        await store.admit("s", an_input("hello"))
        await store.search("s", "hello")
        known = await store.sessions()
        for query in ODD_QUERIES:
            assert set(await store.candidates(known, query)) <= {"s"}, query

    async def test_a_key_that_cannot_be_is_refused(self, store: SearchIndex) -> None:
        for key in ("", "\ud800"):
            with pytest.raises(BadInputError):
                await store.search(key, "anything")
