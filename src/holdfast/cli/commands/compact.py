"""The command `compact`: make what the model sees of a session smaller, or look at what that would do."""

import asyncio
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
from holdfast.cli.output import harmless, json_option
from holdfast.core.fold.session_state import Turn
from holdfast.ports import Model
from holdfast.runtime.engine.log import open_log
from holdfast.runtime.engine.preview import Preview
from holdfast.runtime.sessions.session import Session
from holdfast.types.records import CompactionApplied, CompactionOutcome, CompactionSettled
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
    async with wiring.open(store_to_read(place), model=models, tuning=wiring.Tuning(adopts=False)) as client:
        return await (await client.session(key)).preview(focus=focus, with_model=with_model)


async def _compact(place: Place | None, key: str, models: Sequence[Model], focus: str) -> Done:
    async with reading(place) as store:
        await known_session(store, key)
    async with wiring.open(store_to_read(place), model=models, tuning=wiring.Tuning(adopts=False)) as client:
        return await compacted(await client.session(key), focus)


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
        async with wiring.open(store_to_read(place), tuning=wiring.Tuning(adopts=False)) as client:
            is_undone = await (await client.session(key)).undo()
        return (await open_log(store, key)).turn if is_undone else None
