"""The command `sessions`: which conversations a store has."""

import asyncio
import sys
from collections.abc import Sequence

import click
import msgspec

from holdfast import wiring
from holdfast.cli.options import (
    base_url_option,
    key_argument,
    known_session,
    model_option,
    open_models,
    reading,
    send_logs,
    store_option,
    store_to_read,
)
from holdfast.cli.output import columns, harmless, json_option, local_time
from holdfast.core.limits.bounds import RESERVED_KEYS, Bounds
from holdfast.ports import Model, SessionInfo
from holdfast.runtime.engine.log import every_session, open_log
from holdfast.runtime.sessions.record_text import describe_parts, describe_record, describe_spend
from holdfast.runtime.sessions.session import View
from holdfast.runtime.tools.recall import Recall
from holdfast.types.records import Logged
from holdfast.wiring import Place, look_at_store


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


# --- The command `show`: the records of a session, as they were written.


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
            click.echo(f"(spent so far: {describe_spend(turn.spent, turn.spent_on_notes)})")


def _lines(logged: Logged) -> str:
    head = f"{logged.seq:>6}  {local_time(logged.at)}  "
    first, *more = harmless(describe_record(logged.record)).split("\n")
    return "\n".join([head + first, *(" " * len(head) + line for line in more)])


# --- The command `view`: what the model sees of a session now.


@click.command()
@key_argument
@store_option
@model_option
@base_url_option
@json_option
def view(key: str, store: Place | None, models: Sequence[str], base_url: str | None, *, as_json: bool) -> None:
    """Print what the model sees of the session KEY now, and what that comes to."""
    send_logs()
    seen = asyncio.run(_look(store, key, open_models(models, base_url=base_url)))
    if as_json:
        click.echo(msgspec.json.encode(seen))
        return
    for line in _sizes(seen):
        click.echo(line)
    if seen.system:
        click.echo(f"\n--- system\n{harmless(seen.system)}")
    for message in seen.messages:
        click.echo(f"\n--- {message.role.value}\n{harmless(describe_parts(message.parts))}")


async def _look(place: Place | None, key: str, models: Sequence[Model]) -> View:
    async with reading(place) as store:
        await known_session(store, key)
    tuning = wiring.Tuning(adopts=False, migrates=False)
    async with wiring.open(store_to_read(place), model=models, tuning=tuning) as hold:
        return await (await hold.session(key)).view()


def _sizes(seen: View) -> list[str]:
    window = seen.window_tokens
    of_window = f" of {window:,} ({seen.tokens_estimated / window:.0%})" if window else "; the window is not known"
    boundary = f"message {seen.boundary}; what came before is represented" if seen.boundary else "the beginning"
    generation = [f"generation: {seen.generation}; `holdfast show` has the ones before"] if seen.generation > 1 else []
    return [
        *generation,
        f"messages:  {len(seen.messages):,}",
        f"tokens:    about {seen.tokens_estimated:,}{of_window}",
        f"request:   about {seen.wire_bytes_estimated:,} bytes",
        f"verbatim:  from {boundary}",
        *([f"spent:     {describe_spend(seen.spent, seen.spent_on_notes)}"] if seen.spent.calls else []),
    ]


# --- The command `recall`: what a record or a blob of a session holds, as the model itself could read it.


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
