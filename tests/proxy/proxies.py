"""Drop-in endpoints on a real socket, in front of a simulated provider on another, with the official SDKs."""

import ssl
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import aiohttp
from anthropic import AsyncAnthropic
from anthropic import DefaultAsyncHttpxClient as AnthropicHttp
from openai import AsyncOpenAI
from openai import DefaultAsyncHttpxClient as OpenAIHttp

from holdfast.core.limits.bounds import Bounds, Deadlines
from holdfast.gateway.api.request_context import AppState
from holdfast.gateway.bounds import GatewayBounds
from holdfast.gateway.http.app import Gateway, Mount
from holdfast.gateway.http.events import Streams
from holdfast.gateway.http.keys import KeyFile
from holdfast.gateway.http.metrics import Metrics
from holdfast.gateway.http.server import serve_gateway
from holdfast.gateway.proxy.app import ProxyApp
from holdfast.gateway.proxy.responses import problem_response
from holdfast.gateway.proxy.upstream import open_upstream
from holdfast.gateway.uploads import Uploads
from holdfast.models.catalogue import simulated_model
from holdfast.models.fake import Simulation
from holdfast.models.fake.server import serve_simulation
from holdfast.models.limits import NO_OVERRIDES, Overrides
from holdfast.ports import Store
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.engine.context import Engine
from holdfast.runtime.sessions.client import Client
from holdfast.stores.memory import MemoryStore
from holdfast.testing.engines import a_hold, an_engine
from holdfast.types.records import AnyRecord, Logged

DEADLINE_SECONDS = 60.0
# For clients that speak plain HTTP: reading the certificate authorities takes 45 ms for each.
_NO_AUTHORITIES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
# No summaries in the background, for tests that count or compare requests.
NONE_AHEAD = Bounds(back_off_seconds_min=0.01, compacts_ahead=False)


@dataclass
class DropInRunning:
    """A gateway with drop-in endpoints, and the provider behind it."""

    url: str
    upstream_url: str
    simulation: Simulation
    engine: Engine
    hold: Client
    http: aiohttp.ClientSession
    openai: AsyncOpenAI
    anthropic: AsyncAnthropic

    async def sessions(self) -> list[str]:
        """Return the keys of all sessions."""
        return [one.key for one in await self.hold.sessions()]

    async def records(self, key: str) -> list[AnyRecord]:
        """Return the records of a session."""
        return [logged.record for logged in await self.engine.store.read(key)]

    @property
    def sent(self) -> list[bytes]:
        """The bodies that the provider was sent."""
        return [seen.body for seen in self.simulation.requests]


@asynccontextmanager
async def a_dropin(  # noqa: PLR0913 - a test names the one or two parts that it cares about
    simulation: Simulation | None = None,
    *,
    store: Store | None = None,
    keys: Path | None = None,
    upstream_key: str = "",
    fallbacks: Sequence[str] = (),
    deadlines: Deadlines | None = None,
    bounds: Bounds | None = None,
    gateway_bounds: GatewayBounds | None = None,
    upstream_url: str = "",
    sdk_key: str = "sk-the-clients-own-key",
    allowed_paths: Sequence[str] = (),
    savings: str = "off",
    overrides: Overrides = NO_OVERRIDES,
) -> AsyncGenerator[DropInRunning, None]:
    """Run everything in this process over memory."""
    simulation = simulation or Simulation()
    limits = gateway_bounds or GatewayBounds()
    bounds = bounds or Bounds(back_off_seconds_min=0.01)
    async with AsyncExitStack() as stack:
        upstream_url = upstream_url or await stack.enter_async_context(serve_simulation(simulation))
        store = store or MemoryStore(clock=SystemClock(), bounds=bounds)
        made = an_engine(simulated_model(Simulation()), store=store, bounds=bounds, deadlines=deadlines)
        observers: list[Callable[[str, Logged], None]] = []
        engine = Engine(**{**vars(made), "observe": lambda key, one: [observe(key, one) for observe in observers]})
        hold = await stack.enter_async_context(a_hold(engine))
        uploads = Uploads(limits, SystemClock())
        stack.callback(uploads.close)
        environ = {"THE_KEY": upstream_key}
        opened = [
            open_upstream("openai", f"{upstream_url}/v1", "THE_KEY", tuple(fallbacks), environ),
            open_upstream("anthropic", upstream_url, "THE_KEY", tuple(fallbacks), environ),
            open_upstream("gemini", upstream_url, "THE_KEY", tuple(fallbacks), environ),
        ]
        allowed = tuple(allowed_paths)
        upstreams = {
            one.family: replace(one, allowed_paths=allowed, savings=savings) for one in opened if one is not None
        }
        dropin = ProxyApp(engine, upstreams, bounds=limits, overrides=overrides, owner="dropin test")
        stack.push_async_callback(dropin.close)
        key_file = KeyFile(keys) if keys is not None else None
        state = AppState(hold, limits, ("sim",), key_file, Streams(limits), uploads)
        observers.append(state.accounts.observe)
        stack.push_async_callback(state.accounts.close)
        gateway = Gateway(
            state,
            metrics=Metrics(),
            needs_keys=key_file is not None,
            mounts=dict.fromkeys(("v1", "v1beta"), Mount(dropin, error_response=problem_response)),
        )
        url = await stack.enter_async_context(serve_gateway(gateway))
        timeout = aiohttp.ClientTimeout(total=DEADLINE_SECONDS)
        http = await stack.enter_async_context(aiohttp.ClientSession(timeout=timeout))
        openai = AsyncOpenAI(
            api_key=sdk_key,
            base_url=f"{url}/v1",
            max_retries=0,
            timeout=DEADLINE_SECONDS,
            http_client=OpenAIHttp(verify=_NO_AUTHORITIES),
        )
        anthropic = AsyncAnthropic(
            api_key=sdk_key,
            base_url=url,
            max_retries=0,
            timeout=DEADLINE_SECONDS,
            http_client=AnthropicHttp(verify=_NO_AUTHORITIES),
        )
        stack.push_async_callback(openai.close)
        stack.push_async_callback(anthropic.close)
        yield DropInRunning(url, upstream_url, simulation, engine, hold, http, openai, anthropic)
