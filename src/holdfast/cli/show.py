"""The command `show`: the records of a session, as they were written."""

import asyncio

import click
import msgspec

from holdfast.cli.opening import key_argument, known_session, reading, send_logs, store_option
from holdfast.cli.paper import harmless, local_time
from holdfast.core.records import Logged
from holdfast.runtime.log import open_log
from holdfast.runtime.words import spending, spoken
from holdfast.wiring import Place

# Read at once, so that a long log does not have to fit into memory.
_PAGE_RECORDS = 500


@click.command()
@key_argument
@click.option("--after", type=click.IntRange(min=0), help="Show what follows this record; otherwise the newest ones.")
@click.option("--limit", default=100, show_default=True, type=click.IntRange(min=1), help="Show so many at most.")
@store_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line, for programs.")
def show(key: str, after: int | None, limit: int, store: Place | None, *, as_json: bool) -> None:
    """Print the records of the session KEY in plain words, with their numbers and times.

    Nothing is ever taken out of a session: what the model no longer sees stands here as it was.
    """
    send_logs()
    asyncio.run(_show(store, key, after, limit, as_json=as_json))


async def _show(place: Place | None, key: str, after: int | None, limit: int, *, as_json: bool) -> None:
    async with reading(place) as store:
        last_seq = (await known_session(store, key)).last_seq
        start = max(last_seq - limit, 0) if after is None else after
        if start and after is None and not as_json:
            click.echo(f"({start:,} earlier records: --after 0)")
        position, left = start, limit
        while left and (page := await store.read(key, after=position, limit=min(left, _PAGE_RECORDS))):
            for logged in page:
                click.echo(msgspec.json.encode(logged) if as_json else _lines(logged))
            position, left = page[-1].seq, left - len(page)
        if position < last_seq and not as_json:
            click.echo(f"({last_seq - position:,} later records: --after {position})")
        turn = (await open_log(store, key)).turn
        if turn.spent.calls and not as_json:
            click.echo(f"(spent so far: {spending(turn.spent, turn.spent_on_notes)})")


def _lines(logged: Logged) -> str:
    head = f"{logged.seq:>6}  {local_time(logged.at)}  "
    first, *more = harmless(spoken(logged.record)).split("\n")
    return "\n".join([head + first, *(" " * len(head) + line for line in more)])
