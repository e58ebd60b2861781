"""The command `compact`: make what the model sees of a session smaller, or look at what that would do."""

import asyncio
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
from holdfast.core.fold.session_state import Turn
from holdfast.errors import UsageError
from holdfast.ports import Model, SessionInfo
from holdfast.runtime.engine.log import open_log
from holdfast.runtime.engine.preview import Preview
from holdfast.runtime.sessions.delete import SECONDS_PER_DAY, DeletedAll, check_days, untouched_sessions
from holdfast.runtime.sessions.session import Session
from holdfast.types.records import CancelRequested, CompactionApplied, CompactionOutcome, CompactionSettled
from holdfast.wiring import Place

_OUTCOMES = {
    CompactionOutcome.APPLIED: "done",
    CompactionOutcome.NOTHING_TO_DO: "there is nothing to compact",
    CompactionOutcome.DEFERRED: "put off",
    CompactionOutcome.FAILED: "it failed",
}


class Done(msgspec.Struct, frozen=True):
    """What came of a compaction that was asked for, and its record where one was applied."""

    outcome: CompactionOutcome
    why: str
    applied: CompactionApplied | None


@click.command()
@key_argument
@click.option("--focus", default="", metavar="TEXT", help="What the summary should keep in particular.")
@click.option("--preview", is_flag=True, help="Only show what it would do. Nothing is written, and no model is asked.")
@click.option(
    "--with-model", is_flag=True, help="With --preview: ask a model for the real summary, and keep it for later."
)
@store_option
@model_option
@base_url_option
@json_option
def compact(  # noqa: PLR0913 - a parameter per option
    key: str,
    focus: str,
    store: Place | None,
    models: Sequence[str],
    base_url: str | None,
    *,
    preview: bool,
    with_model: bool,
    as_json: bool,
) -> None:
    """Represent the older part of the session KEY by a summary, so that there is room again.

    Whichever process works on the session does it; where none does, this command does, with the models given here, and
    then also answers what waits in the session. Nothing is lost: `holdfast undo` takes it back.
    """
    if with_model and not preview:
        raise click.UsageError("--with-model belongs to --preview; without it a model is asked anyway.")
    send_logs()
    opened = open_models(models, base_url=base_url)
    if preview:
        seen = asyncio.run(_look(store, key, opened, focus, with_model=with_model))
        click.echo(msgspec.json.encode(seen) if as_json else "\n".join(_foreseen(seen)))
        return
    done = asyncio.run(_compact(store, key, opened, focus))
    click.echo(msgspec.json.encode(done) if as_json else told(key, done))


async def _look(
    place: Place | None, key: str, models: Sequence[Model], focus: str, *, with_model: bool
) -> Preview | None:
    async with reading(place) as store:
        await known_session(store, key)
    async with wiring.open(store_to_read(place), model=models, tuning=wiring.Tuning(adopts=False)) as hold:
        return await (await hold.session(key)).preview(focus=focus, with_model=with_model)


async def _compact(place: Place | None, key: str, models: Sequence[Model], focus: str) -> Done:
    async with reading(place) as store:
        await known_session(store, key)
    async with wiring.open(store_to_read(place), model=models, tuning=wiring.Tuning(adopts=False)) as hold:
        return await compacted(await hold.session(key), focus)


async def compacted(session: Session, focus: str) -> Done:
    """Compact a session and return what came of it."""
    settled = await session.compact(focus=focus)
    return Done(settled.outcome, settled.why, await _applied(session, settled))


async def _applied(session: Session, settled: CompactionSettled) -> CompactionApplied | None:
    """Return the compaction that met a request: the first one behind it."""
    after = settled.request
    while settled.outcome is CompactionOutcome.APPLIED and (page := await session.history(after=after)):
        for logged in page:
            if isinstance(logged.record, CompactionApplied):
                return logged.record
        after = page[-1].seq
    return None


def told(key: str, done: Done) -> str:
    """Say what came of a compaction."""
    why = f": {harmless(done.why)}" if done.why else ""
    if done.applied is None:
        return f"session {key!r}: {_OUTCOMES[done.outcome]}{why}"
    made = f"a summary by {done.applied.model}" if done.applied.model else "a digest made without a model"
    return (
        f"session {key!r}: what was said before message {done.applied.boundary} is represented by {harmless(made)}; "
        f"{done.applied.tokens_before:,} tokens became {done.applied.tokens_after:,}"
    )


def _foreseen(seen: Preview | None) -> list[str]:
    if seen is None:
        return ["There is nothing to compact."]
    leaving = f"{seen.messages:,} messages of {seen.turns:,} turns, records {seen.first_seq} to {seen.last_seq}"
    pins = f", and pinned: {', '.join(map(str, seen.pins))}" if seen.pins else ""
    return [
        f"leaves:    {leaving if seen.messages else 'nothing more; the same past would be summarised by a model'}",
        f"stays:     {seen.messages_kept:,} messages from message {seen.boundary} on{pins}",
        f"tokens:    about {seen.tokens_before:,} now, {seen.tokens_after:,} then",
        *(f"refused:   {harmless(why)}" for why in seen.refused),
        "",
        f"--- in place of it, {f'by {seen.model}' if seen.model else 'without a model'}",
        harmless(seen.summary or seen.digest),
    ]


# --- The command `undo`: take back what a compaction or a roll-over made of the view.


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
        found = tuple(await untouched_sessions(store, time.time() - days * SECONDS_PER_DAY))
    if dry_run or not found:
        return Pruned(found, None)
    async with wiring.open(store_to_read(place), tuning=wiring.Tuning(adopts=False)) as hold:
        return Pruned(found, await hold.prune(days=days))
