"""The command `export`: one session as one file."""

import asyncio
import sys
from contextlib import aclosing
from pathlib import Path
from typing import BinaryIO

import click

from holdfast.cli.opening import key_argument, known_session, send_logs, store_option, store_to_read
from holdfast.cli.progress import showing
from holdfast.core.limits import Bounds
from holdfast.errors import UsageError
from holdfast.runtime.copies import exported
from holdfast.wiring import Place, look_at_store


@click.command()
@key_argument
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Otherwise standard output."
)
@store_option
def export(key: str, out: Path | None, store: Place | None) -> None:
    """Write the session KEY as one file of JSON lines: its records as they are, the blobs they name, and a checksum.

    `holdfast import FILE` makes a session of it again, here or in another store. Others may use this one meanwhile.
    """
    send_logs()
    asyncio.run(_export(store_to_read(store), key, out))


async def _export(place: Place, key: str, out: Path | None) -> None:
    records, blobs = look_at_store(place, Bounds())
    try:
        known = await known_session(records, key)
        async with aclosing(exported(records, blobs, key)) as lines:
            if out is None:
                async for line in lines:
                    await asyncio.to_thread(_write, sys.stdout.buffer, line)
                return
            try:
                file = await asyncio.to_thread(out.open, "xb")
            except FileExistsError as error:
                raise UsageError(f"{out} is there already; name a file that is not") from error
            with file, showing() as progress:
                count = 0
                async for line in lines:
                    await asyncio.to_thread(_write, file, line)
                    count += 1
                    # Blobs are lines too, so there may be more of them than there are records.
                    progress("writing", count, max(known.last_seq, count))
    finally:
        await records.close()


def _write(file: BinaryIO, line: bytes) -> None:
    file.write(line)
