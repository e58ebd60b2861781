"""Opening a store from the command line: where it is, without making one where something is only to be read."""

import difflib
import logging
import os
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import click

from holdfast.cli.completion import model_names, session_keys
from holdfast.core.compaction.facts import Passage
from holdfast.core.limits.bounds import Bounds
from holdfast.errors import BlobMissingError, StorePathError, UsageError
from holdfast.models.catalogue import open_model
from holdfast.models.fake import Simulation
from holdfast.ports import Model, SessionInfo, Store
from holdfast.rescue.neutral import NeutralMessage, read_neutral
from holdfast.runtime.sessions.admission import admit_parts, check_session_key
from holdfast.types.messages import BlobRef
from holdfast.wiring import Place, default_store_path, is_server, look_at_store, model_overrides, open_store


class _PlaceType(click.ParamType[Place]):
    """A path, or the URL of a database as it was typed: a path would lose one of its slashes."""

    name = "place"

    def convert(self, value: Place, param: click.Parameter | None, ctx: click.Context | None) -> Place:
        """Return the place that was named."""
        del param, ctx
        return value if is_server(value) else Path(value)


store_option = click.option(
    "--store",
    type=_PlaceType(),
    metavar="PATH",
    help="The database file with the sessions, or the postgresql:// URL of a database; otherwise HOLDFAST_STORE, "
    "else a file in your data folder.",
)

key_argument = click.argument("key", shell_complete=session_keys)

# Keys that are looked through for one like the one that was mistyped; a page is what a store hands out at once.
_KEYS_MAX = 10_000
_PAGE_SESSIONS = 1_000


def store_to_write(given: Place | None) -> Place:
    """Return where sessions are kept. The user's own data folder is made where it is not there; no other is."""
    if given is not None:
        return given
    path = default_store_path()
    if isinstance(path, Path) and not os.environ.get("HOLDFAST_STORE"):
        try:
            # Conversations are private.
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise StorePathError(
                f"the folder {path.parent} cannot be made ({error.strerror}); "
                "name a file with --store or HOLDFAST_STORE"
            ) from error
    return path


def store_to_read(given: Place | None) -> Place:
    """Return where sessions are kept. Raises `UsageError` where there is nothing."""
    path = default_store_path() if given is None else given
    if isinstance(path, Path) and not path.exists():
        raise UsageError(f"there is no store at {path}; `holdfast chat` makes one, or name another with --store")
    return path


def file_of(place: Place, command: str) -> Path:
    """Return the path of a store that is a file. Raises `UsageError`, with what to do instead, for one on a server."""
    if isinstance(place, Path):
        return place
    raise UsageError(
        f"`holdfast {command}` is for a store that is a file; for one on a server use what comes with the server, "
        "as pg_dump, pg_restore and pg_amcheck"
    )


@asynccontextmanager
async def reading(given: Place | None) -> AsyncGenerator[Store, None]:
    """Open a store that exists, to look at its logs."""
    store, _ = look_at_store(store_to_read(given), Bounds())
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def writing(given: Place | None) -> AsyncGenerator[Store, None]:
    """Open a store that exists, to write to its logs. One of an older layout is brought to the newest."""
    store, _ = open_store(store_to_read(given), Bounds())
    try:
        yield store
    finally:
        await store.close()


