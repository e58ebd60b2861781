"""Ports for models, the tools that they may call, time and progress reports."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Protocol, TypeAlias

import msgspec

from holdfast.core.limits.prices import Prices
from holdfast.types.faults import Refusal
from holdfast.types.limits import Limits
from holdfast.types.messages import Reply, Request, ToolSpec


class TextDelta(msgspec.Struct, frozen=True):
    """A streamed piece of an answer. Live only: the log records the complete answer."""

    # The piece.
    text: str


class ReasoningDelta(msgspec.Struct, frozen=True, omit_defaults=True):
    """A streamed piece of a model's reasoning.

    `opaque` comes once, complete, with the last piece: the value of `Reasoning.opaque`. `part_id` is the provider's id
    of this reasoning part, if it has one.
    """

    # The piece.
    text: str
    opaque: str = ""
    part_id: str = ""


class ToolCallDelta(msgspec.Struct, frozen=True, omit_defaults=True):
    """A streamed piece of a tool call's arguments; `index` distinguishes parallel calls.

    `call_id` is the id of this call in the reply; "" while it is not known.
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
        """The name that users give it, such as "openai:gpt-5"."""
        ...

    @property
    def issuer(self) -> str:
        """Dialect, endpoint and model in one string: the key for reasoning signatures and learned limits."""
        ...

    @property
    def limits(self) -> Limits:
        """The declared limits."""
        ...

    @property
    def prices(self) -> Prices:
        """The declared prices."""
        ...

    def stream(self, request: Request, blobs: Mapping[str, bytes]) -> AsyncGenerator[Delta | Reply | Refusal, None]:
        """Send a request. Yields deltas, then exactly one `Reply` or `Refusal`, and ends.

        `blobs` maps the SHA-256 of every blob that the request references to its bytes. Errors of the provider and of
        the network are yielded, never raised. Closing the iterator closes the connection, so the provider stops.
        """
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...


class Clock(Protocol):
    """Time source, so that tests can control it."""

    def now(self) -> float:
        """Return seconds since the epoch."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Sleep for this long."""
        ...


# Progress callback: the operation, the current step and the number of steps. Called from the worker thread.
Progress: TypeAlias = Callable[[str, int, int], None]


def ignore(_what: str, _step: int, _steps: int) -> None:
    """No-op progress callback."""


class Attachment(msgspec.Struct, frozen=True):
    """Binary content, such as an image, for a message or from a tool."""

    # Its bytes; a file name for people; and its media type, which is detected if it is empty.
    data: bytes
    name: str = ""
    media_type: str = ""


class SessionTool(Protocol):
    """A tool that works on the session of its call. Otherwise as `Tool`."""

    @property
    def spec(self) -> ToolSpec:
        """The declaration that is sent to the model."""
        ...

    @property
    def is_idempotent(self) -> bool:
        """Return whether a call may be repeated after a crash without further effect."""
        ...

    @property
    def seconds_max(self) -> float:
        """The timeout of one run."""
        ...

    async def run(self, session: str, arguments: str) -> Sequence[str | Attachment]:
        """Run with the JSON arguments of the model. An exception is returned to the model as the result."""
        ...


class Tool(Protocol):
    """A tool that a model may call."""

    @property
    def spec(self) -> ToolSpec:
        """The declaration that is sent to the model."""
        ...

    @property
    def is_idempotent(self) -> bool:
        """Return whether a call may be repeated after a crash without further effect."""
        ...

    @property
    def seconds_max(self) -> float:
        """The timeout of one run."""
        ...

    async def run(self, arguments: str) -> Sequence[str | Attachment]:
        """Run with the JSON arguments of the model. An exception is returned to the model as the result."""
        ...
