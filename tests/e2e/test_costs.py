"""What a session costs is told, and what summaries may cost is held, call by call."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.core.limits.bounds import Bounds
from holdfast.core.limits.prices import Prices
from holdfast.runtime.engine.compaction import OVER_BUDGET
from holdfast.runtime.sessions.session import Session
from holdfast.types.limits import Limits
from holdfast.types.messages import Reply, StopReason, Text, Usage
from holdfast.types.records import (
    CompactionApplied,
    CompactionOutcome,
    NoticePosted,
    PieceSummarised,
    ReplyRecorded,
    SummaryKind,
    SummaryRefused,
    TurnEnded,
)
from tests.e2e.world import (
    ASKED_ONLY,
    DIALECTS,
    HASTY,
    KEY,
    SMALL,
    World,
    a_message,
    a_world,
    at_rest,
    ended_well,
    is_for_notes,
    records_of,
    rungs_of,
    talk,
)

DEAR, CHEAP = Prices(10.0, 1.0, 50.0), Prices(0.1, 0.01, 0.5)


async def full(session: Session, *, first: int = 0) -> CompactionApplied:
    """Talk until there was a compaction more than before."""
    before = len(await records_of(session, CompactionApplied))
    for number in range(first, first + 14):
        await talk(session, messages=1, first=number)
        if len(applied := await records_of(session, CompactionApplied)) > before:
            return applied[-1]
    raise AssertionError("the window was never full")


def asked_of(world: World) -> set[str]:
    """Return which models were asked for notes."""
    return {seen.model for seen in world.simulation.requests if is_for_notes(seen)}


async def told_of_budget(session: Session) -> list[str]:
    return [one.sentence for one in await records_of(session, NoticePosted) if one.code == OVER_BUDGET]


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_each_call_each_turn_and_the_session_tell_what_they_cost(tmp_path: Path, dialect: str) -> None:
    """FM-077, FM-145, FM-146: what a compaction costs and what it saves stand beside each other."""
    async with a_world(tmp_path, dialect) as world:
        async with world.open(world.model(declared=SMALL, prices=DEAR)) as hold:
            session = await hold.session(KEY)
            answers = [await session.send(a_message(number)) for number in range(9)]

            replies = await records_of(session, ReplyRecorded)
            pieces = await records_of(session, PieceSummarised)
            compactions = await records_of(session, CompactionApplied)
            assert [one.cost_usd for one in replies] == [DEAR.cost(one.reply.usage) for one in replies]
            assert all(costs := [one.cost_usd for one in replies] + [one.cost_usd for one in pieces]), costs
            on_notes = sum(one.cost_usd or 0 for one in pieces)
            assert sum(one.cost_usd or 0 for one in compactions) == pytest.approx(on_notes)
            for one in compactions:
                assert one.saves_usd == pytest.approx((one.tokens_before - one.tokens_after) / 1e6, rel=0.5)
            assert [one.cost_usd for one in answers] == [
                ended.cost_usd for ended in await records_of(session, TurnEnded)
            ]
            assert any("Making it cost $0.0" in notice for answer in answers for notice in answer.notices)
            view = await session.view()
            assert view.spent.usd == pytest.approx(sum(one.cost_usd or 0 for one in answers))
            assert view.spent_on_notes.usd == pytest.approx(on_notes)
            assert view.spent.calls == len(world.simulation.requests)
        async with world.open(world.model(declared=SMALL, prices=CHEAP)) as hold:
            again = await (await hold.session(KEY)).view()
            assert (again.spent, again.spent_on_notes) == (view.spent, view.spent_on_notes), (
                "as it was when it was paid"
            )


async def test_without_a_price_tokens_are_told_and_no_money(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world, world.open(world.model(declared=SMALL)) as hold:
        session = await hold.session(KEY)

        answer = await session.send("hello")

        assert answer.cost_usd is None
        spent = (await session.view()).spent
        assert (spent.calls, spent.unpriced, spent.known_usd) == (1, 1, None)
        assert spent.input_tokens > 0


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_summary_over_the_budget_is_made_by_the_next_model_that_is_within_it(
    tmp_path: Path, dialect: str
) -> None:
    """FM-145."""
    bounds = replace(ASKED_ONLY, summary_usd_max=0.01)
    async with a_world(tmp_path, dialect) as world:
        models = (world.model("dear", declared=SMALL, prices=DEAR), world.model("cheap", declared=SMALL, prices=CHEAP))
        async with world.open(*models, bounds=bounds) as hold:
            session = await hold.session(KEY)

            applied = await full(session)

            assert (applied.kind, applied.model) == (SummaryKind.SUMMARY, f"{dialect}:cheap")
            assert asked_of(world) == {"cheap"}
            (notice,) = await told_of_budget(session)
            assert notice.startswith(f"{dialect}:dear is not asked for a summary: it would amount to $0.0")
            assert (await records_of(session, SummaryRefused))[0].is_over_budget
            assert (applied.cost_usd or 0) < 0.01
            await ended_well(session)


@pytest.mark.parametrize(
    "bounds",
    [
        Bounds(summary_usd_max=0.0001),
        Bounds(summary_tokens_max=500),
        Bounds(summary_usd_per_day=0.0001),
        Bounds(summary_tokens_per_day=500),
    ],
    ids=["usd", "tokens", "usd-a-day", "tokens-a-day"],
)
async def test_where_every_summary_is_over_the_budget_a_digest_is_made_and_the_person_told_once(
    tmp_path: Path, bounds: Bounds
) -> None:
    """FM-145: over the budget nothing is paid, and the message is answered."""
    bounds = replace(bounds, compacts_ahead=False)
    async with a_world(tmp_path) as world:
        models = (world.model("dear", declared=SMALL, prices=DEAR), world.model("cheap", declared=SMALL, prices=CHEAP))
        async with world.open(*models, bounds=bounds) as hold:
            session = await hold.session(KEY)

            applied = await full(session)

            assert (applied.kind, applied.cost_usd) == (SummaryKind.DIGEST, None)
            assert world.notes_asked == []
            assert len(await told_of_budget(session)) == 1
            await ended_well(session)


async def test_what_a_day_allows_is_shared_by_all_compactions_of_a_session(tmp_path: Path) -> None:
    """FM-145: also those of another process."""
    async with a_world(tmp_path) as world:
        async with world.open(world.model(declared=SMALL)) as hold:
            session = await hold.session(KEY)
            first = await full(session)
            spent = (await session.view()).spent_on_notes.tokens
        # Enough for one such compaction, not for two.
        bounds = replace(ASKED_ONLY, summary_tokens_per_day=spent + 1_000)
        async with world.open(world.model(declared=SMALL), bounds=bounds) as hold:
            session = await hold.session(KEY)
            second = await full(session, first=20)
            other = await full(await hold.session("another"))

        assert [first.kind, second.kind, other.kind] == [SummaryKind.SUMMARY, SummaryKind.DIGEST, SummaryKind.SUMMARY]


async def test_the_cheapest_model_whose_window_is_large_enough_is_asked_where_that_is_wanted(tmp_path: Path) -> None:
    bounds = replace(ASKED_ONLY, summariser="cheapest")
    async with a_world(tmp_path) as world:
        models = (
            world.model("unknown", declared=SMALL),
            world.model("dear", declared=SMALL, prices=DEAR),
            world.model("tiny", declared=Limits(window_tokens=700), prices=Prices(0.01, None, 0.01)),
            world.model("cheap", declared=SMALL, prices=CHEAP),
        )
        async with world.open(*models, bounds=bounds) as hold:
            session = await hold.session(KEY)

            applied = await full(session)

            assert applied.model == "openai:cheap"
            assert asked_of(world) == {"cheap"}
            assert {seen.model for seen in world.simulation.requests} == {"unknown", "cheap"}


async def test_a_summary_that_could_gain_nothing_is_not_asked_for(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world, world.open(world.model(declared=SMALL)) as hold:
        session = await hold.session(KEY)
        await session.send("hello")
        await session.send(a_message(1))

        settled = await session.compact()

        assert settled.outcome is CompactionOutcome.NOTHING_TO_DO
        assert world.notes_asked == []


async def test_a_summary_after_which_the_request_would_still_not_fit_is_not_asked_for(tmp_path: Path) -> None:
    """What the newest message alone exceeds no summary of the past can help; the message is answered all the same."""
    async with a_world(tmp_path) as world, world.open(world.model(declared=SMALL)) as hold:
        session = await hold.session(KEY)
        await talk(session, messages=3)

        answer = await session.send("the newest message: " + "word " * 5_500)

        assert answer.text
        assert world.notes_asked == []
        assert "digest" in await rungs_of(session)
        await ended_well(session)


async def test_a_summariser_whose_answers_are_never_of_use_is_not_paid_for_ever(tmp_path: Path) -> None:
    """FM-147: the guard looks at progress. A person may still ask."""
    bounds = replace(HASTY, compacts_ahead=True, summaries_in_vain_max=4)
    async with a_world(tmp_path) as world:
        notes = Reply((Text("<think>hm</think>"),), StopReason.END, Usage(3_000, 9), "sim")
        world.simulation.bad_notes = notes
        async with world.open(world.model(declared=SMALL), bounds=bounds) as hold:
            session = await hold.session(KEY)
            for number in range(24):
                await session.send(a_message(number))
                await at_rest(hold)

            assert len(world.notes_asked) == 4
            assert (await records_of(session, CompactionApplied))[-1].kind is SummaryKind.DIGEST

            await session.compact()

            assert len(world.notes_asked) > 4
            await ended_well(session)
