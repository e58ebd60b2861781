"""Exclusion: the line in place of a message that is left out of the view, and the choice of what to leave out.

A provider that refuses some content accepted everything up to the last answered request. Suspects are therefore the
inputs, tool results and replies that came since then. Lines quote nothing of a message, so they carry nothing refused.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeAlias

import msgspec

from holdfast.core.fold.session_state import Turn
from holdfast.core.turn.ladder import SUSPECTS_MAX
from holdfast.core.view.appended import as_turns
from holdfast.types.faults import Confidence, FaultKind
from holdfast.types.messages import ContentPart, LargeText, Media, Reply, Text, ToolCall
from holdfast.types.records import (
    AttemptFailed,
    CompactionApplied,
    CompactionUndone,
    InputAdmitted,
    Logged,
    MessageExcluded,
    ReplyRecorded,
    RungStarted,
    ToolSettled,
    TurnStarted,
)

# A record and the index of one of its parts; None: the whole message.
Place: TypeAlias = tuple[int, int | None]
Excluded: TypeAlias = Mapping[Place, str]

# Records that a notice names.
_NAMED_MAX = 5
NO_ANSWER = "[The message above was not answered.]"


def excluded_places(turn: Turn) -> Excluded:
    """Return what is left out of the view, each with the kind of fault; "": a person left it out."""
    return {(one.excluded, one.place): one.why for one in turn.excluded}


def line(what: str, seq: int, why: str) -> Text:
    """Return the line in place of content that is left out."""
    reason = "the provider refuses it" if why else "the user wants that"
    return Text(f"[{what} is left out here, because {reason}; recall(seq={seq}) reads it]")


def parts_shown(excluded: Excluded, seq: int, parts: tuple[ContentPart, ...], what: str) -> tuple[ContentPart, ...]:
    """Return the parts of an input or a tool result without those that are left out."""
    if (why := excluded.get((seq, None))) is not None:
        return (line(f"{what} of {sum(map(_bytes_of, parts)):,} bytes", seq, why),)
    if not any((seq, place) in excluded for place in range(len(parts))):
        return parts
    return tuple(
        part if (why := excluded.get((seq, place))) is None else line(_part_name(part), seq, why)
        for place, part in enumerate(parts)
    )


def reply_shown(excluded: Excluded, seq: int, reply: Reply) -> Reply:
    """Return a reply as the view shows it. Of one that is left out the calls stay, without their arguments."""
    why = excluded.get((seq, None))
    if why is None:
        return reply
    calls = tuple(ToolCall(part.call_id, part.name, "{}") for part in reply.parts if isinstance(part, ToolCall))
    return Reply((line("A reply", seq, why), *calls), reply.stop_reason, reply.usage, reply.model)


def _part_name(part: ContentPart) -> str:
    kind = {Text: "A text", LargeText: "A long text", Media: "An attachment"}[type(part)]
    return f"{kind} of {_bytes_of(part):,} bytes"


def _bytes_of(part: ContentPart) -> int:
    return len(part.text.encode()) if isinstance(part, Text) else part.blob.size_bytes


# --- The choice ---


def unanswered_inputs(tail: Sequence[Logged], turn: Turn) -> list[Place]:
    """Return the inputs since the last reply that got no answer: all but that of the open turn."""
    started = [one.record.turn for one in _since_reply(tail) if isinstance(one.record, TurnStarted)]
    return _not_excluded(turn, [(number, None) for number in started if number != turn.number])


class Choice(msgspec.Struct, frozen=True):
    """What the ladder leaves out next, and what it shows again because the provider refused the rest as well."""

    left_out: tuple[Place, ...] = ()
    shown_again: tuple[Place, ...] = ()


def next_suspects(tail: Sequence[Logged], turn: Turn, passed: Collection[Place] = ()) -> Choice:
    """Return what to leave out next of what the model has not read yet, beside the text of the open turn's input.

    One refused result among several is the usual case, so each is left out alone first; many, in groups. If that does
    not help, all of them are left out, and then the last reply. `passed` are not in the view.
    """
    suspects = [place for place in _unread(tail, turn) if place not in passed and not _is_out_for_others(turn, place)]
    shown = tuple(_not_excluded(turn, suspects))
    tried = _left_out_since_reply(tail, turn)
    untried = next((group for group in _groups(suspects) if not tried.intersection(group)), ())
    if untried:
        return Choice(untried, tuple(place for place in suspects if place not in shown))
    return Choice(shown or _last_reply(tail, turn, passed))


def _last_reply(tail: Sequence[Logged], turn: Turn, passed: Collection[Place]) -> tuple[Place, ...]:
    replies: list[Place] = [(one.seq, None) for one in as_turns(tail) if isinstance(one.record, ReplyRecorded)]
    return tuple(place for place in _not_excluded(turn, replies[-1:]) if place not in passed)


def _unread(tail: Sequence[Logged], turn: Turn) -> list[Place]:
    """Return tool results; attachments and other parts of the input before its last text; messages taken back."""
    found: list[Place] = []
    for one in _since_reply(tail):
        match one.record:
            case ToolSettled():
                found.append((one.seq, None))
            case TurnStarted(turn=number) if number == turn.number:
                found += _other_parts(tail, number)
            case MessageExcluded(is_excluded=False, turn=0, excluded=seq, place=place):
                found.append((seq, place))
            case _:
                pass
    return list(dict.fromkeys(found))


def _groups(places: Sequence[Place]) -> list[tuple[Place, ...]]:
    """Return the places in at most `SUSPECTS_MAX` groups of neighbours."""
    size = max(-(-len(places) // SUSPECTS_MAX), 1)
    return [tuple(places[start : start + size]) for start in range(0, len(places), size)]


def _is_out_for_others(turn: Turn, place: Place) -> bool:
    """Return whether a place is left out already, but not by the open turn."""
    return any(
        one.turn != turn.number and one.excluded == place[0] and one.place in {None, place[1]} for one in turn.excluded
    )


def _left_out_since_reply(tail: Sequence[Logged], turn: Turn) -> set[Place]:
    """Return everything that the ladder has left out in the open turn since the last reply, shown again or not."""
    return {
        (one.record.excluded, one.record.place)
        for one in _since_reply(tail)
        if isinstance(one.record, MessageExcluded) and one.record.turn == turn.number and one.record.is_excluded
    }


def left_out_in_vain(tail: Sequence[Logged], turn: Turn) -> list[MessageExcluded]:
    """Return what the ladder left out in the open turn since the last reply, and what is still left out of it."""
    made = _left_out_since_reply(tail, turn)
    return [one for one in turn.excluded if (one.excluded, one.place) in made]


def has_input_been_read(tail: Sequence[Logged], turn: Turn) -> bool:
    """Return whether a model has answered a request with the open turn's input."""
    return not any(isinstance(one.record, TurnStarted) and one.record.turn == turn.number for one in _since_reply(tail))


