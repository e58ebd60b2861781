"""Workload of the crash tests: turns, tools, compactions, replaced parts, seals and roll-overs, without end.

Seed, session and number determine every message, so the check knows the expected bytes. A restarted process continues
after the last acknowledged step; client ids make a message idempotent whose acknowledgement was lost.
"""

import asyncio
import os
import random
import shutil
import tempfile
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from enum import StrEnum
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import TypeAlias

import msgspec

from holdfast import wiring
from holdfast.core.integrity.segments import Sealing
from holdfast.core.limits.bounds import Bounds
from holdfast.errors import TurnFailedError
from holdfast.models.catalogue import simulated_model
from holdfast.models.fake import Simulation
from holdfast.ports import Attachment, Tool
from holdfast.runtime.engine.context import unobserved
from holdfast.runtime.sessions.client import Client
from holdfast.runtime.sessions.session import Session
from holdfast.runtime.tools.function_tool import tool
from holdfast.types.limits import Limits
from holdfast.types.records import Logged

# Two sessions in parallel: their writes share transactions, and one is killed while the other compacts.
SESSIONS = ("lab:a", "lab:b")
STORE = "lab.db"
EFFECTS = "effects.txt"

# About fifteen messages fill the window, so that a store sees dozens of compactions and a roll-over. With 6,000 tokens
# every second kill costs a compaction, a sixth more time; with 10,000 there is hardly a roll-over. Images exceed the
# byte limit of the model: they are resized or left out.
LIMITS = Limits(window_tokens=8_000, output_tokens_max=500, media_bytes_max=2_000)
# Seals of a few dozen records: a store has a few thousand in total.
SEALING = Sealing(margin_records=10, records_min=20, segment_records_max=60)
# Kills are frequent here, so a turn survives more interruptions than usual, and backoff is short.
BOUNDS = Bounds(interruptions_max=20, back_off_seconds_min=0.01, back_off_seconds_max=0.05)

# Steps per session before the first kill: the window is full and the first seal is due, so that kills hit compactions,
# seals and roll-overs from the start.
PREFILL_STEPS = 30

_WORDS = ("anchor", "bell", "chart", "deck", "ebb", "fathom", "galley", "harbour", "island", "jetty", "keel", "lantern")
_IMAGE_SIDE = 40


class Kind(StrEnum):
    """Kind of a step."""

    SAY = "say"
    PAY = "pay"
    LOOK_UP = "look_up"
    PIN = "pin"
    PICTURE = "picture"
    COMPACT = "compact"
    UNDO = "undo"


# Weight of each kind. A pinned message stays in the view until a roll-over.
_SHARES: Mapping[Kind, int] = {
    Kind.SAY: 8,
    Kind.PAY: 8,
    Kind.LOOK_UP: 3,
    Kind.PIN: 4,
    Kind.PICTURE: 1,
    Kind.COMPACT: 1,
    Kind.UNDO: 1,
}


class Step(msgspec.Struct, frozen=True):
    """One step of a session. Steps that are not messages have no text."""

    kind: Kind
    client_id: str
    text: str = ""
    order: str = ""
    image: bytes = b""
    # Whether the next step waits for the answer to this one.
    waits: bool = True


class Accepted(msgspec.Struct, frozen=True, tag=True):
    """Report of a process: this message was accepted as this turn."""

    session: str
    number: int
    turn: int


class Completed(msgspec.Struct, frozen=True, tag=True):
    """Report of a process: this step, which is not a message, is done."""

    session: str
    number: int


class Recovered(msgspec.Struct, frozen=True, tag=True):
    """Report of a process: all messages acknowledged before its start have their outcome. `at` is a monotonic time."""

    at: float


ChildMessage: TypeAlias = Accepted | Completed | Recovered
Send = Callable[[ChildMessage], None]


class Script(msgspec.Struct, frozen=True):
    """Seeds of the steps: one for the prefilled part that all stores of a run share, one for the rest."""

    prefill: int
    own: int

    def step(self, session: str, number: int) -> Step:
        """Return a step of a session; the first is number 1."""
        return step_of(self.prefill if number <= PREFILL_STEPS else self.own, session, number)


class Task(msgspec.Struct, frozen=True):
    """Task of a process: the folder, and by session the next step and the last acknowledged turn."""

    folder: str
    script: Script
    next_steps: Mapping[str, int]
    last_turns: Mapping[str, int]
    # Steps per session; the process ends when all have their outcome. None: it runs until killed.
    steps: int | None = None


def step_of(seed: int, session: str, number: int) -> Step:
    """Return a step; seed, session and number determine it."""
    chance = random.Random(f"{seed} {session} {number}")  # noqa: S311 - repeatable by its seed
    kind = chance.choices(tuple(_SHARES), tuple(_SHARES.values()))[0]
    client_id = f"step-{number}"
    if kind in (Kind.COMPACT, Kind.UNDO):
        return Step(kind, client_id)
    waits = chance.random() < 0.8  # noqa: PLR2004 - one in five arrives while the one before is being answered
    words = " ".join(chance.choices(_WORDS, k=500 if kind is Kind.PIN else chance.randint(20, 200)))
    text = f"Entry {number}: {words}."
    order = f"{session}/{number}"
    match kind:
        case Kind.PAY:
            return Step(kind, client_id, f'{text} call pay {{"order": "{order}"}}', order, waits=waits)
        case Kind.LOOK_UP:
            return Step(kind, client_id, f'{text} call look_up {{"order": "{order}"}}', waits=waits)
        case Kind.PICTURE:
            return Step(kind, client_id, text, image=_image(chance), waits=waits)
        case _:
            return Step(kind, client_id, text, waits=waits)


