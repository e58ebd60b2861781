"""Notifications between nodes about new records: NOTIFY, with polling as a backup.

A notification only says that a session may have new records, so it may be lost or repeated without harm: waiting feeds
are also polled every few seconds and after every reconnect. It is sent after the commit and separately: a NOTIFY in the
writing transaction would serialize the commits of all nodes.
"""

import asyncio
import hashlib
import logging
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from holdfast.errors import HoldfastError
from holdfast.stores.feeds import FeedRegistry, NewRow
from holdfast.stores.postgres.connections import CONNECT_SECONDS, SERVER_ERRORS, Connections
from holdfast.stores.postgres.migrations import SQL

if TYPE_CHECKING:
    from holdfast.stores.postgres.connections import Connection

log = logging.getLogger(__name__)

CHANNEL = "holdfast"
# Poll interval. It covers a node that died between its commit and its NOTIFY.
POLL_SECONDS = 2.0
# Pause after a NOTIFY, so that changes are grouped. The first is sent at once; without the pause a busy node would send
# one after every batch.
_SEND_SECONDS = 0.01
# Pause between reconnects.
_RECONNECT_SECONDS = 0.5
# Sessions per NOTIFY. A payload has 8,000 bytes, a tag 17.
_TAGS_MAX = 400
# Unsent sessions during an outage. Above this all feeds of all nodes are woken.
_UNSENT_MAX = 10_000
_ALL_SESSIONS = "*"
# Sessions per poll query.
_POLL_SESSIONS = 5_000

_NOTIFY = SQL["send_notification"]
_SELECT_GROWN = SQL["find_grown"]


def tag_of(session: str) -> str:
    """Return the hash of a session in a payload. On a collision both sessions are woken."""
    return hashlib.blake2b(session.encode(), digest_size=8).hexdigest()


class Notifier:
    """Notifies other nodes about our writes, and wakes our feeds for theirs."""

    def __init__(self, connections: Connections, registry: FeedRegistry) -> None:
        self._connections, self._registry = connections, registry
        self._unsent: set[str] = set()
        self._notifies_all = False
        # Sessions that have or had a feed here, by tag.
        self._by_tag: dict[str, set[str]] = {}
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._next_poll = self._next_send = 0.0

    def watch(self, session: str) -> None:
        """Register a session that has a feed."""
        if len(self._by_tag) > 2 * _POLL_SESSIONS:
            self._by_tag = {}
            for fed in self._registry.positions():
                self._by_tag.setdefault(tag_of(fed), set()).add(fed)
        self._by_tag.setdefault(tag_of(session), set()).add(session)

    def notify(self, written: Mapping[str, Sequence[NewRow]]) -> None:
        """Wake the local feeds of changed sessions with their new rows, and notify the other nodes soon."""
        self._registry.deliver(written)
        self._unsent.update(map(tag_of, written))
        if len(self._unsent) > _UNSENT_MAX:
            self._unsent.clear()
            self._notifies_all = True
        self.wake()

    def wake(self) -> None:
        """Start or wake the task that listens and notifies."""
        if self._task is None and not self._registry.is_closed:
            self._task = asyncio.create_task(self._work(), name="holdfast-postgres-notifier")
        self._woken.set()

    async def close(self) -> None:
        """Send the remaining notifications if possible, and stop."""
        if self._task is not None:
            self._woken.set()
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    await self._task
            except TimeoutError:
                pass
            self._task = None

    async def _work(self) -> None:
        is_warned = False
        while not self._registry.is_closed:
            try:
                await self._listen()
                is_warned = False
            except (*SERVER_ERRORS, HoldfastError) as error:
                if not is_warned:
                    log.warning("notifications between nodes are delayed", extra={"reason": type(error).__name__})
                is_warned = True
            if not self._registry.is_closed:
                await asyncio.sleep(_RECONNECT_SECONDS)

    async def _listen(self) -> None:
        """Listen and notify until the connection is lost or the store is closed."""
        connection = await self._connections.connect()
        try:
            connection.add_termination_listener(lambda _: self._woken.set())
            await connection.add_listener(CHANNEL, self._on_notification)
            # Find the records that were written before this connection listened.
            self._next_poll = 0.0
            while not connection.is_closed():
                # Cleared before the checks: later changes set it again.
                self._woken.clear()
                await self._send_all(connection)
                if self._registry.is_closed:
                    break
                if self._registry.waiting_count and time.monotonic() >= self._next_poll:
                    await self._poll_sessions(connection)
                with suppress(TimeoutError):
                    async with asyncio.timeout(POLL_SECONDS):
                        await self._woken.wait()
                if not self._registry.is_closed:
                    await asyncio.sleep(max(self._next_send - time.monotonic(), 0.0))
        finally:
            connection.terminate()

    async def _send_all(self, connection: "Connection") -> None:
        while self._unsent or self._notifies_all:
            sent = set(list(self._unsent)[:_TAGS_MAX])
            is_for_all, self._notifies_all = self._notifies_all, False
            payload = _ALL_SESSIONS if is_for_all else " ".join(sent)
            # Removed first, so that a session that changes meanwhile is sent again.
            self._unsent -= sent
            self._next_send = time.monotonic() + _SEND_SECONDS
            try:
                await connection.execute(_NOTIFY, CHANNEL, payload)
            except SERVER_ERRORS:
                self._unsent |= sent
                self._notifies_all |= is_for_all
                raise

    async def _poll_sessions(self, connection: "Connection") -> None:
        """Poll for records without a notification."""
        self._next_poll = time.monotonic() + POLL_SECONDS
        positions = list(self._registry.positions().items())
        for start in range(0, len(positions), _POLL_SESSIONS):
            page = positions[start : start + _POLL_SESSIONS]
            grown = await connection.fetch(
                _SELECT_GROWN, [session.encode() for session, _ in page], [seq for _, seq in page]
            )
            self._registry.wake([bytes(key).decode() for (key,) in grown])

    def _on_notification(self, connection: Any, pid: int, _channel: str, payload: object) -> None:  # noqa: ANN401 - asyncpg's
        if pid == connection.get_server_pid():
            # Our own notification: the local feeds were woken at once.
            return
        tags = str(payload).split()
        fed: Collection[str] = (
            self._registry.positions()
            if tags == [_ALL_SESSIONS]
            else [session for tag in tags for session in self._by_tag.get(tag, ())]
        )
        self._registry.wake(fed)
