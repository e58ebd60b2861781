"""`holdfast sessions`, `show`, `view`, `recall`, `cancel` and `prune`: list, read and clean up sessions."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Sequence

import click
import msgspec

from holdfast import wiring
from holdfast.cli.configuration import settings, tuning
from holdfast.cli.options import (
    base_url_option,
    configure_logging,
    key_argument,
    model_option,
    open_models,
    open_to_read,
    open_to_write,
    require_session,
    store_option,
    store_to_read,
)
from holdfast.cli.output import align_columns, json_option, local_time, sanitize
from holdfast.core.limits.bounds import RESERVED_KEYS, Bounds
from holdfast.errors import UsageError
from holdfast.ports import ListedSession, Model, SessionFilter, SessionInfo, SessionOrder, Store
from holdfast.runtime.engine.log import open_log
from holdfast.runtime.sessions.delete import SECONDS_PER_DAY, DeletedAll, check_days, untouched_sessions
from holdfast.runtime.sessions.record_text import describe_parts, describe_record, describe_spend
from holdfast.runtime.sessions.view import View
from holdfast.runtime.tools.recall import Recall
from holdfast.types.records import CancelRequested, Logged
from holdfast.wiring import Place, look_at_store


@click.command()
@click.option("--recent", "-r", is_flag=True, help="Newest change first. Default: ordered by key.")
@click.option("--match", "text", default="", metavar="TEXT", help="The title, the key or a tag contains TEXT.")
@click.option("--tag", "-t", "tags", multiple=True, metavar="TAG", help="With this tag; repeat it for several.")
@click.option("--state", type=click.Choice(["idle", "working"]), help="Only idle sessions, or only working ones.")
@click.option("--limit", "-n", type=click.IntRange(min=1), metavar="N", help="At most N sessions. Default: all.")
@store_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")
def sessions(  # noqa: PLR0913 - one parameter per option, as click hands them over
    text: str,
    tags: Sequence[str],
    state: str | None,
    limit: int | None,
    store: Place | None,
    *,
    recent: bool,
    as_json: bool,
) -> None:
    """List the sessions of a store, with their titles and tags."""
    configure_logging()
    is_pending = None if state is None else state == "working"
    # Reserved keys hold learned model limits, not conversations.
    wanted = SessionFilter(text=text, tags=tuple(tags), is_pending=is_pending, prefixes_left_out=(RESERVED_KEYS,))
    found = asyncio.run(_all(store, wanted, SessionOrder.RECENT if recent else SessionOrder.KEY, limit))
    if as_json:
        for session in found:
            click.echo(msgspec.json.encode(session))
    elif not found and wanted == SessionFilter(prefixes_left_out=(RESERVED_KEYS,)):
        click.echo("The store is empty; `holdfast chat` starts a session.")
    elif not found:
        click.echo("No session matches.")
    else:
        header = ("session", "records", "unanswered", "last change", "title")
        for line in align_columns([header, *(_row(session) for session in found)]):
            click.echo(line)


async def _all(
    store: Place | None, wanted: SessionFilter, order: SessionOrder, limit: int | None
) -> list[ListedSession]:
    found: list[ListedSession] = []
    after: str | None = ""
    async with open_to_read(store) as logs:
        while after is not None and (limit is None or len(found) < limit):
            size = _PAGE_RECORDS if limit is None else min(limit - len(found), _PAGE_RECORDS)
            page = await logs.list_sessions(wanted, order=order, after=after, limit=size)
            found, after = [*found, *page.sessions], page.next
    return found


def _row(session: ListedSession) -> tuple[str, str, str, str, str]:
    tags = " ".join(f"#{tag}" for tag in session.tags)
    return (
        sanitize(session.key),
        f"{session.last_seq:,}",
        f"{session.owed:,}" if session.owed else "-",
        local_time(session.updated_at),
        sanitize(f"{session.title} {tags}".strip()),
    )


# --- holdfast show ---


# Records per read, so that a long log need not fit into memory.
_PAGE_RECORDS = 500


@click.command()
@key_argument
@click.option("--after", type=click.IntRange(min=0), help="Start after this record. Default: the newest ones.")
@click.option(
    "--limit", "-n", default=100, show_default=True, type=click.IntRange(min=1), help="Maximum number of records."
)
@store_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")
def show(key: str, after: int | None, limit: int, store: Place | None, *, as_json: bool) -> None:
    """Print the records of the session KEY as text, with their numbers and times.

    The log is append-only: it also has everything that the model no longer sees.
    """
    configure_logging()
    asyncio.run(_show(store, key, after, limit, as_json=as_json))


async def _show(place: Place | None, key: str, after: int | None, limit: int, *, as_json: bool) -> None:
    async with open_to_read(place) as store:
        last_seq = (await require_session(store, key)).last_seq
        start = max(last_seq - limit, 0) if after is None else after
        if as_json:
            async for logged in _records(store, key, start, limit):
                click.echo(msgspec.json.encode(logged))
            return
        if start and after is None:
            click.echo(f"({start:,} earlier records: --after 0)")
        position = start
        async for logged in _records(store, key, start, limit):
            click.echo(_lines(logged))
            position = logged.seq
        if position < last_seq:
            click.echo(f"({last_seq - position:,} later records: --after {position})")
        turn = (await open_log(store, key)).turn
        if turn.spent.calls:
            click.echo(f"(spent so far: {describe_spend(turn.spent, turn.spent_on_notes)})")


async def _records(store: Store, key: str, after: int, limit: int) -> AsyncIterator[Logged]:
    """Yield up to `limit` records, read in pages."""
    while limit and (page := await store.read(key, after=after, limit=min(limit, _PAGE_RECORDS))):
        for logged in page:
            yield logged
        after, limit = page[-1].seq, limit - len(page)


def _lines(logged: Logged) -> str:
    head = f"{logged.seq:>6}  {local_time(logged.at)}  "
    first, *more = sanitize(describe_record(logged.record)).split("\n")
    return "\n".join([head + first, *(" " * len(head) + line for line in more)])


# --- holdfast view ---


@click.command()
@key_argument
@store_option
@model_option
@base_url_option
@json_option
def view(key: str, store: Place | None, models: Sequence[str], base_url: str | None, *, as_json: bool) -> None:
    """Print what the model sees of the session KEY now, and its size."""
    configure_logging()
    seen = asyncio.run(_view(store, key, open_models(models, base_url=base_url)))
    if as_json:
        click.echo(msgspec.json.encode(seen))
        return
    for line in _sizes(seen):
        click.echo(line)
    if seen.system:
        click.echo(f"\n--- system\n{sanitize(seen.system)}")
    for message in seen.messages:
        click.echo(f"\n--- {message.role.value}\n{sanitize(describe_parts(message.parts))}")


async def _view(place: Place | None, key: str, models: Sequence[Model]) -> View:
    async with open_to_read(place) as store:
        await require_session(store, key)
    used = msgspec.structs.replace(tuning(), migrates=False)
    async with wiring.open(store_to_read(place), model=models, system=settings().system, tuning=used) as client:
        return await (await client.session(key)).view()


def _sizes(seen: View) -> list[str]:
    window = seen.window_tokens
    of_window = f" of {window:,} ({seen.tokens_estimated / window:.0%})" if window else "; the window is unknown"
    boundary = f"message {seen.boundary}; earlier messages are summarised" if seen.boundary else "the beginning"
    generation = [f"generation: {seen.generation}; `holdfast show` has the earlier ones"] if seen.generation > 1 else []
    return [
        *generation,
        f"messages:  {len(seen.messages):,}",
        f"tokens:    about {seen.tokens_estimated:,}{of_window}",
        f"request:   about {seen.wire_bytes_estimated:,} bytes",
        f"verbatim:  from {boundary}",
        *([f"spent:     {describe_spend(seen.spent, seen.spent_on_notes)}"] if seen.spent.calls else []),
    ]


# --- holdfast recall ---


@click.command()
@key_argument
@click.argument("seq", required=False, type=click.IntRange(min=1))
@click.option("--blob", default="", metavar="ID", help="A stored original, by at least 12 characters of its id.")
@click.option("--offset", default=0, type=click.IntRange(min=0), help="Start at this byte.")
@store_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object per page.")
def recall(key: str, seq: int | None, blob: str, offset: int, *, store: Place | None, as_json: bool) -> None:
    """Print the text of record SEQ of the session KEY in full, including spilled output and long messages.

    Summaries and ledgers cite records as [#SEQ]; `holdfast search` finds others.
    """
    if (seq is None) == (not blob.strip()):
        raise click.UsageError("give a SEQ or --blob ID, one of the two")
    configure_logging()
    asyncio.run(_recall(store_to_read(store), key, seq or 0, blob, offset, as_json=as_json))


async def _recall(place: Place, key: str, seq: int, blob: str, offset: int, *, as_json: bool) -> None:
    records, blobs = look_at_store(place, Bounds())
    try:
        await require_session(records, key)
        reader = Recall(records, blobs, Bounds())
        while True:
            page = await reader.read(key, seq=seq, blob=blob, offset=offset)
            if as_json:
                click.echo(msgspec.json.encode(page))
            else:
                # Unchanged bytes for files and pipes; control characters replaced on a terminal.
                click.echo(sanitize(page.text) if sys.stdout.isatty() else page.text, nl=False)
            is_last = page.end <= offset or page.end >= page.total
            if is_last and not as_json and not page.text.endswith("\n") and (seq or sys.stdout.isatty()):
                # A blob in a pipe stays byte for byte.
                click.echo()
            if page.end <= offset or page.end >= page.total:
                return
            offset = page.end
    finally:
        await records.close()


# --- Cancel and prune. ---


# --- holdfast cancel ---


@click.command()
@key_argument
@click.argument("turn", type=click.IntRange(min=1), required=False)
@store_option
@json_option
def cancel(key: str, turn: int | None, store: Place | None, *, as_json: bool) -> None:
    """Cancel TURN of the session KEY, or all open turns and compactions.

    The process that works on the turn stops at once. If there is none, the turn ends when the session is next opened.
    """
    configure_logging()
    cancelled, compactions = asyncio.run(_cancel(store, key, turn))
    if as_json:
        click.echo(msgspec.json.encode({"session": key, "cancelled": cancelled}))
        return
    if not cancelled:
        click.echo(f"session {key!r} has no open turn")
    for number in cancelled:
        if number in compactions:
            click.echo(f"cancelled compaction {number} of session {key!r}")
        else:
            click.echo(f"cancelled turn {number} of session {key!r}; completed tool calls are not undone")


async def _cancel(place: Place | None, key: str, wanted: int | None) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Append cancel requests only: a runner here would also start the turns that are waiting.

    Returns what is cancelled, and which requests are compactions.
    """
    async with open_to_write(place) as store:
        await require_session(store, key)
        turn = (await open_log(store, key)).turn
        compactions = tuple(wanted.seq for wanted in turn.wanted)
        unanswered = (*((turn.number,) if turn.number else ()), *turn.waiting, *compactions)
        if wanted is not None and wanted not in unanswered:
            known = ", ".join(map(str, unanswered)) or "none"
            raise UsageError(f"turn {wanted} of session {key!r} is not open; open turns: {known}")
        chosen = unanswered if wanted is None else (wanted,)
        for number in chosen:
            await store.admit(key, CancelRequested(number))
        return chosen, compactions


# --- holdfast prune ---


class Pruned(msgspec.Struct, frozen=True):
    """JSON output: the expired sessions, and the result of deleting them; null with --dry-run."""

    found: tuple[SessionInfo, ...]
    deleted: DeletedAll | None


@click.command()
@store_option
@click.option("--older-than", "days", type=float, required=True, metavar="DAYS", help="Days since the last change.")
@click.option("--dry-run", is_flag=True, help="Only list the sessions that would be deleted.")
@json_option
def prune(store: Place | None, days: float, *, dry_run: bool, as_json: bool) -> None:
    """Delete sessions that have not changed for DAYS, with their archived records and blobs.

    Sessions with an open turn, in use or damaged are kept. Holdfast deletes sessions only by this command, or if
    `retention.days` is set for `holdfast serve`.
    """
    configure_logging()
    pruned = asyncio.run(_prune(store, check_days(days), dry_run=dry_run))
    if as_json:
        click.echo(msgspec.json.encode(pruned))
        return
    if not pruned.found:
        click.echo(f"No session is older than {days:g} days.")
        return
    header = ("session", "records", "last change")
    rows = [(sanitize(one.key), f"{one.last_seq:,}", local_time(one.updated_at)) for one in pruned.found]
    for line in align_columns([header, *rows]):
        click.echo(line)
    if pruned.deleted is None:
        click.echo(f"{len(pruned.found):,} sessions would be deleted; nothing was changed")
        return
    for sentence in pruned.deleted.stayed.values():
        click.echo(sanitize(sentence))
    click.echo(
        f"{len(pruned.deleted.sessions):,} sessions deleted, with {pruned.deleted.records:,} records, "
        f"{pruned.deleted.segments:,} segments and {pruned.deleted.blobs:,} blobs"
    )


async def _prune(place: Place | None, days: float, *, dry_run: bool) -> Pruned:
    async with open_to_read(place) as store:
        found = tuple(await untouched_sessions(store, time.time() - days * SECONDS_PER_DAY))
    if dry_run or not found:
        return Pruned(found, None)
    async with wiring.open(store_to_read(place), tuning=wiring.Tuning(adopts=False)) as client:
        return Pruned(found, await client.prune(days=days))
