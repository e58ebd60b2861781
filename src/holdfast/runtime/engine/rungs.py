"""Recovery steps: the work of each rung of the ladder, and its records."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from msgspec.structs import replace

from holdfast.core.compaction.plan import Keeps, plan_mask
from holdfast.core.fold.session_state import Turn
from holdfast.core.limits.fit import clamped, misfit
from holdfast.core.limits.parameters import sentence_of
from holdfast.core.turn.ladder import SUMMARIES
from holdfast.core.view import messages_in_view
from holdfast.core.view.offending_part import (
    Culprit,
    ImageFit,
    find_culprit,
    image_fit,
    is_to_blame,
    size_of,
    told_of,
    told_of_smaller,
)
from holdfast.ports import Images
from holdfast.runtime.engine.context import Engine
from holdfast.runtime.engine.exclusion import leave_out_new, leave_out_unanswered, take_back, taken_back
from holdfast.runtime.engine.learning import Known
from holdfast.runtime.engine.log import Log
from holdfast.runtime.engine.oversize import shorten_parts
from holdfast.runtime.engine.requests import instruction_places, parameters_sent, prepare, settings_of
from holdfast.types.faults import Fault, FaultKind, Phase, Rung
from holdfast.types.messages import Effort, Media, Reasoning, Text
from holdfast.types.records import (
    AttemptFailed,
    EffortChanged,
    NoticePosted,
    OutputClamped,
    OutputMasked,
    ParameterDropped,
    PartReplaced,
    ReasoningDropped,
    RungFinished,
    RungResult,
    WorkRecord,
)

# Characters of the provider's message that a record about a parameter keeps.
_SAID_CHARS = 200

# Appends records immediately, so that an interrupted rung keeps them.
Record: TypeAlias = Callable[..., Awaitable[None]]


async def climb(rung: Rung, log: Log, engine: Engine, record: Record) -> list[WorkRecord]:
    """Perform a rung and return its records; the last one says if it changed anything."""
    done = await _changes(rung, log, engine, record)
    if done is None:
        return [RungFinished(log.turn.number, rung, RungResult.UNCHANGED)]
    if rung is Rung.TAKE_BACK:
        # The same request again would be refused again.
        return [*done, RungFinished(log.turn.number, rung, RungResult.UNCHANGED)]
    return [*done, RungFinished(log.turn.number, rung, RungResult.CHANGED)]


async def _changes(rung: Rung, log: Log, engine: Engine, record: Record) -> list[WorkRecord] | None:
    """Return the records of a rung's changes, None if it changed nothing."""
    if rung in SUMMARIES:
        return await _summarise(rung, log, engine, record)
    if rung in CHECKS:
        return CHECKS[rung](log, engine)
    return await STEPS[rung](log, engine)


# The compaction module is imported on first use: most processes never need it, and it would add a third to the time of
# `import holdfast`.


async def _summarise(rung: Rung, log: Log, engine: Engine, record: Record) -> list[WorkRecord] | None:
    from holdfast.runtime.engine.compaction import summarise  # noqa: PLC0415 - see above
    from holdfast.runtime.engine.notes_ahead import apply_prepared  # noqa: PLC0415 - see above

    done = await apply_prepared(log, engine, record) if engine.is_proxied else None
    return done if done is not None else await summarise(rung, log, engine, record)


async def _digest(log: Log, engine: Engine) -> list[WorkRecord] | None:
    return await _digest_to(log, engine, Keeps.LITTLE if log.turn.is_wanted_climb else Keeps.TAIL)


async def _digest_to(log: Log, engine: Engine, keeps: Keeps) -> list[WorkRecord] | None:
    from holdfast.runtime.engine.compaction import digest  # noqa: PLC0415 - see above

    return await digest(log, engine, keeps)


async def _roll_over(log: Log, engine: Engine) -> list[WorkRecord] | None:
    from holdfast.runtime.engine.compaction import roll_over  # noqa: PLC0415 - see above

    return await roll_over(log, engine)


async def _clamp_output(log: Log, engine: Engine) -> list[WorkRecord] | None:
    """Request less output, if only the output limit was refused."""
    turn, bounds = log.turn, engine.bounds
    if turn.fault is None:
        return None
    prompt_tokens = 0
    if turn.fault.requested is None and turn.fault.output_requested is not None:
        # Only such an error needs our estimate of the input, which measures the whole view.
        known = await engine.known(engine.model_for(turn), turn)
        prompt_tokens = known.calibration.upper(prepare(log, engine, known).sizes.tokens)
    # The default of dialects that require an output limit.
    asked = turn.output_asked or bounds.output_tokens_reserved
    most = clamped(turn.fault, asked=asked, prompt_tokens=prompt_tokens, bounds=bounds)
    if most is None:
        return None
    sentence = (
        f"The model was asked for a longer answer than it takes, so it is asked for at most {most:,} tokens. "
        "What it sees has not changed."
    )
    return [OutputClamped(turn.number, most), NoticePosted(turn.number, "output_clamped", sentence)]


