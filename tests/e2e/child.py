"""Child processes of tests: they use the same store and provider, and some are killed."""

import asyncio
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NoReturn

from msgspec.structs import replace

import holdfast
from holdfast.core.limits.bounds import Bounds
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.tools.function_tool import tool
from holdfast.stores.blobs import FolderBlobs
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing.crashes import CrashingStore, CrashPoint, Side
from holdfast.testing.engines import a_hold, an_engine
from tests.e2e.world import ASKED_ONLY, KEY, SMALL, Provider, World, a_message

ROOT = Path(__file__).resolve().parents[2]
# Longer than this, a process hangs; the slowest took three seconds.
HANGS_SECONDS = 60
# Tests kill processes often; that must not end the turn.
PATIENT = Bounds(compacts_ahead=False, interruptions_max=50)
# A question in a message that exceeds the window.
NEWEST = "what is harbour? " + a_message(99)


def start(world: World, work: str, *words: str) -> "subprocess.Popen[str]":
    """Start a process that works on the store of a world."""
    command = [sys.executable, "-m", "tests.e2e.child", work, str(world.store), world.url, world.dialect, *words]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


async def finished(process: "subprocess.Popen[str]") -> tuple[int, list[str]]:
    """Wait for a process, and return its exit code and its output lines."""
    try:
        said, _ = await asyncio.to_thread(process.communicate, timeout=HANGS_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise
    return process.returncode, said.splitlines()


async def forked(world: World, work: str, *words: str) -> int:
    """Run the work in a forked process, which starts fast, and return its exit code."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    process = context.Process(target=_run, args=(work, str(world.store), world.url, world.dialect, *words))
    process.start()
    await asyncio.to_thread(process.join, HANGS_SECONDS)
    code = process.exitcode
    if code is None:
        process.kill()
        process.join()
    process.close()
    assert code is not None, f"hung: {work} {words}"
    return code


def _run(*words: str) -> None:
    asyncio.run(main(*words))


def note(path: Path, line: str) -> None:
    """Append a line and sync it: a side effect."""
    with path.open("a") as file:
        file.write(line + "\n")
        file.flush()
        os.fsync(file.fileno())


def noted(path: Path) -> list[str]:
    """Return the lines of a file."""
    return path.read_text().splitlines() if path.exists() else []


def an_errand(effects: Path, *, kills: bool) -> Callable[..., object]:
    """Return a tool with a side effect that may kill the process."""

    @tool
    async def pay(amount: int) -> str:
        """Pay."""
        note(effects, f"paid {amount}")
        if kills:
            kill_myself()
        return "paid"

    return pay


def kill_myself() -> NoReturn:
    """Kill this process with SIGKILL."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("SIGKILL cannot be survived")


# Work of a child process, by name.


async def compacts(world: World, times: str, share: str = "0.1") -> None:
    """Request many compactions at once, and print their outcomes."""
    bounds = replace(ASKED_ONLY, asked_tail_window_share=float(share))
    async with world.open(world.model(declared=SMALL), bounds=bounds) as client:
        session = await client.session(KEY)
        for settled in await asyncio.gather(*(session.compact() for _ in range(int(times)))):
            sys.stdout.write(f"{settled.outcome.value}\n")


async def attaches(world: World, path: str) -> None:
    """Send a file, or all files of a folder, and print the growth of the process in bytes and the answer."""
    async with world.open() as client:
        session = await client.session(KEY)
        await session.send("hello")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        paths = sorted(Path(path).iterdir()) if Path(path).is_dir() else [Path(path)]
        answer = await session.send("what is in this file?", attachments=paths)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        sys.stdout.write(f"{grown * 1024}\n{answer.text.splitlines()[0]}\n")


async def sends(world: World, text: str) -> None:
    """Send a message with a tool that kills the process; print the answer if there is one."""
    pay = an_errand(world.store.with_name("effects"), kills=True)
    async with world.open(bounds=PATIENT, tools=[pay]) as client:
        session = await client.session(KEY)
        sys.stdout.write((await session.send(text, client_id="errand")).text)


async def dies(world: World, write: str, side: str) -> None:
    """Send a message that does not fit, and die at a write; record the number of writes if it is not reached."""
    kept = SqliteStore(world.store, clock=SystemClock(), bounds=PATIENT)
    point = CrashPoint(int(write), Side(side)) if int(write) else None
    store = CrashingStore(kept, point, die=kill_myself)
    blobs = FolderBlobs(world.store.with_name(world.store.name + "-blobs"))
    model = world.model(declared=SMALL)
    async with a_hold(an_engine(model, store=store, blobs=blobs, bounds=PATIENT)) as client:
        await (await client.session(KEY)).send(NEWEST, client_id="newest")
    await model.close()
    await kept.close()
    note(world.store.with_name("writes"), str(store.writes))


async def asks(world: World, text: str) -> None:
    """Send one message, and print the answer."""
    async with world.open(bounds=ASKED_ONLY) as client:
        sys.stdout.write((await (await client.session("another")).send(text)).text)


_WORK: dict[str, Callable[..., Awaitable[None]]] = {
    work.__name__: work for work in (compacts, attaches, sends, dies, asks)
}


async def main(work: str, store: str, url: str, dialect: str, *words: str) -> None:
    """Run the work named on the command line."""
    world = World(Path(store).parent, Provider(), url, dialect)
    await _WORK[work](world, *words)


if __name__ == "__main__":
    assert holdfast.open is not None
    asyncio.run(main(*sys.argv[1:]))
