"""Numbered changes among all sessions of a tenant, for a live list that can resume after any number.

A change says that a session has a new newest record. The session is read when the change is sent, so a slow reader gets
one event for a session that changed often. Records of this process are reported at once. Records of other processes are
found by polling the newest record of every session, about once a second and only while a reader is connected.
"""

import asyncio
import secrets
from collections import deque
from collections.abc import AsyncIterator, Callable
from itertools import islice
from time import monotonic

import msgspec

from holdfast.gateway.bounds import GatewayBounds
from holdfast.gateway.http.auth import Tenant
from holdfast.runtime.sessions.client import Client
from holdfast.types.records import Logged

# Poll interval. A slow poll makes it longer: at most a tenth of the time is spent polling.
_POLL_SECONDS = 1.0
_POLL_SHARE = 0.1
# Buffered changes: a minute of a very busy gateway. A reader that is further behind reads the list again.
_CHANGES_MAX = 10_000
# A turn writes several records at once; they become one event.
_GATHER_SECONDS = 0.1
# After so long without a reader, start a new epoch: the next reader reads the list again.
_RESET_SECONDS = 600.0


class Change(msgspec.Struct, frozen=True):
    """A change of a session, by its key in the store, with the number of the change."""

    number: int
    session: str


class SessionWatch:
    """The changes of one tenant's sessions."""

    def __init__(self, tenant: Tenant, bounds: GatewayBounds, now: Callable[[], float] = monotonic) -> None:
        self.tenant = tenant
        self._bounds, self._now = bounds, now
        self._polling = asyncio.Lock()
        self._reset()

    def _reset(self) -> None:
        # A new epoch: cursors of earlier epochs are invalid.
        self.epoch = secrets.token_hex(4)
        self.number = 0
        self._changes: deque[Change] = deque(maxlen=_CHANGES_MAX)
        # The newest record of every session, and the session's creation time.
        self._heads: dict[str, tuple[int, float]] = {}
        self._polled_at = float("-inf")
        self._pause_seconds = _POLL_SECONDS
        self._notify = asyncio.Event()

    def cursor(self, number: int) -> str:
        """Return the cursor that resumes after a change."""
        return f"{self.epoch}-{number}"

    def position(self, cursor: str) -> tuple[int, str]:
        """Return the number of a cursor; or the newest number, and the reason why the stream cannot resume."""
        if not cursor:
            return self.number, ""
        epoch, _, text = cursor.partition("-")
        if epoch != self.epoch or not text.isdecimal() or len(text) > len(str(self.number)):
            return self.number, "the cursor is invalid or from an earlier run of this gateway"
        number = int(text)
        if number > self.number or self.is_lost(number):
            return self.number, f"more than {_CHANGES_MAX:,} changes since the cursor"
        return number, ""

    def is_lost(self, position: int) -> bool:
        """Whether changes after a position were dropped from the buffer."""
        return self.number - position > len(self._changes)

    def touch(self, session: str, seq: int = 0) -> None:
        """Record that a session has the new record `seq`; 0: that it was deleted."""
        if not seq:
            self._heads.pop(session, None)
        elif session in self._heads:
            self._heads[session] = (seq, self._heads[session][1])
        self.number += 1
        self._changes.append(Change(self.number, session))
        self._notify.set()
        self._notify = asyncio.Event()

    async def poll(self, client: Client, *, at_once: bool = False) -> None:
        """Read the newest record of all sessions, unless another call has just done so."""
        requested_at = self._now()
        async with self._polling:
            if requested_at - self._polled_at > _RESET_SECONDS:
                self._reset()
            last = self._polled_at
            if last > requested_at or (not at_once and requested_at - last < self._pause_seconds):
                return
            began = self._now()
            found = await self.tenant.every_session(client, count_max=self._bounds.sessions_watched_max)
            self._compare({known.key: (known.last_seq, known.created_at) for _, known in found})
            self._polled_at = self._now()
            self._pause_seconds = max(_POLL_SECONDS, (self._polled_at - began) / _POLL_SHARE)

    def _compare(self, heads: dict[str, tuple[int, float]]) -> None:
        is_first = self._polled_at == float("-inf")
        before, self._heads = self._heads, heads
        if is_first:
            return
        for session in [*heads, *(gone for gone in before if gone not in heads)]:
            known, found = before.get(session), heads.get(session)
            # `touch` may have recorded a newer seq than this poll read.
            if known is None or found is None or known[1] != found[1] or found[0] > known[0]:
                self.touch(session, found[0] if found else 0)

    async def since(self, position: int, client: Client) -> AsyncIterator[Change | None]:
        """Yield the last change of each session after a position, in order, forever; None if changes were dropped."""
        while True:
            if self.is_lost(position):
                position = self.number
                yield None
            # Taken before the changes are read, so that a change during the yields sets it.
            notify, count = self._notify, self.number - position
            newest: dict[str, Change] = {}
            for change in islice(reversed(self._changes), count):
                newest.setdefault(change.session, change)
            position = self.number
            for change in reversed(newest.values()):
                yield change
            try:
                async with asyncio.timeout(self._pause_seconds):
                    await notify.wait()
                await asyncio.sleep(_GATHER_SECONDS)
            except TimeoutError:
                await self.poll(client)


class SessionWatches:
    """The watches of all tenants, made on first use."""

    def __init__(self) -> None:
        self._watches: dict[str, SessionWatch] = {}

    def of(self, tenant: Tenant, bounds: GatewayBounds) -> SessionWatch:
        """Return the watch of a tenant."""
        found = self._watches.get(tenant.name)
        if found is None:
            found = self._watches[tenant.name] = SessionWatch(tenant, bounds)
        return found

    def observe(self, session: str, logged: Logged) -> None:
        """Record the change that a record of this process makes."""
        self.touch(session, logged.seq)

    def touch(self, session: str, seq: int = 0) -> None:
        """Record that a session has the new record `seq`; 0: that it was deleted."""
        for watch in self._watches.values():
            if watch.tenant.key_of(session) is not None:
                watch.touch(session, seq)
