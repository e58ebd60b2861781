"""Puts what a client and a model said into the log of their session, under the session's lease."""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager

import msgspec

from holdfast.core.fold.session_state import Turn
from holdfast.core.turn.decide import interruptions
from holdfast.errors import RetryLaterError, SeqMovedError
from holdfast.gateway.proxy.request import Asked
from holdfast.gateway.proxy.session_match import Conversation, digest_of, refresh
from holdfast.ports import Lease
from holdfast.rescue.importing import kept_messages
from holdfast.rescue.neutral import NeutralMessage, NeutralRole
from holdfast.rescue.turn_records import NO_CALL, TurnRecords, reply_parts
from holdfast.runtime.engine.context import Engine
from holdfast.runtime.engine.log import Log
from holdfast.runtime.maintenance.healing import open_healed
from holdfast.types.messages import Media, Message, Reply, Role, ToolCall, ToolResult
from holdfast.types.records import Abandonment, AttemptStarted, LeasedRecord, Logged, ReplyRecorded
from holdfast.types.usage import Budgets

# --- What a client says becomes records: its new messages, in order, each once, as our own engine would have …


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


# Another process that works on the session is done within seconds; a client would not wait longer for its answer.
_WAIT_SECONDS_MAX = 10.0
_POLL_SECONDS = 0.1
_LEASE_SECONDS = 30.0
# A lease is renewed three times in its life, so that two renewals may fail.
_RENEWALS_PER_LEASE = 3
# Only the inbox can come in between, and hardly anybody writes into such a session.
_TRIES_MAX = 20


class Keeper:
    """Writes conversations of clients."""

    def __init__(self, engine: Engine, owner: str) -> None:
        self.engine = engine
        self._owner = owner

    @asynccontextmanager
    async def leased(self, key: str) -> AsyncGenerator[Lease, None]:
        """Hold the right to write to a session. Raises `RetryLaterError` where another has it for too long."""
        store = self.engine.store
        for _ in range(round(_WAIT_SECONDS_MAX / _POLL_SECONDS)):
            lease = await store.acquire(key, self._owner, seconds=_LEASE_SECONDS)
            if lease is not None:
                break
            await self.engine.clock.sleep(_POLL_SECONDS)
        else:
            raise RetryLaterError(f"session {key!r} is being worked on elsewhere; ask again in a moment")
        renewal = asyncio.create_task(self._renew(lease), name=f"lease {key}")
        try:
            yield lease
        finally:
            renewal.cancel()
            await asyncio.wait([renewal])
            await store.release(lease)

    async def _renew(self, lease: Lease) -> None:
        while True:
            await self.engine.clock.sleep(_LEASE_SECONDS / _RENEWALS_PER_LEASE)
            await self.engine.store.renew(lease, seconds=_LEASE_SECONDS)

    async def keep(self, asked: Asked, conversation: Conversation, reply: Reply, measured: Measured) -> bool:
        """Enter what a request brought, and its answer, and return whether that is in the log now.

        What the log has already is not entered again.
        """
        async with conversation.lock:
            known = conversation.common(asked.digests)
            is_again = known == len(asked.digests) < len(conversation.digests)
            if is_again and await self.engine.store.info(conversation.key) is not None:
                # The same request again: its first answer counts.
                return False
            async with self.leased(conversation.key) as lease:
                await self.enter(lease, await self.opened(lease), asked, conversation, reply, measured)
            return True

    async def opened(self, lease: Lease) -> Log:
        """Open a log, and close what a process that died left in flight."""
        log = await open_healed(lease, self.engine.store)
        await self.append(lease, log, interruptions(log.turn, Abandonment.INTERRUPTED, self.engine.bounds))
        return log

    async def enter(
        self,
        lease: Lease,
        log: Log,
        asked: Asked,
        conversation: Conversation,
        reply: Reply | None,
        measured: Measured | None = None,
    ) -> None:
        """Append the messages that a log does not have, and an answer if there is one; the log is then up to date."""
        if log.turn.seq < conversation.until:
            # The session was deleted since: this request begins it anew, with all that it brings.
            await refresh(self.engine.store, conversation)
        first = conversation.common(asked.digests)
        assert asked.decoded is not None, "what cannot be read is not entered"
        if first < asked.held:
            raise RetryLaterError(
                f"session {conversation.key!r} was deleted while the provider holds what came before; "
                "send the whole conversation once, without a link to an earlier answer"
            )
        neutral = as_neutral(asked.messages, asked.decoded.blobs, first=first, held=asked.held)
        kept = [one async for one in kept_messages(neutral, self.engine.blobs, self.engine.bounds)]
        for _ in range(_TRIES_MAX):
            entering = Entering(log.turn, asked.models[0].name)
            records: list[LeasedRecord] = [*entering.messages(kept, asked.digests)]
            if reply is not None:
                records += entering.reply(asked.answered(reply), asked.count, measured=measured)
            try:
                await self.append(lease, log, records)
            except SeqMovedError:
                await log.catch_up(self.engine.store)
            else:
                break
        else:
            raise RetryLaterError(f"session {lease.session!r} is being written to by others; ask again in a moment")
        conversation.digests[first:] = asked.digests[first:]
        conversation.until = log.turn.seq
        if reply is not None:
            self.answered(conversation, asked.answered(reply))

    def answered(self, conversation: Conversation, reply: Reply) -> None:
        """Remember what the client will send back as the answer."""
        conversation.digests.append(digest_of(Message(Role.ASSISTANT, reply.parts)))

    async def append(self, lease: Lease, log: Log, records: Sequence[LeasedRecord]) -> None:
        """Append records in one piece, and fold them."""
        if not records:
            return
        last = await self.engine.store.append(lease, records, after=log.turn.seq)
        at = self.engine.clock.now()
        logged = [Logged(last - len(records) + place, at, record) for place, record in enumerate(records, start=1)]
        log.extend(logged)
        for one in logged:
            self.engine.observe(lease.session, one)
