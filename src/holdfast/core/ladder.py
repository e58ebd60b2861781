"""The ladder: which rungs, in which order, for which fault.

A rung is one way of recovering. The table is the whole policy; `next_rung` only reads it. A rung that stands in a row
twice may be climbed twice, and none more often than it stands there, so recovery always ends.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType

from holdfast.core.faults import Fault, FaultKind
from holdfast.core.limits import Bounds


class Rung(StrEnum):
    """One way of recovering."""

    BACK_OFF = "back_off"
    TRY_AGAIN = "try_again"
    NEXT_MODEL = "next_model"
    # Represent what is old by a text made without a model, and keep the tail.
    DIGEST = "digest"
    # The same, and keep nothing verbatim but the turn being answered.
    KEEP_NEWEST = "keep_newest"
    # Where only our own estimate says no: an estimate may be wrong, so the model has the last word.
    SEND_ANYWAY = "send_anyway"


# Three waits cover the bursts seen in practice; a fourth rarely helps and makes a person wait for minutes.
_WAIT_THEN_SWITCH = (Rung.BACK_OFF, Rung.BACK_OFF, Rung.BACK_OFF, Rung.NEXT_MODEL)
_SHRINK = (Rung.DIGEST, Rung.KEEP_NEWEST, Rung.SEND_ANYWAY)

LADDER: Mapping[FaultKind, tuple[Rung, ...]] = MappingProxyType(
    {
        FaultKind.TOKEN_OVERFLOW: (*_SHRINK, Rung.NEXT_MODEL),
        # Never a model's summary: its request would carry the same bytes.
        FaultKind.WIRE_OVERFLOW: (*_SHRINK, Rung.NEXT_MODEL),
        FaultKind.MEDIA_OVERFLOW: (*_SHRINK, Rung.NEXT_MODEL),
        FaultKind.RATE_LIMIT: _WAIT_THEN_SWITCH,
        FaultKind.OVERLOADED: _WAIT_THEN_SWITCH,
        FaultKind.TRANSIENT: _WAIT_THEN_SWITCH,
        FaultKind.STREAM_STALL: (Rung.TRY_AGAIN, Rung.BACK_OFF, Rung.NEXT_MODEL),
        FaultKind.QUOTA: (Rung.NEXT_MODEL,),
        FaultKind.AUTH: (Rung.NEXT_MODEL,),
        FaultKind.MODEL_NOT_FOUND: (Rung.NEXT_MODEL,),
        FaultKind.BAD_REQUEST_REASONING: (Rung.NEXT_MODEL,),
        # A past that cannot be replayed is represented instead of repeated.
        FaultKind.TOOL_PAIRING: (*_SHRINK, Rung.NEXT_MODEL),
        FaultKind.CONTENT_POLICY: (Rung.NEXT_MODEL,),
        FaultKind.EMPTY_RESPONSE: (Rung.TRY_AGAIN, Rung.NEXT_MODEL),
        FaultKind.BAD_REQUEST: (Rung.NEXT_MODEL,),
    }
)


def next_rung(fault: Fault, climbed: Sequence[Rung], bounds: Bounds) -> Rung | None:
    """Name the first rung of the fault's row that has not been climbed as often as it stands there."""
    left = Counter(climbed)
    for rung in LADDER[fault.kind]:
        if rung is Rung.BACK_OFF and (fault.retry_after_seconds or 0) > bounds.back_off_seconds_max:
            # The provider says that waiting as long as we are willing to wait cannot help.
            continue
        if left[rung] == 0:
            return rung
        left[rung] -= 1
    return None


def back_off_seconds(fault: Fault, climbed: Sequence[Rung], bounds: Bounds) -> float:
    """Return how long to wait: as the provider said, else four times longer each time, within the bound."""
    waits = sum(rung is Rung.BACK_OFF for rung in climbed)
    wanted = fault.retry_after_seconds or bounds.back_off_seconds_min * 4**waits
    return min(max(wanted, bounds.back_off_seconds_min), bounds.back_off_seconds_max)
