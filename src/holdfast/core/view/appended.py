"""Read appended messages as the records of turns, and leave retracted records out.

An appended message is one record, while a turn that ran has several per message. Readers of a conversation pass their
records through `as_turns` and see turns alone. Pairs are the same as for turns that ran: a call without a result is
left open, and a result without a call gets one.
"""

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from holdfast.types.messages import (
    LargeText,
    Media,
    Part,
    Reasoning,
    Reply,
    Role,
    StopReason,
    Text,
    ToolCall,
    ToolResult,
)
from holdfast.types.records import (
    BranchSwitched,
    InputAdmitted,
    Logged,
    MessageAppended,
    MessagesRetracted,
    PayloadStored,
    ReplyRecorded,
    ToolSettled,
    ToolStarted,
    TurnStarted,
)

# Model name of appended replies.
APPENDED = "appended"
# Name of a tool whose call is not in the conversation.
NO_CALL = "unknown_tool"
NO_INPUT = "(The conversation goes on here without a message from a person.)"

Ranges = tuple[tuple[int, int], ...]


def as_turns(records: Iterable[Logged], retracted: Ranges = ()) -> Sequence[Logged]:
    """Return records without the retracted ones, with appended messages as records of turns.

    Without `retracted`, the retractions among the records count. The records of an appended message share its seq.
    """
    kept = records if isinstance(records, Sequence) else list(records)
    types = {type(logged.record) for logged in kept}
    if retracted or MessagesRetracted in types or BranchSwitched in types:
        kept = _without_retracted(kept, retracted or _retracted_among(kept))
    return list(_Reader().read(_merged(kept))) if MessageAppended in types else kept


def expanded(records: Iterable[Logged]) -> Iterator[Logged]:
    """Yield records with appended messages as records of turns, retracted ones included."""
    return _Reader().read(records)


def _merged(records: Iterable[Logged]) -> list[Logged]:
    """Merge appended replies that follow each other: parallel calls may come as a message each."""
    merged: list[Logged] = []
    last: MessageAppended | None = None
    place = 0
    for logged in records:
        record = logged.record
        if not isinstance(record, MessageAppended) or record.role is not Role.ASSISTANT:
            last = last if isinstance(record, PayloadStored) else None
            merged.append(logged)
        elif last is not None and record.turn == (last.turn or merged[place].seq):
            last = replace(last, parts=(*last.parts, *record.parts))
            merged[place] = Logged(merged[place].seq, merged[place].at, last)
        else:
            last, place = record, len(merged)
            merged.append(logged)
    return merged


def _without_retracted(records: Sequence[Logged], retracted: Ranges) -> list[Logged]:
    return [one for one in records if not is_retracted(_entered(one), retracted)]


def _retracted_among(records: Sequence[Logged]) -> Ranges:
    """Return the runs that retractions and switches among records retract. The newest decides about those before it."""
    ranges: list[tuple[int, int]] = []
    until: int | None = None
    for one in reversed(records):
        if isinstance(one.record, MessagesRetracted) and (until is None or one.seq <= until):
            until = one.record.after
            ranges += [(until, one.seq), *((seq - 1, seq) for seq in one.record.inputs)]
    return tuple(ranges)


def is_retracted(seq: int, retracted: Iterable[tuple[int, int]]) -> bool:
    """Return whether a record is in a retracted run."""
    return any(after < seq <= until for after, until in retracted)


def _entered(logged: Logged) -> int:
    """Return the record that decides whether a record is retracted: an input stays with the start of its turn."""
    return logged.record.turn if isinstance(logged.record, TurnStarted) else logged.seq


def reply_parts(parts: Sequence[Part]) -> tuple[Text | ToolCall | Reasoning, ...]:
    """Return the parts that a reply can have; of calls with the same id, only the first."""
    result: list[Text | ToolCall | Reasoning] = []
    ids: set[str] = set()
    for part in parts:
        if isinstance(part, ToolCall):
            if part.call_id in ids:
                continue
            ids.add(part.call_id)
        if isinstance(part, Text | ToolCall | Reasoning):
            result.append(part)
    return tuple(result)


def said(parts: tuple[Text | ToolCall | Reasoning, ...], model: str) -> Reply:
    """Return a reply with these parts and no usage."""
    has_calls = any(isinstance(part, ToolCall) for part in parts)
    return Reply(parts, StopReason.TOOL_CALLS if has_calls else StopReason.END, usage=None, model=model)


class _Reader:
    """Reads records in order, and knows the calls of the last reply and of all before."""

    def __init__(self) -> None:
        self._calls: dict[str, ToolCall] = {}
        self._open: set[str] = set()

    def read(self, records: Iterable[Logged]) -> Iterator[Logged]:
        """Yield the records of turns."""
        for logged in records:
            match logged.record:
                case MessageAppended() as appended:
                    yield from self._appended(logged, appended)
                    continue
                case ReplyRecorded(reply=reply):
                    self._observe(reply)
                case TurnStarted():
                    self._open = set()
                case _:
                    pass
            yield logged

    def _observe(self, reply: Reply) -> None:
        calls = {part.call_id: part for part in reply.parts if isinstance(part, ToolCall)}
        self._calls |= calls
        self._open = set(calls)

    def _appended(self, logged: Logged, appended: MessageAppended) -> Iterator[Logged]:
        turn = appended.turn or logged.seq
        if appended.role is Role.USER:
            parts = tuple(part for part in appended.parts if isinstance(part, Text | LargeText | Media))
            yield from self._input(logged, parts or (Text(""),), is_heartbeat=appended.is_heartbeat)
            return
        if not appended.turn:
            # The view begins with a message of the user.
            yield from self._input(logged, (Text(NO_INPUT),))
        if appended.role is Role.ASSISTANT:
            yield self._reply(logged, turn, reply_parts(appended.parts))
            return
        for result in [part for part in appended.parts if isinstance(part, ToolResult)]:
            yield from self._result(logged, turn, result)

    def _input(
        self, logged: Logged, parts: tuple[Text | LargeText | Media, ...], *, is_heartbeat: bool = False
    ) -> Iterator[Logged]:
        self._open = set()
        yield Logged(logged.seq, logged.at, InputAdmitted(parts, is_heartbeat=is_heartbeat))
        yield Logged(logged.seq, logged.at, TurnStarted(logged.seq))

    def _reply(self, logged: Logged, turn: int, parts: tuple[Text | ToolCall | Reasoning, ...]) -> Logged:
        reply = said(parts, APPENDED)
        self._observe(reply)
        return Logged(logged.seq, logged.at, ReplyRecorded(turn, 0, reply))

    def _result(self, logged: Logged, turn: int, result: ToolResult) -> Iterator[Logged]:
        call_id = result.call_id
        if call_id not in self._open:
            # An orphaned result: its call is closed or missing, and a result needs one to be shown.
            yield self._reply(logged, turn, (self._calls.get(call_id, ToolCall(call_id, NO_CALL, "{}")),))
        yield Logged(logged.seq, logged.at, ToolStarted(turn, call_id, self._calls[call_id].name))
        yield Logged(logged.seq, logged.at, ToolSettled(turn, result))
