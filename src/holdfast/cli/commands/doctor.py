"""`holdfast doctor`, `backup` and `restore`: check, repair and copy a whole store.

A SQLite store can be copied while it is in use.
"""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import click
import msgspec

from holdfast.cli.completion import session_keys
from holdfast.cli.exit_codes import FOUND
from holdfast.cli.options import (
    configure_logging,
    open_to_read,
    require_file,
    require_session,
    store_option,
    store_to_read,
    store_to_write,
)
from holdfast.cli.output import json_option, progress_bar, sanitize
from holdfast.errors import StoreBusyError, StoreIoError, UsageError
from holdfast.runtime.maintenance.doctor import Finding
from holdfast.stores.sqlite.copy import BESIDE, beside, copy_store
from holdfast.stores.sqlite.inspect import segment_names
from holdfast.stores.sqlite.process_lock import live_instances
from holdfast.wiring import Place
from holdfast.wiring.doctor import Checkup, check_server, check_store, copy_first, repair, repair_server


class DoctorOutput(msgspec.Struct, frozen=True):
    """JSON output: the findings, and with --fix the backup and the findings that are left."""

    found: Checkup
    backup: str = ""
    left: Checkup | None = None
    undone: tuple[str, ...] = ()


@click.command()
@store_option
@click.option("--session", "key", metavar="KEY", shell_complete=session_keys, help="Check only this session.")
@click.option("--fix", is_flag=True, help="Back up the store, then repair it.")
@click.option("--dumped", is_flag=True, help="PostgreSQL: confirm that you made a pg_dump, so that --fix may run.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object, for programs.")
@click.pass_context
def doctor(ctx: click.Context, store: Place | None, key: str | None, *, fix: bool, dumped: bool, as_json: bool) -> None:
    """Check a store: its file, every record, fold and counter, tool pairs, the model's view, blobs and segments.

    Without --fix nothing is written, and the store may be in use. Exit code 0: no findings. 3: findings, which --fix
    could not all repair. Any other: the check did not run. On PostgreSQL the sessions are checked; for the database use
    pg_amcheck, and make a dump before --fix (--dumped).
    """
    configure_logging()
    place = store_to_read(store)
    if isinstance(place, str):
        if fix and not dumped:
            raise UsageError("--fix changes damaged records: make a copy with pg_dump first, then add --dumped")
        output = asyncio.run(_doctor_of_server(place, key, fix=fix))
    else:
        output = asyncio.run(_doctor(place, key, fix=fix))
    if as_json:
        click.echo(msgspec.json.encode(output))
    else:
        for line in _lines(output, fix=fix):
            click.echo(sanitize(line))
    if (output.left or output.found).findings:
        ctx.exit(FOUND)


async def _doctor(path: Path, key: str | None, *, fix: bool) -> DoctorOutput:
    if key is not None:
        async with open_to_read(path) as store:
            await require_session(store, key)
    with progress_bar() as progress:
        found = await check_store(path, key, progress)
    if not fix or not found.findings:
        return DoctorOutput(found)
    backup = await asyncio.to_thread(copy_first, path)
    undone = await repair(path, found)
    with progress_bar() as progress:
        return DoctorOutput(found, str(backup), await check_store(path, key, progress), tuple(undone))


async def _doctor_of_server(url: str, key: str | None, *, fix: bool) -> DoctorOutput:
    if key is not None:
        async with open_to_read(url) as store:
            await require_session(store, key)
    with progress_bar() as progress:
        found = await check_server(url, key, progress)
    if not fix or not found.findings:
        return DoctorOutput(found)
    undone = await repair_server(url, found)
    with progress_bar() as progress:
        return DoctorOutput(found, "", await check_server(url, key, progress), tuple(undone))


def _lines(output: DoctorOutput, *, fix: bool) -> Iterator[str]:
    found = output.found
    yield f"{found.store}: layout {found.layout}, {_count(found.sessions, 'session')} checked"
    for finding in found.findings:
        yield _line(finding)
    for note in found.notes:
        yield f"note: {note}"
    if not found.findings:
        yield "No problems found."
        return
    if not fix:
        count = _count(len(found.findings), "finding")
        yield f"{count}. Nothing was changed; `holdfast doctor --fix` repairs what it can."
        return
    if output.backup:
        yield f"Backup: {output.backup}"
    for sentence in output.undone:
        yield f"Not repaired: {sentence}"
    left = output.left.findings if output.left else ()
    for finding in left:
        yield f"Left: {_line(finding)}"
    yield "Repaired; no problems left." if not left else f"{_count(len(left), 'finding')} left."


def _line(finding: Finding) -> str:
    where = f"session {finding.session!r}" + (f", record {finding.seq}" if finding.seq else "")
    what = f"{where}: {finding.what}" if finding.session else finding.what
    return f"{what} [{finding.remedy or 'not repaired by --fix'}]"


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"


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
