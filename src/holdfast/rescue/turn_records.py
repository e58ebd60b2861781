"""Record builder for turns that happened elsewhere, as the engine would have written them.

The caller decides roles, turn ends and which result belongs to which call: a transcript has complete turns, while a
proxy client leaves its turn open between requests.
"""

from collections.abc import Iterable, Iterator, Sequence

from holdfast.types.messages import LargeText, Media, Part, Reasoning, Reply, StopReason, Text, ToolCall, ToolResult
from holdfast.types.records import (
    AttemptStarted,
    InputAdmitted,
    LeasedRecord,
    Outcome,
    ReplyRecorded,
    ToolSettled,
    ToolStarted,
    TurnEnded,
    TurnStarted,
)

NO_INPUT = "(The imported conversation goes on here without a message from a person.)"
NO_CALL = "unknown_tool"


class TurnRecords:
    """Builds records for a log that ends at `seq`, with an open `turn` (or 0) and its number of attempts."""

    def __init__(self, seq: int, model: str, *, turn: int = 0, attempt: int = 0) -> None:
        self.seq, self.turn, self.attempt = seq, turn, attempt
        self._model = model

    def input(self, parts: Sequence[Part], origin: int | None, client_id: str = "") -> Iterator[LeasedRecord]:
        """Yield the records of a user message, which ends the open turn and starts a new one."""
        yield from self.end()
        content = tuple(part for part in parts if isinstance(part, Text | LargeText | Media)) or (Text(""),)
        yield self._next(InputAdmitted(content, client_id, origin))
        self.turn, self.attempt = self.seq, 0
        yield self._next(TurnStarted(self.turn))

    def reply(self, reply: Reply, origin: int | None) -> Iterator[LeasedRecord]:
        """Yield the records of a reply; without an open turn, a placeholder input comes first."""
        if not self.turn:
            yield from self.input((Text(NO_INPUT),), None)
        self.attempt += 1
        yield self._next(AttemptStarted(self.turn, self.attempt, self._model))
        yield self._next(ReplyRecorded(self.turn, self.attempt, reply, origin))

    def results(self, finished: Iterable[tuple[ToolCall, ToolResult, int]]) -> Iterator[LeasedRecord]:
        """Yield the records of finished calls, each with the number of the message with its result."""
        finished = list(finished)
        for call, _, _ in finished:
            yield self._next(ToolStarted(self.turn, call.call_id, call.name))
        for _, result, origin in finished:
            yield self._next(ToolSettled(self.turn, result, origin))

    def end(self) -> Iterator[LeasedRecord]:
        """Yield the outcome of the open turn, if any."""
        if self.turn:
            yield self._next(TurnEnded(self.turn, Outcome.ANSWERED))
        self.turn = 0

    def said(self, parts: tuple[Text | ToolCall | Reasoning, ...]) -> Reply:
        """Return a reply with these parts and no usage."""
        has_calls = any(isinstance(part, ToolCall) for part in parts)
        return Reply(parts, StopReason.TOOL_CALLS if has_calls else StopReason.END, usage=None, model=self._model)

    def _next(self, record: LeasedRecord) -> LeasedRecord:
        self.seq += 1
        return record


def reply_parts(parts: Sequence[Part]) -> tuple[Text | ToolCall | Reasoning, ...]:
    """Return the parts that a model reply can have; of calls with the same id, only the first."""
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
