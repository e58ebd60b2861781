"""What a client says becomes records: its new messages, in order, each once, as our own engine would have written them.

A turn may stay open from one request to the next: a reply with calls is answered by the client's next request, which
brings the results. Everything that one request brings is one append, so a crash leaves all of it or nothing.
"""

from collections.abc import Iterator, Sequence

import msgspec

from holdfast.core.budgets import Budgets
from holdfast.core.fold import Turn
from holdfast.core.messages import LargeText, Media, Message, Part, Reply, StopReason, Text, ToolCall, ToolResult
from holdfast.core.records import (
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
from holdfast.rescue.importing import NO_CALL, NO_INPUT, reply_parts
from holdfast.rescue.neutral import NeutralMessage, NeutralRole


class Measured(msgspec.Struct, frozen=True):
    """What is known of the request that an answer came to: its sizes, and what the answer cost."""

    tokens: int
    tokens_raw: int
    output_tokens_max: int | None
    budgets: Budgets
    cost_usd: float | None


class Entering:
    """Makes records for a log that stands at `turn`, which has nothing in flight."""

    def __init__(self, turn: Turn, model: str) -> None:
        self._seq = turn.seq
        self._turn = turn.number
        self._attempt = turn.attempts
        self._model = model
        # Calls that were asked for and have no result, by id.
        self._asked: dict[str, ToolCall] = {call.call.call_id: call.call for call in turn.calls_asked}

    @property
    def turn(self) -> int:
        """The turn that is open; 0: none."""
        return self._turn

    @property
    def attempt(self) -> int:
        """The attempts that the open turn has had."""
        return self._attempt

    def messages(self, messages: Sequence[NeutralMessage], digests: Sequence[bytes]) -> Iterator[LeasedRecord]:
        """Yield the records of messages; `digests` has what each of them is recognised by, by its number."""
        for message in messages:
            match message.role:
                case NeutralRole.USER:
                    yield from self._input(message.parts, message.seq, digests[message.seq].hex())
                case NeutralRole.ASSISTANT:
                    parts = reply_parts(message.parts)
                    reply = Reply(parts, _stop_reason(parts), usage=None, model=self._model)
                    yield from self.reply(reply, message.seq, is_over=False)
                case NeutralRole.TOOL:
                    yield from self._results(message)
                case NeutralRole.SYSTEM:
                    continue

    def reply(
        self, reply: Reply, origin: int | None, *, is_over: bool = True, measured: Measured | None = None
    ) -> Iterator[LeasedRecord]:
        """Yield the records of an answer; one without calls ends its turn where it `is_over`."""
        if not self._turn:
            yield from self._input((Text(NO_INPUT),), None, "")
        self._attempt += 1
        started = AttemptStarted(self._turn, self._attempt, self._model)
        if measured is not None:
            started = msgspec.structs.replace(
                started,
                tokens_estimated=measured.tokens,
                output_tokens_max=measured.output_tokens_max,
                budgets=measured.budgets,
                tokens_raw=measured.tokens_raw,
            )
        yield self._next(started)
        cost_usd = measured.cost_usd if measured is not None else None
        yield self._next(ReplyRecorded(self._turn, self._attempt, reply, origin, cost_usd))
        self._asked = {part.call_id: part for part in reply.parts if isinstance(part, ToolCall)}
        if is_over and not self._asked:
            yield from self._end()

    def _next(self, record: LeasedRecord) -> LeasedRecord:
        self._seq += 1
        return record

    def _end(self) -> Iterator[LeasedRecord]:
        if self._turn:
            yield self._next(TurnEnded(self._turn, Outcome.ANSWERED))
        self._turn, self._asked = 0, {}

    def _input(self, parts: Sequence[Part], origin: int | None, client_id: str) -> Iterator[LeasedRecord]:
        yield from self._end()
        said = tuple(part for part in parts if isinstance(part, Text | LargeText | Media)) or (Text(""),)
        yield self._next(InputAdmitted(said, client_id, origin))
        self._turn, self._attempt = self._seq, 0
        yield self._next(TurnStarted(self._turn))

    def _results(self, message: NeutralMessage) -> Iterator[LeasedRecord]:
        results = {part.call_id: part for part in message.parts if isinstance(part, ToolResult)}
        if unknown := [call_id for call_id in results if call_id not in self._asked]:
            # Its call is not in what the client sent; a result needs one to be shown.
            calls = tuple(ToolCall(call_id, NO_CALL, "{}") for call_id in unknown)
            invented = Reply((*self._asked.values(), *calls), StopReason.TOOL_CALLS, usage=None, model=self._model)
            yield from self.reply(invented, None, is_over=False)
        for call_id in results:
            yield self._next(ToolStarted(self._turn, call_id, self._asked.pop(call_id).name))
        for result in results.values():
            yield self._next(ToolSettled(self._turn, result, message.seq))


def _stop_reason(parts: Sequence[Part]) -> StopReason:
    return StopReason.TOOL_CALLS if any(isinstance(part, ToolCall) for part in parts) else StopReason.END


def as_neutral(
    messages: Sequence[Message], blobs: dict[str, bytes], *, first: int, held: int = 0
) -> list[NeutralMessage]:
    """Return a request's messages from number `first` on, as an import reads them. Each brings the bytes it names.

    `held` is how many of its conversation stand before the first of them.
    """
    return [
        NeutralMessage("", number, NeutralRole(message.role.value), message.parts, blobs=_named(message, blobs))
        for number, message in enumerate(messages, start=held)
        if number >= first
    ]


def _named(message: Message, blobs: dict[str, bytes]) -> dict[str, bytes]:
    if not blobs:
        return {}
    inner = [piece for part in message.parts for piece in (part.parts if isinstance(part, ToolResult) else (part,))]
    return {part.blob.sha256: blobs[part.blob.sha256] for part in inner if isinstance(part, Media)}
