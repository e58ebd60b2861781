"""The command `undo`: take back what a compaction or a roll-over made of the view."""

import asyncio

import click
import msgspec

from holdfast import wiring
from holdfast.cli.opening import key_argument, known_session, reading, send_logs, store_option, store_to_read
from holdfast.cli.paper import json_option
from holdfast.core.fold import Turn
from holdfast.runtime.log import open_log
from holdfast.wiring import Place


class Undone(msgspec.Struct, frozen=True):
    """What is printed for programs: whether something was undone, and from which message on all is shown then."""

    is_undone: bool
    boundary: int | None
    generation: int | None


@click.command()
@key_argument
@store_option
@json_option
def undo(key: str, store: Place | None, *, as_json: bool) -> None:
    """Take back the last compaction or roll-over of the session KEY; again goes back one more.

    It counts from the next request on, in whichever process works on the session.
    """
    send_logs()
    stands = asyncio.run(_undo(store, key))
    if as_json:
        told = Undone(stands is not None, stands.boundary if stands else None, stands.generation if stands else None)
        click.echo(msgspec.json.encode(told))
        return
    if stands is None:
        click.echo(f"session {key!r}: there is nothing to undo")
        return
    shown = f"from message {stands.boundary} on" if stands.boundary else "from the beginning"
    generation = f", generation {stands.generation}" if stands.generation > 1 else ""
    click.echo(f"session {key!r}: undone; the model sees it word for word {shown} again{generation}")


async def _undo(place: Place | None, key: str) -> Turn | None:
    async with reading(place) as store:
        await known_session(store, key)
        async with wiring.open(store_to_read(place), tuning=wiring.Tuning(adopts=False)) as hold:
            is_undone = await (await hold.session(key)).undo()
        return (await open_log(store, key)).turn if is_undone else None
