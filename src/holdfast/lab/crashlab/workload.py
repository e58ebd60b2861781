"""What a life in the laboratory does: turns, tools, compactions, replaced parts, seals and roll-overs, without end.

Every message follows from the seed, its session and its number, so that whoever judges the store afterwards can say to
the byte what must stand in it. A life that is begun again goes on behind what was acknowledged: messages carry client
ids, so one that was accepted without the acknowledgement being heard is not accepted twice.
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

# Two conversations at once: their writes meet in one transaction, and one is killed while the other compacts.
SESSIONS = ("lab:a", "lab:b")
STORE = "lab.db"
EFFECTS = "effects.txt"

# A window that some fifteen messages fill, so that a store sees dozens of compactions and a roll-over. With 6,000 there
# is a compaction for every second kill, which makes each kill a sixth dearer; with 10,000 hardly a roll-over. An image
# of the workload has more bytes than the model takes: it is shrunk or left out.
LIMITS = Limits(window_tokens=8_000, output_tokens_max=500, media_bytes_max=2_000)
# Some dozens of records are sealed at a time: a store in the laboratory lives for a few thousand.
SEALING = Sealing(margin_records=10, records_min=20, segment_records_max=60)
# Deaths are the business of this place, so they do not end a turn as early as they would elsewhere; nobody waits long.
BOUNDS = Bounds(interruptions_max=20, back_off_seconds_min=0.01, back_off_seconds_max=0.05)

# Steps of each session before the first kill: the window is full and the first records are due to be sealed, so that
# kills meet compactions, seals and roll-overs from the beginning.
PREFILL_STEPS = 30

_WORDS = ("anchor", "bell", "chart", "deck", "ebb", "fathom", "galley", "harbour", "island", "jetty", "keel", "lantern")
_IMAGE_SIDE = 40


class Kind(StrEnum):
    """What a step of the workload is about."""

    SAY = "say"
    PAY = "pay"
    LOOK_UP = "look_up"
    PIN = "pin"
    PICTURE = "picture"
    COMPACT = "compact"
    UNDO = "undo"


# How often each comes up. A pinned message stays in the window until a roll-over.
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
    """One thing to do in a session. What is no message has no text."""

    kind: Kind
    client_id: str
    text: str = ""
    order: str = ""
    image: bytes = b""
    # Whether the next step waits for the answer to this one.
    waits: bool = True


class Accepted(msgspec.Struct, frozen=True, tag=True):
    """A life says: this message was accepted as this turn."""

    session: str
    number: int
    turn: int


class Completed(msgspec.Struct, frozen=True, tag=True):
    """A life says: this step, which is no message, is done."""

    session: str
    number: int


class Recovered(msgspec.Struct, frozen=True, tag=True):
    """A life says: everything that was acknowledged before me has its outcome. `at` is the machine's own clock."""

    at: float


ChildMessage: TypeAlias = Accepted | Completed | Recovered
Send = Callable[[ChildMessage], None]


class Script(msgspec.Struct, frozen=True):
    """Which steps are taken: those of the season, with which every store of a run begins, then those of its own."""

    prefill: int
    own: int

    def step(self, session: str, number: int) -> Step:
        """Return one step of a session; the first is number 1."""
        return step_of(self.prefill if number <= PREFILL_STEPS else self.own, session, number)


class Task(msgspec.Struct, frozen=True):
    """What a life is told: where, the next step of each session, and the last turn that was acknowledged there."""

    folder: str
    script: Script
    next_steps: Mapping[str, int]
    last_turns: Mapping[str, int]
    # Steps of each session to take; then it ends, once everything has its outcome. None: it goes on until killed.
    steps: int | None = None


def step_of(seed: int, session: str, number: int) -> Step:
    """Return one step of the workload; the same for the same seed, session and number."""
    chance = random.Random(f"{seed} {session} {number}")  # noqa: S311 - the same steps every time are the point
    kind = chance.choices(tuple(_SHARES), tuple(_SHARES.values()))[0]
    client_id = f"step-{number}"
    if kind in (Kind.COMPACT, Kind.UNDO):
        return Step(kind, client_id)
    waits = chance.random() < 0.8  # noqa: PLR2004 - one in five comes while the one before is being answered
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
    """Return a small picture of noise, which compresses so badly that it is too large for the model."""
    from PIL import Image  # noqa: PLC0415 - the parser of a command line need not load it

    picture = Image.frombytes("RGB", (_IMAGE_SIDE, _IMAGE_SIDE), chance.randbytes(3 * _IMAGE_SIDE**2))
    written = BytesIO()
    picture.save(written, "PNG")
    return written.getvalue()


def tools(effects: Path) -> list[Tool]:
    """Return a tool that leaves a line in the world each time it runs, and one that may be repeated."""

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
    """Write a line that is on disk when this returns."""
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
    """Open the store of a folder as any program would, with the simulated model. Without a folder, one in memory."""
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
    """Be a process: recover by starting, say when that is done, then go on with the workload until killed."""
    async with opened(Path(task.folder), observe) as client:
        sessions = [await client.session(key) for key in SESSIONS]
        await asyncio.gather(*(_answered(session, task.last_turns.get(session.key, 0)) for session in sessions))
        send(Recovered(clock()))
        await asyncio.gather(*(run_steps(session, task, send) for session in sessions))
        await asyncio.gather(*map(_wait_until_idle, sessions))


async def _wait_until_idle(session: Session) -> None:
    """Wait until a session owes nothing, also of what was accepted without anybody hearing of it."""
    while (known := await session.known()) is not None and known.owed:
        async with aclosing(session.watch(after=known.last_seq)) as feed:
            await anext(feed)


async def run_steps(session: Session, task: Task, send: Send) -> None:
    """Take the steps of one session, from the next one on, each acknowledged only after the call has returned."""
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
    """Wait for the outcome of a turn; a failure is one too."""
    if turn:
        with suppress(TurnFailedError):
            await session.wait(turn)


# --- What a run came to: figures that add up over lanes, as a table for people and as a file for programs. ---


# --- Where files live in memory: opening thousands of stores need not wear out a real disk.


_IN_MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of random name is made in it


@contextmanager
def scratch(purpose: str) -> Generator[Path, None, None]:
    """Make a folder, in memory where that is possible, and remove it in the end."""
    folder = Path(tempfile.mkdtemp(prefix=f"holdfast-{purpose}-", dir=_IN_MEMORY if _IN_MEMORY.is_dir() else None))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)
