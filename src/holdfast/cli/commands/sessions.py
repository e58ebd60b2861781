"""The command `sessions`: which conversations a store has."""

import asyncio
import sys
import time
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
    writing,
)
from holdfast.cli.output import columns, harmless, json_option, local_time
from holdfast.core.limits.bounds import RESERVED_KEYS, Bounds
from holdfast.errors import UsageError
from holdfast.ports import Model, SessionInfo
from holdfast.runtime.engine.log import every_session, open_log
from holdfast.runtime.sessions.delete import SECONDS_PER_DAY, DeletedAll, check_days, untouched
from holdfast.runtime.sessions.record_text import in_words, spending, spoken
from holdfast.runtime.sessions.session import View
from holdfast.runtime.tools.recall import Recall
from holdfast.types.records import CancelRequested, Logged
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
            click.echo(f"(spent so far: {spending(turn.spent, turn.spent_on_notes)})")


def _lines(logged: Logged) -> str:
    head = f"{logged.seq:>6}  {local_time(logged.at)}  "
    first, *more = harmless(spoken(logged.record)).split("\n")
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
        click.echo(f"\n--- {message.role.value}\n{harmless(in_words(message.parts))}")


async def _look(place: Place | None, key: str, models: Sequence[Model]) -> View:
    async with reading(place) as store:
        await known_session(store, key)
    tuning = wiring.Tuning(adopts=False, migrates=False)
    async with wiring.open(store_to_read(place), model=models, tuning=tuning) as client:
        return await (await client.session(key)).view()


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
        *([f"spent:     {spending(seen.spent, seen.spent_on_notes)}"] if seen.spent.calls else []),
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


# --- Cancel and prune. ---


# --- The command `cancel`: stop what is being answered in a session, wherever it runs.


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


# --- The command `prune`: remove the sessions that nobody has touched for a long time.


class Pruned(msgspec.Struct, frozen=True):
    """What is printed for programs: what was found untouched, and what came of it; null where it was only looked at."""

    found: tuple[SessionInfo, ...]
    deleted: DeletedAll | None


@click.command()
@store_option
@click.option("--older-than", "days", type=float, required=True, metavar="DAYS", help="Untouched for so many days.")
@click.option("--dry-run", is_flag=True, help="List what would go, and remove nothing.")
@json_option
def prune(store: Place | None, days: float, *, dry_run: bool, as_json: bool) -> None:
    """Remove the sessions for good that nobody has touched for DAYS, with their archived records and blobs.

    One with an open turn stays, and so does one that somebody works on or that is damaged. Nothing is ever removed
    unless this is called, or `retention.days` is set where `holdfast serve` reads it.
    """
    send_logs()
    pruned = asyncio.run(_prune(store, check_days(days), dry_run=dry_run))
    if as_json:
        click.echo(msgspec.json.encode(pruned))
        return
    if not pruned.found:
        click.echo(f"No session was untouched for {days:g} days.")
        return
    header = ("session", "records", "last change")
    rows = [(harmless(one.key), f"{one.last_seq:,}", local_time(one.updated_at)) for one in pruned.found]
    for line in columns([header, *rows]):
        click.echo(line)
    if pruned.deleted is None:
        click.echo(f"{len(pruned.found):,} sessions would go; nothing was removed")
        return
    for sentence in pruned.deleted.stayed.values():
        click.echo(harmless(sentence))
    click.echo(
        f"{len(pruned.deleted.sessions):,} sessions removed, with {pruned.deleted.records:,} records, "
        f"{pruned.deleted.segments:,} segments and {pruned.deleted.blobs:,} blobs"
    )


async def _prune(place: Place | None, days: float, *, dry_run: bool) -> Pruned:
    async with reading(place) as store:
        found = tuple(await untouched(store, time.time() - days * SECONDS_PER_DAY))
    if dry_run or not found:
        return Pruned(found, None)
    async with wiring.open(store_to_read(place), tuning=wiring.Tuning(adopts=False)) as client:
        return Pruned(found, await client.prune(days=days))
