"""Puts everything together: the only module that knows all the rooms."""

import asyncio
import os
import secrets
import socket
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from urllib.parse import urlsplit

import msgspec

from holdfast.core.limits import SUMMARY_DEADLINES, Bounds, Deadlines
from holdfast.core.records import Logged
from holdfast.core.sealing import Sealing
from holdfast.errors import StorePathError, UsageError
from holdfast.ports import Archive, Attachment, Blobs, Model, Store, Tool
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.engine import Engine, unobserved
from holdfast.runtime.hold import Hold
from holdfast.runtime.images import PillowImages
from holdfast.runtime.learning import Learning
from holdfast.runtime.live import Live
from holdfast.runtime.recall import Recall
from holdfast.runtime.sessions import Answer
from holdfast.runtime.supervisor import LEASE_SECONDS, Supervisor
from holdfast.runtime.toolbox import Toolbox

if TYPE_CHECKING:
    from holdfast.config.schema import Settings
    from holdfast.gateway.dropin.app import DropIn
    from holdfast.models.overrides import Overrides

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
    # When old records move into the archive; None: never.
    sealing: Sealing | None = Sealing()
    # For a call that asks for a summary: a person may wait behind it, and the next rung needs no model.
    summary_deadlines: Deadlines = SUMMARY_DEADLINES
    lease_seconds: float = LEASE_SECONDS
    # How long `close` lets running turns end before it leaves them to the next start.
    grace_seconds: float = 5.0
    # Whether to resume, at the start, what other processes left unanswered in this store.
    adopts: bool = True
    # Told of every work record that this process has written: for counters and traces. It must not fail.
    observe: Callable[[str, Logged], None] = unobserved
    # Whether a store of an older layout is brought to the newest; otherwise it is only looked at, and nothing is sent.
    migrates: bool = True


def is_server(store: Place) -> bool:
    """Whether a store is on a database server, and not a file here."""
    return isinstance(store, str) and store.startswith(_SERVERS)


def shown_place(store: Place) -> str:
    """Say where a store is; of a server, without whoever asks it and how: that may hold a password."""
    if not is_server(store):
        return str(store)
    address = urlsplit(str(store))
    return f"{address.scheme}://{address.netloc.rpartition('@')[2]}{address.path}"


def default_store_path() -> Place:
    """Return where sessions are kept unless told otherwise: HOLDFAST_STORE, else the user's data folder."""
    if named := os.environ.get("HOLDFAST_STORE"):
        return named if is_server(named) else Path(named).expanduser()
    data_home = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(data_home).expanduser() / "holdfast" / "holdfast.db"


def model_overrides() -> "Overrides":
    """Read what the user says models accept: the file in HOLDFAST_MODELS, else models.toml in the config folder.

    Raises `UsageError` where the file is wrong, or where one was named that is not there.
    """
    from holdfast.models.overrides import NO_OVERRIDES, load_overrides  # noqa: PLC0415 - only what is used is loaded

    if named := os.environ.get("HOLDFAST_MODELS"):
        return load_overrides(Path(named).expanduser())
    config_home = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    path = Path(config_home).expanduser() / "holdfast" / "models.toml"
    return load_overrides(path) if path.exists() else NO_OVERRIDES


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
async def open(  # noqa: A001, PLR0913 - `holdfast.open()` reads as it should; each part can be named, none has to be
    store: str | Path | None = None,
    *,
    model: str | Model | Sequence[str | Model] = "sim",
    system: str | Callable[[], str] = "",
    tools: Sequence[Tool | Callable[..., object]] = (),
    base_url: str | None = None,
    archive: str | Path | Archive | None = None,
    tuning: Tuning | None = None,
) -> AsyncGenerator[Hold, None]:
    """Open a store and its sessions.

        async with holdfast.open() as hold:
            chat = await hold.session("telegram:42")
            reply = await chat.send("Hello")

    `store` is the path of a database file, made if it is not there, or the URL of a PostgreSQL database,
    "postgresql://user@host/name", which any number of machines may share; ":memory:" keeps nothing. `model` is "sim"
    (the simulated model, no key needed), "openai:NAME", "responses:NAME" (OpenAI's other dialect), "anthropic:NAME" or
    "gemini:NAME", with the key in OPENAI_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY; several are tried in order when
    one fails. `system` is the system text, or a function that is asked for it before every request. `tools` are typed
    Python functions. `base_url` is any server that speaks the model's dialect. `archive` is where old records go: a
    folder, or "s3://BUCKET/PREFIX" with the usual AWS_ variables; otherwise HOLDFAST_ARCHIVE, else a folder beside the
    store; a store on a server has none beside it. Give the same one every time, on every machine: what was sealed is
    only there. Whatever a crash left unanswered in the store is resumed at once.
    """
    tuning = tuning or Tuning()
    async with AsyncExitStack() as stack:
        lineup = Lineup(model, base_url)
        stack.push_async_callback(lineup.close)
        place = _default_store() if store is None else store
        kept = open_archive(archive, place)
        if tuning.migrates or str(place) == MEMORY:
            records, blobs = open_store(place, tuning.bounds, kept)
        else:
            records, blobs = look_at_store(place, tuning.bounds)
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
            archive=kept,
            sealing=tuning.sealing,
            summary_deadlines=tuning.summary_deadlines,
            images=PillowImages(blobs),
            observe=tuning.observe,
        )
        supervisor = Supervisor(engine, owner=_owner(), lease_seconds=tuning.lease_seconds)
        stack.push_async_callback(supervisor.stop, grace_seconds=tuning.grace_seconds)
        if tuning.adopts:
            await supervisor.start()
        yield Hold(engine, supervisor)


