"""All sessions of a key: a list that says what each is doing, a search, and a watch."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from holdfast.core.fold.session_state import Call, InFlight, PendingCompaction, Turn
from holdfast.core.limits.bounds import Bounds
from holdfast.gateway.bounds import GatewayBounds
from holdfast.gateway.status_cache import describe
from holdfast.models.catalogue import simulated_model
from holdfast.models.fake import Simulation
from holdfast.ports import Hit, SessionInfo
from holdfast.runtime.clock import SystemClock
from holdfast.stores.memory import MemoryStore
from holdfast.testing.builders import a_tool_call, an_input
from holdfast.testing.engines import ScriptedModel, says
from holdfast.types.faults import Rung
from holdfast.types.limits import Limits
from holdfast.types.records import SessionConfigured, Trigger
from tests.gateway.gateways import DEADLINE_SECONDS, SilentModel, a_gateway, eventually, first
from tests.gateway.test_tenants import keys

KEY = "/api/sessions/telegram:42"


# --- the list ------------------------------------------------------------------------------------------------------


async def test_a_list_says_what_each_session_is_doing_and_how_full_its_budgets_are() -> None:
    silent = SilentModel()
    async with a_gateway(silent) as running:
        await running.client.send("busy", "hello", mode="post")
        await silent.called.wait()
        await running.client.send("busy", "and this", mode="post")
        await running.client.ask("PUT", "/api/sessions/quiet", {"model": "sim"})
        listed = (await running.client.get("/api/sessions")).body["sessions"]

    assert [(one["key"], one["state"], one["says"], one["open_turns"]) for one in listed] == [
        ("busy", "model", "the model is answering; 1 message queued", 2),
        ("quiet", "rest", "idle", 0),
    ]
    assert listed[0]["gauge"]["tokens"]["used"] > 0
    assert (listed[1]["gauge"], listed[1]["model"], listed[1]["generation"]) == (None, "sim", 1)


async def test_the_gauge_of_a_list_is_that_of_the_last_request_and_falls_with_a_compaction() -> None:
    limits = Limits(window_tokens=16_000, output_tokens_max=2_000, media_count_max=5)
    async with a_gateway(simulated_model(Simulation(limits)), engine_bounds=Bounds(compacts_ahead=False)) as running:
        for number in range(8):
            await running.client.send("telegram:42", f"remember place{number} = Kiel. " + "A long letter came. " * 150)
        (full,) = (await running.client.get("/api/sessions")).body["sessions"]
        await running.client.post(f"{KEY}/compact", {})
        (compacted,) = (await running.client.get("/api/sessions")).body["sessions"]
        await running.client.post(f"{KEY}/undo", {})
        (undone,) = (await running.client.get("/api/sessions")).body["sessions"]

    tokens = full["gauge"]["tokens"]
    assert tokens["limit"] == 14_000
    assert tokens["fraction"] == round(tokens["used"] / 14_000, 4)
    assert full["gauge"]["media"] == {"used": 0, "limit": 5, "fraction": 0.0}
    assert full["gauge"]["wire_bytes"]["limit"] == Bounds().wire_bytes_max
    assert compacted["gauge"]["tokens"]["used"] < tokens["used"] / 2
    assert compacted["gauge"]["wire_bytes"] is None
    assert undone["gauge"]["tokens"]["used"] > compacted["gauge"]["tokens"]["used"]


async def test_a_session_that_waits_for_a_clients_tool_says_so() -> None:
    script = ScriptedModel([says("", a_tool_call("look", call_id="c1")), "done"])
    async with a_gateway(script) as running:
        tools = [{"name": "look", "description": "", "parameters": {}}]
        await running.client.send("telegram:42", "go", mode="post", tools=tools)
        async with running.client.events(f"{KEY}/events?after=0") as events:
            await first(events, "call")
        (waiting,) = (await running.client.get("/api/sessions")).body["sessions"]

    assert (waiting["state"], waiting["says"]) == ("tools", "waiting for a client to run look")


async def test_a_list_that_is_asked_for_again_reads_nothing_of_what_has_not_changed() -> None:
    store = CountingStore(clock=SystemClock(), bounds=Bounds())
    async with a_gateway(store=store) as running:
        for key in ("a", "b"):
            await running.client.send(key, "hello")
        before = (await running.client.get("/api/sessions")).body
        store.reads = 0
        again = (await running.client.get("/api/sessions")).body
        reads = store.reads
        await running.client.send("a", "hello again")
        changed = (await running.client.get("/api/sessions")).body

    assert (again, reads) == (before, 0)
    assert [one["records"] for one in changed["sessions"]] == [10, 5]


class CountingStore(MemoryStore):
    """Counts how often records are read."""

    reads = 0

    async def read(self, session: str, *, after: int = 0, limit: int | None = None):  # type: ignore[no-untyped-def] # noqa: ANN201
        self.reads += 1
        return await super().read(session, after=after, limit=limit)


async def test_a_turn_too_long_to_be_folded_for_a_list_is_told_without_what_only_its_records_say() -> None:
    async with a_gateway(SilentModel()) as running:
        store = running.engine.store
        await store.admit("dropin:long", an_input("hello"))
        for number in range(500):
            await store.admit("dropin:long", SessionConfigured(system=str(number)))
        (told,) = (await running.client.get("/api/sessions")).body["sessions"]

    assert (told["state"], told["says"], told["gauge"], told["generation"]) == (
        "working",
        "working",
        None,
        None,
    )


async def test_sessions_are_found_by_a_text_in_their_key_page_by_page(tmp_path: Path) -> None:
    path, made = keys(tmp_path, "alice", "bob")
    async with a_gateway(keys=path) as running:
        alice, bob = running.with_key(made["alice"]), running.with_key(made["bob"])
        for key in ("Telegram:1", "mail:2", "telegram:3", "telegram:4"):
            await alice.ask("PUT", f"/api/sessions/{key}", {})
        await bob.ask("PUT", "/api/sessions/telegram:9", {})
        one = (await alice.get("/api/sessions?match=TELEGRAM&limit=2")).body
        two = (await alice.get(f"/api/sessions?match=telegram&limit=2&after={one['next']}")).body
        none = (await alice.get("/api/sessions?match=alice")).body

    assert ([session["key"] for session in one["sessions"]], one["next"]) == (
        ["Telegram:1", "telegram:3"],
        "telegram:3",
    )
    assert ([session["key"] for session in two["sessions"]], two["next"]) == (["telegram:4"], None)
    assert none == {"sessions": [], "next": None, "total": None}


@pytest.mark.parametrize(
    ("turn", "told"),
    [
        (Turn(), ("rest", "idle")),
        (Turn(waiting=(1,)), ("waiting", "1 message queued")),
        (Turn(waiting=(1, 2)), ("waiting", "2 messages queued")),
        (Turn(wanted=(PendingCompaction(1, Trigger.PERSON),)), ("waiting", "a compaction is queued")),
        (Turn(in_flight=InFlight.READY, number=1), ("ready", "about to continue")),
        (
            Turn(
                in_flight=InFlight.READY,
                number=1,
                calls_asked=(Call(a_tool_call("pay", call_id="c1"), approval=4), Call(a_tool_call("look"))),
            ),
            ("approval", "waiting for an approval of pay"),
        ),
        (
            Turn(in_flight=InFlight.RUNG, number=1, climbing=Rung.SUMMARISE, waiting=(2, 3)),
            ("rung", "summarising old messages; 2 messages queued"),
        ),
        (
            Turn(in_flight=InFlight.TOOLS, number=1, calls_running=(Call(a_tool_call("look_up")),)),
            ("tools", "running look_up"),
        ),
    ],
)
def test_what_a_session_is_doing_is_told_in_plain_words(turn: Turn, told: tuple[str, str]) -> None:
    assert describe(turn) == told


def test_a_session_that_follows_a_client_waits_for_it() -> None:
    assert describe(Turn(in_flight=InFlight.READY, number=1), follows_client=True) == (
        "ready",
        "waiting for its client",
    )


# --- the search ----------------------------------------------------------------------------------------------------


async def test_a_search_over_all_sessions_finds_those_of_this_key_alone(tmp_path: Path) -> None:
    path, made = keys(tmp_path, "alice", "bob")
    async with a_gateway(keys=path) as running:
        alice, bob = running.with_key(made["alice"]), running.with_key(made["bob"])
        await alice.send("one", "the narwhal lives in the north")
        await alice.send("two", "nothing of interest")
        await bob.send("one", "my narwhal is mine")
        found = (await alice.get("/api/search?query=narwhal")).body
        few = (await alice.get("/api/search?query=narwhal&limit=1")).body
        long = await alice.get(f"/api/search?query={'x' * 2_001}")

    assert {hit["session"] for hit in found["hits"]} == {"one"}
    assert all("narwhal" in hit["excerpt"] and "mine" not in hit["excerpt"] for hit in found["hits"])
    assert (found["searched"], found["sessions"], found["is_complete"]) == (2, 2, True)
    assert few["hits"] == found["hits"][:1]
    assert long.code == (422, "invalid")


async def test_a_search_that_runs_out_of_time_says_that_it_is_not_complete() -> None:
    async with a_gateway(bounds=GatewayBounds(search_seconds_max=0.000_001)) as running:
        for number in range(3):
            await running.client.send(f"{number}", "the narwhal lives in the north")
        found = (await running.client.get("/api/search?query=narwhal")).body

    assert found == {"hits": [], "searched": 0, "sessions": 3, "is_complete": False}


async def test_a_search_ranks_the_session_with_the_rare_word_above_hundreds_with_the_common_one() -> None:
    store = MemoryStore(clock=SystemClock(), bounds=Bounds())
    await store.admit("rare", an_input("the harbour pilot is called Hansen-4711"))
    for number in range(300):
        await store.admit(f"common:{number}", an_input("the harbour is quiet"))
    async with a_gateway(store=store, bounds=GatewayBounds(search_seconds_max=60)) as running:
        found = (await running.client.get("/api/search?query=harbour+hansen-4711&limit=5")).body
    assert (found["hits"][0]["session"], found["is_complete"], len(found["hits"])) == ("rare", True, 5)


@pytest.mark.parametrize("query", ["quay+4711", "harbour+boat4711", "quay4711"])
async def test_a_rare_word_counts_however_short_it_is_and_whatever_it_is_a_part_of(query: str) -> None:
    store = MemoryStore(clock=SystemClock(), bounds=Bounds())
    await store.admit("rare", an_input("the harbour, quay 4711, has a boat"))
    for number in range(300):
        await store.admit(f"common:{number}", an_input("the harbour has a quay for each boat"))
    async with a_gateway(store=store, bounds=GatewayBounds(search_seconds_max=60)) as running:
        found = (await running.client.get(f"/api/search?query={query}&limit=5")).body
    assert (found["hits"][0]["session"], found["is_complete"]) == ("rare", True)


async def test_every_session_that_is_not_indexed_is_searched_after_those_that_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An import is searched whole, or the answer says that it is not complete."""
    searched: list[str] = []
    stale = {f"stale:{number}" for number in range(400)}
    search, candidates = MemoryStore.search, MemoryStore.candidates

    async def counted(store: MemoryStore, session: str, query: str, *, limit: int = 10) -> list[Hit]:
        searched.append(session)
        return await search(store, session, query, limit=limit)

    async def with_stale(store: MemoryStore, sessions: Sequence[SessionInfo], query: str) -> list[str]:
        return [*await candidates(store, sessions, query), *(one.key for one in sessions if one.key in stale)]

    monkeypatch.setattr(MemoryStore, "search", counted)
    monkeypatch.setattr(MemoryStore, "candidates", with_stale)
    store = MemoryStore(clock=SystemClock(), bounds=Bounds())
    await store.admit("indexed", an_input("the narwhal lives in the north"))
    for key in sorted(stale):
        await store.admit(key, an_input("nothing of interest"))
    async with a_gateway(store=store, bounds=GatewayBounds(search_seconds_max=60)) as running:
        found = (await running.client.get("/api/search?query=narwhal")).body

    assert searched[0] == "indexed"
    assert set(searched) == {"indexed", *stale}
    assert (found["searched"], found["sessions"], found["is_complete"]) == (401, 401, True)


