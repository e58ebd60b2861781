"""Record the messages of a client and the answers of a model in the log of their session.

A turn may stay open from one request to the next: a reply with tool calls is answered by the client's next request,
which brings the results. Everything that one request brings is one append, so a crash leaves all of it or nothing.
"""

from collections.abc import Iterator, Sequence

import msgspec

from holdfast.core.fold.session_state import Turn
from holdfast.errors import RetryLaterError
from holdfast.gateway.proxy.request import ProxyRequest
from holdfast.gateway.proxy.session_match import ProxySession, refresh
from holdfast.ports import Lease
from holdfast.rescue.importing import kept_messages
from holdfast.rescue.neutral import NeutralMessage, NeutralRole
from holdfast.rescue.turn_records import NO_CALL, TurnRecords, reply_parts
from holdfast.runtime.engine.append import append_after
from holdfast.runtime.engine.context import Engine
from holdfast.runtime.engine.lease import kept_lease, take_lease
from holdfast.runtime.engine.runner import Runner, open_runner
from holdfast.types.messages import Media, Message, Reply, Role, ToolCall, ToolResult
from holdfast.types.records import Abandonment, AttemptFailed, AttemptStarted, LeasedRecord, ReplyRecorded
from holdfast.types.usage import Budgets

# Another process that works on the session is done within seconds; a client would not wait longer for its answer.
LEASE_WAIT_SECONDS_MAX = 10.0


class Measured(msgspec.Struct, frozen=True):
    """Sizes of a request that was answered, and the cost of the answer."""

    tokens: int
    tokens_raw: int
    output_tokens_max: int | None
    budgets: Budgets
    cost_usd: float | None

    def noted_in(self, record: LeasedRecord) -> LeasedRecord:
        """Return a record of the answer with these figures."""
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


class RecordBuilder:
    """Builds records for a log with this state, which has nothing in flight."""

    def __init__(self, turn: Turn, model: str) -> None:
        self._records = TurnRecords(turn.seq, model, turn=turn.number, attempt=turn.attempts)
        # Tool calls without a result, by id.
        self._open_calls: dict[str, ToolCall] = {call.call.call_id: call.call for call in turn.calls_asked}

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
        yield from self._records.results(
            [(self._open_calls.pop(call_id), result, message.seq) for call_id, result in results.items()]
        )


class Recorder:
    """Records conversations of clients, each under its session's lease."""

    def __init__(self, engine: Engine, owner: str) -> None:
        self.engine = engine
        self._owner = owner

    async def lease(self, session: ProxySession) -> Lease:
        """Take the lease of a session. Raises `RetryLaterError` if another worker keeps it for too long."""
        engine = self.engine
        return await take_lease(
            engine.store, engine.clock, session.key, self._owner, wait_seconds=LEASE_WAIT_SECONDS_MAX
        )

    async def record_answer(
        self, request: ProxyRequest, session: ProxySession, reply: Reply, measured: Measured
    ) -> bool:
        """Record the new messages of a request and its answer. Return False if the log has an answer already."""
        async with session.lock:
            known = session.common(request.digests)
            is_again = known == len(request.digests) < len(session.digests)
            if is_again and await self.engine.store.info(session.key) is not None:
                # The same request again: its first answer counts.
                return False
            lease = await self.lease(session)
            async with kept_lease(self.engine.store, self.engine.clock, lease):
                runner = await open_runner(lease, self.engine)
                await runner.close_in_flight(Abandonment.INTERRUPTED)
                await self.enter(runner, request, session, reply, measured)
        return True

    async def record_failure(self, request: ProxyRequest, session: ProxySession, failed: AttemptFailed) -> None:
        """Record the new messages of a request and a failed attempt; the turn stays open for the client's retry."""
        async with session.lock:
            lease = await self.lease(session)
            async with kept_lease(self.engine.store, self.engine.clock, lease):
                runner = await open_runner(lease, self.engine)
                await self.begin_turn(runner, request, session)
                await self.fail_attempt(runner, request, session, failed)

    async def begin_turn(self, runner: Runner, request: ProxyRequest, session: ProxySession) -> None:
        """Record the new messages of a request, so that a turn is open for its answer."""
        await runner.close_in_flight(Abandonment.INTERRUPTED)
        await self.enter(runner, request, session, None)
        if runner.turn.number:
            return
        # The turn of the newest message has ended without an answer. The message is asked again, as a turn of its own.
        place = max((number for number, one in enumerate(request.messages) if one.role is Role.USER), default=0)
        del session.digests[place:]
        await self.enter(runner, request, session, None)

    async def fail_attempt(
        self, runner: Runner, request: ProxyRequest, session: ProxySession, failed: AttemptFailed
    ) -> None:
        """Record an attempt that failed outside of the runner."""
        name = request.models[0].name
        most = request.decoded.request.output_tokens_max if request.decoded is not None else None

        def build(turn: Turn) -> list[LeasedRecord]:
            number, attempt = turn.number, turn.attempts + 1
            started = AttemptStarted(number, attempt, name, failed.fault.requested or 0, most)
            return [started, msgspec.structs.replace(failed, turn=number, attempt=attempt)]

        await append_after(self.engine, runner.lease, runner.log, build)
        session.follow(runner.turn)

    async def enter(
        self,
        runner: Runner,
        request: ProxyRequest,
        session: ProxySession,
        reply: Reply | None,
        measured: Measured | None = None,
    ) -> None:
        """Append the messages that the log does not have, and an answer if there is one."""
        engine, log = self.engine, runner.log
        if log.turn.seq != session.until:
            # Another gateway has written to the session, or it was deleted.
            await refresh(engine.store, session)
        first = session.common(request.digests)
        assert request.decoded is not None, "an unparsed request is not recorded"
        if first < min(len(session.digests), len(request.digests)):
            raise RetryLaterError(
                f"session {session.key!r} was taken by another conversation at the same moment; send the request again"
            )
        if first < request.held:
            raise RetryLaterError(
                f"session {session.key!r} was deleted while the provider holds what came before; "
                "send the whole conversation once, without a link to an earlier answer"
            )
        neutral = as_neutral(request.messages, request.decoded.blobs, first=first, held=request.held)
        messages = [one async for one in kept_messages(neutral, engine.blobs, engine.bounds)]

        def build(turn: Turn) -> list[LeasedRecord]:
            builder = RecordBuilder(turn, request.models[0].name)
            records: list[LeasedRecord] = [*builder.messages(messages, request.digests)]
            if reply is not None:
                records += builder.reply(request.answered(reply), request.count, measured=measured)
            return records

        await append_after(engine, runner.lease, log, build)
        session.digests[first:] = request.digests[first:]
        if reply is not None:
            session.answered(request.answered(reply))
        session.follow(log.turn)


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
