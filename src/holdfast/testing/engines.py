"""Engines and scripted models for tests."""

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager

import msgspec

from holdfast.core.limits.bounds import Bounds, Deadlines
from holdfast.core.limits.prices import NO_PRICES, Prices
from holdfast.ports import Blobs, Clock, Delta, Log, Model, TextDelta, Tool
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.engine.context import Engine
from holdfast.runtime.engine.learning import Learning
from holdfast.runtime.engine.live import Live
from holdfast.runtime.maintenance.supervisor import Supervisor
from holdfast.runtime.sessions.client import Client
from holdfast.runtime.tools.recall import Recall
from holdfast.runtime.tools.toolbox import Toolbox
from holdfast.stores.memory import MemoryBlobs, MemoryStore
from holdfast.types.faults import Phase, Refusal
from holdfast.types.limits import Limits
from holdfast.types.messages import Reply, Request, StopReason, Text, ToolCall, text_of


def an_engine(
    *models: Model,
    store: Log | None = None,
    blobs: Blobs | None = None,
    clock: Clock | None = None,
    tools: Sequence[Tool | Callable[..., object]] = (),
    bounds: Bounds | None = None,
    deadlines: Deadlines | None = None,
) -> Engine:
    """Build an engine. Defaults are in memory, otherwise as in production."""
    clock = clock or SystemClock()
    bounds = bounds or Bounds()
    blobs = blobs or MemoryBlobs()
    store = store or MemoryStore(clock=clock, bounds=bounds)
    return Engine(
        store=store,
        blobs=blobs,
        clock=clock,
        toolbox=Toolbox(tools, blobs=blobs, bounds=bounds, for_sessions=(Recall(store, blobs, bounds),)),
        models=lambda _: models,
        system=lambda: "You are tested.",
        learning=Learning(store, clock),
        live=Live(),
        bounds=bounds,
        deadlines=deadlines or Deadlines(),
    )


@asynccontextmanager
async def a_hold(engine: Engine, *, owner: str = "test", lease_seconds: float = 30.0) -> AsyncGenerator[Client, None]:
    """Run an engine as a process does: resume pending work, and stop at once at the end. The store stays open."""
    supervisor = Supervisor(engine, owner=owner, lease_seconds=lease_seconds)
    await supervisor.start()
    try:
        yield Client(engine, supervisor)
    finally:
        await supervisor.stop(grace_seconds=0)


# --- Scripted models ---


class FunctionModel:
    """A model whose reply is a function of the request, so that it replies alike after a restart."""

    def __init__(
        self,
        respond: Callable[[Request], Reply | Refusal],
        *,
        name: str = "test:model",
        limits: Limits | None = None,
        prices: Prices = NO_PRICES,
    ) -> None:
        self._respond = respond
        self.name = name
        self.issuer = f"test:nowhere:{name}"
        self.limits = limits or Limits()
        self.prices = prices
        self.requests: list[Request] = []

    async def stream(
        self,
        request: Request,
        blobs: Mapping[str, bytes],  # noqa: ARG002 - a script needs no blobs
    ) -> AsyncGenerator[Delta | Reply | Refusal, None]:
        """Yield the text line by line, then the complete reply."""
        self.requests.append(request)
        outcome = self._respond(request)
        if isinstance(outcome, Reply):
            for word in text_of(outcome.parts).splitlines(keepends=True):
                yield TextDelta(word)
        yield outcome

    async def close(self) -> None:
        """No-op."""


class ScriptedModel(FunctionModel):
    """A model that returns the replies of a script in order, then repeats the last one."""

    def __init__(
        self, script: Iterable[Reply | Refusal | str], *, name: str = "test:model", limits: Limits | None = None
    ) -> None:
        self._script = [says(line) if isinstance(line, str) else line for line in script]
        assert self._script, "a script needs at least one line"
        super().__init__(lambda _: self._next(), name=name, limits=limits)

    def _next(self) -> Reply | Refusal:
        return self._script.pop(0) if len(self._script) > 1 else self._script[0]


def says(text: str, *calls: ToolCall) -> Reply:
    """Return a reply with this text and these calls."""
    parts: tuple[Text | ToolCall, ...] = (Text(text), *calls) if text else calls
    return Reply(parts, StopReason.TOOL_CALLS if calls else StopReason.END, None, "test:model")


def refuses(status: int, message: str = "", *, headers: Mapping[str, str] | None = None) -> Refusal:
    """Return an error response with this status and message, in the form of an OpenAI-compatible server."""
    body = msgspec.json.encode({"error": {"message": message, "type": "error"}}).decode()
    return Refusal("openai-chat", Phase.RESPONSE, status=status, headers=dict(headers or {}), body=body)
