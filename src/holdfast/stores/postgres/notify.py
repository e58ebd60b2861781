"""How nodes tell each other that a session has new records: NOTIFY, and a slow look behind it.

What is told is only that there may be something to read, so it may be told twice, or lost, without harm: whoever waits
also looks every few seconds, and whenever the connection was made anew. It is told after the commit and apart from it:
a NOTIFY inside of the writing transaction would make the commits of all nodes stand in line.
"""

import asyncio
import hashlib
import logging
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from holdfast.errors import HoldfastError
from holdfast.stores.feeds import Bells, Fresh
from holdfast.stores.postgres.connections import CONNECT_SECONDS, Connections
from holdfast.stores.postgres.errors import Trouble

if TYPE_CHECKING:
    from holdfast.stores.postgres.connections import Connection

log = logging.getLogger(__name__)

CHANNEL = "holdfast"
# How often to look although nothing was told. A node that died between its commit and its NOTIFY is the usual reason.
LOOK_SECONDS = 2.0
# How long to wait after telling before the next is told: what is written meanwhile is told together. The first is told
# at once; under load there would otherwise be a NOTIFY behind every batch.
_TELL_SECONDS = 0.01
# How long to wait before the next try where the server is gone.
_RECONNECT_SECONDS = 0.5
# Sessions told of at once. A payload takes 8,000 bytes, a tag of ours 17.
_TAGS_MAX = 400
# Sessions to be told of while the server is gone. Beyond that, all feeds of all nodes are told to look.
_UNTOLD_MAX = 10_000
_EVERYONE = "*"
# Sessions asked about in one look.
_LOOK_SESSIONS = 5_000

_NOTIFY = "SELECT pg_notify($1, $2)"
_SELECT_GROWN = """
    SELECT key FROM unnest($1::bytea[], $2::bigint[]) AS asked (key, seq) JOIN holdfast.sessions USING (key)
    WHERE last_seq > asked.seq
"""


def tag_of(session: str) -> str:
    """Return the short name of a session in a payload; two that share one are both woken."""
    return hashlib.blake2b(session.encode(), digest_size=8).hexdigest()


class News:
    """Tells other nodes what was written here, and wakes the feeds here for what was written there."""

    def __init__(self, connections: Connections, bells: Bells) -> None:
        self._connections, self._bells = connections, bells
        self._untold: set[str] = set()
        self._tells_everyone = False
        # Sessions that have, or had, a feed here, by their tags.
        self._by_tag: dict[str, set[str]] = {}
        self._stirred = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._next_look = self._next_tell = 0.0

    def watch(self, session: str) -> None:
        """Be ready to wake the feeds of a session."""
        if len(self._by_tag) > 2 * _LOOK_SESSIONS:
            self._by_tag = {}
            for fed in self._bells.positions():
                self._by_tag.setdefault(tag_of(fed), set()).add(fed)
        self._by_tag.setdefault(tag_of(session), set()).add(session)

    def tell(self, fresh: Mapping[str, Sequence[Fresh]]) -> None:
        """Tell all nodes which sessions have changed: ours at once, with their new records, and the others soon."""
        self._bells.tell(fresh)
        self._untold.update(map(tag_of, fresh))
        if len(self._untold) > _UNTOLD_MAX:
            self._untold.clear()
            self._tells_everyone = True
        self.stir()

    def stir(self) -> None:
        """See to it that somebody listens, and tells what is to be told."""
        if self._task is None and not self._bells.is_closed:
            self._task = asyncio.create_task(self._work(), name="holdfast-postgres-news")
        self._stirred.set()

    async def close(self) -> None:
        """Tell what is left to tell, where that is possible at once, and stop."""
        if self._task is not None:
            self._stirred.set()
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    await self._task
            except TimeoutError:
                pass
            self._task = None

    async def _work(self) -> None:
        is_warned = False
        while not self._bells.is_closed:
            try:
                await self._listen()
                is_warned = False
            except (*Trouble, HoldfastError) as error:
                if not is_warned:
                    log.warning("news of other nodes come late", extra={"reason": type(error).__name__})
                is_warned = True
            if not self._bells.is_closed:
                await asyncio.sleep(_RECONNECT_SECONDS)

    async def _listen(self) -> None:
        """Listen and tell until the connection is lost, or the store is closed."""
        connection = await self._connections.connect()
        try:
            connection.add_termination_listener(lambda _: self._stirred.set())
            await connection.add_listener(CHANNEL, self._hear)
            # Whatever was written while nobody listened.
            self._next_look = 0.0
            while not connection.is_closed():
                # Before looking at anything: what comes from here on stirs again.
                self._stirred.clear()
                await self._tell_all(connection)
                if self._bells.is_closed:
                    break
                if self._bells.waiting_count and time.monotonic() >= self._next_look:
                    await self._look(connection)
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_SECONDS):
                        await self._stirred.wait()
                if not self._bells.is_closed:
                    await asyncio.sleep(max(self._next_tell - time.monotonic(), 0.0))
        finally:
            connection.terminate()

    async def _tell_all(self, connection: "Connection") -> None:
        while self._untold or self._tells_everyone:
            told = set(list(self._untold)[:_TAGS_MAX])
            is_for_everyone, self._tells_everyone = self._tells_everyone, False
            payload = _EVERYONE if is_for_everyone else " ".join(told)
            # Taken out first: what is written again meanwhile is told again.
            self._untold -= told
            self._next_tell = time.monotonic() + _TELL_SECONDS
            try:
                await connection.execute(_NOTIFY, CHANNEL, payload)
            except Trouble:
                self._untold |= told
                self._tells_everyone |= is_for_everyone
                raise

    async def _look(self, connection: "Connection") -> None:
        """Look for records that nobody told of."""
        self._next_look = time.monotonic() + LOOK_SECONDS
        positions = list(self._bells.positions().items())
        for start in range(0, len(positions), _LOOK_SESSIONS):
            page = positions[start : start + _LOOK_SESSIONS]
            grown = await connection.fetch(
                _SELECT_GROWN, [session.encode() for session, _ in page], [seq for _, seq in page]
            )
            self._bells.ring([bytes(key).decode() for (key,) in grown])

    def _hear(self, connection: Any, pid: int, _channel: str, payload: object) -> None:  # noqa: ANN401 - asyncpg's
        if pid == connection.get_server_pid():
            # Our own: those who wait here were told at once.
            return
        tags = str(payload).split()
        fed: Collection[str] = (
            self._bells.positions()
            if tags == [_EVERYONE]
            else [session for tag in tags for session in self._by_tag.get(tag, ())]
        )
        self._bells.ring(fed)
