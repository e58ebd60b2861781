"""Processes of the demo: gateways, the simulated model and doctor.

None of them outlives the demo, even if it is killed: see `holdfast.cli.parent_watch`.
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

# A start takes less than a second, and took twelve on a busy machine.
_START_SECONDS_MAX = 60.0
# A gateway waits up to five seconds for running turns.
_STOP_SECONDS_MAX = 20.0
# doctor takes a second for the store of a demo.
_RUN_SECONDS_MAX = 60.0
# Settings of the user would change the demo; proxies do not apply to local addresses.
_FOREIGN_PREFIXES = ("HOLDFAST_", "OPENAI_", "ANTHROPIC_", "GEMINI_")
_FOREIGN_SUFFIX = "_PROXY"


# With this variable every process compiles all modules again, half of its start time.
_NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"


def environment(folder: Path, settings: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the processes: that of the demo without the user's own settings."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(_FOREIGN_PREFIXES) and not name.upper().endswith(_FOREIGN_SUFFIX)
    }
    if kept.pop(_NO_BYTECODE, ""):
        # Respect the variable for the source folders, but compile once into the demo's folder.
        kept["PYTHONPYCACHEPREFIX"] = str(folder / "bytecode")
    # Temporary files of a killed gateway are removed with the demo's folder.
    return {**kept, "TMPDIR": str(folder), **settings}


def free_port() -> int:
    """Return an unused local port. The kernel assigns ports at random, so another process hardly takes it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    assert isinstance(port, int), "an IPv4 address has one"
    return port


class ProcessResult(msgspec.Struct, frozen=True):
    """Result of a completed process."""

    exit_code: int
    output: bytes


class Server:
    """A running server process and its address."""

    def __init__(self, program: asyncio.subprocess.Process, url: str) -> None:
        self._program, self.url = program, url

    @property
    def port(self) -> int:
        """Port of the server."""
        return int(self.url.rpartition(":")[2])

    @property
    def is_alive(self) -> bool:
        """Whether the process is running."""
        return self._program.returncode is None

    async def kill(self) -> int:
        """Kill it with SIGKILL, and return its exit code."""
        self.signal(signal.SIGKILL)
        return await self._gone()

    async def stop(self) -> int:
        """Stop it with SIGTERM, after a timeout with SIGKILL, and return its exit code."""
        self.signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(_STOP_SECONDS_MAX):
                return await self._gone()
        except TimeoutError:
            return await self.kill()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, if it is running."""
        if self.is_alive:
            with suppress(ProcessLookupError):
                self._program.send_signal(number)

    async def _gone(self) -> int:
        assert self._program.stdout is not None, "piped"
        # Read the pipe to its end so that it is closed.
        await self._program.stdout.read()
        return await self._program.wait()


class ProcessGroup:
    """All processes of one demo. The end of the context kills them."""

    def __init__(self, folder: Path, settings: Mapping[str, str]) -> None:
        self._folder = folder
        self._environment = environment(folder, settings)
        self._programs: list[Server] = []
        # Standard input of all of them: a pipe that closes when this process ends.
        self._stdin, self._write_end = -1, -1

    async def __aenter__(self) -> Self:
        self._stdin, self._write_end = os.pipe()
        return self

    async def __aexit__(self, *_: object) -> None:
        # Signal all of them first, in case this cleanup is interrupted.
        for program in self._programs:
            program.signal(signal.SIGKILL)
        os.close(self._stdin)
        os.close(self._write_end)
        await asyncio.gather(*(program.kill() for program in self._programs))

    async def serve(self, *arguments: str) -> Server:
        """Start a server command, and return it when it has printed its address."""
        started = await self._start(arguments)
        program = Server(started, "")
        self._programs.append(program)
        assert started.stdout is not None, "piped"
        try:
            async with asyncio.timeout(_START_SECONDS_MAX):
                line = (await started.stdout.readline()).decode()
        except TimeoutError:
            line = ""
        program.url = next((word for word in line.split() if word.startswith("http://")), "")
        if not program.url:
            await program.kill()
            raise click.ClickException(f"`holdfast {arguments[0]}` did not start: {self._last_log_line()}")
        return program

    async def run(self, *arguments: str) -> ProcessResult:
        """Run a command to its end."""
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
                stdin=self._stdin,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env=self._environment,
                cwd=self._folder,
            )

    @property
    def _log(self) -> Path:
        return self._folder / "programs.log"

    def _last_log_line(self) -> str:
        lines = self._log.read_text("utf-8", errors="replace").splitlines()
        return lines[-1] if lines else "no output"
