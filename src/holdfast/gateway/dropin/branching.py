"""A conversation that parts from another begins with that one's log, up to there, and with what was compacted in it.

An edited question or another answer is another past, and so another session. Without this its whole history would be
entered, refused and summarised once more, although nearly all of it is the same.
"""

from dataclasses import dataclass

from holdfast.core.limits import Bounds
from holdfast.core.records import (
    CompactionApplied,
    GenerationStarted,
    InputAdmitted,
    Logged,
    OutputMasked,
    PartReplaced,
    ReasoningDropped,
    ReplyRecorded,
    ToolSettled,
)
from holdfast.errors import BadInputError, RetryLaterError
from holdfast.ports import Store
from holdfast.runtime.copies import forked
from holdfast.runtime.log import pages

_CHANGES_VIEW = (CompactionApplied, GenerationStarted, OutputMasked, PartReplaced, ReasoningDropped)


@dataclass(frozen=True)
class Shared:
    """What a new conversation has in common with an older one: so many messages from the beginning."""

    key: str
    messages: int


async def branched(store: Store, shared: Shared, key: str, bounds: Bounds) -> bool:
    """Make a session of what is shared, and return whether that was of use.

    It is where the view was changed before the two part, so that the change need not be made again.
    """
    at = await _parting(store, shared)
    if at is None:
        return False
    try:
        await forked(store, shared.key, key, at=at, bounds=bounds)
    except (BadInputError, RetryLaterError):
        # The older one was deleted meanwhile, or somebody else was quicker; then all is entered as usual.
        return False
    return True


async def _parting(store: Store, shared: Shared) -> int | None:
    """Return the last record before the message at which two conversations part, None where nothing is gained."""
    parting: int | None = None
    is_changed = False
    async for page in pages(store, shared.key):
        for logged in page:
            if _is_beyond(logged, shared.messages):
                return parting
            is_changed = is_changed or isinstance(logged.record, _CHANGES_VIEW)
            if is_changed and isinstance(logged.record, InputAdmitted):
                # Only between turns: one that is cut in the middle would have to be ended.
                parting = logged.seq - 1
    return parting


def _is_beyond(logged: Logged, messages: int) -> bool:
    """Tell whether a record holds a message that is not shared. A question may be the first of them and still part."""
    match logged.record:
        case InputAdmitted(origin=int() as origin):
            return origin > messages
        case ReplyRecorded(origin=int() as origin) | ToolSettled(origin=int() as origin):
            return origin >= messages
        case _:
            return False
