"""Processes of the demo: started for real, killed for real, and never left behind."""

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import msgspec

from holdfast.cli.demo.errand import ACCEPTED, PAID, Errand

# A process that takes longer hangs; on a busy machine the slowest took eight seconds.
_SECONDS_MAX = 90.0


class Life(msgspec.Struct, frozen=True):
    """One process, from its start to its end: which messages it was told were accepted, and how it ended."""

    accepted: tuple[str, ...]
    exit_code: int

    @property
    def was_killed(self) -> bool:
        """Whether SIGKILL ended it."""
        return self.exit_code == -signal.SIGKILL


class Child:
    """A process while it lives."""

    def __init__(self, program: asyncio.subprocess.Process) -> None:
        self._program = program
        self.accepted: list[str] = []
        self.has_paid = asyncio.Event()

    async def hear(self, errand: Errand) -> None:
        """Tell it what to do, and listen to what it says until it ends. The pipe to it stays open meanwhile."""
        assert self._program.stdin is not None, "it was asked for"
        assert self._program.stdout is not None, "it was asked for"
        self._program.stdin.write(msgspec.json.encode(errand) + b"\n")
        await self._program.stdin.drain()
        async for raw in self._program.stdout:
            word, *rest = raw.decode().split()
            if word == ACCEPTED:
                self.accepted.append(rest[0])
            elif word == PAID:
                self.has_paid.set()

    def pause(self) -> None:
        """Stop it where it stands, so that one can look at what it was doing."""
        self._send(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        self._send(signal.SIGCONT)

    def kill(self) -> None:
        """End it at once, as the system does when memory runs out."""
        self._send(signal.SIGKILL)

    def _send(self, number: signal.Signals) -> None:
        if self._program.returncode is None:
            self._program.send_signal(number)


# Returns when a process is to be killed.
Moment: TypeAlias = Callable[[Child], Awaitable[None]]


async def live(errand: Errand, kill_at: Moment | None = None) -> Life:
    """Run an errand in a process of its own, to its end or to the moment at which it is to be killed."""
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "holdfast", "demo", "--child"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    child = Child(program)
    hearing = asyncio.create_task(child.hear(errand))
    tasks = [hearing] if kill_at is None else [hearing, asyncio.ensure_future(kill_at(child))]
    try:
        async with asyncio.timeout(_SECONDS_MAX):
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if kill_at is not None:
                child.kill()
            await hearing
            exit_code = await program.wait()
    finally:
        child.kill()
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await program.wait()
    return Life(tuple(child.accepted), exit_code)
