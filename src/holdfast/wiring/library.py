"""Assemble a `Client` from a store, models and tools: `holdfast.open()` and `holdfast.ask()`."""

import asyncio
import os
import secrets
import socket
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import msgspec

from holdfast.core.integrity.segments import Sealing
from holdfast.core.limits.bounds import SUMMARY_DEADLINES, Bounds, Deadlines
from holdfast.core.limits.settings import checked_settings, merged
from holdfast.errors import UsageError
from holdfast.models.reference import Model
from holdfast.ports import Archive, Attachment, Blobs, Log, SessionTool, Tool
from holdfast.ports import Model as ModelPort
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.engine.context import Engine, unobserved
from holdfast.runtime.engine.learning import Learning
from holdfast.runtime.engine.lease import LEASE_SECONDS
from holdfast.runtime.engine.live import Live
from holdfast.runtime.images import PillowImages
from holdfast.runtime.maintenance.supervisor import Supervisor
from holdfast.runtime.memory.tool import MemoryTool, memory_tools_of
from holdfast.runtime.sessions.client import Client
from holdfast.runtime.sessions.delete import check_days
from holdfast.runtime.sessions.session import Answer
from holdfast.runtime.subagents import Agent, AgentTool
from holdfast.runtime.tools.mcp_server import MCPServer
from holdfast.runtime.tools.recall import Recall
from holdfast.runtime.tools.toolbox import CallOptions, Toolbox, never
from holdfast.types.messages import ToolCall
from holdfast.types.records import Logged
from holdfast.types.settings import NO_SETTINGS, Settings
from holdfast.wiring.stores import MEMORY, combine, look_at_store, made_store_path, open_archive, open_store

if TYPE_CHECKING:
    from holdfast.models.limits import Overrides


# A reference such as "openai:gpt-5", a model with an endpoint of its own, or an object that implements the port.
AnyModel: TypeAlias = str | Model | ModelPort


class Tuning(msgspec.Struct, frozen=True):
    """Advanced settings; the defaults suit most programs."""

    # Limits of everything that could grow, and deadlines of model calls.
    bounds: Bounds = Bounds()
    deadlines: Deadlines = Deadlines()
    # Rules for moving old records into the archive; None: never.
    sealing: Sealing | None = Sealing()
    # Delete sessions that have not changed for this many days, when idle; None: never.
    retention_days: float | None = None
    # Deadlines of summary calls: a user may be waiting, and the next rung needs no model.
    summary_deadlines: Deadlines = SUMMARY_DEADLINES
    lease_seconds: float = LEASE_SECONDS
    # Time for running turns to end on close; unfinished turns resume at the next start.
    grace_seconds: float = 5.0
    # Whether to resume, at the start, turns that other processes left unfinished in this store.
    adopts: bool = True
    # Called with every work record that this process wrote, for metrics and traces. Must not raise.
    observe: Callable[[str, Logged], None] = unobserved
    # Whether to migrate a store of an older layout; otherwise it is opened read-only, and nothing can be sent.
    migrates: bool = True


def model_overrides(path: str = "") -> "Overrides":
    """Read the user's model limits: the given file, else HOLDFAST_MODELS, else models.toml in the config folder.

    Raises `UsageError` if the file is invalid, or if HOLDFAST_MODELS names a missing file.
    """
    from holdfast.models.limits import NO_OVERRIDES, load_overrides  # noqa: PLC0415 - loaded on use

    named = path or os.environ.get("HOLDFAST_MODELS")
    if named:
        return load_overrides(Path(named).expanduser())
    config_home = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    usual = Path(config_home).expanduser() / "holdfast" / "models.toml"
    return load_overrides(usual) if usual.exists() else NO_OVERRIDES