def open_store(store: str | Path, bounds: Bounds, archive: Archive | None = None) -> tuple[Store, Blobs]:
    """Open a store by its path, with the blobs that belong to it. Sealed records are read from its archive."""
    from holdfast.stores.archived import ArchivedStore  # noqa: PLC0415 - only what is used is loaded

    if str(store) == MEMORY:
        from holdfast.stores.memory import MemoryBlobs, MemoryStore  # noqa: PLC0415

        in_memory = MemoryStore(clock=SystemClock(), bounds=bounds)
        return in_memory if archive is None else ArchivedStore(in_memory, archive), MemoryBlobs()
    if isinstance(store, str) and is_server(store):
        return _open_server(store, bounds, archive or open_archive(None, store))
    from holdfast.stores.blobs import FolderBlobs  # noqa: PLC0415
    from holdfast.stores.sqlite import SqliteStore  # noqa: PLC0415

    path = Path(store)
    archive = archive or open_archive(None, path)
    # The store first: what is wrong with the path it says best, and then nothing else is made there.
    records = SqliteStore(path, clock=SystemClock(), bounds=bounds)
    blobs = FolderBlobs(path.with_name(path.name + "-blobs"))
    return records if archive is None else ArchivedStore(records, archive), blobs


def look_at_store(store: str | Path, bounds: Bounds) -> tuple[Store, Blobs]:
    """Open a store to read from it. One of an older layout stays as it is; of such a one nothing is indexed either."""
    if is_server(store):
        return open_store(store, bounds)
    from holdfast.stores.sqlite.file import layout_of  # noqa: PLC0415 - only what is used is loaded

    found, newest = layout_of(Path(store))
    if found >= newest or found == 0:
        return open_store(store, bounds)
    from holdfast.stores.archived import ArchivedStore  # noqa: PLC0415
    from holdfast.stores.blobs import FolderBlobs  # noqa: PLC0415
    from holdfast.stores.sqlite.looking import SqliteView  # noqa: PLC0415

    path = Path(store)
    records, archive = SqliteView(path), open_archive(None, path)
    blobs = FolderBlobs(path.with_name(path.name + "-blobs"))
    return records if archive is None else ArchivedStore(records, archive), blobs


def open_archive(archive: str | Path | Archive | None, store: str | Path) -> Archive | None:
    """Open the archive of a store: the one that is named, else HOLDFAST_ARCHIVE, else the folder beside the store.

    A store in memory has none unless one is named, nor has one on a server: it has no folder that all its nodes share.
    """
    if archive is None:
        if str(store) == MEMORY:
            return None
        archive = os.environ.get("HOLDFAST_ARCHIVE")
        if archive is None and is_server(store):
            return None
        if archive is None:
            from holdfast.stores.archives import FolderArchive  # noqa: PLC0415 - only what is used is loaded

            return FolderArchive(Path(store).with_name(f"{Path(store).name}-archive"))
    if not isinstance(archive, str | Path):
        return archive
    if str(archive).startswith("s3://"):
        return _open_s3(str(archive))
    if not str(archive) or "://" in str(archive):
        raise UsageError(f"the archive {str(archive)!r} is neither a folder nor an address like s3://BUCKET/PREFIX")
    folder = Path(archive).expanduser()
    if folder.exists() and not folder.is_dir():
        raise StorePathError(f"the archive {folder} is a file; name a folder")
    if not folder.parent.is_dir():
        raise StorePathError(f"the archive {folder} cannot be made: create the folder {folder.parent}, or name another")
    from holdfast.stores.archives import FolderArchive  # noqa: PLC0415

    return FolderArchive(folder)


def _open_s3(address: str) -> Archive:
    try:
        from holdfast.stores.s3 import S3Archive  # noqa: PLC0415 - an extra, and only where it is used
    except ModuleNotFoundError as error:
        raise UsageError(
            f'the archive {address} needs the package obstore; install it with: pip install "holdfast[s3]"'
        ) from error
    return S3Archive(address)


