"""What the acts of a demo share: its programs, the client that talks to them, and the witness of everything."""

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import aiohttp
import msgspec

from holdfast.cli.commands.doctor import DoctorOutput
from holdfast.core.fold.session_state import InFlight
from holdfast.lab.demo.client import GatewayClient, Mode, Observations, RefusedError, Sent, Watcher, open_gateway_client
from holdfast.lab.demo.display import Display
from holdfast.lab.demo.inputs import Inputs
from holdfast.lab.demo.processes import ProcessGroup, ServerProcess, free_port
from holdfast.runtime.maintenance.doctor import Finding
from holdfast.types.limits import Limits
from holdfast.types.records import TurnEnded

KEY = "demo:voyage"
STORE = "demo.db"
MODELS = ("openai:first", "openai:second")
# Small enough that a dozen pages fill it, with bounds on bytes and images as real providers have them.
LIMITS = Limits(8_000, 1_000, 8 * 2**20, media_count_max=20, media_bytes_max=5 * 2**20, media_pixels_max=8_000)
# How often a live picture asks what the model sees.
_LOOK_SECONDS = 0.25
# How long nothing may happen before a session counts as at rest.
_REST_SECONDS = 0.05


class Pace(msgspec.Struct, frozen=True):
    """How quickly a demo goes."""

    # Between two acts and after a message, so that one can read what happened.
    act_seconds: float
    message_seconds: float
    # The first wait after a failure, each that follows being four times as long, and the longest; what a rate limit
    # asks for. The engine's own first wait is a second, and its longest a minute.
    backoff_seconds: float
    back_off_seconds_max: float
    retry_after_seconds: float
    # Between two pieces of the summary that is raced for: the second request has to come while it is written.
    race_delta_seconds: float
    # How often the conversation has to outgrow its window before the first disaster.
    compactions: int


FULL = Pace(
    act_seconds=4.0,
    message_seconds=0.5,
    backoff_seconds=0.5,
    back_off_seconds_max=10.0,
    retry_after_seconds=2.0,
    race_delta_seconds=0.02,
    compactions=2,
)
FAST = Pace(
    act_seconds=0.0,
    message_seconds=0.0,
    backoff_seconds=0.02,
    back_off_seconds_max=0.2,
    retry_after_seconds=0.2,
    race_delta_seconds=0.005,
    compactions=1,
)


