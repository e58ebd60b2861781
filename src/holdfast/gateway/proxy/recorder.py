"""Record the messages of a client and the answers of a model in the log of their session.

A turn may stay open from one request to the next: a reply with tool calls is answered by the client's next request,
which brings the results. Everything that one request brings is one append, so a crash leaves all of it or nothing.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import msgspec

from holdfast.core.fold.session_state import Turn
from holdfast.errors import RetryLaterError
from holdfast.gateway.proxy.request import ProxyRequest
from holdfast.gateway.proxy.session_match import ProxySession, refresh
from holdfast.ports import Lease
from holdfast.rescue.client_records import Measured, RecordBuilder, as_neutral
from holdfast.rescue.importing import kept_messages
from holdfast.runtime.engine.context import Engine, append_after
from holdfast.runtime.engine.lease import kept_lease, take_lease
from holdfast.runtime.engine.log import OpenLogs
from holdfast.runtime.engine.notes_ahead import AheadSummaries
from holdfast.runtime.engine.runner import Runner, open_runner
from holdfast.runtime.tools.client_recall import with_recall
from holdfast.types.messages import Message, Reply, Role
from holdfast.types.records import Abandonment, AttemptFailed, AttemptStarted, LeasedRecord

# Another process that works on the session is done within seconds; a client would not wait longer for its answer.
LEASE_WAIT_SECONDS_MAX = 10.0


class Recorder:
    """Records conversations of clients, each under its session's lease."""

    def __init__(self, engine: Engine, owner: str) -> None:
        self.engine = engine
        self.ahead = AheadSummaries(engine.bounds)
        self._owner = owner
        self._open_logs = OpenLogs()

    def engine_for(self, request: ProxyRequest, window_tokens: int) -> Engine:
        """Return the engine for one request: the client's models, tools, system text and instructions."""
        assert request.decoded is not None, "an unparsed request cannot be recovered"
        decoded, engine = request.decoded.request, self.engine
        return replace(
            with_recall(engine, is_allowed=request.allows_recall),
            models=lambda _: request.models,
            system=lambda: decoded.system,
            bounds=msgspec.structs.replace(engine.bounds, compacts_ahead=False, summariser="same"),
            is_proxied=True,
            client_tools=decoded.tools,
            instructions=request.instructions.within(window_tokens),
            has_client_effort=request.has_effort,
            client_parameters=request.parameters,
        )

    @asynccontextmanager
    async def leased(self, session: ProxySession) -> AsyncIterator[Lease]:
        """Hold the lease of a session. Raises `RetryLaterError` if another worker keeps it for too long."""
        store, clock = self.engine.store, self.engine.clock
        lease = await take_lease(store, clock, session.key, self._owner, wait_seconds=LEASE_WAIT_SECONDS_MAX)
        async with kept_lease(store, clock, lease):
            yield lease

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
            async with self.leased(session) as lease:
                stored = await self.engine.store.info(session.key)
                opened = self._open_logs.take(lease, stored) if stored is not None else None
                runner = await open_runner(lease, self.engine, opened=opened)
                await runner.close_in_flight(Abandonment.INTERRUPTED)
                await self.enter(runner, request, session, reply, measured)
                if stored is not None:
                    self._open_logs.keep(lease, stored, runner.log)
        return True

    async def record_failure(self, request: ProxyRequest, session: ProxySession, failed: AttemptFailed) -> None:
        """Record the new messages of a request and a failed attempt; the turn stays open for the client's retry."""
        async with session.lock, self.leased(session) as lease:
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
            builder = RecordBuilder(turn, request.models[0].name, request.folds)
            records: list[LeasedRecord] = [*builder.messages(messages, request.digests)]
            if reply is not None:
                records += builder.reply(request.answered(reply), request.count, measured=measured)
            return records

        await append_after(engine, runner.lease, log, build)
        session.digests[first:] = request.digests[first:]
        if reply is not None:
            session.answered(Message(Role.ASSISTANT, request.answered(reply).parts))
        session.follow(log.turn)
