"""Ports for the tools that a model may call."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from holdfast.types.messages import ToolSpec


class Attachment(msgspec.Struct, frozen=True):
    """Binary content, such as an image, for a message or from a tool."""

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