def _drop_reasoning(log: Log, _engine: Engine) -> list[WorkRecord] | None:
    """Send no reasoning that its issuer cannot read; text and tool calls stay."""
    turn = log.turn
    messages = messages_in_view(log.tail, turn, pinned=log.pinned)
    if not any(isinstance(part, Reasoning) for message in messages for part in message.parts):
        return None
    return [ReasoningDropped(turn.number, turn.seq + 1)]


async def _mask(log: Log, engine: Engine) -> list[WorkRecord] | None:
    """Mask old tool output, if that alone frees enough: each change of the view invalidates the prompt cache."""
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
    """Replace everything before the open turn by a digest, and show only the newest of its tool output."""
    done = await _digest_to(log, engine, Keeps.NEWEST) or []
    before = plan_mask(log.tail, masked_before=log.turn.masked_before, keep=1)
    if before is not None and _shows_less(log, before):
        sentence = f"Of this turn's own tool output, only what came from record {before} on is shown; the rest is kept."
        done += [OutputMasked(log.turn.number, before), NoticePosted(log.turn.number, "masked", sentence)]
    return done or None


def _shows_less(log: Log, before: int) -> bool:
    """Return whether masking changes the view: short output is shown as it is."""
    masked = replace(log.turn, masked_before=before)
    return messages_in_view(log.tail, masked, pinned=log.pinned) != messages_in_view(
        log.tail, log.turn, pinned=log.pinned
    )


async def _shrink_image(log: Log, engine: Engine) -> list[WorkRecord] | None:
    """Downscale the refused images until the request is estimated to fit. The originals stay in the log."""
    turn, bounds, images, fault = log.turn, engine.bounds, engine.images, log.turn.fault
    if images is None or fault is None:
        return None
    known = await engine.known(engine.model_for(turn), turn)
    fit = image_fit(fault, known.limits, bounds)
    if fit is None:
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
        smaller = None if is_blamed is False else await _downscaled(images, culprit.media, fit, fault)
        if smaller is not None:
            shrunk.append((culprit, smaller))
            turn = _with_part(turn, culprit, smaller, fault.kind)
            if _fits(turn, log, engine, known):
                break
        elif is_blamed is None:
            # The refused image is unknown, and the likeliest cannot be downscaled: the next rung replaces it.
            break
    if not shrunk:
        return None
    notice = NoticePosted(turn.number, fault.kind.value, told_of_smaller(shrunk))
    return [*turn.replaced[len(log.turn.replaced) :], notice]


async def _downscaled(images: Images, image: Media, fit: ImageFit, fault: Fault) -> Media | None:
    """Return an image downscaled to fit, None if it does not get smaller."""
    smaller = await images.shrink(image, fit)
    return smaller if smaller is not None and size_of(smaller, fault) < size_of(image, fault) else None


def _with_part(turn: Turn, culprit: Culprit, part: Text | Media, kind: FaultKind) -> Turn:
    """Return the state in which a part of the view is replaced by another."""
    shown = PartReplaced(turn.number, culprit.seq, culprit.place, part, kind.value)
    return replace(turn, replaced=(*turn.replaced, shown))


def _fits(turn: Turn, log: Log, engine: Engine, known: Known) -> bool:
    """Return whether the next request would fit in this state, by estimate."""
    sizes = prepare(log, engine, known, turn=turn).sizes
    return misfit(sizes, known.limits, known.calibration, engine.bounds) is None


async def _replace_largest(log: Log, engine: Engine) -> list[WorkRecord] | None:
    """Replace offending parts by a line each until the request is estimated to fit. The originals stay in the log.

    Of texts that have too many tokens, as much as fits is shown.
    """
    turn, fault = log.turn, log.turn.fault
    if (fault is None or fault.kind is FaultKind.TOKEN_OVERFLOW) and (done := await shorten_parts(log, engine)):
        return done
    kind, unit, blamed = (fault.kind, fault.unit, fault.blamed) if fault else (FaultKind.TOKEN_OVERFLOW, None, "")
    known = await engine.known(engine.model_for(turn), turn)
    culprits: list[Culprit] = []
    kept = instruction_places(log, engine)
    while len(culprits) < engine.bounds.parts_replaced_max:
        culprit = find_culprit([*log.pinned, *log.tail], turn, kind, unit=unit, blamed=blamed, passed=kept)
        if culprit is None:
            break
        culprits.append(culprit)
        turn = _with_part(turn, culprit, culprit.shown, kind)
        if _fits(turn, log, engine, known):
            break
    if not culprits:
        return None
    notice = NoticePosted(turn.number, kind.value, told_of(culprits))
    return [*turn.replaced[len(log.turn.replaced) :], notice]


