"""No wrong belief about a model lasts: lying usage, misread refusals, limits of earlier versions."""

from pathlib import Path

import pytest

from holdfast.ports import Attachment
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.engine.learning import LEARNED_KEY, Learning
from holdfast.stores.sqlite import SqliteStore
from holdfast.types.limits import NOTHING_LEARNED, Evidence, Learned, Limits
from holdfast.types.records import AttemptFailed, CompactionApplied, LimitsLearned
from tests.e2e import child
from tests.e2e.images import a_png
from tests.e2e.world import DIALECTS, HASTY, KEY, World, a_message, a_world, ended_well, failures_of, records_of, talk

LARGE = Limits(window_tokens=200_000)


async def learned_in(world: World) -> dict[str, Learned]:
    """Return what a new process reads from the store."""
    store = SqliteStore(world.store, clock=SystemClock())
    try:
        return await Learning(store).everything()
    finally:
        await store.close()


async def admitted(world: World, record: LimitsLearned) -> None:
    """Write a record as another process would."""
    store = SqliteStore(world.store, clock=SystemClock())
    try:
        await store.admit(LEARNED_KEY, record)
    finally:
        await store.close()


@pytest.mark.parametrize("declared", [LARGE, Limits()], ids=["declared", "unknown"])
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_usage_without_cached_tokens_teaches_no_limit_and_compacts_nothing(
    tmp_path: Path, dialect: str, declared: Limits
) -> None:
    """A model of 200,000 tokens "took no more than about 1,666", for all sessions and for good."""
    async with a_world(tmp_path, dialect, LARGE) as world:
        world.simulation.set_faults("uncached*1000")
        for opened in range(2):
            async with world.open(world.model(declared=declared), bounds=HASTY) as hold:
                for number in range(2):
                    session = await hold.session(f"chat:{opened}:{number}")
                    await session.send("remember harbour = Tromso")
                    for turn in range(12):
                        await session.send(f"{turn} " + "word " * (1_650 + 20 * (turn % 2)))
                    assert (await session.send("what is harbour?")).text == "harbour = Tromso."
                    assert await failures_of(session) == []
                    assert await records_of(session, CompactionApplied) == []
                    await ended_well(session)
                another = await (await hold.session("another")).view()
                assert another.window_tokens == declared.window_tokens
        code, said = await child.finished(child.start(world, "asks", "what is harbour?"))
        assert (code, len(said)) == (0, 1)
        (learned,) = (await learned_in(world)).values()
        assert (learned.claims, learned.observations, learned.window_tokens) == ((), (), None)
        if dialect == "openai":
            # The other dialect caches nothing unless it is asked to.
            assert any(seen.tokens > 15_000 for seen in world.simulation.requests)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_wrong_limit_of_an_earlier_version_is_gone_after_the_next_large_request(
    tmp_path: Path, dialect: str
) -> None:
    async with a_world(tmp_path, dialect, LARGE) as world:
        model = world.model(declared=LARGE)
        async with world.open(model, bounds=HASTY) as hold:
            await (await hold.session(KEY)).send("hello")
        await admitted(world, LimitsLearned(model.issuer, Learned(window_tokens=1_666)))
        async with world.open(model, bounds=HASTY) as hold:
            session = await hold.session(KEY)
            await talk(session, messages=8)

            assert (await session.view()).window_tokens == 200_000
            assert max(seen.tokens for seen in world.simulation.requests) > 5_000
        assert [one.window_tokens for one in (await learned_in(world)).values()] == [None]


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_tool_output_of_one_repeated_letter_costs_no_answer_and_teaches_nothing(
    tmp_path: Path, dialect: str
) -> None:
    """The estimate of such text is far too high, so the usage seems too low."""
    async with a_world(tmp_path, dialect, LARGE) as world:
        async with world.open(world.model(), bounds=HASTY) as hold:
            session = await hold.session(KEY)
            for number in range(11):
                answer = await session.send(f"{number}: " + "a" * 9_000 * (1 + number % 3))
                assert answer.text
            assert await records_of(session, AttemptFailed) == []
            assert await records_of(session, CompactionApplied) == []
            await ended_well(session)
        (learned,) = (await learned_in(world)).values()
        assert learned.claims == ()


