"""What a model may ask for, as the engine needs it."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from holdfast.types.messages import ToolSpec


class Attachment(msgspec.Struct, frozen=True):
    """Bytes that are not text, such as an image, on their way into a message or out of a tool."""

    data: bytes
    name: str = ""
    media_type: str = ""


class SessionTool(Protocol):
    """Something a model may ask for that works on the session it is asked in. As `Tool` otherwise."""

    @property
    def spec(self) -> ToolSpec:
        """What the model is told."""
        ...

    @property
    def is_idempotent(self) -> bool:
        """Whether running it twice does no more than running it once, so that a crash may repeat it."""
        ...

    @property
    def seconds_max(self) -> float:
        """How long one run may take."""
        ...

    async def run(self, session: str, arguments: str) -> Sequence[str | Attachment]:
        """Run with the JSON text the model wrote. What it raises is told to the model."""
        ...


class Tool(Protocol):
    """Something a model may ask for."""

    @property
    def spec(self) -> ToolSpec:
        """What the model is told."""
        ...

    @property
    def is_idempotent(self) -> bool:
        """Whether running it twice does no more than running it once, so that a crash may repeat it."""
        ...

    @property
    def seconds_max(self) -> float:
        """How long one run may take."""
        ...

    async def run(self, arguments: str) -> Sequence[str | Attachment]:
        """Run with the JSON text the model wrote. What it raises is told to the model."""
        ...
