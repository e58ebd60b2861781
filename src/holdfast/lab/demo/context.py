"""Shared context of the scenarios: processes, client, watcher and observations.

None of the processes (gateways, the simulated model, doctor) outlives the demo, even if it is killed: see
`holdfast.cli.parent_watch`.
"""

import asyncio
import hashlib
import os
import signal
import sys
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Self

import aiohttp
import click
import msgspec

from holdfast.cli.commands.doctor import DoctorOutput
from holdfast.cli.local_gateway import free_port
from holdfast.core.fold.session_state import InFlight
from holdfast.lab.demo.client import (
    GatewayClient,
    Inputs,
    Mode,
    Observations,
    RefusedError,
    Sent,
    Watcher,
    open_gateway_client,
)
from holdfast.lab.demo.display import Display
from holdfast.runtime.maintenance.doctor import Finding
from holdfast.types.limits import Limits
from holdfast.types.records import TurnEnded

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
    def pid(self) -> int:
        """Process id of the server."""
        return self._program.pid

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
        _send_signal(self._program, number)

    async def _gone(self) -> int:
        assert self._program.stdout is not None, "piped"
        # Read the pipe to its end so that it is closed.
        await self._program.stdout.read()
        return await self._program.wait()


def _send_signal(program: asyncio.subprocess.Process, number: signal.Signals) -> None:
    """Send a signal to a process that is running.

    Not by `Process.send_signal`: it looks first whether the process has ended, takes the exit code that asyncio waits
    for, and asyncio prints a warning.
    """
    if program.returncode is None:
        with suppress(ProcessLookupError):
            os.kill(program.pid, number)


class ProcessGroup:
    """All processes of one demo. The end of the context kills them."""

    def __init__(
        self, folder: Path, settings: Mapping[str, str], *, program: str = "holdfast.cli.parent_watch"
    ) -> None:
        """`program` is the module that runs the commands."""
        self._folder = folder
        self._program = program
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
            _send_signal(started, signal.SIGKILL)
            await started.wait()
        return ProcessResult(await started.wait(), output)

    async def _start(self, arguments: Sequence[str]) -> asyncio.subprocess.Process:
        with self._log.open("ab") as log:
            return await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", self._program, *arguments),
                stdin=self._stdin,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env=self._environment,
                cwd=self._folder,
            )

    @property
    def log(self) -> str:
        """Everything that the processes have written to standard error."""
        return self._log.read_text("utf-8", errors="replace") if self._log.exists() else ""

    @property
    def _log(self) -> Path:
        return self._folder / "programs.log"

    def _last_log_line(self) -> str:
        lines = self.log.splitlines()
        return lines[-1] if lines else "no output"


KEY = "demo:voyage"
STORE = "demo.db"
MODELS = ("openai:first", "openai:second")
# A dozen pages fill the window; limits of bytes and images like those of real providers.
LIMITS = Limits(8_000, 1_000, 8 * 2**20, media_count_max=20, media_bytes_max=5 * 2**20, media_pixels_max=8_000)
# Poll interval of the live display.
_LOOK_SECONDS = 0.25
# Quiet time after which a session counts as idle.
_IDLE_SECONDS = 0.05


class Pace(msgspec.Struct, frozen=True):
    """Timing of a demo."""

    # Pauses after a scenario and after a message, for reading.
    scenario_seconds: float
    message_seconds: float
    # First backoff (each further one is four times as long), longest backoff, and Retry-After of a rate limit. The
    # engine's own defaults are a second and a minute.
    backoff_seconds: float
    back_off_seconds_max: float
    retry_after_seconds: float
    # Delay between deltas of the summary in the race: the second request must arrive while it streams.
    race_delta_seconds: float
    # Compactions before the first fault.
    compactions: int


FULL = Pace(
    scenario_seconds=4.0,
    message_seconds=0.5,
    backoff_seconds=0.5,
    back_off_seconds_max=10.0,
    retry_after_seconds=2.0,
    race_delta_seconds=0.02,
    compactions=2,
)
FAST = Pace(
    scenario_seconds=0.0,
    message_seconds=0.0,
    backoff_seconds=0.02,
    back_off_seconds_max=0.2,
    retry_after_seconds=0.2,
    race_delta_seconds=0.005,
    compactions=1,
)


