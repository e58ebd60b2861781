"""Puts everything together: the only module that knows all the rooms."""

import asyncio
import os
import secrets
import socket
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import msgspec

from holdfast.core.limits import Bounds, Deadlines
from holdfast.errors import StorePathError, UsageError
from holdfast.ports import Attachment, Blobs, Model, Store, Tool
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.engine import Engine
from holdfast.runtime.learning import Learning
from holdfast.runtime.live import Live
from holdfast.runtime.recall import Recall
from holdfast.runtime.sessions import Answer, Hold
from holdfast.runtime.supervisor import LEASE_SECONDS, Supervisor
from holdfast.runtime.toolbox import Toolbox

# A store that lives as long as the process: for tests and for trying things.
MEMORY = ":memory:"
# How the address of a database server begins.
_SERVERS = ("postgresql://", "postgres://")

# Where a store is: the path of a file, or the URL of a database.
Place: TypeAlias = Path | str


class Tuning(msgspec.Struct, frozen=True):
    """What few people need to change."""

    bounds: Bounds = Bounds()
    deadlines: Deadlines = Deadlines()
    lease_seconds: float = LEASE_SECONDS
    # How long `close` lets running turns end before it leaves them to the next start.
    grace_seconds: float = 5.0
    # Whether to resume, at the start, what other processes left unanswered in this store.
    adopts: bool = True


def is_server(store: Place) -> bool:
    """Whether a store is on a database server, and not a file here."""
    return isinstance(store, str) and store.startswith(_SERVERS)


def default_store_path() -> Place:
    """Return where sessions are kept unless told otherwise: HOLDFAST_STORE, else the user's data folder."""
    if named := os.environ.get("HOLDFAST_STORE"):
        return named if is_server(named) else Path(named).expanduser()
    data_home = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(data_home).expanduser() / "holdfast" / "holdfast.db"


def _default_store() -> Place:
    """Return the default path, with its folder made: nobody has chosen it, so nobody can have made it."""
    path = default_store_path()
    if isinstance(path, str):
        return path
    try:
        # Conversations are private.
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StorePathError(
            f"the folder for sessions, {path.parent}, cannot be made ({error.strerror}); "
            "name another file with HOLDFAST_STORE or as the first argument of open()"
        ) from error
    return path


@asynccontextmanager
async def open(  # noqa: A001 - `holdfast.open()` reads as it should
    store: str | Path | None = None,
    *,
    model: str | Model | Sequence[str | Model] = "sim",
    system: str | Callable[[], str] = "",
    tools: Sequence[Tool | Callable[..., object]] = (),
    base_url: str | None = None,
    tuning: Tuning | None = None,
) -> AsyncGenerator[Hold, None]:
    """Open a store and its sessions.

        async with holdfast.open() as hold:
            chat = await hold.session("telegram:42")
            reply = await chat.send("Hello")

    `store` is the path of a database file, made if it is not there, or the URL of a PostgreSQL database,
    "postgresql://user@host/name", which any number of machines may share; ":memory:" keeps nothing. `model` is "sim"
    (the simulated model, no key needed), "openai:NAME" or "anthropic:NAME", with the key in OPENAI_API_KEY or
    ANTHROPIC_API_KEY; several are tried in order when one fails. `system` is the system text, or a function that is
    asked for it before every request. `tools` are typed Python functions. `base_url` is any server that speaks the
    model's dialect. Whatever a crash left unanswered in the store is resumed at once.
    """
    tuning = tuning or Tuning()
    async with AsyncExitStack() as stack:
        lineup = Lineup(model, base_url)
        stack.push_async_callback(lineup.close)
        records, blobs = open_store(_default_store() if store is None else store, tuning.bounds)
        stack.push_async_callback(records.close)
        engine = Engine(
            store=records,
            blobs=blobs,
            clock=SystemClock(),
            toolbox=Toolbox(tools, blobs=blobs, bounds=tuning.bounds, for_sessions=(Recall(records, blobs),)),
            models=lineup.models,
            system=system if callable(system) else lambda: system,
            learning=Learning(records),
            live=Live(),
            bounds=tuning.bounds,
            deadlines=tuning.deadlines,
        )
        supervisor = Supervisor(engine, owner=_owner(), lease_seconds=tuning.lease_seconds)
        stack.push_async_callback(supervisor.stop, grace_seconds=tuning.grace_seconds)
        if tuning.adopts:
            await supervisor.start()
        yield Hold(engine, supervisor)


