"""Records of a client's conversation: its messages and answers as the turns of a log."""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from holdfast.core.fold.session_state import Turn
from holdfast.core.view.appended import NO_CALL, reply_parts
from holdfast.rescue.importing import TurnRecords
from holdfast.rescue.neutral import NeutralMessage, NeutralRole
from holdfast.types.limits import Budgets
from holdfast.types.messages import Media, Message, Reply, ToolCall, ToolResult
from holdfast.types.records import AttemptStarted, LeasedRecord, ReplyRecorded, ToolSettled


class Measured(msgspec.Struct, frozen=True):
    """Sizes of a request that was answered, and the cost and time of the answer."""

    tokens: int
    tokens_raw: int
    output_tokens_max: int | None
    budgets: Budgets
    cost_usd: float | None
    answered_at: float

    def noted_in(self, record: LeasedRecord) -> LeasedRecord:
        """Return a record of the answer with these figures."""
        if isinstance(record, ReplyRecorded):
            return msgspec.structs.replace(record, cost_usd=self.cost_usd, answered_at=self.answered_at)
        if isinstance(record, AttemptStarted):
            return msgspec.structs.replace(
                record,
                tokens_estimated=self.tokens,
                output_tokens_max=self.output_tokens_max,
                budgets=self.budgets,
                tokens_raw=self.tokens_raw,
            )
        return record


class RecordBuilder:
    """Builds records for a log with this state, with nothing in flight. `folds` has tool output folded, by call."""

    def __init__(self, turn: Turn, model: str, folds: Mapping[str, tuple[str, ...]] | None = None) -> None:
        self._folds = folds or {}
        self._records = TurnRecords(turn.seq, model, turn=turn.number, attempt=turn.attempts)
        # Tool calls of the client without a result, by id.
        self._open_calls = {call.call.call_id: call.call for call in turn.calls_asked if not call.is_own}

    @property
    def turn(self) -> int:
        """The open turn; 0: none."""
        return self._records.turn

    @property
    def attempt(self) -> int:
        """The number of attempts in the open turn."""
        return self._records.attempt

    def messages(self, messages: Sequence[NeutralMessage], digests: Sequence[bytes]) -> Iterator[LeasedRecord]:
        """Yield the records of messages; `digests` has the digest of each by its number."""
        for message in messages:
            match message.role:
                case NeutralRole.USER:
                    self._open_calls = {}
                    yield from self._records.input(message.parts, message.seq, digests[message.seq].hex())
                case NeutralRole.ASSISTANT:
                    yield from self.reply(self._records.said(reply_parts(message.parts)), message.seq, is_over=False)
                case NeutralRole.TOOL:
                    yield from self._results(message)
                case NeutralRole.SYSTEM:
                    continue

    def reply(
        self, reply: Reply, origin: int | None, *, is_over: bool = True, measured: Measured | None = None
    ) -> Iterator[LeasedRecord]:
        """Yield the records of an answer; one without calls ends its turn if it `is_over`."""
        for record in self._records.reply(reply, origin):
            yield record if measured is None else measured.noted_in(record)
        self._open_calls = {part.call_id: part for part in reply.parts if isinstance(part, ToolCall)}
        if is_over and not self._open_calls:
            yield from self._records.end()

    def _results(self, message: NeutralMessage) -> Iterator[LeasedRecord]:
        results = {part.call_id: part for part in message.parts if isinstance(part, ToolResult)}
        if unknown := [call_id for call_id in results if call_id not in self._open_calls]:
            # Orphaned results: the client did not send their calls, and a result needs one to be shown.
            calls = tuple(ToolCall(call_id, NO_CALL, "{}") for call_id in unknown)
            yield from self.reply(self._records.said((*self._open_calls.values(), *calls)), None, is_over=False)
        finished = [(self._open_calls.pop(call_id), result, message.seq) for call_id, result in results.items()]
        for record in self._records.results(finished):
            folded = self._folds.get(record.result.call_id, ()) if isinstance(record, ToolSettled) else ()
            yield msgspec.structs.replace(record, folded=folded) if folded else record


def as_neutral(
    messages: Sequence[Message], blobs: dict[str, bytes], *, first: int, held: int = 0
) -> list[NeutralMessage]:
    """Return a request's messages from number `first` on, each with the bytes it names.

    `held` is how many messages of the conversation stand before the first of them.
    """
    return [
        NeutralMessage("", number, NeutralRole(message.role.value), message.parts, blobs=_blobs_of(message, blobs))
        for number, message in enumerate(messages, start=held)
        if number >= first
    ]


def _blobs_of(message: Message, blobs: dict[str, bytes]) -> dict[str, bytes]:
    if not blobs:
        return {}
    inner = [piece for part in message.parts for piece in (part.parts if isinstance(part, ToolResult) else (part,))]
    return {part.blob.sha256: blobs[part.blob.sha256] for part in inner if isinstance(part, Media)}
