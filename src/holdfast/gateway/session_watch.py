"""What changed among all sessions of a tenant, for a live list: changes have numbers, and a reader resumes behind one.

A change says that a session has another newest record; what it looks like now is read when it is told, so a reader that
is behind is told once of a session that changed often. What this process writes is known at once, the rest by looking
at the newest record of every session, about once a second and only while somebody watches.
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

# How often all sessions are looked at; and where that takes long, no more than a tenth of the time goes into it.
_POLL_SECONDS = 1.0
_POLL_SHARE = 0.1
# Changes that a reader may be behind: a minute of a very busy gateway. Further behind, it reads the list again.
_CHANGES_MAX = 10_000
# A turn writes several records at once; they are told together.
_GATHER_SECONDS = 0.1
# Nobody has watched for so long that whoever does next may as well read the list anew.
_RESET_SECONDS = 600.0


class Change(msgspec.Struct, frozen=True):
    """A session, by its key in the store, that changed, and the number of that change."""

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
        # Another life of this object: numbers of the one before mean nothing now.
        self.epoch = secrets.token_hex(4)
        self.number = 0
        self._changes: deque[Change] = deque(maxlen=_CHANGES_MAX)
        # The newest record of every session, and when the session was made.
        self._heads: dict[str, tuple[int, float]] = {}
        self._polled_at = float("-inf")
        self._pause_seconds = _POLL_SECONDS
        self._notify = asyncio.Event()

    def cursor(self, number: int) -> str:
        """Return the cursor behind a change."""
        return f"{self.epoch}-{number}"

    def position(self, cursor: str) -> tuple[int, str]:
        """Return the number that a cursor stands for, or the newest, and why it cannot be resumed behind it."""
        if not cursor:
            return self.number, ""
        epoch, _, text = cursor.partition("-")
        if epoch != self.epoch or not text.isdecimal() or len(text) > len(str(self.number)):
            return self.number, "the cursor is from another life of this gateway, or none of ours"
        number = int(text)
        if number > self.number or self.is_lost(number):
            return self.number, f"more than {_CHANGES_MAX:,} changes came since"
        return number, ""

    def is_lost(self, position: int) -> bool:
        """Whether changes behind a position are no longer known."""
        return self.number - position > len(self._changes)

    def touch(self, session: str, seq: int = 0) -> None:
        """Note that a session has the new record `seq`; 0: that it is gone."""
        if not seq:
            self._heads.pop(session, None)
        elif session in self._heads:
            self._heads[session] = (seq, self._heads[session][1])
        self.number += 1
        self._changes.append(Change(self.number, session))
        self._notify.set()
        self._notify = asyncio.Event()

    async def poll(self, client: Client, *, at_once: bool = False) -> None:
        """Look at all sessions, unless somebody has just done so."""
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
            # A touch may be ahead of what was read before it.
            if known is None or found is None or known[1] != found[1] or found[0] > known[0]:
                self.touch(session, found[0] if found else 0)

    async def since(self, position: int, client: Client) -> AsyncIterator[Change | None]:
        """Yield the last change of each session behind a position, in order, without end; None where some are lost."""
        while True:
            if self.is_lost(position):
                position = self.number
                yield None
            # Taken before the changes are: what comes while they are told rings it.
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
    """The pulses of all tenants that have been watched."""

    def __init__(self) -> None:
        self._watches: dict[str, SessionWatch] = {}

    def of(self, tenant: Tenant, bounds: GatewayBounds) -> SessionWatch:
        """Return the pulse of a tenant."""
        found = self._watches.get(tenant.name)
        if found is None:
            found = self._watches[tenant.name] = SessionWatch(tenant, bounds)
        return found

    def observe(self, session: str, logged: Logged) -> None:
        """Note a record that this process has written."""
        self.touch(session, logged.seq)

    def touch(self, session: str, seq: int = 0) -> None:
        """Note that a session has the new record `seq`; 0: that it is gone."""
        for watch in self._watches.values():
            if watch.tenant.key_of(session) is not None:
                watch.touch(session, seq)
