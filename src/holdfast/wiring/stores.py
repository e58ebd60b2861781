"""Open a store by its path or URL, with its blobs and its archive."""

import os
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlsplit

from holdfast.core.limits.bounds import Bounds
from holdfast.errors import StorePathError, UnsupportedError, UsageError
from holdfast.ports import Archive, Blobs, Log, Store
from holdfast.runtime.clock import SystemClock

# A store in memory, for tests and experiments.
MEMORY = ":memory:"
_SERVER_SCHEMES = ("postgresql://", "postgres://")


# The path of a SQLite file, or the URL of a PostgreSQL database.
Place: TypeAlias = Path | str


def is_server(store: Place) -> bool:
    """Return whether a store is the URL of a database server."""
    return isinstance(store, str) and store.startswith(_SERVER_SCHEMES)


def shown_place(store: Place) -> str:
    """Return the place of a store for display; a URL without user, password and options."""
    if not is_server(store):
        return str(store)
    address = urlsplit(str(store))
    return f"{address.scheme}://{address.netloc.rpartition('@')[2]}{address.path}"


def default_store_path() -> Place:
    """Return the default store: HOLDFAST_STORE, else a file in the user's data folder."""
    if named := os.environ.get("HOLDFAST_STORE"):
        return named if is_server(named) else Path(named).expanduser()
    data_home = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(data_home).expanduser() / "holdfast" / "holdfast.db"


def made_store_path() -> Place:
    """Return the default store, and create its folder."""
    path = default_store_path()
    if isinstance(path, str):
        return path
    try:
        # Conversations are private.
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StorePathError(
            f"cannot create the folder {path.parent} ({error.strerror}); "
            "name another file with HOLDFAST_STORE or as the first argument of open()"
        ) from error
    return path


def open_store(store: str | Path, bounds: Bounds, archive: Archive | None = None) -> tuple[Store, Blobs]:
    """Open a store and its blobs. Sealed records are read from its archive."""
    from holdfast.stores.archived import ArchivedStore  # noqa: PLC0415 - loaded on use

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
    # The store first: it reports a bad path best, and nothing else is created then.
    records = SqliteStore(path, clock=SystemClock(), bounds=bounds)
    blobs = FolderBlobs(path.with_name(path.name + "-blobs"))
    return records if archive is None else ArchivedStore(records, archive), blobs


def look_at_store(store: str | Path, bounds: Bounds) -> tuple[Store, Blobs]:
    """Open a store for reading. A store of an older layout is opened read-only, without migration or indexing."""
    if is_server(store):
        return open_store(store, bounds)
    from holdfast.stores.sqlite.file import layout_of  # noqa: PLC0415 - loaded on use

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
    """Open the archive of a store: the given one, else HOLDFAST_ARCHIVE, else the folder beside the store.

    Stores in memory have no default archive. Stores on a server have none either: their nodes share no folder.
    """
    if archive is None:
        return _default_archive(store)
    if not isinstance(archive, str | Path):
        return archive
    return _open_named(archive)


def _default_archive(store: str | Path) -> Archive | None:
    if str(store) == MEMORY:
        return None
    if (named := os.environ.get("HOLDFAST_ARCHIVE")) is not None:
        return _open_named(named)
    if is_server(store):
        return None
    from holdfast.stores.archives import FolderArchive  # noqa: PLC0415 - loaded on use

    if not Path(store).name:
        raise StorePathError(f"{store} is a folder; name a file for the store, such as {Path(store) / 'holdfast.db'}")
    return FolderArchive(Path(store).with_name(f"{Path(store).name}-archive"))


def _open_named(archive: str | Path) -> Archive:
    if str(archive).startswith("s3://"):
        return _open_s3(str(archive))
    if not str(archive) or "://" in str(archive):
        raise UsageError(f"the archive {str(archive)!r} is neither a folder nor a URL like s3://BUCKET/PREFIX")
    folder = Path(archive).expanduser()
    if folder.exists() and not folder.is_dir():
        raise StorePathError(f"the archive {folder} is a file; use a folder")
    if not folder.parent.is_dir():
        raise StorePathError(f"cannot create the archive {folder}; create the folder {folder.parent} first")
    from holdfast.stores.archives import FolderArchive  # noqa: PLC0415

    return FolderArchive(folder)


def _open_s3(address: str) -> Archive:
    try:
        from holdfast.stores.s3 import S3Archive  # noqa: PLC0415 - an optional extra
    except ModuleNotFoundError as error:
        raise UsageError(
            f'the archive {address} needs the package obstore; install it with: pip install "holdfast[s3]"'
        ) from error
    return S3Archive(address)


def _open_server(url: str, bounds: Bounds, archive: Archive | None) -> tuple[Store, Blobs]:
    from holdfast.stores.archived import ArchivedStore  # noqa: PLC0415 - loaded on use

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
