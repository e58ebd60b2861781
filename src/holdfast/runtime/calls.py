"""One call of a model: send, show what comes, and end within the deadlines with a reply or a refusal."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import aclosing

from holdfast.core.faults import Phase, Refusal
from holdfast.core.limits import Deadlines
from holdfast.core.messages import Reply, Request
from holdfast.ports import Delta, Model


async def call_model(
    model: Model,
    request: Request,
    blobs: Mapping[str, bytes],
    deadlines: Deadlines,
    show: Callable[[Delta], None],
) -> Reply | Refusal:
    """Send a request and return what came of it.

    A model that says nothing for too long is cut off; what keeps a connection alive without being content never
    arrives here, so it does not count. Leaving this function closes the connection, whatever the reason.
    """
    dialect = dialect_of(model)
    try:
        async with (
            asyncio.timeout(deadlines.total_seconds),
            aclosing(model.stream(request, blobs)) as stream,
        ):
            seconds = deadlines.connect_seconds + deadlines.first_token_seconds
            while True:
                try:
                    async with asyncio.timeout(seconds):
                        sight = await anext(stream)
                except TimeoutError:
                    return _stalled(dialect, f"nothing came for {seconds:g} seconds")
                if isinstance(sight, Reply | Refusal):
                    return sight
                show(sight)
                seconds = deadlines.idle_seconds
    except StopAsyncIteration:
        return Refusal(dialect, Phase.STREAM, cause="the stream ended without an answer")
    except TimeoutError:
        return _stalled(dialect, f"the answer was not complete after {deadlines.total_seconds:g} seconds")


def dialect_of(model: Model) -> str:
    """Return the dialect that a model speaks, by its issuer."""
    return model.issuer.partition(":")[0]


def _stalled(dialect: str, cause: str) -> Refusal:
    return Refusal(dialect, Phase.STALL, cause=cause)
