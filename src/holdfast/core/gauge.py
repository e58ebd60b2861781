"""How full the window is, when to say so, and when to make room before anybody has to wait for it."""

from holdfast.core.fit import output_reserved
from holdfast.core.fold import Turn
from holdfast.core.limits import Bounds, Limits
from holdfast.core.messages import Message, Reply, Role
from holdfast.core.records import CompactionRequested, SummaryKind, Trigger, WindowWarned
from holdfast.core.sizing import Calibration, tokens_of_message

# Percent of the effective window. At the first a person may still choose what to do; the last is just before the end.
LEVELS = (70, 85, 95)
# From here on room is made in idle moments.
_AHEAD_PERCENT = LEVELS[0]


def percent_full(tokens: int, limits: Limits, calibration: Calibration, bounds: Bounds) -> int | None:
    """Return how much of the room for input a request of so many tokens may take, by a raw estimate of them.

    At 100 the same estimate would refuse it.
    """
    if limits.window_tokens is None:
        return None
    room = limits.window_tokens - output_reserved(limits, bounds)
    return 100 * calibration.upper(tokens) // max(room, 1)


def tokens_behind(turn: Turn, answer: Reply) -> int:
    """Return a raw estimate of the view behind an answer: what was answered, and the answer.

    That view is not built for it: whoever writes next would wait for that, the longer the longer the session is.
    """
    return turn.answered.raw + tokens_of_message(Message(Role.ASSISTANT, answer.parts))


def warning(turn: Turn, percent: int | None, limits: Limits) -> WindowWarned | None:
    """Return what the person should be told now: each level once, until a compaction has made room."""
    reached = max((level for level in LEVELS if percent is not None and percent >= level), default=0)
    if reached <= turn.warned_percent:
        return None
    sentence = (
        f"The model's window of {limits.window_tokens:,} tokens is {percent} % full. Before it is full, older messages "
        "will be represented by a summary; nothing is lost."
    )
    return WindowWarned(turn.number, reached, sentence)


def may_wish(turn: Turn, bounds: Bounds) -> bool:
    """Return whether we may ask for a compaction at all now. Asked first: how full the window is takes measuring."""
    return bounds.compacts_ahead and not (turn.wanted or turn.waiting or turn.quiet_turns)


def wish(turn: Turn, percent: int | None, bounds: Bounds) -> CompactionRequested | None:
    """Return the compaction that we ask for ourselves when a turn has been answered, if any."""
    if not may_wish(turn, bounds):
        return None
    if percent is not None and percent >= _AHEAD_PERCENT:
        return CompactionRequested(Trigger.AHEAD)
    if turn.compaction is not None and turn.compaction.kind is SummaryKind.DIGEST:
        return CompactionRequested(Trigger.DEBT)
    return None
