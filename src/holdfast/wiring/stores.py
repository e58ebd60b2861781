"""Where sessions are kept: a file, a database server or memory, with the blobs and the archive that belong to it."""

import os
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlsplit

from holdfast.core.limits.bounds import Bounds
from holdfast.errors import StorePathError, UnsupportedError, UsageError
from holdfast.ports import Archive, Blobs, Log, Store
from holdfast.runtime.clock import SystemClock

# A store that lives as long as the process: for tests and for trying things.
MEMORY = ":memory:"
# How the address of a database server begins.
_SERVERS = ("postgresql://", "postgres://")


# Where a store is: the path of a file, or the URL of a database.
Place: TypeAlias = Path | str


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


def made_store_path() -> Place:
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
    from holdfast.stores.sqlite.read_only import SqliteView  # noqa: PLC0415

    path = Path(store)
    records, archive = SqliteView(path), open_archive(None, path)
    blobs = FolderBlobs(path.with_name(path.name + "-blobs"))
    return records if archive is None else ArchivedStore(records, archive), blobs


def combine(store: Log, blobs: str | Path | Blobs | None, archive: Archive | None) -> tuple[Log, Blobs]:
    """Combine a store object with its blobs and its archive. An archive needs a store with all ports."""
    from holdfast.stores.archived import ArchivedStore  # noqa: PLC0415 - only what is used is loaded
    from holdfast.stores.blobs import FolderBlobs  # noqa: PLC0415

    if not isinstance(store, Log):
        raise UsageError(f"{store!r} is not a store: it does not implement holdfast.ports.Log")
    if blobs is None:
        raise UsageError("a store object needs blobs; pass `blobs`, a folder or a holdfast.ports.Blobs")
    kept = FolderBlobs(blobs) if isinstance(blobs, str | Path) else blobs
    if archive is None:
        return store, kept
    if not isinstance(store, Store):
        raise UnsupportedError("use an archive", Store.__name__)
    return ArchivedStore(store, archive), kept


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
