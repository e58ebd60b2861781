"""The command `recall`: what a record or a blob of a session holds, as the model itself could read it."""

import asyncio
import sys

import click
import msgspec

from holdfast.cli.opening import key_argument, known_session, send_logs, store_option, store_to_read
from holdfast.cli.paper import harmless
from holdfast.core.limits import Bounds
from holdfast.runtime.recall import Recall
from holdfast.wiring import Place, look_at_store


@click.command()
@key_argument
@click.argument("seq", required=False, type=click.IntRange(min=1))
@click.option("--blob", default="", metavar="ID", help="A kept original, by 12 characters or more of its id.")
@click.option("--offset", default=0, type=click.IntRange(min=0), help="Begin at this byte.")
@store_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object per page, for programs.")
def recall(key: str, seq: int | None, blob: str, offset: int, *, store: Place | None, as_json: bool) -> None:
    """Print what the record SEQ of the session KEY holds as text: output that was spilled and long messages whole.

    A summary and its ledger cite records as [#SEQ]; `holdfast search` finds others.
    """
    if (seq is None) == (not blob.strip()):
        raise click.UsageError("give a SEQ or --blob ID, one of the two")
    send_logs()
    asyncio.run(_recall(store_to_read(store), key, seq or 0, blob, offset, as_json=as_json))


async def _recall(place: Place, key: str, seq: int, blob: str, offset: int, *, as_json: bool) -> None:
    records, blobs = look_at_store(place, Bounds())
    try:
        await known_session(records, key)
        reader = Recall(records, blobs, Bounds())
        while True:
            page = await reader.read(key, seq=seq, blob=blob, offset=offset)
            if as_json:
                click.echo(msgspec.json.encode(page))
            else:
                # A file gets the bytes as they were; a terminal must not be steered by them.
                click.echo(harmless(page.text) if sys.stdout.isatty() else page.text, nl=False)
            if page.end <= offset or page.end >= page.total:
                return
            offset = page.end
    finally:
        await records.close()
