"""The command `cancel`: stop what is being answered in a session, wherever it runs."""

import asyncio

import click
import msgspec

from holdfast.cli.opening import key_argument, known_session, send_logs, store_option, writing
from holdfast.cli.paper import json_option
from holdfast.core.records import CancelRequested
from holdfast.errors import UsageError
from holdfast.runtime.log import open_log
from holdfast.wiring import Place


@click.command()
@key_argument
@click.argument("turn", type=click.IntRange(min=1), required=False)
@store_option
@json_option
def cancel(key: str, turn: int | None, store: Place | None, *, as_json: bool) -> None:
    """Stop working on TURN of the session KEY, or on all that are open.

    Whichever process works on it stops at once. Where none does, it ends when the session is next opened.
    """
    send_logs()
    cancelled = asyncio.run(_cancel(store, key, turn))
    if as_json:
        click.echo(msgspec.json.encode({"session": key, "cancelled": cancelled}))
        return
    if not cancelled:
        click.echo(f"session {key!r} has nothing open")
    for number in cancelled:
        click.echo(f"turn {number} of session {key!r} is cancelled; what it did stays done")


async def _cancel(place: Place | None, key: str, wanted: int | None) -> tuple[int, ...]:
    """Ask for it in the log and no more: working on the session here would answer what waits behind."""
    async with writing(place) as store:
        await known_session(store, key)
        turn = (await open_log(store, key)).turn
        unanswered = (turn.number, *turn.waiting) if turn.number else turn.waiting
        if wanted is not None and wanted not in unanswered:
            known = ", ".join(map(str, unanswered)) or "none"
            raise UsageError(f"turn {wanted} of session {key!r} is not open; open turns: {known}")
        chosen = unanswered if wanted is None else (wanted,)
        for number in chosen:
            await store.admit(key, CancelRequested(number))
        return chosen
