"""What a client says becomes records: its new messages, in order, each once, as our own engine would have written them.

A turn may stay open from one request to the next: a reply with calls is answered by the client's next request, which
brings the results. Everything that one request brings is one append, so a crash leaves all of it or nothing.
"""

from collections.abc import Iterator, Sequence

import msgspec

from holdfast.core.budgets import Budgets
from holdfast.core.fold import Turn
from holdfast.core.messages import Media, Message, Reply, ToolCall, ToolResult
from holdfast.core.records import AttemptStarted, LeasedRecord, ReplyRecorded
from holdfast.rescue.neutral import NeutralMessage, NeutralRole
from holdfast.rescue.turn_records import NO_CALL, TurnRecords, reply_parts


class Measured(msgspec.Struct, frozen=True):
    """What is known of the request that an answer came to: its sizes, and what the answer cost."""

    tokens: int
    tokens_raw: int
    output_tokens_max: int | None
    budgets: Budgets
    cost_usd: float | None

    def noted_in(self, record: LeasedRecord) -> LeasedRecord:
        """Return a record of the answer with what it tells of that."""
        if isinstance(record, ReplyRecorded):
            return msgspec.structs.replace(record, cost_usd=self.cost_usd)
        if isinstance(record, AttemptStarted):
            return msgspec.structs.replace(
                record,
                tokens_estimated=self.tokens,
                output_tokens_max=self.output_tokens_max,
                budgets=self.budgets,
                tokens_raw=self.tokens_raw,
            )
        return record


class Entering:
    """Makes records for a log that stands at `turn`, which has nothing in flight."""

    def __init__(self, turn: Turn, model: str) -> None:
        self._made = TurnRecords(turn.seq, model, turn=turn.number, attempt=turn.attempts)
        # Calls that were asked for and have no result, by id.
        self._asked: dict[str, ToolCall] = {call.call.call_id: call.call for call in turn.calls_asked}

    @property
    def turn(self) -> int:
        """The turn that is open; 0: none."""
        return self._made.turn

    @property
    def attempt(self) -> int:
        """The attempts that the open turn has had."""
        return self._made.attempt

    def messages(self, messages: Sequence[NeutralMessage], digests: Sequence[bytes]) -> Iterator[LeasedRecord]:
        """Yield the records of messages; `digests` has what each of them is recognised by, by its number."""
        for message in messages:
            match message.role:
                case NeutralRole.USER:
                    self._asked = {}
                    yield from self._made.input(message.parts, message.seq, digests[message.seq].hex())
                case NeutralRole.ASSISTANT:
                    yield from self.reply(self._made.said(reply_parts(message.parts)), message.seq, is_over=False)
                case NeutralRole.TOOL:
                    yield from self._results(message)
                case NeutralRole.SYSTEM:
                    continue

    def reply(
        self, reply: Reply, origin: int | None, *, is_over: bool = True, measured: Measured | None = None
    ) -> Iterator[LeasedRecord]:
        """Yield the records of an answer; one without calls ends its turn where it `is_over`."""
        for record in self._made.reply(reply, origin):
            yield record if measured is None else measured.noted_in(record)
        self._asked = {part.call_id: part for part in reply.parts if isinstance(part, ToolCall)}
        if is_over and not self._asked:
            yield from self._made.end()

    def _results(self, message: NeutralMessage) -> Iterator[LeasedRecord]:
        results = {part.call_id: part for part in message.parts if isinstance(part, ToolResult)}
        if unknown := [call_id for call_id in results if call_id not in self._asked]:
            # Its call is not in what the client sent; a result needs one to be shown.
            calls = tuple(ToolCall(call_id, NO_CALL, "{}") for call_id in unknown)
            yield from self.reply(self._made.said((*self._asked.values(), *calls)), None, is_over=False)
        yield from self._made.results(
            [(self._asked.pop(call_id), result, message.seq) for call_id, result in results.items()]
        )


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
