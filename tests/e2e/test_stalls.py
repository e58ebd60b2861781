"""A provider that goes silent or breaks off: the stream is cut, and the turn goes on with another attempt."""

import asyncio
from pathlib import Path

import pytest

from holdfast.core.limits.bounds import Deadlines
from holdfast.errors import TurnFailedError
from holdfast.ports import TextDelta
from holdfast.types.records import AttemptFailed, Logged, ReplyRecorded
from tests.e2e.world import DIALECTS, HASTY, KEY, a_world, ended_well, failures_of, records_of

# Long enough for an answer over a local socket on a busy machine, short enough to wait for.
SHORT = Deadlines(connect_seconds=0.4, first_token_seconds=0.4, idle_seconds=0.6)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "fault", ["stall", "stall:after=2", "keepalive", "cut", "cut:after=1", "error-event", "error-event:after=1"]
)
async def test_a_stream_that_hangs_or_breaks_is_cut_and_the_turn_is_answered(
    tmp_path: Path, dialect: str, fault: str
) -> None:
    """FM-040, FM-099, FM-100: keep-alives are no content."""
    async with a_world(tmp_path, dialect) as world, world.open(bounds=HASTY, deadlines=SHORT) as hold:
        session = await hold.session(KEY)
        await session.send("the first request of a process is slow")
        before = world.simulation.request_count
        world.simulation.set_faults(fault)

        answer = await session.send("hello there")

        assert answer.text.startswith('You said: "hello there"')
        failures = await failures_of(session)
        assert failures
        broken = world.simulation.requests[before]
        await asyncio.wait_for(broken.ended.wait(), timeout=5)
        # An error inside of the stream is the end of it; all others must hear that nobody listens any more.
        assert broken.was_closed_early is not fault.startswith("error-event")
        assert len(await records_of(session, ReplyRecorded)) == 2
        await ended_well(session)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_provider_that_takes_a_request_and_never_answers_is_left_for_the_next_attempt(
    tmp_path: Path, dialect: str
) -> None:
    """FM-099: silence before the headers, from something that only looks like a provider."""
    answered = 0

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal answered
        answered += 1
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    try:
        async with a_world(tmp_path, dialect) as world:
            port = server.sockets[0].getsockname()[1]
            url, world.url = world.url, f"http://127.0.0.1:{port}"
            deaf = world.model("deaf")
            world.url = url
            async with world.open(deaf, world.model("sim"), bounds=HASTY, deadlines=SHORT) as hold:
                session = await hold.session(KEY)

                answer = await session.send("hello there")

                assert (answer.text[:9], answer.model) == ("You said:", "sim")
                assert set(await failures_of(session)) == {"stream_stall"}
                assert answered == len(await records_of(session, AttemptFailed))
                await ended_well(session)
    finally:
        server.close()
        await server.wait_closed()


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_provider_that_is_not_there_ends_the_turn_with_what_to_do(tmp_path: Path, dialect: str) -> None:
    """FM-100: one outcome, and the next message works."""
    async with a_world(tmp_path, dialect) as world:
        url, world.url = world.url, "http://127.0.0.1:9"
        async with world.open(bounds=HASTY, deadlines=SHORT) as hold:
            session = await hold.session(KEY)
            with pytest.raises(TurnFailedError) as failed:
                await session.send("hello there")
            assert failed.value.reason == "transient"
        world.url = url
        async with world.open() as hold:
            session = await hold.session(KEY)
            assert (await session.send("hello again")).text.startswith("You said")
            await ended_well(session)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_whoever_looks_on_sees_the_text_of_a_broken_attempt_and_then_the_whole_answer(
    tmp_path: Path, dialect: str
) -> None:
    """FM-099: what an attempt that failed has shown is void; the next begins anew."""
    async with a_world(tmp_path, dialect, faults="cut:after=1") as world, world.open(bounds=HASTY) as hold:
        session = await hold.session(KEY)

        attempts: list[str] = [""]
        async for event in session.stream("write 60 words"):
            match event:
                case TextDelta(text=text):
                    attempts[-1] += text
                case Logged(record=AttemptFailed()):
                    attempts.append("")
                case _:
                    pass

        broken, whole = attempts
        assert len(whole.split()) == 60
        assert broken
        assert whole.startswith(broken)