async def known_session(store: Store, key: str) -> SessionInfo:
    """Return what is known of a session. Raises `UsageError`, with the nearest key, where there is none."""
    check_session_key(key)
    found = await store.info(key)
    if found is not None:
        return found
    near = difflib.get_close_matches(key, await _keys(store), n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise UsageError(f"there is no session {key!r}; {hint}`holdfast sessions` lists those there are")


async def _keys(store: Store) -> list[str]:
    keys: list[str] = []
    while len(keys) < _KEYS_MAX:
        page = await store.sessions(after=keys[-1] if keys else "", limit=_PAGE_SESSIONS)
        keys += [known.key for known in page]
        if len(page) < _PAGE_SESSIONS:
            break
    return keys


def send_logs() -> None:
    """Send the engine's log where HOLDFAST_LOG says, a level such as "info"; otherwise nowhere.

    What a person must know comes as a sentence; a log line in the middle of an answer would only confuse.
    """
    log = logging.getLogger("holdfast")
    level = os.environ.get("HOLDFAST_LOG", "").strip().upper()
    if not level:
        log.addHandler(logging.NullHandler())
        return
    if level not in logging.getLevelNamesMapping():
        raise UsageError(f"HOLDFAST_LOG is {level!r}; it takes a level: debug, info, warning or error")
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    log.setLevel(level)


async def check_message(text: str, attachments: Sequence[Path]) -> None:
    """Raise `BadInputError` where a message cannot be taken, before there is a store that could take it."""
    await admit_parts(text, attachments, blobs=_NoBlobs(), bounds=Bounds())


class _NoBlobs:
    """Blobs that keep nothing."""

    async def put(self, chunks: AsyncIterator[bytes] | bytes) -> BlobRef:
        """Name what was not kept."""
        return BlobRef("", len(chunks) if isinstance(chunks, bytes) else 0)

    async def get(self, ref: BlobRef) -> bytes:
        """Have nothing."""
        raise BlobMissingError(ref.sha256, "was never kept")

    async def remove(self, ref: BlobRef) -> bool:  # noqa: ARG002 - the port's signature
        """Have nothing to forget."""
        return False

    async def read(self, ref: BlobRef, *, start: int, length: int) -> bytes:  # noqa: ARG002 - the port's signature
        """Have nothing."""
        raise BlobMissingError(ref.sha256, "was never kept")


# --- Which models a command was told to use.


DEFAULT_MODEL = "sim"

model_option = click.option(
    "--model",
    "models",
    multiple=True,
    metavar="REF",
    shell_complete=model_names,
    help='"sim", "openai:NAME", "responses:NAME", "anthropic:NAME" or "gemini:NAME"; several are tried in order. '
    "Otherwise HOLDFAST_MODEL, else sim.",
)
base_url_option = click.option("--base-url", metavar="URL", help="A server that speaks the model's dialect.")


def open_models(models: Sequence[str], *, base_url: str | None, faults: str | None = None) -> list[Model]:
    """Open the models that were named. Nothing is connected before the first request.

    `faults` is the script of the simulated model; it is refused where another model is named.
    """
    references = list(models) or [os.environ.get("HOLDFAST_MODEL", "").strip() or DEFAULT_MODEL]
    simulation = None
    if faults is not None:
        real = [reference for reference in references if reference.partition(":")[0] != "sim"]
        if real:
            raise UsageError(f"--faults is a script for the simulated model; {real[0]!r} cannot be told how to fail")
        simulation = Simulation(faults=faults)
    overrides = model_overrides()
    return [
        open_model(reference, base_url=base_url, environ=os.environ, simulation=simulation, overrides=overrides)
        for reference in references
    ]


# --- Which session of a transcript a command is about, and what to say where that is not clear.


# Enough ids to recognise the one that was meant.
_SESSIONS_SHOWN = 10


def read_session(path: Path, session: str | None) -> list[NeutralMessage]:
    """Return the messages of one session of a file. A file of a single session needs no id."""
    found: list[NeutralMessage] = []
    # In the order of the file, and only as many as are shown.
    sessions: dict[str, None] = {}
    for message in read_neutral(path):
        sessions.setdefault(message.session_id)
        if session is None and len(sessions) > _SESSIONS_SHOWN:
            break
        if session in (None, message.session_id):
            found.append(message)
    if not found:
        missing = "no messages" if session is None else f"no session {session!r}"
        raise UsageError(f"{path} has {missing}{_shown(sessions)}")
    if session is None and len(sessions) > 1:
        raise UsageError(f"{path} has several sessions: name one with --session{_shown(sessions)}")
    return found


def _shown(sessions: dict[str, None]) -> str:
    if not sessions:
        return ""
    ids = list(sessions)
    more = ", ..." if len(ids) > _SESSIONS_SHOWN else ""
    return f"; it has {', '.join(ids[:_SESSIONS_SHOWN])}{more}"


def passages_of(messages: list[NeutralMessage]) -> list[Passage]:
    """Return what a view would hold of some messages: all but the system texts, which are re-read from their source."""
    return [Passage(found.seq, found.message) for found in messages if found.message is not None]
