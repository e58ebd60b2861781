"""A simulated provider behind a real socket, and a store on disk."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from msgspec.structs import replace

import holdfast
from holdfast.core.limits.bounds import Bounds, Deadlines
from holdfast.core.limits.prices import NO_PRICES, Prices
from holdfast.models.catalogue import PROVIDERS
from holdfast.models.fake import FaultStep, SeenRequest, Simulation
from holdfast.models.fake.server import serve_simulation
from holdfast.models.http import HttpModel, ModelCard
from holdfast.models.transport import HttpResponse, SocketTransport
from holdfast.ports import Model
from holdfast.runtime.sessions.client import Client
from holdfast.runtime.sessions.session import Session
from holdfast.testing.crashes import check_log
from holdfast.types.limits import Limits
from holdfast.types.messages import Reply, Usage
from holdfast.types.records import AnyRecord, AttemptFailed, Logged, RungStarted

DIALECTS = ("openai", "anthropic")
KEY = "telegram:42"
# Small enough that a dozen messages fill it, large enough for a summary, a tail and an answer.
WINDOW = 6_000
SMALL = Limits(window_tokens=WINDOW, output_tokens_max=1_000)
# Real limits of the provider by default. The output may use the rest of the window.
REAL = Limits(window_tokens=WINDOW)
# No proactive compactions, for tests about the answer to a message.
ASKED_ONLY = Bounds(compacts_ahead=False)
# Short backoff.
HASTY = Bounds(compacts_ahead=False, back_off_seconds_min=0.001, back_off_seconds_max=0.01)

# Marks summary requests.
NOTES_MARK = b"You write the working notes"

_Kind = TypeVar("_Kind", bound=AnyRecord)


class Provider(Simulation):
    """A simulation whose faults may depend on the request body."""

    # Fault of a request by its body, "" for none; and a bad summary, with the requests that get it.
    fault_of: Callable[[bytes], str] = staticmethod(lambda _: "")
    bad_notes: Reply | None = None
    has_bad_notes: Callable[[SeenRequest], bool] = staticmethod(lambda _: True)
    # What the provider reports, by the usage as it was.
    usage_of: Callable[[Usage], Usage] = staticmethod(lambda usage: usage)

    def respond(self, dialect: str, body: bytes, path: str = "") -> HttpResponse:
        """HttpResponse a request, with the fault that its body selects."""
        if fault := self.fault_of(body):
            self.set_faults(fault)
        return super().respond(dialect, body, path)

    def _reply(self, seen: SeenRequest, step: FaultStep, weighed: Any) -> Reply:
        if self.bad_notes is not None and is_for_notes(seen) and self.has_bad_notes(seen):
            return self.bad_notes
        reply = super()._reply(seen, step, weighed)
        return reply if reply.usage is None else replace(reply, usage=self.usage_of(reply.usage))


def notes_meet(*faults: str, model: str = "") -> Callable[[bytes], str]:
    """Return a rule that gives summary requests these faults in order, the last one repeatedly."""
    left = list(faults)

    def fault_of(body: bytes) -> str:
        if NOTES_MARK not in body or f'"model":"{model}'.encode() not in body:
            return ""
        return left.pop(0) if len(left) > 1 else left[0]

    return fault_of


class World:
    """One simulated provider with every dialect, and one store."""

    def __init__(self, folder: Path, simulation: Provider, url: str, dialect: str) -> None:
        self.store = folder / "holdfast.db"
        self.simulation = simulation
        self.url = url
        self.dialect = dialect

    def base_url(self, dialect: str = "") -> str:
        """Return the base URL for a dialect."""
        return self.url + ("/v1" if (dialect or self.dialect) in ("openai", "responses") else "")

    def model(
        self,
        name: str = "sim",
        *,
        declared: Limits | None = None,
        dialect: str = "",
        prices: Prices = NO_PRICES,
        is_official: bool = False,
    ) -> Model:
        """Return a model with declared limits and prices, which may differ from the real ones."""
        dialect = dialect or self.dialect
        place = self.url.removeprefix("http://")
        card = ModelCard(f"{dialect}:{name}", name, place, declared or Limits(), is_official, prices)
        return HttpModel(PROVIDERS[dialect], card, SocketTransport(self.base_url(dialect)))

    def open(
        self,
        *models: str | Model,
        bounds: Bounds = ASKED_ONLY,
        deadlines: Deadlines | None = None,
        system: str | Callable[[], str] = "",
        tools: Sequence[Callable[..., object]] = (),
    ) -> AbstractAsyncContextManager[Client]:
        """Open the store with models of the provider, by default one without declared limits."""
        return holdfast.open(
            self.store,
            model=models or (f"{self.dialect}:sim",),
            base_url=self.base_url(),
            system=system,
            tools=tools,
            tuning=holdfast.Tuning(bounds=bounds, deadlines=deadlines or Deadlines(), grace_seconds=0.1),
        )

    @property
    def refused(self) -> list[SeenRequest]:
        """Return the requests that the provider rejected."""
        return [seen for seen in self.simulation.requests if seen.status >= 400]

    @property
    def notes_asked(self) -> list[SeenRequest]:
        """Return the summary requests."""
        return [seen for seen in self.simulation.requests if is_for_notes(seen)]


def is_for_notes(seen: SeenRequest) -> bool:
    """Return whether a request is a summary request."""
    return NOTES_MARK in seen.body


@asynccontextmanager
async def a_world(
    folder: Path, dialect: str = "openai", limits: Limits = REAL, *, faults: str = ""
) -> AsyncGenerator[World, None]:
    """Serve a simulated provider with these real limits."""
    simulation = Provider(limits, faults=faults)
    async with serve_simulation(simulation) as url:
        yield World(folder, simulation, url, dialect)


async def records_of(session: Session, kind: type[_Kind]) -> list[_Kind]:
    """Return all records of one kind."""
    return [logged.record for logged in await session.history(limit=100_000) if isinstance(logged.record, kind)]


async def ended_well(session: Session) -> list[Logged]:
    """Check the log, and return all records."""
    records = await session.history(limit=100_000)
    check_log(records, accepted=())
    return records


async def next_record(session: Session, kind: type[AnyRecord], *, after: int = 0) -> Logged:
    """Wait for the first record of a kind."""
    async with aclosing(session.watch(after=after)) as feed:
        async for logged in feed:
            if isinstance(logged.record, kind):
                return logged
    raise AssertionError("the feed ended")


async def at_rest(client: Client) -> None:
    """Wait until no session is being worked on, including background work."""
    while tasks := list(client._supervisor._workers.values()):
        await asyncio.wait(tasks)


async def failures_of(session: Session) -> list[str]:
    """Return the fault kinds of attempts, including those that the engine's estimate predicted."""
    return [failed.fault.kind.value for failed in await records_of(session, AttemptFailed)]


async def rungs_of(session: Session) -> list[str]:
    """Return the rungs that were climbed, in order."""
    return [started.rung.value for started in await records_of(session, RungStarted)]


def a_message(number: int) -> str:
    """Return a message of about 750 tokens with a fact of its own."""
    return f"message {number}: " + f"the file src/part{number}.py has a bug in line {number}. " * 45


async def talk(session: Session, *, messages: int, first: int = 0) -> list[str]:
    """Send long messages, and return the notices of their answers."""
    notices: list[str] = []
    for number in range(first, first + messages):
        notices += (await session.send(a_message(number))).notices
    return notices