async def test_a_search_is_narrowed_by_phrase_author_time_and_key() -> None:
    async with a_gateway() as running:
        await running.client.send("a:1", "remember the harbour pilot = Hansen")
        await running.client.send("a:2", "the pilot left the harbour")
        await running.client.send("b:1", "harbour pilot dues")

        async def keys_of(more: str) -> set[tuple[str, str]]:
            found = (await running.client.get(f"/api/search?query=harbour+pilot&limit=50{more}")).body["hits"]
            return {(one["session"], one["author"]) for one in found}

        everything = await keys_of("")
        phrase = await keys_of("&exact=true&author=user")
        key = await keys_of("&match=A%3A&author=user")
        times = (await keys_of("&until=1000"), await keys_of("&since=9999999999"), await keys_of("&since=1000"))

    users = {("a:1", "user"), ("a:2", "user"), ("b:1", "user")}
    assert everything > users
    assert phrase == {("a:1", "user"), ("b:1", "user")}
    assert key == {("a:1", "user"), ("a:2", "user")}
    assert times == (set(), set(), everything)


async def test_sessions_without_a_word_of_the_question_are_not_searched_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searched: list[str] = []
    search = MemoryStore.search

    async def counted(store: MemoryStore, session: str, query: str, *, limit: int = 10) -> list[Hit]:
        searched.append(session)
        return await search(store, session, query, limit=limit)

    monkeypatch.setattr(MemoryStore, "search", counted)
    async with a_gateway() as running:
        for key, text in (("one", "the narwhal lives in the north"), ("two", "nothing of interest"), ("three", "no")):
            await running.client.send(key, text)
        found = (await running.client.get("/api/search?query=narwhal")).body

    assert searched == ["one"]
    assert (found["searched"], found["sessions"], found["is_complete"]) == (3, 3, True)