def _since_reply(records: Sequence[Logged]) -> list[Logged]:
    tail = as_turns(records)
    last = next((place for place in reversed(range(len(tail))) if isinstance(tail[place].record, ReplyRecorded)), -1)
    return list(tail[last + 1 :])


def _other_parts(tail: Sequence[Logged], number: int) -> list[Place]:
    """Return the parts of an input without its last text, which is the question."""
    parts = next((one.record.parts for one in tail if one.seq == number and isinstance(one.record, InputAdmitted)), ())
    texts = [place for place, part in enumerate(parts) if isinstance(part, Text)]
    return [(number, place) for place in range(len(parts)) if texts and place != texts[-1]]


def _not_excluded(turn: Turn, places: Iterable[Place]) -> list[Place]:
    excluded = excluded_places(turn)
    return [place for place in dict.fromkeys(places) if place not in excluded and (place[0], None) not in excluded]


def told_of_excluded(choice: Choice) -> str:
    """Return the notice about content that was left out because a provider refuses it."""
    again = f" {_named(choice.shown_again)} is shown again: without it alone the request was refused as well."
    return (
        f"The provider refused the request, so it was sent again without {_named(choice.left_out)}; a line stands "
        f"there instead.{again if choice.shown_again else ''} The log keeps everything. To show it to the model again, "
        "take the exclusion back."
    )


def _named(places: Sequence[Place]) -> str:
    seqs = sorted({seq for seq, _ in places})
    more = f" and {len(seqs) - _NAMED_MAX:,} more" if len(seqs) > _NAMED_MAX else ""
    return f"record{'s' if len(seqs) > 1 else ''} {', '.join(map(str, seqs[:_NAMED_MAX]))}{more}"


def given_up_in_vain(tail: Sequence[Logged], turn: Turn, kinds: Collection[FaultKind]) -> CompactionApplied | None:
    """Return the first of the compactions in force that were made since the last reply for these faults, or a guess."""
    first: CompactionApplied | None = None
    is_ours = is_guess = False
    for one in _since_reply(tail):
        match one.record:
            case AttemptFailed(fault=fault):
                is_guess = fault.confidence is Confidence.GUESS
            case RungStarted(kind=kind):
                is_ours = kind is not None and (is_guess or kind in kinds)
            case CompactionApplied() as made:
                first = (first or made) if is_ours and one.seq <= turn.compaction_seq else None
            case CompactionUndone():
                first = None
            case _:
                pass
    return first
