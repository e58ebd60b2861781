"""Time and memory to open a session, and time to import the package.

Two sessions with equal tails, one with a log a hundred times as long, are opened alternately, including building the
next request. Memory is measured in fresh processes that open one of them.
"""

import os
import resource
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median

from holdfast.core.limits.bounds import Bounds, Deadlines
from holdfast.lab.benches.harness import Effort, Measured
from holdfast.ports import Store
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.engine.context import Engine
from holdfast.runtime.engine.learning import Learning
from holdfast.runtime.engine.live import Live
from holdfast.runtime.engine.log import open_log
from holdfast.runtime.engine.requests import prepare
from holdfast.runtime.tools.toolbox import Toolbox
from holdfast.stores.memory import MemoryBlobs
from holdfast.stores.sqlite import SqliteStore
from holdfast.types.faults import Confidence, Fault, FaultKind, Phase, Refusal, Rung
from holdfast.types.messages import Reply, StopReason, Text, ToolCall, ToolResult
from holdfast.types.records import (
    AttemptFailed,
    AttemptStarted,
    CompactionApplied,
    InputAdmitted,
    LeasedRecord,
    Outcome,
    ReplyRecorded,
    RungFinished,
    RungResult,
    RungStarted,
    ToolSettled,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    WorkRecord,
)
from holdfast.wiring import ModelList

# Allowed extra cost of a log a hundred times as long, in time and memory.
OPEN_FLOOR = 1 / 1.3
MEMORY_FLOOR = 1 / 1.2
IMPORT_MS_MAX = 150.0
HELP_MS_MAX = 250.0

# Tool steps per turn, and turns in the tail of both sessions.
_STEPS = 10
_TAIL_TURNS = 12
# Records per append; appending is not measured here.
_BATCH_RECORDS = 1_000
_SENTENCE = "The tests of the parser fail in line 120 because the buffer is empty. "


def _turn(number: int, *, compacts: bool) -> list[WorkRecord]:
    """Return the records of one turn, optionally with a compaction of everything before it."""
    records: list[WorkRecord] = [TurnStarted(number)]
    attempt = 1
    if compacts:
        fault = Fault(FaultKind.TOKEN_OVERFLOW, Confidence.CERTAIN)
        records += [
            AttemptStarted(number, attempt, "sim"),
            AttemptFailed(number, attempt, Refusal("openai-chat", Phase.ESTIMATE), fault),
            RungStarted(number, Rung.DIGEST, FaultKind.TOKEN_OVERFLOW),
            CompactionApplied(number, number, _SENTENCE * 30, 2, 1),
            RungFinished(number, Rung.DIGEST, RungResult.CHANGED),
        ]
        attempt += 1
    for step in range(_STEPS):
        call = ToolCall(f"call-{step}", "read", f'{{"path": "src/part{step}.py"}}')
        records += [
            AttemptStarted(number, attempt, "sim"),
            ReplyRecorded(number, attempt, Reply((Text(_SENTENCE), call), StopReason.TOOL_CALLS, None, "sim")),
            ToolStarted(number, call.call_id, call.name),
            ToolSettled(number, ToolResult(call.call_id, (Text(_SENTENCE * 5),))),
        ]
        attempt += 1
    answer = Reply((Text(_SENTENCE),), StopReason.END, None, "sim")
    return [
        *records,
        AttemptStarted(number, attempt, "sim"),
        ReplyRecorded(number, attempt, answer),
        TurnEnded(number, Outcome.ANSWERED),
    ]


