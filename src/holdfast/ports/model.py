"""A model at an endpoint, as the engine needs it."""

from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Protocol, TypeAlias

import msgspec

from holdfast.core.limits.prices import Prices
from holdfast.types.faults import Refusal
from holdfast.types.limits import Limits
from holdfast.types.messages import Reply, Request


class TextDelta(msgspec.Struct, frozen=True):
    """A piece of an answer as it is written. Live only: the whole answer is what counts."""

    text: str


class ReasoningDelta(msgspec.Struct, frozen=True, omit_defaults=True):
    """A piece of a model's thinking.

    `opaque` comes once, whole, when the thinking ends: what `Reasoning.opaque` will be. `part_id` is what the provider
    calls this stretch of thinking, where it has a name.
    """

    text: str
    opaque: str = ""
    part_id: str = ""


class ToolCallDelta(msgspec.Struct, frozen=True, omit_defaults=True):
    """A piece of a tool call's arguments; `index` tells parallel calls apart.

    `call_id` is the id that the reply will have for this call; "" while it is not certain.
    """

    index: int
    name: str
    arguments: str
    call_id: str = ""


Delta: TypeAlias = TextDelta | ReasoningDelta | ToolCallDelta


class Model(Protocol):
    """One model at one endpoint."""

    @property
    def name(self) -> str:
        """What people call it, as in "openai:gpt-5"."""
        ...

    @property
    def issuer(self) -> str:
        """Dialect, endpoint and model in one word: who can check its signatures, and whose limits are learned."""
        ...

    @property
    def limits(self) -> Limits:
        """What it is declared to accept."""
        ...

    @property
    def prices(self) -> Prices:
        """What it is declared to cost."""
        ...

    def stream(self, request: Request, blobs: Mapping[str, bytes]) -> AsyncGenerator[Delta | Reply | Refusal, None]:
        """Send a request. Yields deltas, then exactly one `Reply` or `Refusal`, and ends.

        `blobs` has the bytes of every blob the request names, by SHA-256. Failures of the provider and of the network
        are yielded, never raised. Closing the iterator closes the connection, so the provider stops working.
        """
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...


# --- Time, as the engine needs it.


class Clock(Protocol):
    """Time, so that tests can set it."""

    def now(self) -> float:
        """Return seconds since the epoch."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return when this much time has passed."""
        ...


# --- How far something long is, for whoever waits for it.


# What is being done, the step, and how many steps there are. Called from whichever thread does the work.
Progress: TypeAlias = Callable[[str, int, int], None]


def ignore(_what: str, _step: int, _steps: int) -> None:
    """Nobody wants to know how far it is."""
