"""Puts what a client and a model said into the log of their session, under the session's lease."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from holdfast.core.messages import Message, Reply, Role
from holdfast.core.records import Abandonment, LeasedRecord, Logged
from holdfast.core.turn import interruptions
from holdfast.errors import RetryLaterError, SeqMovedError
from holdfast.gateway.dropin.asked import Asked
from holdfast.gateway.dropin.entering import Entering, Measured, as_neutral
from holdfast.gateway.dropin.recognition import Conversation, digest_of, refresh
from holdfast.ports import Lease
from holdfast.rescue.importing import kept_messages
from holdfast.runtime.engine import Engine
from holdfast.runtime.healing import open_healed
from holdfast.runtime.log import Log

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
