"""Plan a compaction or a roll-over: the new boundary, sizes, warnings and proactive requests.

The preview and the compaction use the same function, so they agree.

A roll-over starts a generation as the last rung of the ladder. It needs no model, and each attempt is smaller than the
one before it, down to one line and a few hundred tokens.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import assert_never

import msgspec

from holdfast.core.fold.session_state import Turn
from holdfast.core.limits.bounds import Bounds
from holdfast.core.limits.fit import Sizes, output_reserved
from holdfast.core.limits.sizing import tokens_of_message, tokens_of_text
from holdfast.core.text.truncation import excerpt
from holdfast.core.turn.ladder import CONTENT_KINDS
from holdfast.core.view import ViewMessage, conversation, heartbeats
from holdfast.types.faults import FaultKind, Rung
from holdfast.types.limits import Calibration, Limits
from holdfast.types.messages import ContentPart, LargeText, Media, Message, Reply, Role, Text
from holdfast.types.records import (
    CompactionRequested,
    GenerationStarted,
    Logged,
    PartReplaced,
    SummaryKind,
    ToolSettled,
    Trigger,
    WindowWarned,
)

# Assumed window of models that do not declare one.
_WINDOW_USUAL = 128_000
# Up to this window the past has an eighth of it; and the most that it ever has.
_WINDOW_SMALL, _PAST_TOKENS_MAX = 24_000, 24_000


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
    cut = _cut(tail, said, turn, keep_tokens)
    room = summary_tokens_max(limits, tokens)
    if cut is not None:
        return Plan(cut.boundary, cut.step, tokens, room)
    if _owes_summary(turn) and not turn.number:
        # The boundary stays, but a model can replace the digest, or read on.
        return Plan(turn.boundary, turn.first_step, tokens, room)
    return None


def _cut(tail: Sequence[Logged], said: Sequence[ViewMessage], turn: Turn, keep_tokens: int) -> Cut | None:
    """Return the cut among the messages that a compaction leaves: ended heartbeats are dropped, and take no room."""
    newest = turn.number or turn.last_turn
    beats = heartbeats(tail) - {turn.number}
    lasting = [one for one in said if one.turn not in beats] if beats else said
    last = lasting[-1].turn if lasting and newest in beats else newest
    cut = plan_cut(lasting, newest=last, keep_tokens=keep_tokens)
    # Without other messages a compaction only drops heartbeats.
    return cut if cut is not None or lasting is said else plan_cut(said, newest=newest, keep_tokens=keep_tokens)


def _owes_summary(turn: Turn) -> bool:
    """Return whether a part of the past is represented without having been read by a model."""
    past = turn.compaction
    return past is not None and (past.kind is SummaryKind.DIGEST or past.unread > 0)


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


def cut_before(said: Sequence[ViewMessage], until: int) -> tuple[int, int] | None:
    """Return the boundary and step of a cut that represents all messages before a record.

    None if nothing would be represented or kept, or if the cut would separate a call from its results.
    """
    kept = [one for one in said if one.place >= until]
    if not kept or len(kept) == len(said) or kept[0].message.role is Role.TOOL:
        return None
    first = kept[0]
    return (first.turn, 0) if first.message.role is Role.USER else (first.turn, first.place)


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
    """Return the token limit of the text that represents the past.

    An eighth of a small window leaves room for the tail and the answer. A large window affords more, but every request
    pays for it, so that the share falls to a sixteenth, and there is a limit.
    """
    window = min(limits.window_tokens or refused_tokens, refused_tokens)
    small = min(window, _WINDOW_SMALL)
    return max(200, min(_PAST_TOKENS_MAX, small // 8 + (window - small) // 16))


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


def is_filling(percent: int | None) -> bool:
    """Return whether a window is full enough to prepare a compaction."""
    return percent is not None and percent >= _AHEAD_PERCENT


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
    if is_filling(percent):
        return CompactionRequested(Trigger.AHEAD)
    if _owes_summary(turn):
        return CompactionRequested(Trigger.DEBT)
    return None


# An input of this size costs no more than the line that would replace it.
_LINE_BYTES = 200


class Beginning(msgspec.Struct, frozen=True):
    """Sizes of a new generation: tokens of the digest, and bytes of each part of the input."""

    seed_tokens: int
    # None: verbatim. 0: one line for the whole input.
    part_bytes: int | None


# From largest to smallest. A digest gains little beyond 3,000 tokens; 200 still hold the newest facts. 2,000 bytes show
# the subject of a part, 400 only that it exists.
_BEGINNINGS = (Beginning(3_000, None), Beginning(1_500, 2_000), Beginning(600, 400), Beginning(200, 0))
# After an overflow in bytes or media, an input with all its parts would be rejected again.
_WITHOUT_LARGE_PARTS = _BEGINNINGS[1:]

# Something in the past is refused, and a digest may quote it.
_WITHOUT_PAST = Beginning(0, None)
NOTHING_OF_THE_PAST = (
    "[The conversation before this message is left out here, because the provider refuses something in it; "
    "recall(query=...) finds what is not mentioned here]"
)


def beginnings(kind: FaultKind, climbs: int = 1) -> tuple[Beginning, ...]:
    """Return the sizes to try after a fault, in order; `climbs` counts the roll-overs in a row."""
    if kind in CONTENT_KINDS:
        return (_BEGINNINGS[0],) if climbs == 1 else (_WITHOUT_PAST,)
    return _WITHOUT_LARGE_PARTS if kind in (FaultKind.WIRE_OVERFLOW, FaultKind.MEDIA_OVERFLOW) else _BEGINNINGS


def is_smaller(kind: FaultKind, before: Sizes, after: Sizes) -> bool:
    """Return whether a request became smaller in the exceeded unit."""
    if kind in (FaultKind.WIRE_OVERFLOW, FaultKind.MEDIA_OVERFLOW):
        return after.wire_bytes < before.wire_bytes
    return after.tokens < before.tokens


def generation_after(turn: Turn, seed: str, tokens_before: int) -> GenerationStarted:
    """Return the record that starts the next generation at the newest turn. Its size is not known yet."""
    newest = turn.number or turn.last_turn
    return GenerationStarted(
        turn.number,
        newest,
        seed,
        tokens_before,
        0,
        step=turn.seq,
        before=turn.compaction_seq,
        generation=turn.generations + 1,
        left=turn.generation,
        pins_left=tuple(pin for pin in turn.pins if pin < newest),
    )


def shown_less(turn: Turn, parts: Sequence[ContentPart], part_bytes: int | None) -> list[PartReplaced]:
    """Return the records that truncate the newest input to this size per part. `parts` are its parts in the view."""
    if part_bytes is None:
        return []
    newest = turn.number or turn.last_turn
    shortened = (_shortened(newest, part, part_bytes) for part in parts)
    shown = list(shortened) if part_bytes else _as_one_line(newest, parts)
    why = turn.fault.kind.value if turn.fault else Rung.ROLL_OVER.value
    return [
        PartReplaced(turn.number, newest, place, Text(text), why)
        for place, text in enumerate(shown)
        if text is not None
    ]


def _as_one_line(seq: int, parts: Sequence[ContentPart]) -> list[str | None]:
    size = sum(_size(part) for part in parts)
    if size <= _LINE_BYTES:
        return []
    line = f"[a message of {len(parts):,} parts, {size:,} bytes, stands here; recall(seq={seq}) reads it]"
    # An empty part is left out of the view.
    return [line, *[""] * (len(parts) - 1)]


def _shortened(seq: int, part: ContentPart, part_bytes: int) -> str | None:
    """Return the truncated text of a part, or None if it is unchanged."""
    advice = f"recall(seq={seq}) reads all of it"
    match part:
        case Text(text=text):
            shown = excerpt(text, part_bytes, advice)
            return shown if tokens_of_text(shown) < tokens_of_text(text) else None
        case LargeText(blob=blob, head=head):
            line = f"\n[{part.name or 'a text'} of {blob.size_bytes:,} bytes begins so; {advice}]"
            return head.encode()[:part_bytes].decode(errors="ignore") + line
        case Media(blob=blob):
            return f"[{part.name or 'an attachment'} ({part.media_type}, {blob.size_bytes:,} bytes) is not shown]"
        case _:
            assert_never(part)


def _size(part: ContentPart) -> int:
    return len(part.text.encode()) if isinstance(part, Text) else part.blob.size_bytes


def told_of(started: GenerationStarted, *, is_whole: bool) -> str:
    """Return the notice to the user about a new generation."""
    message = "your newest message" if is_whole else "a part of your newest message"
    pins = len(started.pins_left)
    unpinned = f" {pins:,} pinned message{'s are' if pins > 1 else ' is'} not carried along; pin again what is needed."
    return (
        f"Nothing else made the conversation fit, so generation {started.generation} of this session begins here: the "
        f"model sees {message} and a digest of all before, about {started.tokens_after:,} tokens instead of "
        f"{started.tokens_before:,}.{unpinned if pins else ''} Everything stays in the log, where it can be read and "
        "searched; undo takes this back."
    )
