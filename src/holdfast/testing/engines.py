"""An engine for a test in one line: memory, a scripted model, and whatever the test cares about."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager

from holdfast.core.limits import Bounds, Deadlines
from holdfast.ports import Blobs, Clock, Model, Store, Tool
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.engine import Engine
from holdfast.runtime.hold import Hold
from holdfast.runtime.learning import Learning
from holdfast.runtime.live import Live
from holdfast.runtime.recall import Recall
from holdfast.runtime.supervisor import Supervisor
from holdfast.runtime.toolbox import Toolbox
from holdfast.stores.memory import MemoryBlobs, MemoryStore


def an_engine(
    *models: Model,
    store: Store | None = None,
    blobs: Blobs | None = None,
    clock: Clock | None = None,
    tools: Sequence[Tool | Callable[..., object]] = (),
    bounds: Bounds | None = None,
    deadlines: Deadlines | None = None,
) -> Engine:
    """Put an engine together. What is left out is in memory and as in production."""
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
        learning=Learning(store),
        live=Live(),
        bounds=bounds,
        deadlines=deadlines or Deadlines(),
    )


@asynccontextmanager
async def a_hold(engine: Engine, *, owner: str = "test", lease_seconds: float = 30.0) -> AsyncGenerator[Hold, None]:
    """Run an engine as a process would: resume what is owed, and stop at once at the end. The store stays open."""
    supervisor = Supervisor(engine, owner=owner, lease_seconds=lease_seconds)
    await supervisor.start()
    try:
        yield Hold(engine, supervisor)
    finally:
        await supervisor.stop(grace_seconds=0)
