"""The ladder: which rungs, in which order, for which fault.

A rung is one way of recovering. The table is the whole policy; `next_rung` only reads it. A rung that stands in a row
twice may be climbed twice, and none more often than it stands there, so recovery always ends.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from holdfast.core.limits.bounds import Bounds
from holdfast.types.faults import Fault, FaultKind, Rung

# Three waits cover the bursts seen in practice; a fourth rarely helps and makes a person wait for minutes.
_WAIT_THEN_SWITCH = (Rung.BACKOFF, Rung.BACKOFF, Rung.BACKOFF, Rung.FALLBACK_MODEL)
# A summariser that fails is followed by the next, with the same three ways.
SUMMARIES = (Rung.SUMMARISE, Rung.SUMMARISE_LESS, Rung.SUMMARISE_PIECES)
_WITHOUT_A_MODEL = (Rung.DIGEST, Rung.KEEP_NEWEST)
# Rolling over gives up what a person pinned and the work in hand, so every model is asked before.
_AT_LAST = (Rung.SEND_ANYWAY, Rung.FALLBACK_MODEL, Rung.ROLL_OVER)
# One large part may hide behind another; more than a few in one step is a flood, and the digest takes care of it.
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
        # A past that cannot be replayed is represented instead of repeated.
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

# What a person who asks for a compaction gets: a summary, else a digest. We ourselves ask only for summaries.
ASKED_BY_A_PERSON = (*SUMMARIES, Rung.NEXT_SUMMARISER, Rung.DIGEST)
ASKED_BY_US = (*SUMMARIES, Rung.NEXT_SUMMARISER)

# A request for a summary that fails climbs the row of its fault too, but only by these rungs: the others change a view
# that the request does not have.
SUMMARY_RUNGS = frozenset({Rung.RETRY, Rung.BACKOFF, Rung.CLAMP_OUTPUT, Rung.CHANGE_EFFORT})
# A compaction makes its caller wait, so a request for a summary is repeated once and never backs off for long.
SUMMARY_CLIMBS_MAX = 1
SUMMARY_BACKOFF_SECONDS_MAX = 20.0


def next_rung(fault: Fault, climbed: Sequence[Rung], bounds: Bounds) -> Rung | None:
    """Name the first rung of the fault's row that has not been climbed as often as it stands there."""
    return first_left(rungs_for(fault, bounds), climbed)


def rungs_for(fault: Fault, bounds: Bounds) -> Sequence[Rung]:
    """Return the row of a fault, without backoff if the provider asks for a longer wait than we allow."""
    row = LADDER[fault.kind]
    if fault.kind is FaultKind.EMPTY_RESPONSE and fault.second_kind is FaultKind.TOKEN_OVERFLOW:
        # The window was almost full, so there may have been no room to answer in.
        row = (Rung.RETRY, *LADDER[FaultKind.TOKEN_OVERFLOW])
    if (fault.retry_after_seconds or 0) > bounds.back_off_seconds_max:
        # The provider says that waiting as long as we are willing to wait cannot help.
        row = tuple(rung for rung in row if rung is not Rung.BACKOFF)
    return row


def first_left(row: Sequence[Rung], climbed: Sequence[Rung]) -> Rung | None:
    """Name the first rung of a row that has not been climbed as often as it stands there."""
    left = Counter(climbed)
    for rung in row:
        if left[rung] == 0:
            return rung
        left[rung] -= 1
    return None


def next_summary_rung(fault: Fault, climbed: Sequence[Rung], bounds: Bounds) -> Rung | None:
    """Name the next rung for a request for a summary that failed; None if the summariser is given up."""
    if len(climbed) >= SUMMARY_CLIMBS_MAX:
        return None
    row = tuple(rung for rung in rungs_for(fault, bounds) if rung in SUMMARY_RUNGS)
    if (fault.retry_after_seconds or 0) > SUMMARY_BACKOFF_SECONDS_MAX:
        row = tuple(rung for rung in row if rung is not Rung.BACKOFF)
    return first_left(row, climbed)


def backoff_seconds(fault: Fault, climbed: Sequence[Rung], bounds: Bounds) -> float:
    """Return how long to wait: as the provider said, else four times longer each time, within the bound."""
    waits = sum(rung is Rung.BACKOFF for rung in climbed)
    wanted = fault.retry_after_seconds or bounds.back_off_seconds_min * 4**waits
    return min(max(wanted, bounds.back_off_seconds_min), bounds.back_off_seconds_max)
