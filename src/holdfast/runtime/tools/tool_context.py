"""The context of a tool call, for tools that ask for it, and the progress that they report."""

import asyncio
import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec

from holdfast.core.text.truncation import excerpt, well_formed

Deps = TypeVar("Deps")

# A progress report is a line for a person.
_PROGRESS_BYTES_MAX = 1_024


class ToolProgress(msgspec.Struct, frozen=True):
    """Progress of a running tool. Live only: the log has the result."""

    # The call, by its id and the name of its tool.
    call_id: str
    tool: str
    # What the tool reports.
    text: str


def unseen(_text: str) -> None:
    """Discard a progress report."""


class CallPlace(msgspec.Struct, frozen=True):
    """Where a call belongs: its session and turn, its id, the number of its starts, and a viewer of its progress."""

    session: str = ""
    turn: int = 0
    call_id: str = ""
    starts: int = 1
    show: Callable[[str], None] = unseen


class ToolContext(Generic[Deps]):
    """The context of a tool call. A tool gets it by a parameter of this type, which the model does not see.

    @holdfast.tool
    async def search(query: str, context: holdfast.ToolContext[Database]) -> str:
        context.progress("searching")
        return await context.deps.find(query)
    """

    def __init__(self, place: CallPlace, *, attempt: int, deadline: float, deps: Deps) -> None:
        self._place = place
        self._loop = asyncio.get_running_loop()
        self.session = place.session
        self.turn = place.turn
        self.call_id = place.call_id
        # Counts runs of this call, from 1: retries, and repetitions of an idempotent tool after a crash.
        self.attempt = attempt
        # Seconds since the epoch at which the call is abandoned.
        self.deadline = deadline
        # The object given to `holdfast.open(deps=…)`.
        self.deps = deps

    @property
    def seconds_left(self) -> float:
        """Time until the deadline."""
        return max(self.deadline - time.time(), 0.0)

    def progress(self, text: str) -> None:
        """Report progress to the readers of the turn's events, from any thread."""
        shown = excerpt(well_formed(text), _PROGRESS_BYTES_MAX, "the report was longer")
        self._loop.call_soon_threadsafe(self._place.show, shown)

    def __repr__(self) -> str:
        return f"ToolContext(session={self.session!r}, call_id={self.call_id!r}, attempt={self.attempt})"


AnyContext = ToolContext[Any]
