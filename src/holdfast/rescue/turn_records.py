"""What was said elsewhere, as the records of a turn that our own engine would have written for it.

Whose words they are, where a turn ends and which result answers which call is for the caller to say: a file has whole
turns, and a client that speaks through us leaves its turn open from one request to the next.
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
    """Makes records for a log that ends at `seq`, with a turn open or none (0), that has had so many attempts."""

    def __init__(self, seq: int, model: str, *, turn: int = 0, attempt: int = 0) -> None:
        self.seq, self.turn, self.attempt = seq, turn, attempt
        self._model = model

    def input(self, parts: Sequence[Part], origin: int | None, client_id: str = "") -> Iterator[LeasedRecord]:
        """Yield the records of a person's message, which begins a turn and ends the one before."""
        yield from self.end()
        said = tuple(part for part in parts if isinstance(part, Text | LargeText | Media)) or (Text(""),)
        yield self._next(InputAdmitted(said, client_id, origin))
        self.turn, self.attempt = self.seq, 0
        yield self._next(TurnStarted(self.turn))

    def reply(self, reply: Reply, origin: int | None) -> Iterator[LeasedRecord]:
        """Yield the records of an answer; where no turn is open, of an input that says so before it."""
        if not self.turn:
            yield from self.input((Text(NO_INPUT),), None)
        self.attempt += 1
        yield self._next(AttemptStarted(self.turn, self.attempt, self._model))
        yield self._next(ReplyRecorded(self.turn, self.attempt, reply, origin))

    def results(self, settled: Iterable[tuple[ToolCall, ToolResult, int]]) -> Iterator[LeasedRecord]:
        """Yield the records of calls with their results, each with the number of the message that brought it."""
        settled = list(settled)
        for call, _, _ in settled:
            yield self._next(ToolStarted(self.turn, call.call_id, call.name))
        for _, result, origin in settled:
            yield self._next(ToolSettled(self.turn, result, origin))

    def end(self) -> Iterator[LeasedRecord]:
        """Yield the outcome of the open turn, if there is one."""
        if self.turn:
            yield self._next(TurnEnded(self.turn, Outcome.ANSWERED))
        self.turn = 0

    def said(self, parts: tuple[Text | ToolCall | Reasoning, ...]) -> Reply:
        """Return an answer of which nothing is known but what was said in it."""
        has_calls = any(isinstance(part, ToolCall) for part in parts)
        return Reply(parts, StopReason.TOOL_CALLS if has_calls else StopReason.END, usage=None, model=self._model)

    def _next(self, record: LeasedRecord) -> LeasedRecord:
        self.seq += 1
        return record


def reply_parts(parts: Sequence[Part]) -> tuple[Text | ToolCall | Reasoning, ...]:
    """Return what a model can have said. The same id twice in one message could not be told apart: the first counts."""
    kept: list[Text | ToolCall | Reasoning] = []
    ids: set[str] = set()
    for part in parts:
        if isinstance(part, ToolCall):
            if part.call_id in ids:
                continue
            ids.add(part.call_id)
        if isinstance(part, Text | ToolCall | Reasoning):
            kept.append(part)
    return tuple(kept)
