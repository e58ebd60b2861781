"""Where to cut, and whether it pays: pure planning of a compaction.

Who looks ahead at a compaction and who makes one ask the same function, so what was shown is what is done.
"""

from collections.abc import Sequence
from enum import StrEnum

import msgspec

from holdfast.core.fold.session_state import Turn
from holdfast.core.limits.bounds import Bounds
from holdfast.core.limits.fit import output_reserved
from holdfast.core.limits.sizing import tokens_of_message, tokens_of_text
from holdfast.core.view import ViewMessage, conversation
from holdfast.types.limits import Calibration, Limits
from holdfast.types.messages import Message, Reply, Role
from holdfast.types.records import CompactionRequested, Logged, SummaryKind, ToolSettled, Trigger, WindowWarned

# The window of most models that do not say what theirs is.
_WINDOW_USUAL = 128_000


class Cut(msgspec.Struct, frozen=True):
    """A new boundary: what lies before it is represented, the rest stays verbatim."""

    boundary: int
    tokens_before: int
    tokens_kept: int
    # Where the newest turn alone is too long: the record from which on its work stays verbatim.
    step: int = 0


class Keeps(StrEnum):
    """How much of the conversation stays verbatim."""

    # As much as leaves room for what comes next, after an overflow; little, where someone asked for room.
    TAIL = "tail"
    LITTLE = "little"
    # Nothing but the turn being answered.
    NEWEST = "newest"


class Plan(msgspec.Struct, frozen=True):
    """What a compaction is about: the new boundary, what the view comes to now, what may stand for the past."""

    boundary: int
    step: int
    tokens_before: int
    summary_tokens: int

    def represents(self, said: ViewMessage) -> bool:
        """Return whether a message is to be represented. The input of the turn that is cut into is not: it stays."""
        is_input = said.seq == said.turn
        return said.turn < self.boundary or (said.turn == self.boundary and said.place < self.step and not is_input)

    def moves(self, turn: Turn) -> bool:
        """Return whether the boundary moves; else the same past is represented anew."""
        return (self.boundary, self.step) != (turn.boundary, turn.first_step)


def plan_compaction(
    tail: Sequence[Logged], turn: Turn, limits: Limits, bounds: Bounds, *, tokens: int, keeps: Keeps
) -> Plan | None:
    """Plan a compaction of a view that comes to so many tokens; None where there is nothing to represent."""
    said = conversation(tail, first_turn=turn.boundary, first_step=turn.first_step)
    keep_tokens = 0
    if keeps is Keeps.TAIL:
        keep_tokens = tail_tokens_max(limits, bounds, tokens, beside=_tokens_beside(said, turn, tokens))
    elif keeps is Keeps.LITTLE:
        keep_tokens = asked_tail_tokens_max(limits, bounds)
    cut = plan_cut(said, newest=turn.number or turn.last_turn, keep_tokens=keep_tokens)
    room = summary_tokens_max(limits, tokens)
    if cut is not None:
        return Plan(cut.boundary, cut.step, tokens, room)
    if turn.compaction is not None and turn.compaction.kind is SummaryKind.DIGEST and not turn.number:
        # Nothing to cut, but a debt to pay: the same past, by a model this time.
        return Plan(turn.boundary, turn.first_step, tokens, room)
    return None


def _tokens_beside(said: Sequence[ViewMessage], turn: Turn, tokens: int) -> int:
    """Return what system text, tools and pins come to: all but the conversation, and the summary that is made anew."""
    spoken = sum(tokens_of_message(one.message) for one in said)
    return max(0, tokens - spoken - (tokens_of_text(turn.compaction.summary) if turn.compaction else 0))


def plan_cut(tail: Sequence[ViewMessage], *, newest: int, keep_tokens: int) -> Cut | None:
    """Keep whole turns from the newest backwards while they fit.

    The newest input always stays. Where the work done on it is too long by itself, the newest steps of that work stay,
    one at least, each with its tool results. Returns None where all that would leave everything as it is.
    """
    sizes: dict[int, int] = {}
    for said in tail:
        sizes[said.turn] = sizes.get(said.turn, 0) + tokens_of_message(said.message)
    boundary, kept, step = newest, sizes.get(newest, 0), 0
    if kept > keep_tokens:
        step, kept = _newest_steps([said for said in tail if said.turn == newest], keep_tokens)
    else:
        for turn in sorted((turn for turn in sizes if turn < newest), reverse=True):
            if kept + sizes[turn] > keep_tokens:
                break
            kept += sizes[turn]
            boundary = turn
    if boundary <= min(sizes, default=newest) and not step:
        return None
    return Cut(boundary, sum(sizes.values()), kept, step)


def _newest_steps(work: Sequence[ViewMessage], keep_tokens: int) -> tuple[int, int]:
    """Return the record at which the newest steps that fit begin, 0 where all stay, and the tokens of what stays."""
    steps: list[list[ViewMessage]] = [[]]
    for said in work:
        if said.message.role is Role.ASSISTANT:
            steps.append([])
        steps[-1].append(said)
    sizes = [sum(tokens_of_message(said.message) for said in step) for step in steps]
    # Before the first step stands the input.
    kept, first = sizes[0], len(steps)
    while first > 1 and (first == len(steps) or kept + sizes[first - 1] <= keep_tokens):
        first -= 1
        kept += sizes[first]
    return (steps[first][0].place, kept) if first > 1 and first < len(steps) else (0, sum(sizes))


def plan_mask(tail: Sequence[Logged], *, masked_before: int, keep: int) -> int | None:
    """Return the seq before which tool output is to be masked, so that this many outputs stay; None: nothing to do."""
    settled = [logged.seq for logged in tail if isinstance(logged.record, ToolSettled)]
    if len(settled) <= keep:
        return None
    before = settled[-keep] if keep else settled[-1] + 1
    return before if before > masked_before else None


def tail_tokens_max(limits: Limits, bounds: Bounds, refused_tokens: int, *, beside: int = 0) -> int:
    """Return how many tokens the tail may have after a compaction, where so many stand beside the conversation.

    Where the window is not known, the size of the request that was refused stands in for it.
    """
    window = min(limits.window_tokens or refused_tokens, refused_tokens)
    return int(max(0, window - beside) * bounds.tail_window_share)


def asked_tail_tokens_max(limits: Limits, bounds: Bounds) -> int:
    """Return how many tokens the tail may have after a compaction that someone asked for.

    It does not depend on how large the view is now, so asking again changes nothing.
    """
    return int((limits.window_tokens or _WINDOW_USUAL) * bounds.asked_tail_window_share)


def summary_tokens_max(limits: Limits, refused_tokens: int) -> int:
    """Return how many tokens may stand for everything before the boundary.

    An eighth of the window leaves the tail and the answer their room; beyond 3,000 tokens a digest adds little.
    """
    window = min(limits.window_tokens or refused_tokens, refused_tokens)
    return max(200, min(3_000, window // 8))


# --- How full the window is, when to say so, and when to make room before anybody has to wait for it.


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