@asynccontextmanager
async def open(  # noqa: A001, PLR0913 - `holdfast.open()` is the public name; all arguments are optional
    store: str | Path | Log | None = None,
    *,
    model: AnyModel | Sequence[AnyModel] = "sim",
    settings: Settings = NO_SETTINGS,
    system: str | Callable[[], str] = "",
    tools: Sequence[Tool | Callable[..., object]] = (),
    deps: object = None,
    approve: Callable[[str, ToolCall], bool | Awaitable[bool]] | None = None,
    mcp: Sequence[MCPServer] = (),
    base_url: str | None = None,
    archive: str | Path | Archive | None = None,
    blobs: str | Path | Blobs | None = None,
    tuning: Tuning | None = None,
    agents: Sequence[Agent] = (),
    memory: str | Callable[[str], str] | None = None,
) -> AsyncGenerator[Client, None]:
    """Open a store and return a client for its sessions.

        async with holdfast.open() as client:
            chat = await client.session("telegram:42")
            reply = await chat.send("Hello")

    `store` is the path of a database file, created if missing, or the URL of a PostgreSQL database,
    "postgresql://user@host/name", which several machines may share; ":memory:" stores nothing. `model` is "sim" (the
    simulated model, no key needed), "openai:NAME", "responses:NAME" (OpenAI's Responses API), "anthropic:NAME" or
    "gemini:NAME", with the key in OPENAI_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY; further models are fallbacks. A
    `holdfast.Model` has an endpoint, a key, headers and settings of its own, and an object with the methods of
    `holdfast.ports.Model` is a model too. `settings` apply to every request that a session or message sets none for.
    `system` is the system text, or a function that returns it for each request. `tools` are typed Python functions.
    `deps` is any object, which tools get in their `ToolContext`. `approve` is asked with the session key and each tool
    call; if it returns True, the call waits until a person approves it. `mcp` are MCP servers, whose tools are used.
    `base_url` is the address of any server with the provider's API. `archive` is the place for old records: a folder,
    or "s3://BUCKET/PREFIX" with the usual AWS_ variables. Default: HOLDFAST_ARCHIVE, else a folder beside the store; a
    store on a server has none. Use the same archive every time and on every machine: sealed records exist only there.
    `store` may also be an object that implements `holdfast.ports.Log`; `open` closes it at the end. It needs `blobs`: a
    folder, or an object that implements `holdfast.ports.Blobs`. `agents` are sub-agents that a model may call as tools.
    `memory` gives models a tool for long-term notes: one scope for all sessions, or a function from a session key to
    its scope, such as its user. Turns that a crash left unfinished resume at once.
    """
    tuning = tuning or Tuning()
    # A gateway gives models that a reload replaces.
    given: object = model
    model_list = given if isinstance(given, LiveModels) else ModelList(model, base_url, settings=settings)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(model_list.close)
        records, content, opened_archive = _open_parts(store, blobs, archive, tuning)
        stack.push_async_callback(records.close)
        recall = Recall(records, content, tuning.bounds)
        agent_tools, memory_tools = [AgentTool(agent) for agent in agents], memory_tools_of(memory)
        built_in: tuple[SessionTool, ...] = (recall, *agent_tools, *memory_tools)
        calls = CallOptions(deps, approve or never)
        served = await _open_mcp(mcp, stack)
        toolbox = Toolbox([*tools, *served], blobs=content, bounds=tuning.bounds, for_sessions=built_in, calls=calls)
        engine = Engine(
            store=records,
            blobs=content,
            toolbox=toolbox,
            models=model_list.models,
            settings=model_list.settings,
            system=system if callable(system) else lambda: system,
            learning=Learning(records),
            archive=opened_archive,
            images=PillowImages(content),
            **_tuned(tuning),
        )
        yield await _started(engine, tuning, stack, (agent_tools, memory_tools))


async def _started(
    engine: Engine, tuning: Tuning, stack: AsyncExitStack, tools: tuple[Sequence[AgentTool], Sequence[MemoryTool]]
) -> Client:
    """Start the work on an engine's sessions, and return their client. Both end with the stack."""
    supervisor = Supervisor(engine, owner=owner_name(), lease_seconds=tuning.lease_seconds)
    stack.push_async_callback(supervisor.stop, grace_seconds=tuning.grace_seconds)
    client = Client(engine, supervisor)
    for agent_tool in tools[0]:
        agent_tool.bind(client)
    for memory_tool in tools[1]:
        memory_tool.bind(engine)
    if tuning.adopts:
        await supervisor.start()
    stack.push_async_callback(client.close_interfaces)
    return client


def _tuned(tuning: Tuning) -> dict[str, Any]:
    """Return the fields of an engine that the tuning sets, and those that every process has of its own."""
    return {
        "clock": SystemClock(),
        "live": Live(),
        "bounds": tuning.bounds,
        "deadlines": tuning.deadlines,
        "summary_deadlines": tuning.summary_deadlines,
        "sealing": tuning.sealing,
        "retention_days": None if tuning.retention_days is None else check_days(tuning.retention_days),
        "observe": tuning.observe,
    }


async def _open_mcp(servers: Sequence[MCPServer], stack: AsyncExitStack) -> Sequence[Tool]:
    """Connect to MCP servers and return their tools. The connections are closed with the stack."""
    if not servers:
        return ()
    from holdfast.runtime.tools.mcp_client import open_servers  # noqa: PLC0415 - needs the extra `mcp`

    return await stack.enter_async_context(open_servers(servers))


def _open_parts(
    store: str | Path | Log | None,
    blobs: str | Path | Blobs | None,
    archive: str | Path | Archive | None,
    tuning: Tuning,
) -> tuple[Log, Blobs, Archive | None]:
    """Open the store with its blobs and its archive."""
    place = made_store_path() if store is None else store
    if not isinstance(place, str | Path):
        kept = None if archive is None else open_archive(archive, MEMORY)
        return *combine(place, blobs, kept), kept
    if blobs is not None:
        raise UsageError("`blobs` goes with a store object; a store that is opened by its path has its own")
    kept = open_archive(archive, place)
    if tuning.migrates or str(place) == MEMORY:
        return *open_store(place, tuning.bounds, kept), kept
    return *look_at_store(place, tuning.bounds), kept