def _was_sent(log: Log) -> bool:
    """Return whether the last refusal came from a model and not from our estimate."""
    for logged in reversed(log.tail):
        if isinstance(logged.record, AttemptFailed):
            return logged.record.refusal.phase is not Phase.ESTIMATE
    return True


def _retry(_log: Log, _engine: Engine) -> list[WorkRecord]:
    return []


def _next_model(log: Log, engine: Engine) -> list[WorkRecord] | None:
    # The next model may take what this one refused with or without.
    return taken_back(log) if log.turn.models_passed + 1 < len(engine.models(log.turn.model)) else None


def _next_summariser(log: Log, engine: Engine) -> list[WorkRecord] | None:
    return [] if log.turn.summarisers_passed + 1 < len(engine.models(log.turn.model)) else None


def _repair_pairs(log: Log, engine: Engine) -> list[WorkRecord] | None:
    # Views of native sessions never have unpaired calls.
    return [] if engine.is_proxied and not log.turn.has_repaired_pairs else None


def _change_effort(log: Log, engine: Engine) -> list[WorkRecord]:
    # Some models refuse reasoning, others refuse requests without it, and the error message rarely says which.
    turn = log.turn
    effort = turn.effort if turn.is_effort_changed else settings_of(log, engine, turn).effort
    is_set = engine.has_client_effort if engine.is_proxied else effort is not None
    return [EffortChanged(log.turn.number, None if is_set else Effort.LOW)]


async def _drop_parameter(log: Log, engine: Engine) -> list[WorkRecord] | None:
    """Leave out the parameter that the model refuses, or send it under its other name, if it was sent."""
    turn = log.turn
    if turn.fault is None:
        return None
    name, model = turn.fault.parameter, engine.model_for(turn)
    request = prepare(log, engine, await engine.known(model, turn)).request
    # Another session may have learned of the parameter while this request was under way, so that the next request is
    # without it: only what this turn left out itself was certainly not sent.
    left_out = tuple(one.parameter for one in turn.dropped)
    present = parameters_sent(replace(request, omitted=left_out), model, engine)
    if name not in present:
        return None
    # A native request never has both names of a parameter.
    sentence = sentence_of(name, present if engine.is_proxied else (), request.omitted)
    dropped = ParameterDropped(turn.number, name, turn.fault.said[:_SAID_CHARS])
    return [dropped, NoticePosted(turn.number, "parameter_dropped", sentence)]


def _send_anyway(log: Log, _engine: Engine) -> list[WorkRecord] | None:
    # Also if the model did answer, and is only suspected of having truncated its input.
    return None if log.turn.suspected is None and _was_sent(log) else []


# Every rung is in SUMMARIES or in one of these tables.
CHECKS: Mapping[Rung, Callable[[Log, Engine], list[WorkRecord] | None]] = {
    Rung.RETRY: _retry,
    Rung.BACKOFF: _retry,
    Rung.FALLBACK_MODEL: _next_model,
    Rung.NEXT_SUMMARISER: _next_summariser,
    Rung.REPAIR_PAIRS: _repair_pairs,
    Rung.DROP_REASONING: _drop_reasoning,
    Rung.CHANGE_EFFORT: _change_effort,
    Rung.SEND_ANYWAY: _send_anyway,
    Rung.LEAVE_OUT_UNANSWERED: leave_out_unanswered,
    Rung.LEAVE_OUT_NEW: leave_out_new,
}
STEPS: Mapping[Rung, Callable[[Log, Engine], Awaitable[list[WorkRecord] | None]]] = {
    Rung.CLAMP_OUTPUT: _clamp_output,
    Rung.DROP_PARAMETER: _drop_parameter,
    Rung.MASK: _mask,
    Rung.DIGEST: _digest,
    Rung.KEEP_NEWEST: _keep_newest,
    Rung.SHRINK_IMAGE: _shrink_image,
    Rung.REPLACE_LARGEST: _replace_largest,
    Rung.ROLL_OVER: _roll_over,
    Rung.TAKE_BACK: take_back,
}
