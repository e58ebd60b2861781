"""Plan a compaction: the new boundary, sizes, warnings and proactive requests.

The preview and the compaction use the same function, so they agree.
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

# Assumed window of models that do not declare one.
_WINDOW_USUAL = 128_000


class Cut(msgspec.Struct, frozen=True):
    """A new boundary: everything before it is summarised, the rest stays verbatim."""

    boundary: int
    tokens_before: int
    tokens_kept: int
    # If the newest turn alone is too long: the record from which its work stays verbatim.
    step: int = 0


class Keeps(StrEnum):
    """The part of the conversation that stays verbatim."""

    # A tail that leaves room for new messages, after an overflow; a short one, for a requested compaction.
    TAIL = "tail"
    LITTLE = "little"
    # Only the open turn.
    NEWEST = "newest"


class Plan(msgspec.Struct, frozen=True):
    """A planned compaction: the new boundary, the current size of the view, and the size limit of the summary."""

    boundary: int
    step: int
    tokens_before: int
    summary_tokens: int

    def represents(self, said: ViewMessage) -> bool:
        """Return whether the summary replaces a message. The input of a turn that is cut inside stays."""
        is_input = said.seq == said.turn
        return said.turn < self.boundary or (said.turn == self.boundary and said.place < self.step and not is_input)

    def moves(self, turn: Turn) -> bool:
        """Return whether the boundary moves; if not, the same messages are summarised again."""
        return (self.boundary, self.step) != (turn.boundary, turn.first_step)


def plan_compaction(
    tail: Sequence[Logged], turn: Turn, limits: Limits, bounds: Bounds, *, tokens: int, keeps: Keeps
) -> Plan | None:
    """Plan a compaction of a view of this size; None if there is nothing to summarise."""
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
        # The boundary stays, but a model can replace the digest.
        return Plan(turn.boundary, turn.first_step, tokens, room)
    return None


def _tokens_beside(said: Sequence[ViewMessage], turn: Turn, tokens: int) -> int:
    """Return the tokens of system text, tools and pins: all but the conversation and the summary to be replaced."""
    spoken = sum(tokens_of_message(one.message) for one in said)
    return max(0, tokens - spoken - (tokens_of_text(turn.compaction.summary) if turn.compaction else 0))


def plan_cut(tail: Sequence[ViewMessage], *, newest: int, keep_tokens: int) -> Cut | None:
    """Keep whole turns from the newest backwards while they fit.

    The newest input always stays. If the work on it is too long by itself, its newest steps stay, at least one, each
    with its tool results. Returns None if the boundary would not move.
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
    """Return the first record of the newest steps that fit, 0 if all stay, and the tokens that stay."""
    steps: list[list[ViewMessage]] = [[]]
    for said in work:
        if said.message.role is Role.ASSISTANT:
            steps.append([])
        steps[-1].append(said)
    sizes = [sum(tokens_of_message(said.message) for said in step) for step in steps]
    # The input precedes the first step.
    kept, first = sizes[0], len(steps)
    while first > 1 and (first == len(steps) or kept + sizes[first - 1] <= keep_tokens):
        first -= 1
        kept += sizes[first]
    return (steps[first][0].place, kept) if first > 1 and first < len(steps) else (0, sum(sizes))


def plan_mask(tail: Sequence[Logged], *, masked_before: int, keep: int) -> int | None:
    """Return the seq before which to mask tool output, so that this many outputs stay; None: nothing to do."""
    settled = [logged.seq for logged in tail if isinstance(logged.record, ToolSettled)]
    if len(settled) <= keep:
        return None
    before = settled[-keep] if keep else settled[-1] + 1
    return before if before > masked_before else None


def tail_tokens_max(limits: Limits, bounds: Bounds, refused_tokens: int, *, beside: int = 0) -> int:
    """Return the token limit of the tail after a compaction; `beside` are the tokens outside the conversation.

    The size of the rejected request replaces an unknown window.
    """
    window = min(limits.window_tokens or refused_tokens, refused_tokens)
    return int(max(0, window - beside) * bounds.tail_window_share)


def asked_tail_tokens_max(limits: Limits, bounds: Bounds) -> int:
    """Return the token limit of the tail after a requested compaction.

    It does not depend on the current size of the view, so that a repeated request changes nothing.
    """
    return int((limits.window_tokens or _WINDOW_USUAL) * bounds.asked_tail_window_share)


def summary_tokens_max(limits: Limits, refused_tokens: int) -> int:
    """Return the token limit of the summary.

    An eighth of the window leaves room for the tail and the answer; beyond 3,000 tokens a digest adds little.
    """
    window = min(limits.window_tokens or refused_tokens, refused_tokens)
    return max(200, min(3_000, window // 8))


# --- Fill level of the window, warnings and proactive compaction ---

# Percent of the effective window. At the first the user still has a choice; the last is just before the limit.
LEVELS = (70, 85, 95)
# Level from which the session compacts while idle.
_AHEAD_PERCENT = LEVELS[0]


def percent_full(tokens: int, limits: Limits, calibration: Calibration, bounds: Bounds) -> int | None:
    """Return the upper bound of the input room that a request of this raw estimate takes, in percent.

    Above 100 the preflight check rejects it.
    """
    if limits.window_tokens is None:
        return None
    room = limits.window_tokens - output_reserved(limits, bounds)
    return 100 * calibration.upper(tokens) // max(room, 1)


def tokens_behind(turn: Turn, answer: Reply) -> int:
    """Return a raw estimate of the view after an answer: the answered request plus the answer.

    Building that view instead would delay the next message, more so in longer sessions.
    """
    return turn.answered.raw + tokens_of_message(Message(Role.ASSISTANT, answer.parts))


def warning(turn: Turn, percent: int | None, limits: Limits) -> WindowWarned | None:
    """Return the warning to post now: each level once, until the next compaction."""
    reached = max((level for level in LEVELS if percent is not None and percent >= level), default=0)
    if reached <= turn.warned_percent:
        return None
    sentence = (
        f"The model's window of {limits.window_tokens:,} tokens is {percent} % full. Before it is full, older messages "
        "will be represented by a summary; nothing is lost."
    )
    return WindowWarned(turn.number, reached, sentence)


def may_wish(turn: Turn, bounds: Bounds) -> bool:
    """Return whether a proactive compaction is allowed now. A cheap check before the fill level is measured."""
    return bounds.compacts_ahead and not (turn.wanted or turn.waiting or turn.quiet_turns)


def wish(turn: Turn, percent: int | None, bounds: Bounds) -> CompactionRequested | None:
    """Return the proactive compaction request after an answered turn, if any."""
    if not may_wish(turn, bounds):
        return None
    if percent is not None and percent >= _AHEAD_PERCENT:
        return CompactionRequested(Trigger.AHEAD)
    if turn.compaction is not None and turn.compaction.kind is SummaryKind.DIGEST:
        return CompactionRequested(Trigger.DEBT)
    return None
