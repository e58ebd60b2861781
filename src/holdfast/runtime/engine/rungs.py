"""Climbing a rung: what each way of recovering does, and the records that say so."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias, assert_never

from msgspec.structs import replace

from holdfast.core.compaction.plan import Keeps, plan_mask
from holdfast.core.limits.fit import clamped, misfit
from holdfast.core.view import messages_in_view
from holdfast.core.view.offending_part import (
    Culprit,
    find_culprit,
    image_fit,
    is_to_blame,
    size_of,
    told_of,
    told_of_smaller,
)
from holdfast.runtime.engine.context import Engine
from holdfast.runtime.engine.log import Log
from holdfast.runtime.engine.requests import prepare
from holdfast.types.faults import FaultKind, Phase, Rung
from holdfast.types.messages import Effort, Media, Reasoning
from holdfast.types.records import (
    AttemptFailed,
    EffortChanged,
    NoticePosted,
    OutputClamped,
    OutputMasked,
    PartReplaced,
    ReasoningDropped,
    RungFinished,
    RungResult,
    WorkRecord,
)

# Appends records at once, for what must not be lost if the rung is interrupted.
Record: TypeAlias = Callable[..., Awaitable[None]]


async def climb(rung: Rung, log: Log, engine: Engine, record: Record) -> list[WorkRecord]:
    """Do what a rung does and return the records of it, the last of which says whether it changed anything."""
    done = await _changes(rung, log, engine, record)
    if done is None:
        return [RungFinished(log.turn.number, rung, RungResult.UNCHANGED)]
    return [*done, RungFinished(log.turn.number, rung, RungResult.CHANGED)]


async def _changes(rung: Rung, log: Log, engine: Engine, record: Record) -> list[WorkRecord] | None:
    """Return the records of what a rung changed, None where it changed nothing."""
    match rung:
        case Rung.RETRY | Rung.BACKOFF:
            return []
        case Rung.FALLBACK_MODEL:
            return [] if log.turn.models_passed + 1 < len(engine.models(log.turn.model)) else None
        case Rung.NEXT_SUMMARISER:
            return [] if log.turn.summarisers_passed + 1 < len(engine.models(log.turn.model)) else None
        case Rung.CLAMP_OUTPUT:
            return await _clamp_output(log, engine)
        case Rung.REPAIR_PAIRS:
            # Views of native sessions never have unpaired calls.
            return [] if engine.is_proxied and not log.turn.has_repaired_pairs else None
        case Rung.DROP_REASONING:
            return _drop_reasoning(log)
        case Rung.CHANGE_EFFORT:
            # Some models refuse to think, some refuse not to, and the sentence that says which is rarely clear.
            is_set = engine.has_client_effort if engine.is_proxied else log.turn.effort is not None
            return [EffortChanged(log.turn.number, None if is_set else Effort.LOW)]
        case Rung.MASK:
            return await _mask(log, engine)
        case Rung.SUMMARISE | Rung.SUMMARISE_LESS | Rung.SUMMARISE_PIECES:
            return await _summarise(rung, log, engine, record)
        case Rung.DIGEST:
            return await _digest(log, engine, Keeps.LITTLE if log.turn.is_wanted_climb else Keeps.TAIL)
        case Rung.KEEP_NEWEST:
            return await _keep_newest(log, engine)
        case Rung.SHRINK_IMAGE:
            return await _shrink_image(log, engine)
        case Rung.REPLACE_LARGEST:
            return await _replace_largest(log, engine)
        case Rung.SEND_ANYWAY:
            # Also where the model did answer, and was only suspected of not having read everything.
            return None if log.turn.suspected is None and _was_sent(log) else []
        case Rung.ROLL_OVER:
            return await _roll_over(log, engine)
        case _:
            assert_never(rung)


# What digests and summaries are made with is loaded when it is first needed: most processes never need it, and it is a
# third of what `import holdfast` would take.


async def _summarise(rung: Rung, log: Log, engine: Engine, record: Record) -> list[WorkRecord] | None:
    from holdfast.runtime.engine.compaction import summarise  # noqa: PLC0415 - see above

    return await summarise(rung, log, engine, record)


async def _digest(log: Log, engine: Engine, keeps: Keeps) -> list[WorkRecord] | None:
    from holdfast.runtime.engine.compaction import digest  # noqa: PLC0415 - see above

    return await digest(log, engine, keeps)


async def _roll_over(log: Log, engine: Engine) -> list[WorkRecord] | None:
    from holdfast.runtime.engine.compaction import roll_over  # noqa: PLC0415 - see above

    return await roll_over(log, engine)


async def _clamp_output(log: Log, engine: Engine) -> list[WorkRecord] | None:
    """Ask for less output, where that is all that was refused."""
    turn, bounds = log.turn, engine.bounds
    if turn.fault is None:
        return None
    known = await engine.known(engine.model_for(turn), turn)
    prompt_tokens = known.calibration.upper(prepare(log, engine, known).sizes.tokens)
    # A dialect that must name a number names this one.
    asked = turn.output_asked or bounds.output_tokens_reserved
    most = clamped(turn.fault, asked=asked, prompt_tokens=prompt_tokens, bounds=bounds)
    if most is None:
        return None
    sentence = (
        f"The model was asked for a longer answer than it takes, so it is asked for at most {most:,} tokens. "
        "What it sees has not changed."
    )
    return [OutputClamped(turn.number, most), NoticePosted(turn.number, "output_clamped", sentence)]


def _drop_reasoning(log: Log) -> list[WorkRecord] | None:
    """Send no thinking back that its issuer cannot read. What was said and done stays."""
    turn = log.turn
    messages = messages_in_view(log.tail, turn, pinned=log.pinned)
    if not any(isinstance(part, Reasoning) for message in messages for part in message.parts):
        return None
    return [ReasoningDropped(turn.number, turn.seq + 1)]


async def _mask(log: Log, engine: Engine) -> list[WorkRecord] | None:
    """Mask old tool output, if that alone makes enough room: a second change to the view would cost the cache twice."""
    turn = log.turn
    known = await engine.known(engine.model_for(turn), turn)
    before = plan_mask(log.tail, masked_before=turn.masked_before, keep=engine.bounds.outputs_kept)
    if before is None:
        return None
    now = prepare(log, engine, known).sizes.tokens
    then = prepare(log, engine, known, turn=replace(turn, masked_before=before)).sizes.tokens
    room = min(known.limits.window_tokens or now, known.calibration.upper(now)) * engine.bounds.mask_window_share
    if known.calibration.upper(then) > room:
        return None
    return _masked(log, before, now - then)


def _masked(log: Log, before: int, freed: int) -> list[WorkRecord]:
    number = log.turn.number
    sentence = (
        f"Output of tools before record {before} is now shown by a line each, which frees about {freed:,} tokens. "
        "The whole output stays in the log and can be read."
    )
    return [OutputMasked(number, before), NoticePosted(number, "masked", sentence)]


async def _keep_newest(log: Log, engine: Engine) -> list[WorkRecord] | None:
    """Represent everything but the turn being answered, and of its own tool output show only the newest."""
    done = await _digest(log, engine, Keeps.NEWEST) or []
    before = plan_mask(log.tail, masked_before=log.turn.masked_before, keep=1)
    if before is not None:
        sentence = f"Of this turn's own tool output, only what came from record {before} on is shown; the rest is kept."
        done += [OutputMasked(log.turn.number, before), NoticePosted(log.turn.number, "masked", sentence)]
    return done or None


async def _shrink_image(log: Log, engine: Engine) -> list[WorkRecord] | None:
    """Show images that are to blame smaller, until by all we know the request fits. The originals stay in the log."""
    turn, bounds, images, fault = log.turn, engine.bounds, engine.images, log.turn.fault
    known = await engine.known(engine.model_for(turn), turn)
    fit = image_fit(fault, known.limits, bounds) if fault else None
    if images is None or fault is None or fit is None:
        return None
    shrunk: list[tuple[Culprit, Media]] = []
    passed: set[tuple[int, int]] = set()
    while len(passed) < bounds.parts_replaced_max:
        culprit = find_culprit(
            [*log.pinned, *log.tail], turn, fault.kind, unit=fault.unit, blamed=fault.blamed, passed=passed
        )
        if culprit is None or culprit.media is None:
            break
        passed.add((culprit.seq, culprit.place))
        is_blamed = is_to_blame(culprit.media, fault, known.limits)
        smaller = None if is_blamed is False else await images.shrink(culprit.media, fit)
        if smaller is not None and size_of(smaller, fault) < size_of(culprit.media, fault):
            shrunk.append((culprit, smaller))
            shown = PartReplaced(turn.number, culprit.seq, culprit.place, smaller, fault.kind.value)
            turn = replace(turn, replaced=(*turn.replaced, shown))
            if misfit(prepare(log, engine, known, turn=turn).sizes, known.limits, known.calibration, bounds) is None:
                break
        elif is_blamed is None:
            # Nobody can say which it is, and the likeliest cannot be made smaller: it is left out next.
            break
    if not shrunk:
        return None
    notice = NoticePosted(turn.number, fault.kind.value, told_of_smaller(shrunk))
    return [*turn.replaced[len(log.turn.replaced) :], notice]


async def _replace_largest(log: Log, engine: Engine) -> list[WorkRecord] | None:
    """Show what is to blame by a line each, until by all we know the request fits. The originals stay in the log."""
    turn, bounds = log.turn, engine.bounds
    fault = turn.fault
    kind, unit, blamed = (fault.kind, fault.unit, fault.blamed) if fault else (FaultKind.TOKEN_OVERFLOW, None, "")
    known = await engine.known(engine.model_for(turn), turn)
    culprits: list[Culprit] = []
    while len(culprits) < bounds.parts_replaced_max:
        culprit = find_culprit([*log.pinned, *log.tail], turn, kind, unit=unit, blamed=blamed)
        if culprit is None:
            break
        culprits.append(culprit)
        shown = PartReplaced(turn.number, culprit.seq, culprit.place, culprit.shown, kind.value)
        turn = replace(turn, replaced=(*turn.replaced, shown))
        sizes = prepare(log, engine, known, turn=turn).sizes
        if misfit(sizes, known.limits, known.calibration, bounds) is None:
            break
    if not culprits:
        return None
    notice = NoticePosted(turn.number, kind.value, told_of(culprits))
    return [*turn.replaced[len(log.turn.replaced) :], notice]


def _was_sent(log: Log) -> bool:
    """Return whether the last refusal came from a model, and not from our own estimate."""
    for logged in reversed(log.tail):
        if isinstance(logged.record, AttemptFailed):
            return logged.record.refusal.phase is not Phase.ESTIMATE
    return True