def _image(chance: random.Random) -> bytes:
    """Return a small image of noise, which does not compress below the limit of the model."""
    from PIL import Image  # noqa: PLC0415 - slow to load

    picture = Image.frombytes("RGB", (_IMAGE_SIDE, _IMAGE_SIDE), chance.randbytes(3 * _IMAGE_SIDE**2))
    written = BytesIO()
    picture.save(written, "PNG")
    return written.getvalue()


def tools(effects: Path) -> list[Tool]:
    """Return a tool that appends a line to a file each time it runs, and an idempotent one."""

    @tool
    async def pay(order: str) -> str:
        """Pay for an order."""
        append_line(effects, order)
        await asyncio.sleep(0)
        return f"paid for {order}"

    @tool(idempotent=True)
    async def look_up(order: str) -> str:
        """Look up an order."""
        return f"{order} is on its way. " * 60

    return [pay, look_up]


def append_line(path: Path, line: str) -> None:
    """Append a line and sync it."""
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, f"{line}\n".encode())
        os.fsync(fd)
    finally:
        os.close(fd)


@asynccontextmanager
async def opened(
    folder: Path | None, observe: Callable[[str, Logged], None] = unobserved
) -> AsyncGenerator[Client, None]:
    """Open the store of a folder with the simulated model. Without a folder, open a store in memory."""
    model = simulated_model(Simulation(LIMITS), name="lab")
    tuning = wiring.Tuning(bounds=BOUNDS, sealing=SEALING, observe=observe, grace_seconds=0.5)
    place = folder / STORE if folder else wiring.MEMORY
    effects = folder / EFFECTS if folder else Path(os.devnull)
    archive = folder / f"{STORE}-archive" if folder else None
    async with wiring.open(place, model=model, tools=tools(effects), archive=archive, tuning=tuning) as client:
        yield client


async def run_workload(
    task: Task, send: Send, clock: Callable[[], float], observe: Callable[[str, Logged], None] = unobserved
) -> None:
    """Run as a process: open the store, report when it has recovered, then run steps until killed."""
    async with opened(Path(task.folder), observe) as client:
        sessions = [await client.session(key) for key in SESSIONS]
        await asyncio.gather(*(_answered(session, task.last_turns.get(session.key, 0)) for session in sessions))
        send(Recovered(clock()))
        await asyncio.gather(*(run_steps(session, task, send) for session in sessions))
        await asyncio.gather(*map(_wait_until_idle, sessions))


async def _wait_until_idle(session: Session) -> None:
    """Wait until a session has no pending outcome, also of messages whose acknowledgement was lost."""
    while (known := await session.known()) is not None and known.owed:
        async with aclosing(session.watch(after=known.last_seq)) as feed:
            await anext(feed)


async def run_steps(session: Session, task: Task, send: Send) -> None:
    """Run the steps of one session. Each is reported only after its call returned."""
    number = task.next_steps.get(session.key, 1)
    end = None if task.steps is None else number + task.steps
    while number != end:
        step = task.script.step(session.key, number)
        match step.kind:
            case Kind.COMPACT:
                await session.compact()
                send(Completed(session.key, number))
            case Kind.UNDO:
                await session.undo()
                send(Completed(session.key, number))
            case _:
                await _send(session, step, partial(_acknowledge, send, session.key, number))
        number += 1


def _acknowledge(send: Send, session: str, number: int, turn: int) -> None:
    send(Accepted(session, number, turn))


async def _send(session: Session, step: Step, acknowledge: Callable[[int], None]) -> None:
    attachments = [Attachment(step.image, media_type="image/png")] if step.image else []
    turn = await session.post(step.text, attachments=attachments, client_id=step.client_id)
    acknowledge(turn)
    if step.kind is Kind.PIN:
        await session.pin(turn)
    if step.waits:
        await _answered(session, turn)


async def _answered(session: Session, turn: int) -> None:
    """Wait for the outcome of a turn; a failure counts too."""
    if turn:
        with suppress(TurnFailedError):
            await session.wait(turn)


# --- Temporary folder ---


_IN_MEMORY = Path("/dev/shm")  # noqa: S108 - a folder with a random name is created in it


@contextmanager
def scratch(purpose: str) -> Generator[Path, None, None]:
    """Create a temporary folder, in memory if possible: thousands of stores would wear out a disk."""
    folder = Path(tempfile.mkdtemp(prefix=f"holdfast-{purpose}-", dir=_IN_MEMORY if _IN_MEMORY.is_dir() else None))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)
