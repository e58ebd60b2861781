"""Options that several commands share: the store, the models, and the session of a transcript."""

import difflib
import logging
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from holdfast.cli.completion import model_names, session_keys
from holdfast.cli.configuration import config_option, default_place, settings
from holdfast.core.compaction.facts import Passage
from holdfast.core.limits.bounds import Bounds
from holdfast.errors import BlobMissingError, StorePathError, UsageError
from holdfast.models.catalogue import open_model
from holdfast.models.fake import Simulation
from holdfast.ports import Model, SessionInfo, Store
from holdfast.rescue.neutral import NeutralMessage, read_neutral
from holdfast.runtime.sessions.admission import admit_parts, check_session_key
from holdfast.types.messages import BlobRef
from holdfast.wiring import Place, is_server, look_at_store, model_overrides, open_store


class _PlaceType(click.ParamType[Place]):
    """A path, or the URL of a database. The URL stays a string: `Path` would drop one of its slashes."""

    name = "place"

    def convert(self, value: Place, param: click.Parameter | None, ctx: click.Context | None) -> Place:
        """Return a URL unchanged and anything else as a path."""
        del param, ctx
        return value if is_server(value) else Path(value)


_CommandT = TypeVar("_CommandT", bound=Callable[..., Any])

_store_option = click.option(
    "--store",
    type=_PlaceType(),
    metavar="PATH",
    help="Database file or postgresql:// URL. Default: HOLDFAST_STORE, `store` of the configuration file, else a file "
    "in your data folder.",
)


def store_option(command: _CommandT) -> _CommandT:
    """Add the options that choose the store: --store and --config."""
    return _store_option(config_option(command))


key_argument = click.argument("key", shell_complete=session_keys)

# Keys that are compared with a mistyped one, and keys per request to the store.
_KEYS_MAX = 10_000
_PAGE_SESSIONS = 1_000


def store_to_write(given: Place | None) -> Place:
    """Return the store to write to. Creates the user's data folder if needed, and no other folder."""
    if given is not None:
        return given
    path = default_place()
    if isinstance(path, Path) and not settings().store:
        try:
            # Conversations are private.
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise StorePathError(
                f"cannot create the folder {path.parent} ({error.strerror}); name a file with --store or HOLDFAST_STORE"
            ) from error
    return path


def store_to_read(given: Place | None) -> Place:
    """Return the store to read. Raises `UsageError` if it does not exist."""
    # The settings are read in any case: they name the archive of a given store too.
    usual = default_place()
    path = usual if given is None else given
    if isinstance(path, Path) and not path.exists():
        raise UsageError(f"there is no store at {path}; `holdfast chat` creates one, or name another with --store")
    return path


def require_file(place: Place, command: str) -> Path:
    """Return the path of a SQLite store. Raises `UsageError` for a store on a server."""
    if isinstance(place, Path):
        return place
    raise UsageError(
        f"`holdfast {command}` works on SQLite stores; for PostgreSQL use its own tools: "
        "pg_dump, pg_restore and pg_amcheck"
    )


@asynccontextmanager
async def open_to_read(given: Place | None) -> AsyncGenerator[Store, None]:
    """Open an existing store for reading."""
    store, _ = look_at_store(store_to_read(given), Bounds())
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def open_to_write(given: Place | None) -> AsyncGenerator[Store, None]:
    """Open an existing store for writing. An older layout is migrated."""
    store, _ = open_store(store_to_read(given), Bounds())
    try:
        yield store
    finally:
        await store.close()


async def require_session(store: Store, key: str) -> SessionInfo:
    """Return the session's info. Raises `UsageError`, with the nearest key, if the session does not exist."""
    check_session_key(key)
    found = await store.info(key)
    if found is not None:
        return found
    near = difflib.get_close_matches(key, await _keys(store), n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise UsageError(f"there is no session {key!r}; {hint}`holdfast sessions` lists all")


async def _keys(store: Store) -> list[str]:
    keys: list[str] = []
    while len(keys) < _KEYS_MAX:
        page = await store.sessions(after=keys[-1] if keys else "", limit=_PAGE_SESSIONS)
        keys += [known.key for known in page]
        if len(page) < _PAGE_SESSIONS:
            break
    return keys


def configure_logging() -> None:
    """Log to standard error at the level in HOLDFAST_LOG, such as "info"; without it, log nothing.

    Commands print what users need; log lines in the middle of an answer would confuse.
    """
    log = logging.getLogger("holdfast")
    level = os.environ.get("HOLDFAST_LOG", "").strip().upper()
    if not level:
        log.addHandler(logging.NullHandler())
        return
    if level not in logging.getLevelNamesMapping():
        raise UsageError(f"HOLDFAST_LOG is {level!r}; use debug, info, warning or error")
    shown = "%(asctime)s %(levelname)s %(name)s: %(message)s"
    logging.basicConfig(level=logging.WARNING, format=shown, datefmt="%Y-%m-%dT%H:%M:%S%z")
    log.setLevel(level)


async def check_message(text: str, attachments: Sequence[Path]) -> None:
    """Validate a message before a store is created. Raises `BadInputError`."""
    await admit_parts(text, attachments, blobs=_NoBlobs(), bounds=Bounds())


class _NoBlobs:
    """Blob store that discards everything."""

    async def put(self, chunks: AsyncIterator[bytes] | bytes) -> BlobRef:
        """Discard the bytes."""
        return BlobRef("", len(chunks) if isinstance(chunks, bytes) else 0)

    async def get(self, ref: BlobRef) -> bytes:
        """Raise `BlobMissingError`."""
        raise BlobMissingError(ref.sha256, "was never stored")

    async def remove(self, ref: BlobRef) -> bool:  # noqa: ARG002 - the port's signature
        """Return False: there is nothing to remove."""
        return False

    async def read(self, ref: BlobRef, *, start: int, length: int) -> bytes:  # noqa: ARG002 - the port's signature
        """Raise `BlobMissingError`."""
        raise BlobMissingError(ref.sha256, "was never stored")


# --- Models ---


model_option = click.option(
    "--model",
    "-m",
    "models",
    multiple=True,
    metavar="REF",
    shell_complete=model_names,
    help='"sim", "openai:NAME", "responses:NAME", "anthropic:NAME" or "gemini:NAME"; repeat it to add fallbacks. '
    "Default: `model` of the settings, else sim.",
)
base_url_option = click.option("--base-url", metavar="URL", help="Base URL of a server with the provider's API.")


def open_models(models: Sequence[str], *, base_url: str | None, faults: str | None = None) -> list[Model]:
    """Open the given models. Connections are made with the first request.

    `faults` is a script for the simulated model; with any other model it is an error.
    """
    references = list(models) or list(settings().model)
    base_url = base_url or settings().base_url or None
    simulation = None
    if faults is not None:
        real = [reference for reference in references if reference.partition(":")[0] != "sim"]
        if real:
            raise UsageError(f"--faults works with the simulated model only, not with {real[0]!r}")
        simulation = Simulation(faults=faults)
    overrides = model_overrides()
    return [
        open_model(reference, base_url=base_url, environ=os.environ, simulation=simulation, overrides=overrides)
        for reference in references
    ]


# --- Sessions of a transcript ---


# Session ids in an error message.
_SESSIONS_SHOWN = 10


def read_session(path: Path, session: str | None) -> list[NeutralMessage]:
    """Return the messages of one session of a file. The id is optional if the file has a single session."""
    found: list[NeutralMessage] = []
    # A dict keeps the order of the file.
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
    """Return the messages as view passages, without system texts, which a view takes from their source."""
    return [Passage(found.seq, found.message) for found in messages if found.message is not None]