async def fill(store: Store, session: str, records_wanted: int) -> None:
    """Append about this many records to a session; the last turns are its tail."""
    lease = await store.acquire(session, "bench", seconds=3_600)
    assert lease is not None, "there is no other worker"
    known = await store.info(session)
    turns = max(records_wanted // (len(_turn(1, compacts=False)) + 1), _TAIL_TURNS + 2)
    last, batch = known.last_seq if known else 0, list[LeasedRecord]()
    for place in range(turns):
        number = last + len(batch) + 1
        batch += [InputAdmitted((Text(_SENTENCE),)), *_turn(number, compacts=place == turns - _TAIL_TURNS)]
        if len(batch) >= _BATCH_RECORDS or place == turns - 1:
            last, batch = await store.append(lease, batch, after=last), []
    log = await open_log(store, session)
    await store.save_snapshot(lease, log.snapshot())
    await store.release(lease)


def engine_over(store: Store) -> Engine:
    """Build an engine for opening sessions."""
    bounds, blobs = Bounds(), MemoryBlobs()
    return Engine(
        store=store,
        blobs=blobs,
        clock=SystemClock(),
        toolbox=Toolbox((), blobs=blobs, bounds=bounds),
        models=ModelList("sim", None).models,
        system=lambda: "",
        learning=Learning(store),
        live=Live(),
        bounds=bounds,
        deadlines=Deadlines(),
    )


async def open_and_prepare(store: Store, session: str) -> int:
    """Open the log of a session and build its next request."""
    engine = engine_over(store)
    log = await open_log(store, session)
    known = await engine.learning.known(engine.models(None)[0])
    return len(prepare(log, engine, known).request.messages)


async def compare_openings(store: Store, name: str, openings: int) -> Measured:
    """Compare the time to open the session "long" and build its next request with that for "short"."""
    times: dict[str, list[float]] = {"short": [], "long": []}
    for _ in range(openings):
        for session, taken in times.items():
            started = time.perf_counter()
            await open_and_prepare(store, session)
            taken.append(1_000 * (time.perf_counter() - started))
    ratio = median(short / long for short, long in zip(times["short"], times["long"], strict=True))
    return Measured(name, median(times["long"]), median(times["short"]), ratio, OPEN_FLOOR, "ms")


async def measure_opening(folder: Path, effort: Effort) -> list[Measured]:
    """Measure the time and the memory to open a session and build its next request."""
    path = folder / "sessions.db"
    store = SqliteStore(path, clock=SystemClock())
    try:
        await fill(store, "short", effort.short_records)
        await fill(store, "long", effort.long_records)
        opened = await compare_openings(store, f"open at {effort.long_records:,} records", effort.openings)
    finally:
        await store.close()
    memory = {session: _memory_with(path, session) for session in ("short", "long")}
    return [
        opened,
        Measured(
            f"memory at {effort.long_records:,} records",
            memory["long"],
            memory["short"],
            memory["short"] / memory["long"],
            MEMORY_FLOOR,
            "MiB",
        ),
    ]


_HOLD_OPEN = """
import asyncio, resource, sys
from pathlib import Path
from holdfast.lab.benches.opening import open_and_prepare
from holdfast.runtime.clock import SystemClock
from holdfast.stores.sqlite import SqliteStore

async def hold() -> None:
    store = SqliteStore(Path(sys.argv[1]), clock=SystemClock())
    await open_and_prepare(store, sys.argv[2])
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    await store.close()

asyncio.run(hold())
"""


def _memory_with(path: Path, session: str) -> float:
    """Return the peak memory, in MiB, of a fresh process that opens a session."""
    run = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", _HOLD_OPEN, str(path), session], capture_output=True, text=True, check=True
    )
    return float(run.stdout)


async def measure_starting(folder: Path, effort: Effort) -> list[Measured]:
    """Measure the CPU time of `import holdfast` and of `holdfast --help`, including that of the interpreter.

    CPU time does not depend on the load of the machine. Modules are compiled first, as in an installation, whatever
    PYTHONDONTWRITEBYTECODE says.
    """
    settings = os.environ | {"PYTHONPYCACHEPREFIX": str(folder / "compiled")}
    settings.pop("PYTHONDONTWRITEBYTECODE", None)
    imported = _milliseconds(["-c", "import holdfast"], effort.starts, settings)
    ready = _milliseconds(["-c", "import holdfast; holdfast.open, holdfast.tool"], effort.starts, settings)
    helped = _milliseconds(["-m", "holdfast", "--help"], effort.starts, settings)
    return [
        Measured("import holdfast", imported, IMPORT_MS_MAX, IMPORT_MS_MAX / imported, 1.0, "ms"),
        Measured("import, and everything it loads", ready, IMPORT_MS_MAX, IMPORT_MS_MAX / ready, 0.5, "ms"),
        Measured("holdfast --help", helped, HELP_MS_MAX, HELP_MS_MAX / helped, 1.0, "ms"),
    ]


def _milliseconds(arguments: list[str], rounds: int, settings: Mapping[str, str]) -> float:
    """Return the median CPU time of a fresh interpreter with these arguments, after compiling its modules."""
    command = [sys.executable, *arguments]
    subprocess.run(command, capture_output=True, check=True, env=settings)  # noqa: S603 - our own program
    times = []
    for _ in range(rounds):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, capture_output=True, check=True, env=settings)  # noqa: S603 - our own program
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(1_000 * (after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime))
    return median(times)