def _open_server(url: str, bounds: Bounds, archive: Archive | None) -> tuple[Store, Blobs]:
    from holdfast.stores.archived import ArchivedStore  # noqa: PLC0415 - only what is used is loaded

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
    blobs = PostgresBlobs(records.connections)
    return records if archive is None else ArchivedStore(records, archive), blobs


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

            self._opened[reference] = open_model(
                reference, base_url=self._base_url, environ=os.environ, overrides=model_overrides()
            )
        return self._opened[reference]

    async def close(self) -> None:
        """Let go of connections."""
        for model in self._opened.values():
            await model.close()


def keys_path(settings: "Settings") -> Path | None:
    """Return where the gateway's keys are kept: where the settings say, else beside the store. None: nowhere."""
    if settings.gateway.keys_file:
        return Path(settings.gateway.keys_file).expanduser()
    place = settings.store or _default_store()
    if place == MEMORY or is_server(place):
        return None
    store = Path(place).expanduser()
    return store.with_name(store.name + "-keys")


@asynccontextmanager
async def open_gateway(settings: "Settings") -> AsyncGenerator[str, None]:
    """Open a store as the settings say, serve its sessions over HTTP, and give the base URL.

    Raises `UsageError` before anything is opened where anybody could reach a gateway that has no keys.
    """
    # Only what is used is loaded: a server and its counters are a quarter of a second.
    from holdfast.gateway.app import Gateway, Mounted, is_loopback  # noqa: PLC0415
    from holdfast.gateway.events import Streams  # noqa: PLC0415
    from holdfast.gateway.keys import KeyFile  # noqa: PLC0415
    from holdfast.gateway.meters import Meters  # noqa: PLC0415
    from holdfast.gateway.server import serve_gateway  # noqa: PLC0415
    from holdfast.gateway.shared import Shared  # noqa: PLC0415
    from holdfast.gateway.uploads import Uploads  # noqa: PLC0415

    host, path = settings.gateway.host, keys_path(settings)
    keys = KeyFile(path) if path is not None else None
    has_keys = keys is not None and bool(keys.all())
    if not has_keys and not is_loopback(host):
        raise UsageError(
            f"{host} can be reached from elsewhere, and there are no keys, so anybody could use this gateway; "
            "make one with `holdfast keys add NAME`, or listen on 127.0.0.1"
        )
    meters = Meters()
    observers: list[Callable[[str, Logged], None]] = [meters.observe]
    if settings.observing.traces:
        observers.append(_traces())
    tuning = Tuning(
        bounds=settings.bounds,
        deadlines=settings.deadlines,
        lease_seconds=settings.engine.lease_seconds,
        grace_seconds=settings.engine.grace_seconds,
        observe=_each(observers),
    )
    async with open(
        settings.store or None,
        model=settings.model,
        system=settings.system,
        base_url=settings.base_url or None,
        tuning=tuning,
    ) as hold:
        bounds = settings.gateway_bounds
        uploads = Uploads(bounds, SystemClock())
        shared = Shared(hold, bounds, settings.model, keys, Streams(bounds), uploads)
        dropin = _dropin(settings, hold)
        gateway = Gateway(
            shared,
            meters=meters,
            operator=settings.gateway.operator,
            needs_keys=has_keys,
            mounts={"v1": Mounted(dropin)},
        )
        try:
            async with serve_gateway(gateway, host, settings.gateway.port) as url:
                yield url
        finally:
            await dropin.close()
            uploads.close()


def _dropin(settings: "Settings", hold: Hold) -> "DropIn":
    """Return the drop-in endpoints, with the upstreams that the settings name."""
    from holdfast.gateway.dropin.app import DropIn  # noqa: PLC0415 - only what is used is loaded
    from holdfast.gateway.dropin.upstream import open_upstream  # noqa: PLC0415

    told, environ = settings.upstream, os.environ
    openai = open_upstream("openai", told.openai_base_url, told.openai_key_variable, told.openai_fallbacks, environ)
    anthropic = open_upstream(
        "anthropic", told.anthropic_base_url, told.anthropic_key_variable, told.anthropic_fallbacks, environ
    )
    return DropIn(
        hold.engine,
        {one.family: one for one in (openai, anthropic) if one is not None},
        bounds=settings.gateway_bounds,
        overrides=model_overrides(),
        owner=_owner(),
    )


def _each(observers: Sequence[Callable[[str, Logged], None]]) -> Callable[[str, Logged], None]:
    def observe(session: str, logged: Logged) -> None:
        for one in observers:
            one(session, logged)

    return observe


def _traces() -> Callable[[str, Logged], None]:
    try:
        from holdfast.gateway.traces import Traces  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise UsageError(
            "observing.traces needs the extra `traces`; install it with `pip install 'holdfast[traces]'`"
        ) from error
    return Traces().observe


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
