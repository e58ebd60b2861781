"""A node: `python -m tests.stores.postgres_node <url> <folder> <name> <snag>`, which never ends by itself.

It sends messages of its own, answers whatever is owed in the database, and gets stuck where a test wants to kill it.
What it did to the world is in files of the folder, on disk before it goes on.
"""

import asyncio
import logging
import signal
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import holdfast
from holdfast.core.limits.bounds import Bounds
from holdfast.ports import Delta
from holdfast.runtime.sessions.client import Client
from holdfast.runtime.tools.function_tool import tool
from holdfast.testing.builders import a_tool_call
from holdfast.testing.engines import FunctionModel, says
from holdfast.types.faults import Refusal
from holdfast.types.limits import Limits
from holdfast.types.messages import Reply, Request, Role, text_of
from holdfast.wiring import Tuning
from tests.crashes.test_sigkill import note

ROOT = Path(__file__).resolve().parents[2]
LEASE_SECONDS = 4.0
TUNING = Tuning(
    lease_seconds=LEASE_SECONDS, grace_seconds=0.0, bounds=Bounds(compacts_ahead=False, interruptions_max=50)
)
# What each node sends, over sessions that all nodes share.
LOAD = 12
SHARED_SESSIONS = 5
STUCK_AMOUNT = 666
TURN, COMPACTION, PAUSED = "stuck:turn", "stuck:compaction", "stuck:paused"
# Nodes that get stuck over the turn and over the compaction, whichever of them takes the work.
_STUCK = ("tool", "notes")


class NodeModel(FunctionModel):
    """Calls `pay` for "pay N", writes notes when asked for, and may get stuck over them."""

    def __init__(self, folder: Path, *, is_stuck: bool = False) -> None:
        super().__init__(_respond, limits=Limits(window_tokens=20_000))
        self._folder, self._is_stuck = folder, is_stuck

    async def stream(
        self, request: Request, blobs: Mapping[str, bytes]
    ) -> AsyncGenerator[Delta | Reply | Refusal, None]:
        if self._is_stuck and request.system.startswith("You write the working notes"):
            note(self._folder / "stuck", "notes")
            await asyncio.Event().wait()
        async for came in super().stream(request, blobs):
            yield came


def _respond(request: Request) -> Reply:
    if request.system.startswith("You write the working notes"):
        return says("Goal: pay. Done: some. State: going on.")
    newest = request.messages[-1]
    text = text_of(newest.parts)
    if newest.role is Role.USER and text.startswith("pay "):
        return says("", a_tool_call("pay", f'{{"amount": {text.split()[1]}}}', call_id=f"call-{text.split()[1]}"))
    return says("done")


def a_purse(folder: Path, snag: str) -> Callable[..., object]:
    """Return a tool that has an effect on the world, and may get stuck after it."""

    @tool
    async def pay(amount: int) -> str:
        """Pay."""
        note(folder / "effects", str(amount))
        if amount == STUCK_AMOUNT and snag in _STUCK:
            note(folder / "stuck", "tool")
            await asyncio.Event().wait()
        if snag == "pause":
            note(folder / "stuck", "pause")
            await asyncio.to_thread(sys.stdin.readline)
        return "paid"

    return pay


async def main(url: str, place: str, name: str, snag: str) -> None:
    folder = Path(place)
    logging.getLogger("holdfast.runtime.maintenance.supervisor").addHandler(_Tells())
    model, purse = NodeModel(folder, is_stuck=snag in _STUCK), a_purse(folder, snag)
    async with holdfast.open(url, model=model, tools=[purse], tuning=TUNING) as hold:
        await _work(hold, folder, name, snag)
        await asyncio.Event().wait()


async def _work(hold: Client, folder: Path, name: str, snag: str) -> None:
    if snag == "pause":
        await _post(hold, folder, PAUSED, "pay 1", name)
        return
    for number in range(LOAD):
        await _post(hold, folder, f"load:{number % SHARED_SESSIONS}", f"pay {int(name) * 1_000 + number}", name)
    if snag == "tool":
        await _post(hold, folder, TURN, f"pay {STUCK_AMOUNT}", name)
    if snag == "notes":
        session = await hold.session(COMPACTION)
        for number in range(6):
            await session.send(f"remember {number}: " + "the harbour is deep and the pier is long. " * 60)
        await session.compact()


async def _post(hold: Client, folder: Path, key: str, text: str, name: str) -> None:
    session = await hold.session(key)
    turn = await session.post(text, client_id=f"{name} {text}")
    note(folder / "accepted", f"{key} {turn}")


class _Tells(logging.Handler):
    """Says what the supervisor has to say."""

    def emit(self, record: logging.LogRecord) -> None:
        sys.stdout.write(f"{record.getMessage()}\n")
        sys.stdout.flush()


@asynccontextmanager
async def started(url: str, folder: Path, name: str, snag: str = "") -> AsyncIterator[asyncio.subprocess.Process]:
    """For tests: a node as a process of its own, which does not outlive the test."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.stores.postgres_node", url, str(folder), name, snag),
        cwd=ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGCONT)
            process.kill()
        await process.wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