# --- the watch -----------------------------------------------------------------------------------------------------


async def test_a_watch_over_all_sessions_tells_how_each_stands_and_resumes_behind_a_cursor(tmp_path: Path) -> None:
    path, made = keys(tmp_path, "alice", "bob")
    async with a_gateway(keys=path) as running:
        alice, bob = running.with_key(made["alice"]), running.with_key(made["bob"])
        await alice.send("old", "hello")
        async with alice.events("/api/events") as events:
            start = await first(events, "watching")
            await bob.send("hidden", "hello")
            await alice.send("new", "hello")
            seen = []
            async with asyncio.timeout(DEADLINE_SECONDS):
                async for event in events:
                    seen.append(event)
                    if event.name == "session" and event.told["kind"] == "TurnEnded":
                        break
        await alice.send("old", "again")
        async with alice.events("/api/events", cursor=seen[-1].cursor) as events:
            resumed = await first(events, "watching")
            later = await first(events, "session")
        async with bob.events("/api/events", cursor=start.cursor) as events:
            theirs = await first(events, "resync")

    assert {event.told["session"] for event in seen} == {"new"}
    last = seen[-1].told
    assert (last["seq"], last["state"], last["says"], last["unanswered"]) == (5, "rest", "idle", 0)
    assert last["gauge"]["tokens"]["used"] > 0
    assert resumed.told["cursor"] == seen[-1].cursor
    assert (later.told["session"], later.told["seq"], later.told["kind"]) == ("old", 10, "TurnEnded")
    assert "from an earlier run" in theirs.told["why"]