class ModelList:
    """The models of a process in order of preference, opened on first use."""

    def __init__(
        self,
        model: AnyModel | Sequence[AnyModel],
        base_url: str | None,
        overrides: "Overrides | None" = None,
        *,
        settings: Settings = NO_SETTINGS,
    ) -> None:
        self._base_url = base_url
        self._overrides = overrides
        self._settings = checked_settings(settings)
        self._opened: dict[str, ModelPort] = {}
        # Models that were given with an endpoint, a key or settings of their own.
        self._given: dict[str, Model] = {}
        wanted = [model] if isinstance(model, str) or not isinstance(model, Sequence) else list(model)
        if not wanted:
            raise UsageError('no model given; pass one, such as model="sim" or model="openai:gpt-5"')
        self._default = [self._open(reference) for reference in wanted]

    def models(self, preferred: str | Model | None) -> Sequence[ModelPort]:
        """Return the models to try: the session's own choice first, then the defaults."""
        if preferred is None:
            return self._default
        chosen = self._open(preferred)
        return [chosen, *(model for model in self._default if model is not chosen)]

    def settings(self, model: ModelPort) -> Settings:
        """Return the settings of a model: its own above those of the client."""
        given = self._given.get(model.name)
        return self._settings if given is None else merged(self._settings, given.settings)

    def _open(self, reference: AnyModel) -> ModelPort:
        if isinstance(reference, Model):
            if self._given.setdefault(reference.name, reference) is not reference:
                raise UsageError(f"two models are named {reference.name!r}; give one of them another: Model(…, name=…)")
        elif not isinstance(reference, str):
            return self._opened.setdefault(reference.name, reference)
        name = reference if isinstance(reference, str) else reference.name
        if name not in self._opened:
            from holdfast.models.catalogue import open_model  # noqa: PLC0415 - loaded on use

            overrides = model_overrides() if self._overrides is None else self._overrides
            self._opened[name] = open_model(reference, base_url=self._base_url, environ=os.environ, overrides=overrides)
        return self._opened[name]

    async def close(self) -> None:
        """Close all connections."""
        for model in self._opened.values():
            await model.close()


# Longer than any call may take (`deadlines`), so replaced models are closed when nothing uses them.
_RETIRED_SECONDS = 7_200.0


class LiveModels:
    """The models of a gateway, which a reload replaces. Calls in flight keep theirs."""

    def __init__(self, models: ModelList) -> None:
        self._current = models
        self._retired: list[tuple[float, ModelList]] = []

    def models(self, preferred: str | Model | None) -> Sequence[ModelPort]:
        """Return the models to try: the session's own choice first, then the defaults."""
        return self._current.models(preferred)

    def settings(self, model: ModelPort) -> Settings:
        """Return the settings of a model."""
        return self._current.settings(model)

    async def replace(self, models: ModelList) -> None:
        """Use other models from now on."""
        self._retired.append((monotonic(), self._current))
        self._current = models
        over = [retired for since, retired in self._retired if monotonic() - since > _RETIRED_SECONDS]
        self._retired = self._retired[len(over) :]
        for retired in over:
            await retired.close()

    async def close(self) -> None:
        """Close all connections."""
        for models in (self._current, *(retired for _, retired in self._retired)):
            await models.close()


def owner_name() -> str:
    """Return a lease owner name: host, process id, and a random part that separates clients of one process."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"


def ask(
    text: str,
    *,
    session: str = "default",
    attachments: Sequence[Attachment | Path | str] = (),
    store: str | Path | None = None,
    model: AnyModel | Sequence[AnyModel] = "sim",
    tools: Sequence[Tool | Callable[..., object]] = (),
) -> Answer:
    """Send one message and return its answer, synchronously: for scripts and notebooks.

        print(holdfast.ask("What did we decide?", session="planning"))

    The session is stored: the next call continues it.
    """

    async def send() -> Answer:
        async with open(store, model=model, tools=tools, tuning=Tuning(adopts=False)) as client:
            return await (await client.session(session)).send(text, attachments=attachments)

    return _run_apart(send)


_Result = TypeVar("_Result")


def _run_apart(work: Callable[[], Coroutine[Any, Any, _Result]]) -> _Result:
    """Run a coroutine in a thread of its own, so that it works inside a running event loop, as in a notebook."""
    results: list[_Result] = []
    failures: list[BaseException] = []

    def run() -> None:
        try:
            results.append(asyncio.run(work()))
        except BaseException as error:  # noqa: BLE001 - re-raised in the calling thread
            failures.append(error)

    thread = threading.Thread(target=run, name="holdfast.ask")
    thread.start()
    thread.join()
    if failures:
        raise failures[0]
    return results[0]
