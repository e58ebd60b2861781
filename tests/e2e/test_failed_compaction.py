"""Compaction that fails, in every way it can: the message is answered, the next too, and no error is in the view."""

import dataclasses
from pathlib import Path

import pytest

from holdfast.core.limits.bounds import Bounds, Deadlines
from holdfast.core.view.exclusion import NO_ANSWER
from holdfast.errors import TurnFailedError
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.sessions.session import Session
from holdfast.stores.blobs import FolderBlobs
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing.engines import a_hold, an_engine
from holdfast.types.messages import Reply, StopReason, Text, text_of
from holdfast.types.records import CompactionApplied, SummaryKind, SummaryRefused
from tests.e2e.world import (
    DIALECTS,
    HASTY,
    KEY,
    SMALL,
    World,
    a_message,
    a_world,
    ended_well,
    notes_meet,
    records_of,
    talk,
)

FULL = 9


async def until_compacted(session: Session, *, first: int = 0) -> CompactionApplied:
    """Talk until the window was full once."""
    await session.send("word " * 2_000)
    for number in range(first, first + FULL):
        await talk(session, messages=1, first=number)
        if applied := await records_of(session, CompactionApplied):
            return applied[-1]
    raise AssertionError("the window was never full")


async def goes_on_by_digest(world: World, why: str) -> None:
    """Check that the window is full, notes fail for a reason, and the session goes on as if nothing had happened."""
    async with world.open(world.model(declared=SMALL), bounds=HASTY) as hold:
        session = await hold.session(KEY)
        await session.send("remember harbour = Tromso")

        applied = await until_compacted(session)

        assert applied.kind is SummaryKind.DIGEST
        refused = await records_of(session, SummaryRefused)
        assert refused
        assert all(why in one.why for one in refused), [one.why for one in refused]
        view = await session.view()
        assert not any(one.why in str(view.messages) for one in refused), "errors are not in the view"
        assert view.tokens_estimated < applied.tokens_before
        assert (await session.send("what is harbour?")).text == "harbour = Tromso."
        await ended_well(session)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ("reasoning-400", ""),
        ("429:retry-after=0.01", "rate_limit"),
        ("429:retry-after=3600", "rate_limit"),
        ("529", "overloaded"),
        ("500", "transient"),
        ("content-filter", "content_policy"),
        ("filtered", ""),
        ("empty", "empty"),
        ("cut", ""),
        ("error-event", ""),
        ("quota", "quota"),
    ],
)
async def test_a_summariser_that_fails_leads_to_a_digest_and_an_answer(
    tmp_path: Path, dialect: str, fault: str, why: str
) -> None:
    """FM-010, FM-033, FM-037, FM-038, FM-045, FM-141."""
    async with a_world(tmp_path, dialect) as world:
        world.simulation.fault_of = notes_meet(fault)

        await goes_on_by_digest(world, why)


@pytest.mark.parametrize(
    ("notes", "stop", "why"),
    [
        ("Goal: mend the parts. Done: half of", StopReason.CONTENT_FILTER, ""),
        ("<think>what was it again? Goal: mend.", StopReason.END, "empty"),
        ('<tool_call>{"name": "read"}</tool_call>', StopReason.END, "tool call"),
        ("word " * 4_000, StopReason.END, "repeats itself"),
        ("   \n", StopReason.END, "empty"),
    ],
    ids=["filtered", "thinking", "tool-call", "looping", "blank"],
)
async def test_what_is_no_summary_is_not_used(tmp_path: Path, notes: str, stop: StopReason, why: str) -> None:
    """FM-020, FM-021, FM-045, FM-046, FM-047, FM-071."""
    async with a_world(tmp_path) as world:
        world.simulation.bad_notes = Reply((Text(notes),), stop, None, "sim")

        await goes_on_by_digest(world, why)


@pytest.mark.parametrize("fault", ["stall", "stall:after=1", "keepalive"])
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_summariser_that_falls_silent_is_cut_off(tmp_path: Path, dialect: str, fault: str) -> None:
    """FM-040, FM-099: summaries have deadlines of their own."""
    async with a_world(tmp_path, dialect) as world:
        world.simulation.fault_of = notes_meet(fault)
        bounds = HASTY
        blobs = FolderBlobs(tmp_path / "blobs")
        store = SqliteStore(world.store, clock=SystemClock(), bounds=bounds)
        model = world.model(declared=SMALL)
        engine = an_engine(model, store=store, blobs=blobs, bounds=bounds)
        short = Deadlines(connect_seconds=0.05, first_token_seconds=0.05, idle_seconds=0.05)
        async with a_hold(dataclasses.replace(engine, summary_deadlines=short)) as hold:
            session = await hold.session(KEY)

            applied = await until_compacted(session)

            assert applied.kind is SummaryKind.DIGEST
            assert all("stream_stall" in one.why for one in await records_of(session, SummaryRefused))
            assert (await session.send("hello")).text.startswith("You said")
            await ended_well(session)
        await model.close()
        await store.close()


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_with_all_models_down_the_turn_ends_with_what_to_do_and_the_next_is_answered(
    tmp_path: Path, dialect: str
) -> None:
    """FM-033, FM-051, FM-141."""
    async with (
        a_world(tmp_path, dialect) as world,
        world.open(world.model("first", declared=SMALL), world.model("second", declared=SMALL), bounds=HASTY) as hold,
    ):
        session = await hold.session(KEY)
        await talk(session, messages=3)
        before = await session.view()
        world.simulation.fault_of = lambda _: "500"

        with pytest.raises(TurnFailedError) as failed:
            await session.send(a_message(3))

        assert failed.value.reason == "transient"
        assert "send the message again" in failed.value.sentence
        view = await session.view()
        new = [text_of(message.parts) for message in view.messages[len(before.messages) :]]
        assert new == [a_message(3), NO_ANSWER], "only the message itself is new, and that it was not answered"
        world.simulation.fault_of = lambda _: ""
        assert (await session.send("hello again")).text.startswith("You said")
        await ended_well(session)


async def test_failures_never_make_the_view_grow(tmp_path: Path) -> None:
    """FM-016, FM-021: six turns that fail leave six messages, and the window is not full of errors."""
    async with a_world(tmp_path) as world, world.open(world.model(declared=SMALL), bounds=HASTY) as hold:
        session = await hold.session(KEY)
        world.simulation.fault_of = lambda _: "500"
        for number in range(6):
            with pytest.raises(TurnFailedError):
                await session.send(f"try {number}")

        view = await session.view()

        assert [text_of(message.parts) for message in view.messages] == [
            text for number in range(6) for text in (f"try {number}", NO_ANSWER)
        ]
        world.simulation.fault_of = lambda _: ""
        assert (await session.send("and now?")).text.startswith("You said")


async def test_a_compaction_that_was_asked_for_and_failed_has_an_outcome(tmp_path: Path) -> None:
    """FM-051, FM-139."""
    bounds = Bounds(compacts_ahead=False, back_off_seconds_min=0.001, back_off_seconds_max=0.01)
    async with a_world(tmp_path) as world, world.open(world.model(declared=SMALL), bounds=bounds) as hold:
        session = await hold.session(KEY)
        await talk(session, messages=6)
        world.simulation.fault_of = notes_meet("content-filter")

        settled = await session.compact()

        assert settled.outcome.value == "applied", "by digest, where no model can"
        assert (await session.send("hello")).text.startswith("You said")
        await ended_well(session)
