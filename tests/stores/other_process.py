"""A second process on the same SQLite file: `python -m tests.stores.other_process <what> <path>`.

It says on its standard output what it has done, one line each, and never ends by itself where a test is to kill it.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path

from holdfast.runtime.clock import SystemClock
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing.builders import a_notice, an_input

ROOT = Path(__file__).parents[2]
BURST_SESSIONS = 8
SENT = 40


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def for_ever() -> None:
    await asyncio.Event().wait()


async def admit_one(store: SqliteStore) -> None:
    """Open, send one message, leave."""
    await store.admit("s", an_input("one of many"))


async def hold_a_lease(store: SqliteStore) -> None:
    """Take the lease on "s" for an hour."""
    lease = await store.acquire("s", "worker", seconds=3_600)
    assert lease is not None
    await store.append(lease, [a_notice("written by the holder")], after=0)
    say(f"fence {lease.fence}")
    await for_ever()


async def write_in_bursts(store: SqliteStore) -> None:
    """Append to several sessions at once, saying what was acknowledged."""

    async def work(session: str) -> None:
        lease = await store.acquire(session, "worker", seconds=3_600)
        assert lease is not None
        seq = 0
        for number in count():
            seq = await store.append(lease, [a_notice(f"{session} {number}"), a_notice("second")], after=seq)
            say(f"{session} {seq}")

    await asyncio.gather(*(work(f"s{number}") for number in range(BURST_SESSIONS)))


async def send_and_watch(store: SqliteStore) -> None:
    """Send messages while another process does the same, and say what the feed brought."""
    say("ready")
    await asyncio.to_thread(sys.stdin.readline)
    fed = asyncio.create_task(watch(store))
    for number in range(SENT):
        await store.admit("shared", an_input(f"there {number}"))
    say(" ".join(map(str, await fed)))


async def watch(store: SqliteStore) -> list[int]:
    """Return the numbers of the first records that two senders make."""
    feed = store.feed("shared")
    seqs = [(await anext(feed)).seq for _ in range(2 * SENT)]
    await feed.aclose()
    return seqs


COMMANDS: dict[str, Callable[[SqliteStore], Awaitable[None]]] = {
    command.__name__: command for command in (admit_one, hold_a_lease, write_in_bursts, send_and_watch)
}


async def main(command: str, path: str) -> None:
    store = SqliteStore(path, clock=SystemClock())
    await COMMANDS[command](store)
    await store.close()


@asynccontextmanager
async def started(command: str, path: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """For tests: this file as a process of its own, which does not outlive the test."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.stores.other_process",
        command,
        str(path),
        cwd=ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def line_of(process: asyncio.subprocess.Process) -> str:
    """For tests: return the next line that it says."""
    assert process.stdout is not None
    return (await process.stdout.readline()).decode().strip()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
