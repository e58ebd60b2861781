"""Models that write notes as they are told to, and talks that fill their window."""

import asyncio
from collections.abc import Callable

from holdfast.core.limits.bounds import Bounds
from holdfast.runtime.sessions.client import Client
from holdfast.runtime.sessions.session import Session
from holdfast.testing.builders import ManualClock
from holdfast.testing.engines import FunctionModel, a_hold, an_engine, says
from holdfast.types.faults import Refusal
from holdfast.types.limits import Limits
from holdfast.types.messages import Reply, Request
from holdfast.types.records import CompactionApplied
from tests.runtime.talks import KEY, a_long_talk, ended_well

WINDOW = 4_000
# No compaction of our own accord, so that every one in the log was asked for.
ONLY_WHEN_ASKED = Bounds(compacts_ahead=False)
NOTES = "Goal: mend the parts. Done: nothing yet. State: src/part0.py is broken."


def is_for_notes(request: Request) -> bool:
    return request.system.startswith("You write the working notes")


class Talker(FunctionModel):
    """A model that answers, and writes notes as it is told to; it counts what it was asked for."""

    def __init__(
        self,
        *notes: Reply | Refusal | str | Callable[[Request], Reply | Refusal],
        window: int = WINDOW,
        name: str = "test:model",
    ) -> None:
        self._notes = list(notes)
        self.notes_asked: list[Request] = []
        super().__init__(self._answer, name=name, limits=Limits(window_tokens=window))

    def _answer(self, request: Request) -> Reply | Refusal:
        if not is_for_notes(request):
            return says("ok")
        self.notes_asked.append(request)
        notes = self._notes.pop(0) if len(self._notes) > 1 else self._notes[0]
        if isinstance(notes, str):
            return says(notes)
        return notes(request) if callable(notes) else notes


async def records_of(session: Session, kind: type) -> list[object]:
    return [logged.record for logged in await session.history(limit=10_000) if isinstance(logged.record, kind)]


async def overflowed(model: Talker, *others: Talker, messages: int = 14) -> list[object]:
    """Talk until the window is full and return the compactions; every message must have been answered."""
    async with a_hold(an_engine(model, *others, clock=ManualClock())) as hold:
        session = await hold.session(KEY)
        await a_long_talk(session, messages=messages)
        await ended_well(session)
        return await records_of(session, CompactionApplied)


async def until_idle(hold: Client, *, unless: asyncio.Event | None = None) -> None:
    """Return when the session owes nothing, or something else has happened first."""
    while (await hold.sessions())[-1].owed and not (unless and unless.is_set()):  # noqa: ASYNC110 - nothing to wait on
        await asyncio.sleep(0)
