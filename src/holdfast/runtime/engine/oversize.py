"""Texts that are too large for the model's window: show as much of them as fits."""

from collections.abc import Sequence

from msgspec.structs import replace

from holdfast.core.fold.session_state import Turn
from holdfast.core.limits.fit import output_reserved
from holdfast.core.limits.sizing import tokens_of_parts, tokens_of_text
from holdfast.core.text.outline import outlined
from holdfast.core.text.truncation import fair_shares
from holdfast.core.view.offending_part import LargePart, large_parts, told_of_shorter
from holdfast.errors import BlobMissingError
from holdfast.runtime.engine.context import Engine
from holdfast.runtime.engine.learning import Known
from holdfast.runtime.engine.log import Log
from holdfast.runtime.engine.originals import load_text
from holdfast.runtime.engine.requests import instruction_places, prepare
from holdfast.types.faults import FaultKind, Unit
from holdfast.types.messages import Text
from holdfast.types.records import NoticePosted, PartReplaced, WorkRecord

# Share of the room that is filled: the answer has room beside it, and the estimate a margin. Less where that was not
# enough.
_FILLED_SHARE, _FILLED_AGAIN_SHARE = 0.97, 0.6
# A part of this size says little; it is then replaced in other ways.
_SHOWN_TOKENS_MIN = 100


async def shorten_parts(log: Log, engine: Engine) -> list[WorkRecord] | None:
    """Show texts by beginning, outline and end so that the request fits; None if that is not possible.

    Texts that the model has not accepted yet come first. Several share the room evenly, short ones are shown whole.
    """
    turn = log.turn
    known = await engine.known(engine.model_for(turn), turn)
    kept = instruction_places(log, engine)
    parts = [one for one in large_parts([*log.pinned, *log.tail], turn) if (one.seq, one.place) not in kept]
    for candidates in ([one for one in parts if one.is_fresh], parts):
        shown = await _shortened(candidates, log, engine, known)
        if shown:
            done = _replaced(turn, shown)
            sizes = [(part, tokens_of_text(text)) for part, text in shown]
            return [*done, NoticePosted(turn.number, FaultKind.TOKEN_OVERFLOW.value, told_of_shorter(sizes))]
    return None


def _replaced(turn: Turn, shown: Sequence[tuple[LargePart, str]]) -> list[PartReplaced]:
    why = FaultKind.TOKEN_OVERFLOW.value
    return [PartReplaced(turn.number, part.seq, part.place, Text(text), why) for part, text in shown]


async def _shortened(
    candidates: Sequence[LargePart], log: Log, engine: Engine, known: Known
) -> list[tuple[LargePart, str]]:
    """Return the candidates that must be shorter, with their text; empty if the request would not fit all the same."""
    turn = log.turn
    sizes = [tokens_of_parts([one.shown]) for one in candidates]
    now = prepare(log, engine, known).sizes.tokens
    is_again = any(one.shown is not one.part for one in candidates)
    filled = _FILLED_AGAIN_SHARE if is_again else _FILLED_SHARE
    room = int(_room(turn, known, engine, now) * filled) - (now - sum(sizes))
    shares = fair_shares(sizes, max(room, 0))
    shorter = [(part, share) for part, size, share in zip(candidates, sizes, shares, strict=True) if share < size]
    if not shorter or min(share for _, share in shorter) < _SHOWN_TOKENS_MIN:
        return []
    return [(part, await _shown(part, share, engine)) for part, share in shorter]


def _room(turn: Turn, known: Known, engine: Engine, now: int) -> int:
    """Return how many estimated tokens a request may have: of an unknown window, half of the refused ones."""
    fault = turn.fault
    window = known.limits.window_tokens
    if window is None and fault is not None and fault.unit is Unit.TOKENS:
        window = fault.limit
    if window is None:
        return now // 2
    limits = replace(known.limits, window_tokens=window)
    room = window - output_reserved(limits, engine.bounds)
    return known.calibration.raw_within(room)


async def _shown(part: LargePart, tokens_max: int, engine: Engine) -> str:
    advice = f"recall(seq={part.seq}, offset=n) reads on from byte n"
    if isinstance(part.part, Text):
        return outlined(part.part.text, tokens_max, advice, start_bytes=part.start_bytes)
    try:
        text = await load_text(part.part.blob, engine.blobs)
    except BlobMissingError:
        text = f"{part.part.head}\n[the original of {part.part.blob.size_bytes:,} bytes is missing]"
    # The estimate of a text in a blob is made from its beginning.
    shown = outlined(text, tokens_max, advice, start_bytes=part.start_bytes)
    return f"({part.part.name}:)\n{shown}" if part.part.name else shown
