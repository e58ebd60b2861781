"""The recovery ladder: a row of rungs for each kind of fault.

A rung is one recovery step. The table is the whole policy; `next_rung` only reads it. A rung may be climbed as often as
its row lists it, so recovery always ends.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from holdfast.core.limits.bounds import Bounds
from holdfast.types.faults import Fault, FaultKind, Rung

# Three backoffs cover the bursts seen in practice; a fourth rarely helps and takes minutes.
_WAIT_THEN_SWITCH = (Rung.BACKOFF, Rung.BACKOFF, Rung.BACKOFF, Rung.FALLBACK_MODEL)
# The three summary methods, tried again with each next summariser.
SUMMARIES = (Rung.SUMMARISE, Rung.SUMMARISE_LESS, Rung.SUMMARISE_PIECES)
_WITHOUT_A_MODEL = (Rung.DIGEST, Rung.KEEP_NEWEST)
# Rolling over drops pinned messages and the work of the open turn, so every model is tried first.
_AT_LAST = (Rung.SEND_ANYWAY, Rung.FALLBACK_MODEL, Rung.ROLL_OVER)
# One large part may hide behind another; the digest handles more than three in one step.
_REPLACE = (Rung.REPLACE_LARGEST,) * 3

LADDER: Mapping[FaultKind, tuple[Rung, ...]] = MappingProxyType(
    {
        FaultKind.TOKEN_OVERFLOW: (
            Rung.CLAMP_OUTPUT,
            Rung.MASK,
            *SUMMARIES,
            Rung.NEXT_SUMMARISER,
            *_WITHOUT_A_MODEL,
            Rung.REPLACE_LARGEST,
            *_AT_LAST,
        ),
        # Never a model's summary: its request would carry the same bytes.
        FaultKind.WIRE_OVERFLOW: (Rung.SHRINK_IMAGE, *_REPLACE, *_WITHOUT_A_MODEL, *_AT_LAST),
        FaultKind.MEDIA_OVERFLOW: (Rung.SHRINK_IMAGE, *_REPLACE, *_WITHOUT_A_MODEL, *_AT_LAST),
        FaultKind.RATE_LIMIT: _WAIT_THEN_SWITCH,
        FaultKind.OVERLOADED: _WAIT_THEN_SWITCH,
        FaultKind.TRANSIENT: _WAIT_THEN_SWITCH,
        FaultKind.STREAM_STALL: (Rung.RETRY, Rung.BACKOFF, Rung.FALLBACK_MODEL),
        FaultKind.QUOTA: (Rung.FALLBACK_MODEL,),
        FaultKind.AUTH: (Rung.FALLBACK_MODEL,),
        FaultKind.MODEL_NOT_FOUND: (Rung.FALLBACK_MODEL,),
        FaultKind.BAD_REQUEST_REASONING: (Rung.DROP_REASONING, Rung.CHANGE_EFFORT, Rung.FALLBACK_MODEL),
        # A history that cannot be replayed is replaced by a digest.
        FaultKind.TOOL_PAIRING: (
            Rung.REPAIR_PAIRS,
            Rung.DROP_REASONING,
            *_WITHOUT_A_MODEL,
            Rung.FALLBACK_MODEL,
            Rung.ROLL_OVER,
        ),
        FaultKind.CONTENT_POLICY: (Rung.FALLBACK_MODEL,),
        FaultKind.EMPTY_RESPONSE: (Rung.RETRY, Rung.FALLBACK_MODEL),
        FaultKind.BAD_REQUEST: (Rung.CLAMP_OUTPUT, Rung.FALLBACK_MODEL),
    }
)

# Rungs for compaction requests. A person gets a summary, else a digest; automatic requests try summaries only.
ASKED_BY_A_PERSON = (*SUMMARIES, Rung.NEXT_SUMMARISER, Rung.DIGEST)
ASKED_BY_US = (*SUMMARIES, Rung.NEXT_SUMMARISER)

# Rungs for a failed summary request. The others change the view, which such a request does not use.
SUMMARY_RUNGS = frozenset({Rung.RETRY, Rung.BACKOFF, Rung.CLAMP_OUTPUT, Rung.CHANGE_EFFORT})
# A compaction blocks its caller, so a summary request is retried once and with a short backoff.
SUMMARY_CLIMBS_MAX = 1
SUMMARY_BACKOFF_SECONDS_MAX = 20.0


def next_rung(fault: Fault, climbed: Sequence[Rung], bounds: Bounds) -> Rung | None:
    """Return the first rung left in the row of a fault; None if all are used."""
    return first_left(rungs_for(fault, bounds), climbed)


def rungs_for(fault: Fault, bounds: Bounds) -> Sequence[Rung]:
    """Return the row of a fault, without backoff if the provider asks for a longer wait than the bound allows."""
    row = LADDER[fault.kind]
    if fault.kind is FaultKind.EMPTY_RESPONSE and fault.second_kind is FaultKind.TOKEN_OVERFLOW:
        # The window was almost full, so there may have been no room for an answer.
        row = (Rung.RETRY, *LADDER[FaultKind.TOKEN_OVERFLOW])
    if (fault.retry_after_seconds or 0) > bounds.back_off_seconds_max:
        # Retry-After exceeds the longest backoff, so a retry would fail again.
        row = tuple(rung for rung in row if rung is not Rung.BACKOFF)
    return row


def first_left(row: Sequence[Rung], climbed: Sequence[Rung]) -> Rung | None:
    """Return the first rung that was climbed fewer times than the row lists it."""
    left = Counter(climbed)
    for rung in row:
        if left[rung] == 0:
            return rung
        left[rung] -= 1
    return None


def next_summary_rung(fault: Fault, climbed: Sequence[Rung], bounds: Bounds) -> Rung | None:
    """Return the next rung for a failed summary request; None if the summariser is given up."""
    if len(climbed) >= SUMMARY_CLIMBS_MAX:
        return None
    row = tuple(rung for rung in rungs_for(fault, bounds) if rung in SUMMARY_RUNGS)
    if (fault.retry_after_seconds or 0) > SUMMARY_BACKOFF_SECONDS_MAX:
        row = tuple(rung for rung in row if rung is not Rung.BACKOFF)
    return first_left(row, climbed)


def backoff_seconds(fault: Fault, climbed: Sequence[Rung], bounds: Bounds) -> float:
    """Return the backoff: Retry-After if given, else exponential with factor 4, within the bounds."""
    waits = sum(rung is Rung.BACKOFF for rung in climbed)
    wanted = fault.retry_after_seconds or bounds.back_off_seconds_min * 4**waits
    return min(max(wanted, bounds.back_off_seconds_min), bounds.back_off_seconds_max)
