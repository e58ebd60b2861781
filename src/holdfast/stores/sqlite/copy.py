"""Online backup of a SQLite store with its blobs and its archive.

The copy is a complete store that can be opened and restored. Blobs are immutable, so they are hard-linked if possible.
A blob is stored before it is referenced, so blobs are copied after the file.
"""

import os
import shutil
from pathlib import Path
from uuid import uuid4

import apsw

from holdfast.errors import StorePathError
from holdfast.ports.model import Progress, ignore
from holdfast.stores.folder import sync_folder
from holdfast.stores.sqlite.file import connect, copy_pages, translate_error

# Suffixes of the folders that belong to a store.
BESIDE = ("-blobs", "-archive")


def copy_store(source: Path, target: Path, progress: Progress = ignore) -> int:
    """Copy a store, its blobs and its archive to a new path, and return the number of blobs and segments."""
    for suffix in ("", *BESIDE):
        check_free(beside(target, suffix))
    try:
        db = connect(source, is_reader=True)
        try:
            copy_pages(db, target, progress)
        finally:
            db.close()
        folders = [(beside(source, suffix), beside(target, suffix)) for suffix in BESIDE]
        return sum(copy_folder(ours, theirs, progress) for ours, theirs in folders if ours.is_dir())
    except apsw.Error as error:
        raise translate_error(source, error) from error
    except OSError as error:
        raise translate_error(target, error) from error


def beside(path: Path, suffix: str) -> Path:
    """Return the path with a suffix."""
    return path.with_name(path.name + suffix)


def copy_folder(source: Path, target: Path, progress: Progress = ignore) -> int:
    """Copy a folder of blobs or segments, by hard links if possible, and return the number of files.

    Existing files stay: a file name determines its content.
    """
    files = [path for path in sorted(source.rglob("*")) if path.is_file() and "incoming" not in path.parts]
    for done, path in enumerate(files, start=1):
        place = target / path.relative_to(source)
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not place.exists():
            _link(path, place)
        progress(f"copying {source.name}", done, len(files))
    for folder in {target, *(target / path.relative_to(source).parent for path in files)}:
        if folder.is_dir():
            sync_folder(folder)
    return len(files)


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:
        # Another file system, or one without hard links.
        incoming = target.with_name(f"{target.name}.{uuid4().hex}.incoming")
        shutil.copyfile(source, incoming)
        with incoming.open("rb") as file:
            os.fsync(file.fileno())
        incoming.replace(target)


def check_free(path: Path) -> None:
    """Reject a path that exists."""
    if path.exists():
        raise StorePathError(f"{path} already exists; choose a new path")
    if not path.parent.is_dir():
        raise StorePathError(f"the folder {path.parent} does not exist; create it or choose another path")