@pytest.mark.parametrize("faults", ["output-cap:limit=512", "count-cap", "pixel-range"])
@pytest.mark.parametrize("declared", [Limits(128_000, 8_192), Limits()], ids=["declared", "unknown"])
async def test_a_refusal_whose_numbers_are_about_something_else_teaches_no_window_bytes_or_pixels(
    tmp_path: Path, faults: str, declared: Limits
) -> None:
    async with a_world(tmp_path, "openai", Limits(128_000)) as world:
        async with world.open(world.model(declared=declared), bounds=HASTY) as hold:
            session = await hold.session(KEY)
            await session.send("look", attachments=[Attachment(a_png(seed=1), "1.png")])
            await talk(session, messages=3)
            world.simulation.set_faults(faults)
            answer = await session.send("look again " + a_message(7), attachments=[Attachment(a_png(seed=2), "2.png")])
            assert answer.text
            await ended_well(session)
        for learned in (await learned_in(world)).values():
            assert (learned.window_tokens, learned.wire_bytes_max, learned.media_pixels_max) == (None, None, None)


async def test_forgetting_is_a_record_that_other_processes_obey(tmp_path: Path) -> None:
    async with a_world(tmp_path, "openai") as world:
        model = world.model()
        async with world.open(model, bounds=HASTY) as hold:
            session = await hold.session(KEY)
            await talk(session, messages=8)
            (learned,) = (await learned_in(world)).values()
            assert [claim.evidence for claim in learned.claims] == [Evidence.STATED]
            (support,) = learned.claims[0].records
            assert support.session == KEY
            records = {logged.seq: logged.record for logged in await session.history(limit=100_000)}
            assert isinstance(records[support.seq], AttemptFailed)

            store = SqliteStore(world.store, clock=SystemClock())
            assert await Learning(store).forget(model.issuer)
            assert not await Learning(store).forget(model.issuer), "nothing is left"
            await store.close()

            assert (await session.view()).window_tokens is None, "this process reads it before the next call"
        assert await learned_in(world) == {}


async def test_what_two_processes_learn_at_the_same_time_is_kept(tmp_path: Path) -> None:
    async with a_world(tmp_path, "openai") as world:
        model = world.model()
        async with world.open(model, bounds=HASTY) as hold:
            session = await hold.session(KEY)
            await session.send("hello")
            # Another process learns an output limit after this one has read the log.
            theirs = Learned(output_tokens_max=700)
            admit = hold.engine.store.admit

            async def late(key: str, record: object) -> object:
                if key == LEARNED_KEY and theirs is not NOTHING_LEARNED:
                    hold.engine.store.admit = admit  # type: ignore[method-assign]
                    await admitted(world, LimitsLearned(model.issuer, theirs))
                return await admit(key, record)  # type: ignore[arg-type]

            hold.engine.store.admit = late  # type: ignore[method-assign, assignment]
            await talk(session, messages=8)
        (learned,) = (await learned_in(world)).values()
        assert (learned.output_tokens_max, learned.window_tokens) == (700, 6_000)


async def test_a_model_that_requires_a_reasoning_effort_is_refused_once_for_all_sessions(tmp_path: Path) -> None:
    async with a_world(tmp_path, "openai", LARGE) as world:
        world.simulation.fault_of = lambda body: "" if b'"reasoning_effort"' in body else "reasoning-400"
        for opened in range(2):
            async with world.open(world.model(), bounds=HASTY) as hold:
                for number in range(2):
                    session = await hold.session(f"chat:{opened}:{number}")
                    assert (await session.send("hello")).text
                    await ended_well(session)
        assert len(world.refused) == 1
        (learned,) = (await learned_in(world)).values()
        assert [(claim.limit, claim.value, claim.evidence) for claim in learned.claims] == [
            ("reasoning_effort", 1, Evidence.LEFT_OUT)
        ]