class DemoContext:
    """Context of one run."""

    def __init__(
        self, processes: ProcessGroup, client: GatewayClient, folder: Path, display: Display, inputs: Inputs, pace: Pace
    ) -> None:
        self.client, self.display, self.inputs, self.pace = client, display, inputs, pace
        self.store = folder / STORE
        self.observed = Observations(window_tokens=LIMITS.window_tokens or 0)
        self.watcher = Watcher(client, display.see)
        self.observed.watched = self.watcher.seen
        self._processes, self._folder = processes, folder
        # Chosen in advance, so that model and gateway can start in parallel.
        self._model_port = free_port()
        self._model: Server | None = None
        self._gateway: Server | None = None
        self._legs = 0

    # Processes.

    async def start_model(self) -> None:
        """Start the simulated model, always on the same port."""
        self._model = await self._processes.serve("sim", "--port", str(self._model_port))
        self.client.model = self._model.url
        await self.client.set_limits(LIMITS)

    async def kill_model(self) -> None:
        """Kill the simulated model, which serves both models."""
        assert self._model is not None, "started before"
        await self._model.kill()

    async def start_gateway(self) -> None:
        """Start the gateway, after a restart on the same port, so that clients can reconnect."""
        port = self._gateway.port if self._gateway is not None else 0
        self._gateway = await self.another_gateway(port)
        self.client.gateway = self._gateway.url

    async def another_gateway(self, port: int = 0) -> Server:
        """Start a gateway on the same store."""
        models = [argument for name in MODELS for argument in ("--model", name)]
        settings = (
            f"bounds.back_off_seconds_min={self.pace.backoff_seconds}",
            f"bounds.back_off_seconds_max={self.pace.back_off_seconds_max}",
            "observing.log=warning",
        )
        given = [argument for setting in settings for argument in ("--set", setting)]
        return await self._processes.serve(
            *("serve", "--config", str(self._folder / "holdfast.toml"), "--store", str(self.store)),
            *("--port", str(port), "--base-url", f"http://127.0.0.1:{self._model_port}/v1", *models, *given),
        )

    async def kill_gateway(self) -> None:
        """Kill the gateway, and record its exit code and the newest record."""
        assert self._gateway is not None, "started before"
        exit_code = await self._gateway.kill()
        self.observed.killed.append((exit_code, self.watcher.last_seq))

    async def stop_gateway(self) -> None:
        """Stop the gateway."""
        assert self._gateway is not None, "started before"
        await self._gateway.stop()

    async def doctor(self) -> tuple[Finding, ...]:
        """Run `holdfast doctor` and return its findings."""
        result = await self._processes.run("doctor", "--store", str(self.store), "--json")
        return msgspec.json.decode(result.output, type=DoctorOutput).found.findings

    # Messages.

    async def send(self, text: str, *, mode: Mode = "wait", expected_code: str = "") -> Sent:
        """Send a message and record it with its response."""
        sent = self._record(Sent(f"message-{len(self.observed.sent) + 1}", text, expected_code=expected_code))
        await self.client.send(sent, mode=mode)
        await self._pause()
        return sent

    async def send_image(self, text: str, content: bytes) -> Sent:
        """Send a message with an image."""
        upload = await self.client.upload(content, "chart.png")
        digest = hashlib.sha256(content).hexdigest()
        sent = self._record(Sent(f"message-{len(self.observed.sent) + 1}", text, attached=digest))
        await self.client.send(sent, upload=upload)
        await self._pause()
        return sent

    async def add_page(self) -> Sent:
        """Send a page and wait for an answer of a page, together an eighth of the window."""
        self._legs += 1
        page = self.inputs.page(self._legs, sentences=25)
        sent = await self.send(f"Leg {self._legs} of the journey. {page} Please write 400 words")
        await self.watcher.until(lambda one: isinstance(one, TurnEnded), after=sent.turn)
        return sent

    async def collect(self, sent: Sent) -> None:
        """Wait for the outcome of a posted message."""
        await self.client.collect(sent)
        await self._pause()

    def _record(self, sent: Sent) -> Sent:
        self.observed.sent.append(sent)
        self._count()
        return sent

    async def _pause(self) -> None:
        self._count()
        await asyncio.sleep(self.pace.message_seconds)

    def _count(self) -> None:
        sent = self.observed.sent
        self.display.count(len(sent), sum(one.answer is not None for one in sent))

    # Events.

    async def wait_until_idle(self) -> None:
        """Wait until the session is idle and all its records were received."""
        seen = -1
        while True:
            detail = await self.client.detail()
            await self.watcher.reach(detail.records)
            is_idle = not detail.unanswered and detail.in_flight == InFlight.REST.value
            # A proactive compaction is requested just after a turn ended, so check twice.
            if is_idle and detail.records == seen:
                return
            seen = detail.records
            await asyncio.sleep(_IDLE_SECONDS)

    async def show_view(self) -> None:
        """Show the model's view once; do nothing if the gateway is down."""
        with suppress(aiohttp.ClientError, OSError, RefusedError):
            self.display.show(await self.client.view())

    async def poll_view(self) -> None:
        """Show the model's view after every change, until cancelled."""
        shown = 0
        while True:
            if self.watcher.last_seq != shown:
                shown = self.watcher.last_seq
                await self.show_view()
            await asyncio.sleep(_LOOK_SECONDS)


@asynccontextmanager
async def open_context(folder: Path, display: Display, inputs: Inputs, pace: Pace) -> AsyncGenerator[DemoContext, None]:
    """Start the model and a gateway, and watch the session. The end of the context kills all processes."""
    _write_settings(folder)
    settings = {"OPENAI_API_KEY": "none", "HOLDFAST_MODELS": str(folder / "models.toml")}
    async with ProcessGroup(folder, settings) as processes, open_gateway_client(KEY) as client:
        demo = DemoContext(processes, client, folder, display, inputs, pace)
        await asyncio.gather(demo.start_model(), demo.start_gateway())
        with _running(demo):
            yield demo
        demo.observed.out_of_order = demo.watcher.out_of_order


@contextmanager
def _running(demo: DemoContext) -> Iterator[None]:
    tasks = [asyncio.create_task(demo.watcher.watch())]
    if demo.display.is_live:
        tasks.append(asyncio.create_task(demo.poll_view()))
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()


def _write_settings(folder: Path) -> None:
    """Write configuration files with only the limits of the models, independent of the user's settings."""
    (folder / "holdfast.toml").write_text("", "utf-8")
    known = "".join(f"{name} = {limit}\n" for name, limit in msgspec.structs.asdict(LIMITS).items() if limit)
    (folder / "models.toml").write_text(f'[models."openai:*"]\n{known}', "utf-8")