async def test_what_another_process_writes_or_deletes_is_told_too() -> None:
    store = MemoryStore(clock=SystemClock(), bounds=Bounds())
    async with a_gateway(store=store) as here, a_gateway(store=store) as there:
        await there.client.send("telegram:42", "hello")
        await there.client.send("other", "hello")
        async with here.client.events("/api/events") as events:
            await first(events, "watching")
            await there.client.send("telegram:42", "again")
            changed = await first(events, "session")
            await there.client.ask("DELETE", "/api/sessions/other")
            deleted = await first(events, "deleted")
            await here.client.ask("DELETE", KEY)
            own = await first(events, "deleted")

    assert changed.told["session"] == "telegram:42"
    assert deleted.told == {"session": "other"}
    assert own.told == {"session": "telegram:42"}


async def test_a_cursor_of_ours_from_before_a_restart_or_of_nobody_leads_to_a_resync() -> None:
    async with a_gateway() as running, running.client.events("/api/events") as events:
        cursor = (await first(events, "watching")).cursor
    async with a_gateway() as running:
        for given in (cursor, "x", f"{cursor}9", "-", "0-1-2"):
            async with running.client.events("/api/events", cursor=given) as events:
                again = await first(events, "resync")
            assert again.told["cursor"] == again.cursor
        both = await running.client.get("/api/events?cursor=a", headers={"last-event-id": "b"})

    assert both.code == (422, "invalid")


