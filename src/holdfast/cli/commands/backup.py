"""The commands `backup` and `restore`: a whole store, while it is in use, and back."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import click
import msgspec

from holdfast.cli.options import file_of, send_logs, store_option, store_to_read, store_to_write
from holdfast.cli.output import json_option, showing
from holdfast.errors import StoreBusyError, StoreIoError, UsageError
from holdfast.stores.sqlite.copy import BESIDE, beside, copy_store
from holdfast.stores.sqlite.inspect import segment_names
from holdfast.stores.sqlite.process_lock import live_instances
from holdfast.wiring import Place
from holdfast.wiring.doctor import check_store


class BackedUp(msgspec.Struct, frozen=True):
    """What is printed for programs: the store, its copy, and how many files are beside the copy."""

    store: str
    backup: str
    files: int


class Restored(msgspec.Struct, frozen=True):
    """What is printed for programs; `moved` is where the store is now that was there before."""

    backup: str
    store: str
    files: int
    sessions: int
    moved: str | None


@click.command()
@click.argument("dest", type=click.Path(path_type=Path))
@store_option
@click.option(
    "--without-archive", is_flag=True, help="Leave out segments that are not in the folder beside the store, as in S3."
)
@json_option
def backup(dest: Path, store: Place | None, *, without_archive: bool, as_json: bool) -> None:
    """Copy the store to DEST, a path where nothing is, with its blobs and its archive folder beside it.

    Others may use the store meanwhile. The copy is one state of it, and a store itself: `--store DEST` opens it. A
    bucket or another folder with the archive is not copied: its own tools do that.
    """
    send_logs()
    source = file_of(store_to_read(store), "backup")
    if not without_archive:
        _check_archive(source)
    with showing() as progress:
        files = copy_store(source, dest, progress)
    if as_json:
        click.echo(msgspec.json.encode(BackedUp(str(source), str(dest), files)))
    else:
        click.echo(f"{source} is copied to {dest}, with {files:,} files beside it")


def _check_archive(source: Path) -> None:
    """Refuse to leave out sealed records without a word: a backup without them would not be one."""
    folder = beside(source, "-archive")
    elsewhere = [name for name in segment_names(source) if not (folder / name).exists()]
    if elsewhere:
        raise UsageError(
            f"{len(elsewhere):,} segments of {source} are not in {folder} but in another archive (HOLDFAST_ARCHIVE), "
            "which is not copied: keep that with its own tools (versions or replication of the bucket, "
            "`aws s3 sync`, a copy of the folder), then ask again with --without-archive. "
            f"Where no other archive is in use, they are lost: see `holdfast doctor --store {source}`"
        )


@click.command()
@click.argument("src", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@store_option
@click.option("--force", is_flag=True, help="Where a store is there already, move it away; it is not deleted.")
@json_option
def restore(src: Path, store: Place | None, *, force: bool, as_json: bool) -> None:
    """Bring the backup SRC back as the store. It is checked first, from end to end."""
    send_logs()
    target = file_of(store_to_write(store), "restore")
    with showing() as progress:
        checkup = asyncio.run(check_store(src, None, progress))
    if checkup.findings:
        first = checkup.findings[0]
        raise StoreIoError(f"{src} is not whole: {first.what}; `holdfast doctor --store {src}` says more")
    moved = _move_away(target, force=force)
    with showing() as progress:
        files = copy_store(src, target, progress)
    if as_json:
        told = Restored(str(src), str(target), files, checkup.sessions, str(moved) if moved else None)
        click.echo(msgspec.json.encode(told))
        return
    click.echo(f"{src} is restored to {target}, with {files:,} files beside it and {checkup.sessions:,} sessions")
    if moved is not None:
        click.echo(f"What was there is now {moved}")


def _move_away(target: Path, *, force: bool) -> Path | None:
    """Make room for a store, and return where the one before is now."""
    there = [path for path in (beside(target, suffix) for suffix in ("", *BESIDE)) if path.exists()]
    if not there:
        return None
    if not force:
        raise UsageError(f"{there[0]} is there already; with --force it is moved away, not deleted")
    if live_instances(target):
        raise StoreBusyError(f"{target} is in use; end whoever uses it first")
    stamp = datetime.now(tz=UTC).strftime("%Y%m%dT%H%M%S")
    away = target.with_name(f"{target.stem}-replaced-{stamp}{target.suffix}")
    # The space for the ends of turns holds nothing: whoever opens what is restored finds it there or makes it again.
    for suffix in ("", "-wal", "-shm", *BESIDE):
        try:
            if beside(target, suffix).exists():
                beside(target, suffix).rename(beside(away, suffix))
        except OSError as error:
            raise StoreIoError(f"{beside(target, suffix)} cannot be moved away ({error.strerror})") from error
    return away
