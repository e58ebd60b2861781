"""The command `sessions`: which conversations a store has."""

import asyncio

import click
import msgspec

from holdfast.cli.opening import reading, send_logs, store_option
from holdfast.cli.paper import columns, harmless, local_time
from holdfast.core.limits import RESERVED_KEYS
from holdfast.ports import SessionInfo
from holdfast.runtime.log import every_session
from holdfast.wiring import Place


@click.command()
@store_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line, for programs.")
def sessions(store: Place | None, *, as_json: bool) -> None:
    """List the sessions of a store, in order of their keys."""
    send_logs()
    found = asyncio.run(_all(store))
    if as_json:
        for session in found:
            click.echo(msgspec.json.encode(session))
    elif not found:
        click.echo("The store is empty; `holdfast chat` begins a session.")
    else:
        header = ("session", "records", "unanswered", "last change")
        for line in columns([header, *(_row(session) for session in found)]):
            click.echo(line)


async def _all(store: Place | None) -> list[SessionInfo]:
    async with reading(store) as logs:
        found = [known async for known in every_session(logs)]
    # What is kept about models for all sessions is a log too, but no conversation.
    return [session for session in found if not session.key.startswith(RESERVED_KEYS)]


def _row(session: SessionInfo) -> tuple[str, str, str, str]:
    return (
        harmless(session.key),
        f"{session.last_seq:,}",
        f"{session.owed:,}" if session.owed else "-",
        local_time(session.updated_at),
    )
