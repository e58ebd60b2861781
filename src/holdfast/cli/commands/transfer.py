"""`holdfast export` and `holdfast import`: move sessions between stores, and import transcripts."""

import asyncio
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import BinaryIO

import click
import msgspec

from holdfast.cli.options import (
    configure_logging,
    key_argument,
    require_session,
    store_option,
    store_to_read,
    store_to_write,
)
from holdfast.cli.output import progress_bar, sanitize
from holdfast.core.limits.bounds import Bounds
from holdfast.errors import UsageError
from holdfast.ports import Progress
from holdfast.rescue.importing import Imported, import_session
from holdfast.rescue.neutral import NeutralMessage, read_neutral
from holdfast.runtime.sessions.admission import check_session_key
from holdfast.runtime.sessions.transfer import Copied, export_session, import_lines, is_exported_session, lines_of
from holdfast.wiring import Place, look_at_store, open_store


@click.command()
@key_argument
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Default: standard output."
)
@store_option
def export(key: str, out: Path | None, store: Place | None) -> None:
    """Write the session KEY as JSON lines: its records unchanged, the blobs they refer to, and a checksum.

    `holdfast import FILE` restores it, in this or another store. The store may be in use meanwhile.
    """
    configure_logging()
    asyncio.run(_export(store_to_read(store), key, out))


async def _export(place: Place, key: str, out: Path | None) -> None:
    records, blobs = look_at_store(place, Bounds())
    try:
        known = await require_session(records, key)
        async with aclosing(export_session(records, blobs, key)) as lines:
            if out is None:
                async for line in lines:
                    await asyncio.to_thread(_write, sys.stdout.buffer, line)
                return
            try:
                file = await asyncio.to_thread(out.open, "xb")
            except FileExistsError as error:
                raise UsageError(f"{out} already exists; choose a new file") from error
            with file, progress_bar() as progress:
                count = 0
                async for line in lines:
                    await asyncio.to_thread(_write, file, line)
                    count += 1
                    # Blobs are lines too, so there may be more lines than records.
                    progress("writing", count, max(known.last_seq, count))
    finally:
        await records.close()


def _write(file: BinaryIO, line: bytes) -> None:
    file.write(line)


# --- holdfast import ---


@click.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--session", help="Import only this session of the file.")
@click.option("--key", "--as", "key", help="Key of the imported session. Default: its own. For a single session.")
@store_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object per session.")
def import_(file: Path, session: str | None, key: str | None, store: Place | None, *, as_json: bool) -> None:
    """Import the sessions of FILE: an export, or a transcript in the neutral format, .jsonl or .jsonl.gz.

    An export is imported completely or not at all; it is an error if the key already exists.

    In the neutral format each line is a message, and the messages of a session are consecutive:

    \b
        {"session_id": "s1", "seq": 1, "role": "user", "parts": [{"type": "text", "text": "hello"}]}

    Each message keeps its number as its origin. Messages that a session already has are skipped, so a file can be
    imported again after it has grown.
    """  # noqa: D301 - click's mark for a paragraph that is not rewrapped
    configure_logging()
    with file.open("rb") as beginning:
        is_export = is_exported_session(beginning.read(100))
    if is_export:
        copied = asyncio.run(_import_export(file, key, store_to_write(store)))
        line = f"{sanitize(copied.session)}: {copied.records:,} records and {copied.blobs:,} blobs imported"
        click.echo(msgspec.json.encode(copied) if as_json else line)
    else:
        asyncio.run(_import(file, session, key, store_to_write(store), as_json=as_json))


async def _import_export(file: Path, key: str | None, place: Place) -> Copied:
    if key is not None:
        check_session_key(key)
    records, blobs = open_store(place, Bounds())
    try:
        with progress_bar() as progress:
            async with aclosing(lines_of(file)) as lines, aclosing(_with_progress(lines, file, progress)) as counted:
                return await import_lines(counted, records, blobs, key=key)
    finally:
        await records.close()


async def _with_progress(lines: AsyncIterator[bytes], file: Path, progress: Progress) -> AsyncGenerator[bytes, None]:
    """Yield the lines and report progress in bytes."""
    done, size = 0, (await asyncio.to_thread(file.stat)).st_size
    async for line in lines:
        done += len(line)
        progress("bytes read", done, max(size, done))
        yield line


def _sessions(file: Path, session: str | None) -> Iterator[list[NeutralMessage]]:
    """Yield the messages of each session; those of one session are consecutive in the file."""
    gathered: list[NeutralMessage] = []
    for message in read_neutral(file, session):
        if gathered and message.session_id != gathered[0].session_id:
            yield gathered
            gathered = []
        gathered.append(message)
    if gathered:
        yield gathered


async def _import(file: Path, session: str | None, key: str | None, place: Place, *, as_json: bool) -> None:
    bounds = Bounds()
    records, blobs = open_store(place, bounds)
    seen = 0
    try:
        for messages in _sessions(file, session):
            seen += 1
            if key is not None and seen > 1:
                raise UsageError(f"{file} has several sessions: name one with --session, or leave --key out")
            named = key or messages[0].session_id
            check_session_key(named)
            result = await import_session(messages, named, store=records, blobs=blobs, bounds=bounds)
            _print_result(result, as_json=as_json)
    finally:
        await records.close()
    if not seen:
        raise UsageError(f"{file} has no session {session!r}" if session else f"{file} has no messages")


def _print_result(imported: Imported, *, as_json: bool) -> None:
    if as_json:
        click.echo(msgspec.json.encode(imported))
        return
    line = f"{sanitize(imported.session)}: {imported.messages:,} messages imported"
    if imported.already_there:
        line += f", {imported.already_there:,} already there"
    if imported.system_texts:
        line += f", {imported.system_texts:,} system texts skipped"
    click.echo(line)