class DemoContext:
    """One run of the demo."""

    def __init__(
        self, processes: ProcessGroup, client: GatewayClient, folder: Path, display: Display, inputs: Inputs, pace: Pace
    ) -> None:
        self.client, self.display, self.inputs, self.pace = client, display, inputs, pace
        self.store = folder / STORE
        self.observed = Observations(window_tokens=LIMITS.window_tokens or 0)
        self.watcher = Watcher(client, display.see)
        self.observed.watched = self.watcher.seen
        self._processes, self._folder = processes, folder
        # Chosen before it starts, so that a gateway can be told of it and start beside it.
        self._model_port = free_port()
        self._model: ServerProcess | None = None
        self._gateway: ServerProcess | None = None
        self._legs = 0

    # Programs.

    async def start_model(self) -> None:
        """Start the simulated model, always at the same port."""
        self._model = await self._processes.serve("sim", "--port", str(self._model_port))
        self.client.model = self._model.url
        await self.client.set_limits(LIMITS)

    async def kill_model(self) -> None:
        """Kill the simulated model, which is every model there is."""
        assert self._model is not None, "it was started"
        await self._model.kill()

    async def start_gateway(self) -> None:
        """Start the gateway, where it was before if it was: clients and pages come back to the same address."""
        port = self._gateway.port if self._gateway is not None else 0
        self._gateway = await self.another_gateway(port)
        self.client.gateway = self._gateway.url

    async def another_gateway(self, port: int = 0) -> ServerProcess:
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
        """Kill the gateway, and note how it ended and what the newest record was."""
        assert self._gateway is not None, "it was started"
        exit_code = await self._gateway.kill()
        self.observed.killed.append((exit_code, self.watcher.last_seq))

    async def stop_gateway(self) -> None:
        """Ask the gateway to end."""
        assert self._gateway is not None, "it was started"
        await self._gateway.stop()

    async def doctor(self) -> tuple[Finding, ...]:
        """Have the store looked over by a process of its own, and return what was found."""
        ended = await self._processes.run("doctor", "--store", str(self.store), "--json")
        return msgspec.json.decode(ended.output, type=DoctorOutput).found.findings

    # Talking.

    async def send(self, text: str, *, mode: Mode = "wait", expects_reason: bool = False) -> Sent:
        """Send a message, and note what comes back."""
        sent = self._noted(Sent(f"message-{len(self.observed.sent) + 1}", text, expects_reason=expects_reason))
        await self.client.send(sent, mode=mode)
        await self._told()
        return sent

    async def send_image(self, text: str, content: bytes) -> Sent:
        """Send a message with an image."""
        upload = await self.client.upload(content, "chart.png")
        digest = hashlib.sha256(content).hexdigest()
        sent = self._noted(Sent(f"message-{len(self.observed.sent) + 1}", text, attached=digest))
        await self.client.send(sent, upload=upload)
        await self._told()
        return sent

    async def travel(self) -> Sent:
        """Let the conversation grow by a page and an answer of a page, an eighth of the window, and see it end."""
        self._legs += 1
        page = self.inputs.page(self._legs, sentences=25)
        sent = await self.send(f"Leg {self._legs} of the journey. {page} Please write 400 words")
        await self.watcher.until(lambda one: isinstance(one, TurnEnded), after=sent.turn)
        return sent

    async def collect(self, sent: Sent) -> None:
        """Wait for the outcome of a message that was only posted."""
        await self.client.collect(sent)
        await self._told()

    def _noted(self, sent: Sent) -> Sent:
        self.observed.sent.append(sent)
        self._count()
        return sent

    async def _told(self) -> None:
        self._count()
        await asyncio.sleep(self.pace.message_seconds)

    def _count(self) -> None:
        sent = self.observed.sent
        self.display.count(len(sent), sum(one.answer is not None for one in sent))

    # Watching.

    async def rest(self) -> None:
        """Wait until nothing is being worked on, and everything that was written has been seen."""
        seen = -1
        while True:
            detail = await self.client.detail()
            await self.watcher.reach(detail.records)
            is_idle = not detail.unanswered and detail.in_flight == InFlight.REST.value
            # A compaction ahead of need is asked for just after a turn has ended, so one look is not enough.
            if is_idle and detail.records == seen:
                return
            seen = detail.records
            await asyncio.sleep(_REST_SECONDS)

    async def show_view(self) -> None:
        """Show once what the model sees. A gateway that is down has nothing to show."""
        with suppress(aiohttp.ClientError, OSError, RefusedError):
            self.display.show(await self.client.view())

    async def keep_looking(self) -> None:
        """Show what the model sees, without end, as it changes."""
        shown = 0
        while True:
            if self.watcher.last_seq != shown:
                shown = self.watcher.last_seq
                await self.show_view()
            await asyncio.sleep(_LOOK_SECONDS)


@asynccontextmanager
async def open_context(folder: Path, display: Display, inputs: Inputs, pace: Pace) -> AsyncGenerator[DemoContext, None]:
    """Start the model and a gateway, and watch the session. At the end of the context no process is left."""
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
        tasks.append(asyncio.create_task(demo.keep_looking()))
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()


def _write_settings(folder: Path) -> None:
    """Write files of settings: what the models accept, and nothing else, whatever the person has set up."""
    (folder / "holdfast.toml").write_text("", "utf-8")
    known = "".join(f"{name} = {limit}\n" for name, limit in msgspec.structs.asdict(LIMITS).items() if limit)
    (folder / "models.toml").write_text(f'[models."openai:*"]\n{known}', "utf-8")
