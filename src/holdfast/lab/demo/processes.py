"""The demo's own processes: gateways, the simulated model and doctors. Started for real, killed for real, none left.

None, also where the demo itself is killed: see `holdfast.cli.parent_watch`.
"""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

import click
import msgspec

# Starting takes under a second alone and was seen to take twelve on a machine with nine others at work.
_START_SECONDS_MAX = 60.0
# A gateway lets running turns end for five seconds; what has not stopped long after that hangs.
_STOP_SECONDS_MAX = 20.0
# Looking through the whole store of a demo takes a second.
_RUN_SECONDS_MAX = 60.0
# Settings of the person who runs the demo would make it another demo; a proxy has no business on a loopback address.
_FOREIGN_PREFIXES = ("HOLDFAST_", "OPENAI_", "ANTHROPIC_", "GEMINI_")
_FOREIGN_SUFFIX = "_PROXY"


# Where it is set, every program compiles every module anew, which is half of its start.
_NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"


def environment(folder: Path, settings: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of our programs: that of the demo, without what a person has set for their own ones."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(_FOREIGN_PREFIXES) and not name.upper().endswith(_FOREIGN_SUFFIX)
    }
    if kept.pop(_NO_BYTECODE, ""):
        # No bytecode where the code lies, as wished: it is compiled once, into the demo's own folder.
        kept["PYTHONPYCACHEPREFIX"] = str(folder / "bytecode")
    # What a gateway that is killed had in its temporary folder goes with the demo's own.
    return {**kept, "TMPDIR": str(folder), **settings}


def free_port() -> int:
    """Return a port of the loopback address that nobody listens on. Ports are handed out at random, so it stays so."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    assert isinstance(port, int), "as the address of a socket has it"
    return port


class ProcessResult(msgspec.Struct, frozen=True):
    """A program that ran to its end."""

    exit_code: int
    output: bytes


class ServerProcess:
    """A server of ours while it lives: its address, and how to end it."""

    def __init__(self, program: asyncio.subprocess.Process, url: str) -> None:
        self._program, self.url = program, url

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self.url.rpartition(":")[2])

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended yet."""
        return self._program.returncode is None

    async def kill(self) -> int:
        """End it at once, as the system does when memory runs out, and return its exit code."""
        self.signal(signal.SIGKILL)
        return await self._gone()

    async def stop(self) -> int:
        """Ask it to end, and return its exit code. One that does not is killed."""
        self.signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(_STOP_SECONDS_MAX):
                return await self._gone()
        except TimeoutError:
            return await self.kill()

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, where it still lives."""
        if self.is_alive:
            with suppress(ProcessLookupError):
                self._program.send_signal(number)

    async def _gone(self) -> int:
        assert self._program.stdout is not None, "it was asked for"
        # Its pipe is read to the end, so that nothing of it stays open here.
        await self._program.stdout.read()
        return await self._program.wait()


class ProcessGroup:
    """All programs of one demo. At the end of the context none of them is left."""

    def __init__(self, folder: Path, settings: Mapping[str, str]) -> None:
        self._folder = folder
        self._environment = environment(folder, settings)
        self._programs: list[ServerProcess] = []
        # The standard input of all of them: a pipe that ends when this process does, however it does.
        self._tie, self._held_end = -1, -1

    async def __aenter__(self) -> Self:
        self._tie, self._held_end = os.pipe()
        return self

    async def __aexit__(self, *_: object) -> None:
        # Killed, not asked: whatever the demo was about is over. All at once and first, should this be cut short too.
        for program in self._programs:
            program.signal(signal.SIGKILL)
        os.close(self._tie)
        os.close(self._held_end)
        await asyncio.gather(*(program.kill() for program in self._programs))

    async def serve(self, *arguments: str) -> ServerProcess:
        """Start a server of ours, and return it as soon as it has said where it listens."""
        started = await self._start(arguments)
        program = ServerProcess(started, "")
        self._programs.append(program)
        assert started.stdout is not None, "it was asked for"
        try:
            async with asyncio.timeout(_START_SECONDS_MAX):
                line = (await started.stdout.readline()).decode()
        except TimeoutError:
            line = ""
        program.url = next((word for word in line.split() if word.startswith("http://")), "")
        if not program.url:
            await program.kill()
            raise click.ClickException(f"`holdfast {arguments[0]}` did not start; it said: {self._last_words()}")
        return program

    async def run(self, *arguments: str) -> ProcessResult:
        """Run a command of ours to its end."""
        started = await self._start(arguments)
        try:
            async with asyncio.timeout(_RUN_SECONDS_MAX):
                output, _ = await started.communicate()
        finally:
            if started.returncode is None:
                started.kill()
                await started.wait()
        return ProcessResult(await started.wait(), output)

    async def _start(self, arguments: Sequence[str]) -> asyncio.subprocess.Process:
        with self._log.open("ab") as log:
            return await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "holdfast.cli.parent_watch", *arguments),
                stdin=self._tie,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env=self._environment,
                cwd=self._folder,
            )

    @property
    def _log(self) -> Path:
        return self._folder / "programs.log"

    def _last_words(self) -> str:
        lines = self._log.read_text("utf-8", errors="replace").splitlines()
        return lines[-1] if lines else "nothing"
