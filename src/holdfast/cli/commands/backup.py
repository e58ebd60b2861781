"""`holdfast backup` and `holdfast restore`: copy a whole SQLite store, also while it is in use."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import click
import msgspec

from holdfast.cli.options import configure_logging, require_file, store_option, store_to_read, store_to_write
from holdfast.cli.output import json_option, progress_bar
from holdfast.errors import StoreBusyError, StoreIoError, UsageError
from holdfast.stores.sqlite.copy import BESIDE, beside, copy_store
from holdfast.stores.sqlite.inspect import segment_names
from holdfast.stores.sqlite.process_lock import live_instances
from holdfast.wiring import Place
from holdfast.wiring.doctor import check_store


class BackedUp(msgspec.Struct, frozen=True):
    """JSON output of `backup`; `files` counts the blobs and segments beside the copy."""

    store: str
    backup: str
    files: int


class Restored(msgspec.Struct, frozen=True):
    """JSON output of `restore`; `moved` is the new path of the store that was replaced."""

    backup: str
    store: str
    files: int
    sessions: int
    moved: str | None


@click.command()
@click.argument("dest", type=click.Path(path_type=Path))
@store_option
@click.option("--without-archive", is_flag=True, help="Skip segments that are in another archive, such as S3.")
@json_option
def backup(dest: Path, store: Place | None, *, without_archive: bool, as_json: bool) -> None:
    """Copy the store to DEST, a new path, with its blobs and its archive folder.

    The store may be in use meanwhile. The copy is consistent and is a store itself: `--store DEST` opens it. An archive
    in a bucket or another folder is not copied; use the tools of that storage.
    """
    configure_logging()
    source = require_file(store_to_read(store), "backup")
    if not without_archive:
        _check_archive(source)
    with progress_bar() as progress:
        files = copy_store(source, dest, progress)
    if as_json:
        click.echo(msgspec.json.encode(BackedUp(str(source), str(dest), files)))
    else:
        click.echo(f"copied {source} to {dest}, with {files:,} blob and segment files")


def _check_archive(source: Path) -> None:
    """Raise `UsageError` if sealed segments are stored elsewhere: the backup would silently miss them."""
    folder = beside(source, "-archive")
    elsewhere = [name for name in segment_names(source) if not (folder / name).exists()]
    if elsewhere:
        raise UsageError(
            f"{len(elsewhere):,} segments of {source} are not in {folder} but in another archive (HOLDFAST_ARCHIVE), "
            "which is not copied: back that up with its own tools (versioning or replication of the bucket, "
            "`aws s3 sync`, a copy of the folder), then retry with --without-archive. "
            f"If no other archive is in use, the segments are lost: see `holdfast doctor --store {source}`"
        )


@click.command()
@click.argument("src", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@store_option
@click.option("--force", is_flag=True, help="Rename an existing store out of the way; it is not deleted.")
@json_option
def restore(src: Path, store: Place | None, *, force: bool, as_json: bool) -> None:
    """Check the backup SRC completely, then restore it as the store."""
    configure_logging()
    target = require_file(store_to_write(store), "restore")
    with progress_bar() as progress:
        checkup = asyncio.run(check_store(src, None, progress))
    if checkup.findings:
        first = checkup.findings[0]
        raise StoreIoError(f"{src} is damaged: {first.what}; see `holdfast doctor --store {src}`")
    moved = _rename_existing(target, force=force)
    with progress_bar() as progress:
        files = copy_store(src, target, progress)
    if as_json:
        result = Restored(str(src), str(target), files, checkup.sessions, str(moved) if moved else None)
        click.echo(msgspec.json.encode(result))
        return
    click.echo(f"restored {src} to {target}: {checkup.sessions:,} sessions, {files:,} blob and segment files")
    if moved is not None:
        click.echo(f"the previous store is now {moved}")


def _rename_existing(target: Path, *, force: bool) -> Path | None:
    """Rename an existing store and return its new path; None if there is none."""
    existing = [path for path in (beside(target, suffix) for suffix in ("", *BESIDE)) if path.exists()]
    if not existing:
        return None
    if not force:
        raise UsageError(f"{existing[0]} already exists; --force renames it, without deleting anything")
    if live_instances(target):
        raise StoreBusyError(f"{target} is in use; stop the processes that use it first")
    stamp = datetime.now(tz=UTC).strftime("%Y%m%dT%H%M%S")
    renamed = target.with_name(f"{target.stem}-replaced-{stamp}{target.suffix}")
    # The reserve file is left behind: it holds no data, and the next open creates one if it is missing.
    for suffix in ("", "-wal", "-shm", *BESIDE):
        try:
            if beside(target, suffix).exists():
                beside(target, suffix).rename(beside(renamed, suffix))
        except OSError as error:
            raise StoreIoError(f"cannot rename {beside(target, suffix)} ({error.strerror})") from error
    return renamed
