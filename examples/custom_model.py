"""A model of your own: any object with the methods of `holdfast.ports.Model`.

It yields deltas, then exactly one `Reply` or `Refusal`. Errors of its provider are yielded as a `Refusal`, never
raised, so that the engine can recover; here the second model answers. `ModelContract` in
`holdfast.testing.model_contract` tests a model of your own against all that the engine relies on.

It prints:

    OLLEH (by shout:1)
    ['the provider is overloaded']
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping

import holdfast
from holdfast.core.limits.prices import Prices
from holdfast.ports import Delta, TextDelta
from holdfast.types.faults import Phase, Refusal
from holdfast.types.messages import Reply, Request, StopReason, Text, Usage, text_of
from holdfast.types.records import AttemptFailed


class Shout:
    """Answers with the newest message, backwards and in capitals."""

    name = "shout:1"
    # Dialect, endpoint and model: the key for everything that is learned about this model.
    issuer = "shout:local:1"
    limits = holdfast.Limits(window_tokens=8_000)
    prices = Prices(input_usd=0.0, output_usd=0.0)

    async def stream(
        self, request: Request, blobs: Mapping[str, bytes]
    ) -> AsyncGenerator[Delta | Reply | Refusal, None]:
        """Answer in two deltas."""
        del blobs
        text = text_of(request.messages[-1].parts)[::-1].upper()
        for piece in (text[:2], text[2:]):
            yield TextDelta(piece)
        yield Reply((Text(text),), StopReason.END, Usage(len(request.messages), len(text)), self.name)

    async def close(self) -> None:
        """Close nothing."""


class Busy(Shout):
    """Always overloaded."""

    name = "busy:1"
    issuer = "busy:local:1"

    async def stream(
        self, request: Request, blobs: Mapping[str, bytes]
    ) -> AsyncGenerator[Delta | Reply | Refusal, None]:
        """Refuse, as an HTTP server would."""
        del request, blobs
        yield Refusal("busy", Phase.RESPONSE, status=529, body='{"error": {"type": "overloaded_error"}}')


async def main() -> None:
    """Ask the busy model, and get the answer of the next one."""
    tuning = holdfast.Tuning(bounds=holdfast.Bounds(back_off_seconds_min=0.01, back_off_seconds_max=0.02))
    async with holdfast.open(":memory:", model=[Busy(), Shout()], tuning=tuning) as client:
        chat = await client.session("a")
        answer = await chat.send("hello")
        print(f"{answer} (by {answer.model})")
        records = [logged.record for logged in await chat.history()]
        print(sorted({f"the provider is {one.fault.kind}" for one in records if isinstance(one, AttemptFailed)}))


asyncio.run(main())
