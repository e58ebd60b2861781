"""`holdfast compact`, `undo` and `exclude`: change what the model sees of a session, and take that back."""

import asyncio
from collections.abc import Sequence

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
    require_session,
    store_option,
    store_to_read,
)
from holdfast.cli.output import json_option, sanitize
from holdfast.core.fold.session_state import Turn
from holdfast.ports import Model
from holdfast.runtime.engine.log import open_log
from holdfast.runtime.sessions.session import Session
from holdfast.runtime.sessions.view import Preview
from holdfast.types.records import CompactionApplied, CompactionOutcome, CompactionSettled
from holdfast.wiring import Place

_OUTCOMES = {
    CompactionOutcome.APPLIED: "done",
    CompactionOutcome.NOTHING_TO_DO: "there is nothing to compact",
    CompactionOutcome.DEFERRED: "deferred",
    CompactionOutcome.FAILED: "failed",
    CompactionOutcome.CANCELLED: "cancelled",
}


class CompactionResult(msgspec.Struct, frozen=True):
    """JSON output of `compact`: the outcome, and the compaction record if one was applied."""

    outcome: CompactionOutcome
    why: str
    applied: CompactionApplied | None


@click.command()
@key_argument
@click.option("--focus", default="", metavar="TEXT", help="What the summary should keep in particular.")
@click.option("--preview", is_flag=True, help="Show the result without writing anything or calling a model.")
@click.option(
    "--with-model", is_flag=True, help="With --preview: call a model for the real summary, and keep it for later."
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
    """Replace the older part of the session KEY in the model's view by a summary.

    The process that works on the session compacts it. If there is none, this command does, with the models given here,
    and then also answers pending messages. Nothing is lost: `holdfast undo` takes it back.
    """
    if with_model and not preview:
        raise click.UsageError("--with-model needs --preview; without --preview a model is called anyway.")
    configure_logging()
    opened = open_models(models, base_url=base_url)
    if preview:
        seen = asyncio.run(_preview(store, key, opened, focus, with_model=with_model))
        click.echo(msgspec.json.encode(seen) if as_json else "\n".join(_preview_lines(seen)))
        return
    done = asyncio.run(_compact(store, key, opened, focus))
    click.echo(msgspec.json.encode(done) if as_json else describe_result(key, done))


async def _preview(
    place: Place | None, key: str, models: Sequence[Model], focus: str, *, with_model: bool
) -> Preview | None:
    async with open_to_read(place) as store:
        await require_session(store, key)
    async with wiring.open(store_to_read(place), model=models, system=settings().system, tuning=tuning()) as client:
        return await (await client.session(key)).preview(focus=focus, with_model=with_model)


async def _compact(place: Place | None, key: str, models: Sequence[Model], focus: str) -> CompactionResult:
    async with open_to_read(place) as store:
        await require_session(store, key)
    async with wiring.open(store_to_read(place), model=models, system=settings().system, tuning=tuning()) as client:
        return await compact_session(await client.session(key), focus)


async def compact_session(session: Session, focus: str) -> CompactionResult:
    """Compact a session and return the result."""
    settled = await session.compact(focus=focus)
    return CompactionResult(settled.outcome, settled.why, await _applied(session, settled))


async def _applied(session: Session, settled: CompactionSettled) -> CompactionApplied | None:
    """Return the compaction that a request led to: the first one after it."""
    after = settled.request
    while settled.outcome is CompactionOutcome.APPLIED and (page := await session.history(after=after)):
        for logged in page:
            if isinstance(logged.record, CompactionApplied):
                return logged.record
        after = page[-1].seq
    return None


def describe_result(key: str, done: CompactionResult) -> str:
    """Describe the result of a compaction in one sentence."""
    why = f": {sanitize(done.why)}" if done.why else ""
    if done.applied is None:
        return f"session {key!r}: {_OUTCOMES[done.outcome]}{why}"
    made = f"a summary by {done.applied.model}" if done.applied.model else "a digest made without a model"
    return (
        f"session {key!r}: the messages before message {done.applied.boundary} are replaced by {sanitize(made)}; "
        f"{done.applied.tokens_before:,} tokens became {done.applied.tokens_after:,}"
    )


def _preview_lines(seen: Preview | None) -> list[str]:
    if seen is None:
        return ["There is nothing to compact."]
    leaving = f"{seen.messages:,} messages of {seen.turns:,} turns, records {seen.first_seq} to {seen.last_seq}"
    pins = f", and pinned: {', '.join(map(str, seen.pins))}" if seen.pins else ""
    return [
        f"leaves:    {leaving if seen.messages else 'no messages; a model would summarise the same past'}",
        f"stays:     {seen.messages_kept:,} messages from message {seen.boundary} on{pins}",
        f"tokens:    about {seen.tokens_before:,} now, {seen.tokens_after:,} then",
        *(f"refused:   {sanitize(why)}" for why in seen.refused),
        "",
        f"--- replaced by {f'a summary by {seen.model}' if seen.model else 'a digest, without a model'}",
        sanitize(seen.summary or seen.digest),
    ]


# --- holdfast undo ---


class Undone(msgspec.Struct, frozen=True):
    """JSON output of `undo`: whether something was undone, and the boundary and generation after it."""

    is_undone: bool
    boundary: int | None
    generation: int | None


@click.command()
@key_argument
@store_option
@json_option
def undo(key: str, store: Place | None, *, as_json: bool) -> None:
    """Undo the last compaction or roll-over of the session KEY. Repeat to undo earlier ones.

    It takes effect with the next request, in any process that works on the session.
    """
    configure_logging()
    turn = asyncio.run(_undo(store, key))
    if as_json:
        result = Undone(turn is not None, turn.boundary if turn else None, turn.generation if turn else None)
        click.echo(msgspec.json.encode(result))
        return
    if turn is None:
        click.echo(f"session {key!r}: there is nothing to undo")
        return
    shown = f"from message {turn.boundary} on" if turn.boundary else "from the beginning"
    generation = f", generation {turn.generation}" if turn.generation > 1 else ""
    click.echo(f"session {key!r}: undone; the model sees every message {shown} again{generation}")


async def _undo(place: Place | None, key: str) -> Turn | None:
    async with open_to_read(place) as store:
        await require_session(store, key)
        async with wiring.open(store_to_read(place), tuning=wiring.Tuning(adopts=False)) as client:
            is_undone = await (await client.session(key)).undo()
        return (await open_log(store, key)).turn if is_undone else None


# --- holdfast exclude ---


class ExclusionResult(msgspec.Struct, frozen=True):
    """JSON output of `exclude`: the record, and whether the model sees it now."""

    seq: int
    is_excluded: bool


@click.command()
@key_argument
@click.argument("seq", type=click.IntRange(min=1))
@click.option("--undo", "is_undone", is_flag=True, help="Show it to the model again.")
@store_option
@json_option
def exclude(key: str, seq: int, store: Place | None, *, is_undone: bool, as_json: bool) -> None:
    """Leave record SEQ of the session KEY out of what the model sees: a message, a reply or the result of a tool.

    A line says that it is left out. The log keeps it, and `holdfast recall` reads it. It takes effect with the next
    request, in any process that works on the session.
    """
    configure_logging()
    asyncio.run(_exclude(store, key, seq, is_undone=is_undone))
    if as_json:
        click.echo(msgspec.json.encode(ExclusionResult(seq, is_excluded=not is_undone)))
        return
    told = "is shown to the model again" if is_undone else "is left out of what the model sees; --undo takes that back"
    click.echo(f"session {key!r}: record {seq} {told}")


async def _exclude(place: Place | None, key: str, seq: int, *, is_undone: bool) -> None:
    async with open_to_read(place) as store:
        await require_session(store, key)
    async with wiring.open(store_to_read(place), tuning=wiring.Tuning(adopts=False)) as client:
        await (await client.session(key)).exclude(seq, undo=is_undone)