async def test_a_reader_that_is_too_far_behind_is_resynced_and_goes_on() -> None:
    async with a_gateway() as running:
        watch = running.gateway.state.watches.of(running.gateway.state.tenant(""), GatewayBounds())
        async with running.client.events("/api/events") as events:
            start = await first(events, "watching")
            for number in range(10_001):
                watch.touch("busy", number + 1)
            await first(events, "resync")
            await running.client.send("telegram:42", "hello")
            went_on = await first(events, "session")
        async with running.client.events("/api/events", cursor=start.cursor) as events:
            late = await first(events, "resync")

    assert went_on.told["session"] == "telegram:42"
    assert "10,000 changes" in late.told["why"]


async def test_watches_over_all_sessions_are_bounded_like_other_streams() -> None:
    async with a_gateway(bounds=GatewayBounds(streams_max=1)) as running:
        async with running.client.events("/api/events") as events:
            await first(events, "watching")
            more = await running.client.get("/api/events")
        await eventually(lambda: running.gateway.state.tenant("").streams == 0)

    assert more.code == (429, "too_many")


# --- the list of a screen -------------------------------------------------------------------------------------------


async def test_the_list_by_last_use_has_titles_tags_models_costs_and_the_number_of_all() -> None:
    async with a_gateway() as running:
        await running.client.send("older", f"  remember   harbour\n= Kiel {'and more ' * 40}")
        await running.client.ask("PUT", "/api/sessions/empty", {})
        await running.client.send("newer", "what is harbour?")
        await running.client.ask("PUT", "/api/sessions/newer/labels", {"title": "Berths", "tags": ["b", "a"]})
        await running.client.send("older", "again")
        page = (await running.client.get("/api/sessions?order=recent&limit=2&total=true")).body
        rest = (await running.client.get(f"/api/sessions?order=recent&limit=2&after={page['next']}")).body
        bad = await running.client.get("/api/sessions?order=recent&after=nonsense")

    rows = page["sessions"] + rest["sessions"]
    assert [(one["key"], one["title"], one["tags"]) for one in rows] == [
        ("older", "remember harbour", []),
        ("newer", "Berths", ["a", "b"]),
        ("empty", "", []),
    ]
    assert (page["total"], rest["total"], rest["next"]) == (3, None, None)
    assert [one["asked_model"] for one in rows] == ["sim", "sim", ""]
    assert [one["cost_usd"] for one in rows] == [0.0, 0.0, 0.0]
    assert bad.code == (422, "bad_input")


async def test_the_list_by_last_use_has_no_sessions_of_another_key(tmp_path: Path) -> None:
    path, made = keys(tmp_path, "alice", "bob")
    async with a_gateway(keys=path) as running:
        await running.with_key(made["alice"]).send("of-alice", "hello")
        seen = (await running.with_key(made["bob"]).get("/api/sessions?order=recent&total=true")).body
    assert (seen["sessions"], seen["total"]) == ([], 0)
