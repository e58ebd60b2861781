"""What few people need to change, and can."""

import asyncio
from collections.abc import AsyncGenerator, Mapping

import holdfast
from holdfast.core.limits.bounds import Bounds, Deadlines
from holdfast.ports import Delta
from holdfast.testing.engines import FunctionModel, says
from holdfast.types.faults import Refusal
from holdfast.types.limits import Limits
from holdfast.types.messages import Reply, Request
from holdfast.types.records import SummaryRefused


class SlowSummariser(FunctionModel):
    """Answers at once, and never comes to the end of a summary."""

    async def stream(
        self, request: Request, blobs: Mapping[str, bytes]
    ) -> AsyncGenerator[Delta | Reply | Refusal, None]:
        if "You write the working notes" in request.system + str(request.messages):
            await asyncio.Event().wait()
        async for sight in super().stream(request, blobs):
            yield sight


async def test_how_long_a_summary_may_take_can_be_set() -> None:
    """FM-040: beside how long an answer may take."""
    model = SlowSummariser(lambda _: says("aye"), limits=Limits(window_tokens=20_000))
    hasty = Deadlines(connect_seconds=0.01, first_token_seconds=0.01)
    tuning = holdfast.Tuning(bounds=Bounds(compacts_ahead=False), summary_deadlines=hasty, grace_seconds=0.1)
    async with (
        holdfast.open(":memory:", model=model, tuning=tuning) as client,
        asyncio.timeout(30),
    ):
        session = await client.session("telegram:42")
        for number in range(4):
            await session.send(f"{number} " + "the ship keeps its course. " * 300)

        settled = await session.compact()

        refused = [one.record for one in await session.history() if isinstance(one.record, SummaryRefused)]
        assert settled.outcome.value == "applied", "by a digest"
        assert refused
        assert all("0.02 seconds" in one.why for one in refused)