def open_store(store: str | Path, bounds: Bounds) -> tuple[Store, Blobs]:
    """Open a store by its path, with the blobs that belong to it."""
    if str(store) == MEMORY:
        from holdfast.stores.memory import MemoryBlobs, MemoryStore  # noqa: PLC0415 - only what is used is loaded

        return MemoryStore(clock=SystemClock(), bounds=bounds), MemoryBlobs()
    if isinstance(store, str) and is_server(store):
        return _open_server(store, bounds)
    from holdfast.stores.blobs import FolderBlobs  # noqa: PLC0415
    from holdfast.stores.sqlite import SqliteStore  # noqa: PLC0415

    path = Path(store)
    # The store first: what is wrong with the path it says best, and then nothing else is made there.
    records = SqliteStore(path, clock=SystemClock(), bounds=bounds)
    return records, FolderBlobs(path.with_name(path.name + "-blobs"))


def _open_server(url: str, bounds: Bounds) -> tuple[Store, Blobs]:
    try:
        from holdfast.stores.postgres import PostgresStore  # noqa: PLC0415 - an extra, and 0.3 s to import
        from holdfast.stores.postgres.blobs import PostgresBlobs  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if error.name != "asyncpg":
            raise
        raise StorePathError(
            "a store on PostgreSQL needs the package asyncpg, which is not installed; "
            "run `pip install 'holdfast[postgres]'`"
        ) from error
    records = PostgresStore(url, bounds=bounds)
    return records, PostgresBlobs(records.connections)


class Lineup:
    """The models of a process, opened when they are first asked for, best first."""

    def __init__(self, model: str | Model | Sequence[str | Model], base_url: str | None) -> None:
        self._base_url = base_url
        self._opened: dict[str, Model] = {}
        wanted = [model] if isinstance(model, str) or not isinstance(model, Sequence) else list(model)
        if not wanted:
            raise UsageError('no model was named; give one, such as model="sim" or model="openai:gpt-5"')
        self._default = [self._open(reference) for reference in wanted]

    def models(self, preferred: str | None) -> Sequence[Model]:
        """Return the models to try: the one a session asked for, then those the process was set up with."""
        if preferred is None:
            return self._default
        chosen = self._open(preferred)
        return [chosen, *(model for model in self._default if model is not chosen)]

    def _open(self, reference: str | Model) -> Model:
        if not isinstance(reference, str):
            return self._opened.setdefault(reference.name, reference)
        if reference not in self._opened:
            from holdfast.models.catalogue import open_model  # noqa: PLC0415 - only what is used is loaded

            self._opened[reference] = open_model(reference, base_url=self._base_url, environ=os.environ)
        return self._opened[reference]

    async def close(self) -> None:
        """Let go of connections."""
        for model in self._opened.values():
            await model.close()


def _owner() -> str:
    """Name this worker so that a person can find it; the last word tells apart two in one process."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"


def ask(
    text: str,
    *,
    session: str = "default",
    attachments: Sequence[Attachment | Path | str] = (),
    store: str | Path | None = None,
    model: str | Model | Sequence[str | Model] = "sim",
    tools: Sequence[Tool | Callable[..., object]] = (),
) -> Answer:
    """Send one message and return its answer, without asyncio: for scripts and notebooks.

        print(holdfast.ask("What did we decide?", session="planning"))

    The session is kept like any other: ask again, and it goes on.
    """

    async def send() -> Answer:
        async with open(store, model=model, tools=tools, tuning=Tuning(adopts=False)) as hold:
            return await (await hold.session(session)).send(text, attachments=attachments)

    return _run_apart(send)


_Result = TypeVar("_Result")


def _run_apart(work: Callable[[], Coroutine[Any, Any, _Result]]) -> _Result:
    """Run a coroutine to its end, also where a loop is already running, as in a notebook."""
    results: list[_Result] = []
    failures: list[BaseException] = []

    def run() -> None:
        try:
            results.append(asyncio.run(work()))
        except BaseException as error:  # noqa: BLE001 - carried over to the calling thread, whatever it is
            failures.append(error)

    thread = threading.Thread(target=run, name="holdfast.ask")
    thread.start()
    thread.join()
    if failures:
        raise failures[0]
    return results[0]
