"""The view: the messages sent to the model, as a pure function of the log.

Log order differs from conversation order: an input that arrives during a turn is logged before the reply of that turn,
and enters the conversation only when its own turn starts. `conversation` restores the order, and pairs each tool call
with exactly one result.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import assert_never

import msgspec

from holdfast.core.fold.session_state import Turn
from holdfast.core.view.appended import as_turns
from holdfast.core.view.exclusion import NO_ANSWER, Excluded, excluded_places, parts_shown, reply_shown
from holdfast.types.messages import (
    ContentPart,
    Media,
    Message,
    Part,
    Reasoning,
    Reply,
    Role,
    Text,
    ToolCall,
    ToolOutcome,
    ToolResult,
)
from holdfast.types.records import (
    DamageSetAside,
    InputAdmitted,
    Logged,
    MessageAppended,
    Outcome,
    OutputRefused,
    ReplyRecorded,
    ToolSettled,
    ToolStarted,
    TurnEnded,
    TurnStarted,
)

EMPTY = "(empty)"
NOT_RUN = "Not run: the turn ended before this call was started."
NO_RECEIPT = "Outcome unknown: this call was started and nothing is known of how it ended."
UNREADABLE = "(The message that stood here was damaged on the disk and cannot be read any more.)"
# Shorter output costs about as much as the line that would replace it.
MASKED_BYTES_MIN = 600


class ViewMessage(msgspec.Struct, frozen=True):
    """A message of the conversation with its position."""

    turn: int
    # The record that holds its content, for citations.
    seq: int
    # The record at which it entered the conversation; ascending, unlike `seq`. Only an appended reply and a message
    # that was added for it, such as the result of a call that was not run, may share one.
    place: int
    message: Message


class Lens(msgspec.Struct, frozen=True):
    """Changes between log and view: replaced parts, masked tool output and dropped reasoning, the latter two by seq.

    `excluded` is left out. `marks_unanswered` puts a line after a turn that ended without an answer, so that its input
    is not read as one message with the next. `keeps_copies` keeps an input that was sent again later, so that no later
    record changes the messages before it. Heartbeats whose turns started before `heartbeats_from` are left out, except
    `heartbeats_kept`.
    """

    replaced: Mapping[tuple[int, int], Text | Media] = {}
    masked_before: int = 0
    reasoning_from: int = 0
    excluded: Excluded = {}
    marks_unanswered: bool = False
    # Retracted runs of records, as in `Turn`.
    retracted: tuple[tuple[int, int], ...] = ()
    keeps_copies: bool = False
    heartbeats_from: int = 0
    heartbeats_kept: frozenset[int] = frozenset()
    # Show tool output with its repeated lines folded, where the log has it so.
    shows_folded: bool = False


PLAIN = Lens()
# After every record.
_NO_HEARTBEATS = 2**63


class _Step(msgspec.Struct):
    """A reply with tool calls, while their results are collected."""

    turn: int
    seq: int
    place: int
    calls: tuple[ToolCall, ...]
    results: dict[str, ToolResult]
    started: set[str]


def conversation(
    records: Iterable[Logged], *, first_turn: int = 0, first_step: int = 0, lens: Lens = PLAIN
) -> list[ViewMessage]:
    """Return the messages from `first_turn` on, in conversation order.

    Of that turn, return the input and the work from `first_step` on. `records` must reach back to that input. Waiting
    inputs are not part of the conversation.
    """
    built = _Conversation(lens)
    for logged in as_turns(records, lens.retracted):
        match logged.record:
            case InputAdmitted() as admitted:
                built.admit(logged.seq, admitted)
            case TurnStarted(turn=number) if number >= first_turn:
                built.close_step()
                built.start_turn(number, logged.seq)
            case ReplyRecorded(turn=number, reply=reply) if number >= first_turn and logged.seq >= first_step:
                built.close_step()
                built.add_reply(number, logged.seq, reply, is_attempted=logged.record.attempt > 0)
            case OutputRefused(turn=number, shown=text) if number >= first_turn and logged.seq >= first_step:
                shown = Message(Role.USER, (Text(text),))
                built.messages.append(ViewMessage(number, logged.seq, logged.seq, shown))
            case TurnEnded(turn=number, outcome=outcome) if number >= first_turn and outcome is not Outcome.ANSWERED:
                built.close_step()
                built.end_unanswered(number, logged.seq)
            case ToolStarted() | ToolSettled() | DamageSetAside() if built.step is not None:
                _update_step(built.step, logged.seq, logged.record, lens)
            case _:
                pass
    built.close_step()
    return built.without_heartbeats() if built.heartbeats else built.messages


def heartbeats(records: Iterable[Logged]) -> frozenset[int]:
    """Return the heartbeats among records, by their turns."""
    kinds = (InputAdmitted, MessageAppended)
    return frozenset(one.seq for one in records if isinstance(one.record, kinds) and one.record.is_heartbeat)


class _Conversation:
    """A conversation under construction: its messages, inputs not yet started, and the open step."""

    def __init__(self, lens: Lens) -> None:
        self.messages: list[ViewMessage] = []
        self.inputs: dict[int, tuple[ContentPart, ...]] = {}
        self.step: _Step | None = None
        # Turns of heartbeats.
        self.heartbeats: set[int] = set()
        self._lens = lens
        self._started: set[int] = set()
        # The turn without a reply so far, with its input; inputs of unanswered turns since the last reply, by turn.
        self._open: tuple[int, tuple[ContentPart, ...]] | None = None
        self._unanswered: dict[int, tuple[ContentPart, ...]] = {}

    def admit(self, seq: int, admitted: InputAdmitted) -> None:
        """Keep an input until its turn starts."""
        self.inputs[seq] = admitted.parts
        if admitted.is_heartbeat:
            self.heartbeats.add(seq)

    def start_turn(self, number: int, place: int) -> None:
        """Add the input of a turn, or a placeholder if it is lost. It replaces unanswered copies of itself."""
        self._started.add(number)
        parts = self.inputs.pop(number, (Text(UNREADABLE),))
        copies = {turn for turn, other in self._unanswered.items() if other == parts}
        if copies and not self._lens.keeps_copies:
            self.messages = [one for one in self.messages if one.turn not in copies]
        self._open = (number, parts)
        shown = through(self._lens, number, parts)
        self.messages.append(ViewMessage(number, number, place, Message(Role.USER, _without_empty_parts(shown))))

    def end_unanswered(self, number: int, place: int) -> None:
        """Mark a turn that ended without an answer; one that ended while it waited is not in the conversation."""
        if number not in self._started:
            return
        if self._open is not None and self._open[0] == number:
            # No reply came. Sent again, the input replaces this one.
            self._unanswered[number] = self._open[1]
        if self._lens.marks_unanswered:
            line = Message(Role.ASSISTANT, (Text(NO_ANSWER),))
            self.messages.append(ViewMessage(number, place, place, line))

    def add_reply(self, number: int, seq: int, reply: Reply, *, is_attempted: bool) -> None:
        """Add the visible parts of a reply, and open a step if it calls tools."""
        if number not in self._started:
            # The `TurnStarted` record is lost. It came before this one.
            self.start_turn(number, seq - 1)
        self._open, self._unanswered = None, {}
        shown = reply_shown(self._lens.excluded, seq, reply)
        parts = tuple(part for part in shown.parts if not (_is_empty(part) or self._is_dropped(part, seq)))
        if parts:
            self.messages.append(ViewMessage(number, seq, seq, Message(Role.ASSISTANT, parts)))
        calls = tuple(part for part in parts if isinstance(part, ToolCall))
        if calls:
            # Without a result, seq + 1 is free: at least one record comes before the next message. Not so for a reply
            # that was appended, which no attempt precedes.
            self.step = _Step(number, seq, seq + is_attempted, calls, {}, set())

    def close_step(self) -> None:
        """Add one result for every call of the open step, directly after the calls."""
        if (step := self.step) is None:
            return
        results = tuple(_result(step, call) for call in step.calls)
        self.messages.append(ViewMessage(step.turn, step.seq, step.place, Message(Role.TOOL, results)))
        self.step = None

    def without_heartbeats(self) -> list[ViewMessage]:
        """Return the messages without the heartbeats that the lens leaves out, each with the work on it."""
        started = {one.turn: one.place for one in self.messages if one.seq == one.turn}
        gone = {turn for turn in self.heartbeats if started.get(turn, turn) < self._lens.heartbeats_from}
        gone -= self._lens.heartbeats_kept
        return [one for one in self.messages if one.turn not in gone]

    def _is_dropped(self, part: Part, seq: int) -> bool:
        return isinstance(part, Reasoning) and seq < self._lens.reasoning_from


def _update_step(step: _Step, seq: int, record: ToolStarted | ToolSettled | DamageSetAside, lens: Lens) -> None:
    match record:
        case ToolStarted(call_id=call_id):
            step.started.add(call_id)
        case ToolSettled(result=result, folded=folded):
            if result.call_id not in step.results:
                if lens.shows_folded and folded:
                    result = msgspec.structs.replace(result, parts=tuple(map(Text, folded)))
                step.results[result.call_id] = _result_through(lens, seq, result)
                step.seq = step.place = seq
        case DamageSetAside():
            # The lost records may include the start of any call.
            step.started.update(call.call_id for call in step.calls)
        case _:
            assert_never(record)


def _result(step: _Step, call: ToolCall) -> ToolResult:
    result = step.results.get(call.call_id)
    if result is not None:
        return msgspec.structs.replace(result, parts=_without_empty_parts(result.parts))
    if call.call_id in step.started:
        return ToolResult(call.call_id, (Text(NO_RECEIPT),), ToolOutcome.UNKNOWN)
    return ToolResult(call.call_id, (Text(NOT_RUN),), ToolOutcome.CANCELLED)


def _is_empty(part: Part) -> bool:
    return isinstance(part, Text) and not part.text.strip()


def _without_empty_parts(parts: tuple[ContentPart, ...]) -> tuple[ContentPart, ...]:
    """Drop empty parts, but not all of them: providers refuse both empty messages and empty parts."""
    return tuple(part for part in parts if not _is_empty(part)) or (Text(EMPTY),)


def through(lens: Lens, seq: int, parts: tuple[ContentPart, ...]) -> tuple[ContentPart, ...]:
    """Return the parts of an input with replacements applied."""
    return _through(lens, seq, parts, "A message")


def _through(lens: Lens, seq: int, parts: tuple[ContentPart, ...], what: str) -> tuple[ContentPart, ...]:
    if (seq, None) in lens.excluded:
        return parts_shown(lens.excluded, seq, parts, what)
    replaced = tuple(lens.replaced.get((seq, place), part) for place, part in enumerate(parts))
    return parts_shown(lens.excluded, seq, replaced, what)


def _result_through(lens: Lens, seq: int, result: ToolResult) -> ToolResult:
    parts = _through(lens, seq, result.parts, "The output of a tool")
    size = sum(bytes_shown(part) for part in parts)
    if seq < lens.masked_before and size >= MASKED_BYTES_MIN:
        parts = (Text(f"[{size:,} bytes of output, no longer shown; recall(seq={seq}) reads them]"),)
    return msgspec.structs.replace(result, parts=parts)


def bytes_shown(part: ContentPart) -> int:
    """Return the size of a part shown in full."""
    return len(part.text.encode()) if isinstance(part, Text) else part.blob.size_bytes


def lens_of(turn: Turn) -> Lens:
    """Return the lens for a session state."""
    replaced = {(replaced.seq, replaced.place): replaced.shown for replaced in turn.replaced}
    excluded = excluded_places(turn)
    return Lens(
        replaced,
        turn.masked_before,
        turn.reasoning_from,
        excluded,
        marks_unanswered=True,
        retracted=turn.retracted,
        # A compaction drops the heartbeats before it, also those after its boundary; not the one that it was made for.
        heartbeats_from=turn.compaction_seq,
        heartbeats_kept=frozenset((*turn.pins, turn.compaction.turn)) if turn.compaction else frozenset(),
        shows_folded=True,
    )


def originals_lens(turn: Turn) -> Lens:
    """Return the lens for originals that a summary or a digest reads: all of them but those that are left out."""
    return Lens(excluded=excluded_places(turn), retracted=turn.retracted, heartbeats_from=_NO_HEARTBEATS)


def memory_lens(turn: Turn) -> Lens:
    """Return the lens for originals that a memory observes once and in order."""
    return Lens(
        excluded=excluded_places(turn),
        keeps_copies=True,
        retracted=turn.retracted,
        heartbeats_from=_NO_HEARTBEATS,
    )


def messages_in_view(tail: Sequence[Logged], turn: Turn, *, pinned: Sequence[Logged] = ()) -> tuple[Message, ...]:
    """Return the view: pinned messages, the summary of everything before the boundary, then the tail.

    `tail` reaches back to the boundary or further; `pinned` holds records of pinned inputs from before it.
    """
    return tuple(message for _, message in _in_view(tail, turn, pinned))


def origins_in_view(tail: Sequence[Logged], turn: Turn, *, pinned: Sequence[Logged] = ()) -> tuple[int, ...]:
    """Return the record of each message in the view; 0 for the summary, which represents many."""
    return tuple(seq for seq, _ in _in_view(tail, turn, pinned))


def _in_view(tail: Sequence[Logged], turn: Turn, pinned: Sequence[Logged]) -> list[tuple[int, Message]]:
    lens = lens_of(turn)
    carried = {
        logged.seq: Message(Role.USER, _without_empty_parts(through(lens, logged.seq, logged.record.parts)))
        for logged in (*pinned, *as_turns(tail, turn.retracted))
        if logged.seq < turn.boundary and logged.seq in turn.pins and isinstance(logged.record, InputAdmitted)
    }
    messages = conversation(tail, first_turn=turn.boundary, first_step=turn.first_step, lens=lens)
    summary = turn.compaction.summary if turn.compaction else ""
    past = [(0, Message(Role.USER, (Text(summary),)))] if summary else []
    return [*sorted(carried.items(), key=lambda pin: pin[0]), *past, *((one.seq, one.message) for one in messages)]


# --- Coverage checks ---


def uncovered(tail: Sequence[Logged], turn: Turn, said: Sequence[ViewMessage]) -> list[int]:
    """Return the seqs of messages in the tail that the view does not account for.

    A message is accounted for if it is shown, waits, ended before its turn began, has no visible part, or is
    represented by the summary of the work before the first step in view. Heartbeats may be shown or not.
    """
    shown = {one.seq for one in said} | {one.place for one in said}
    accounted = shown | {*turn.waiting, *turn.pins}
    ended = {each.record.turn for each in tail if isinstance(each.record, TurnEnded)}
    records, beats = as_turns(tail, turn.retracted), heartbeats(tail)
    return [
        logged.seq
        for logged in records
        if (logged.record.turn if isinstance(logged.record, ReplyRecorded) else logged.seq) not in beats
        and logged.seq >= turn.boundary
        and logged.seq not in accounted
        and _must_be_shown(logged, turn, ended)
    ]


def _must_be_shown(logged: Logged, turn: Turn, ended: set[int]) -> bool:
    match logged.record:
        case InputAdmitted():
            # An input that ended while waiting never entered the conversation.
            return logged.seq not in ended
        case ReplyRecorded(turn=number, reply=reply):
            is_in_view = number >= turn.boundary and logged.seq >= turn.first_step
            return is_in_view and any(map(_is_always_shown, reply.parts))
        case _:
            return False


def _is_always_shown(part: Part) -> bool:
    """Return whether a part is always shown. Empty text never is; reasoning only to the model that signed it."""
    return not isinstance(part, Reasoning) and not (isinstance(part, Text) and not part.text.strip())


def unpaired(messages: Sequence[Message]) -> list[str]:
    """Return the ids of tool calls without exactly one result directly after them, and of results without a call."""
    found: list[str] = []
    open_calls: list[str] = []
    for message in messages:
        results = [part.call_id for part in message.parts if isinstance(part, ToolResult)]
        if message.role is Role.TOOL:
            found += sorted(set(open_calls) ^ set(results))
            open_calls = []
            continue
        found += open_calls
        open_calls = [part.call_id for part in message.parts if isinstance(part, ToolCall)]
    return found + open_calls
