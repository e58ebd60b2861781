"""What happens in a session as server-sent events: every record once, or an explicit `resync`, never a silent gap.

An event's id is a cursor: the epoch (which life of the session), the seq, and the time of that record. All three must
match what the log has, so a cursor from a session that was deleted, or from a store that was restored and went another
way, is noticed. So is a session that another process deletes, or makes anew, while it is watched. Deltas have no id:
they are decoration, and a reader of records alone misses nothing.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from functools import partial
from typing import Any, TypeAlias

import msgspec

from holdfast.errors import HoldfastError, StoppingError
from holdfast.gateway.api.schemas import DeltaSeen, Gone, OpenCall, Reconnect, Resync, WatchFrom, Watching
from holdfast.gateway.bounds import GatewayBounds
from holdfast.gateway.http.asgi import STOPPING, Receive, Scope, Send, StalledError, until_gone, write
from holdfast.gateway.http.problems import problem_of
from holdfast.ports import ReasoningDelta, SessionInfo, TextDelta
from holdfast.runtime.engine.live import LiveDelta
from holdfast.runtime.sessions.session import Session
from holdfast.runtime.tools.client_tools import arguments_of
from holdfast.types.records import Logged, ToolStarted

_HEADERS = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    # Proxies that gather answers before they pass them on are told not to.
    (b"x-accel-buffering", b"no"),
    (b"x-content-type-options", b"nosniff"),
]
# How long a client waits before it connects again, in milliseconds: all clients of a gateway come back together.
_RETRY_MILLISECONDS = 1_000
# A life of a session is told from another by 32 bits: nobody can choose it, and a clash needs a restore besides.
_EPOCH_BYTES = 4
_RECONNECT = Reconnect("the gateway is stopping; connect again with the last id, and nothing is missed")
_GONE = Gone("this session was deleted; what is made under its key from now on is another")
_ANEW = "this session was deleted and made anew elsewhere"
_Farewell: TypeAlias = Reconnect | Gone | Resync
_encode = msgspec.json.Encoder().encode


# --- cursors -----------------------------------------------------------------------------------------------------


def epoch_of(known: SessionInfo) -> str:
    """Return the name of a session's life: another one begins when it is made anew."""
    return hashlib.blake2b(repr(known.created_at).encode(), digest_size=_EPOCH_BYTES).hexdigest()


def cursor_of(epoch: str, logged: Logged) -> str:
    """Return the cursor behind a record."""
    return f"{epoch}-{logged.seq}-{round(logged.at * 1_000)}"


class Start(msgspec.Struct, frozen=True):
    """Where a stream begins; `why` says why not where it was asked to, where that is so."""

    after: int
    why: str = ""


async def start_of(session: Session, known: SessionInfo, wanted: WatchFrom, bounds: GatewayBounds) -> Start:
    """Return where a stream begins."""
    if wanted.cursor:
        after, why = await _behind_cursor(session, known, wanted.cursor)
    else:
        after, why = (known.last_seq if wanted.after is None else wanted.after), ""
        if after > known.last_seq:
            why = f"the session has {known.last_seq:,} records, not {after:,}"
    behind = known.last_seq - after
    if not why and behind > bounds.replay_records_max:
        why = f"{behind:,} records came since, more than the {bounds.replay_records_max:,} that are replayed"
    return Start(known.last_seq, why) if why else Start(after)


async def _behind_cursor(session: Session, known: SessionInfo, cursor: str) -> tuple[int, str]:
    epoch, _, rest = cursor.partition("-")
    seq, _, mark = rest.partition("-")
    if not (seq.isdecimal() and mark.isdecimal() and len(seq) <= _SEQ_DIGITS_MAX):
        return 0, "the cursor is none of ours"
    if epoch != epoch_of(known) or int(seq) > known.last_seq:
        return 0, "the cursor is from another life of this session"
    if int(seq) == 0:
        return 0, ""
    if cursor_of(epoch, await session.read(int(seq))) != cursor:
        return 0, "the cursor is from another life of this session"
    return int(seq), ""


# Digits of the highest seq there can be.
_SEQ_DIGITS_MAX = 18


# --- the stream --------------------------------------------------------------------------------------------------


class EventStream:
    """One answer that is events. Whoever writes waits for the reader, but not for ever."""

    def __init__(self, scope: Scope, send: Send, bounds: GatewayBounds) -> None:
        self._send, self._bounds = send, bounds
        # Cuts the connection without waiting for what is still to be written; given by our own server.
        self._abort: Callable[[], None] | None = scope.get("holdfast.abort")
        self._loop = asyncio.get_running_loop()
        self._written_at = self._loop.time()
        self._farewell: asyncio.Future[_Farewell] = self._loop.create_future()
        # Returns how to end it where what it is about is not there any more; asked while nothing happens.
        self.ending: Callable[[], Awaitable[Gone | Resync | None]] | None = None

    async def event(self, name: str, told: object, *, cursor: str = "") -> None:
        """Write an event."""
        given = f"id: {cursor}\n" if cursor else ""
        await self._write(f"event: {name}\n{given}data: ".encode() + _encode(told) + b"\n\n")

    async def beat(self) -> None:
        """Show that the stream is alive, where nothing else has lately."""
        if self._loop.time() - self._written_at >= self._bounds.heartbeat_seconds:
            if self.ending is not None and (ended := await self.ending()) is not None:
                self.stop(ended)
                return
            await self._write(b":\n\n")

    async def bid_farewell(self, farewell: _Farewell) -> None:
        """Say why the stream ends."""
        match farewell:
            case Reconnect():
                await self.event("reconnect", farewell)
            case Gone():
                await self.event("gone", farewell)
            case Resync():
                # Whoever connects again with its cursor goes on there.
                await self.event("resync", farewell, cursor=farewell.cursor)

    def stop(self, farewell: _Farewell = _RECONNECT) -> None:
        """Ask the stream to end, and say why: its reader is to connect again, or there is nothing left to read."""
        if not self._farewell.done():
            self._farewell.set_result(farewell)

    def abort(self) -> None:
        """Cut the connection: the reader takes nothing, so it cannot be told."""
        if self._abort is not None:
            self._abort()

    async def _write(self, chunk: bytes) -> None:
        await write(self._send, chunk, seconds_max=self._bounds.stall_seconds_max)
        self._written_at = self._loop.time()

    async def run(self, receive: Receive, produce: Callable[["EventStream"], Awaitable[None]]) -> None:
        """Send what `produce` writes until it ends, the reader leaves or stalls, or the gateway stops."""
        await self._send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        work = asyncio.ensure_future(self._produce(produce))
        gone = asyncio.ensure_future(until_gone(receive))
        try:
            awaited: set[asyncio.Future[Any]] = {work, gone, self._farewell}
            await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
            if gone.done():
                return
            if work.done():
                work.result()
            else:
                await self.bid_farewell(self._farewell.result())
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})
        except StalledError:
            self.abort()
        finally:
            for task in (work, gone):
                task.cancel()
            await asyncio.wait({work, gone})

    async def _produce(self, produce: Callable[["EventStream"], Awaitable[None]]) -> None:
        await self._write(f"retry: {_RETRY_MILLISECONDS}\n\n".encode())
        try:
            await produce(self)
        except HoldfastError as error:
            await self.event("problem", problem_of(error))


class Streams:
    """All event streams of a gateway: one ticker keeps them alive, one call ends them."""

    def __init__(self, bounds: GatewayBounds) -> None:
        self._bounds = bounds
        # With the session that each is about; "": about none in particular.
        self._open: dict[EventStream, str] = {}
        self.stopping = asyncio.Event()

    def check_running(self) -> None:
        """Raise where the gateway is stopping."""
        if self.stopping.is_set():
            raise StoppingError(STOPPING)

    def __len__(self) -> int:
        return len(self._open)

    async def run(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        produce: Callable[[EventStream], Awaitable[None]],
        *,
        session: str = "",
    ) -> None:
        """Serve one stream to its end."""
        stream = EventStream(scope, send, self._bounds)
        self._open[stream] = session
        if self.stopping.is_set():
            stream.stop()
        try:
            await stream.run(receive, produce)
        finally:
            del self._open[stream]

    def stop(self) -> None:
        """End all streams, now and from now on."""
        self.stopping.set()
        for stream in self._open:
            stream.stop()

    def forget(self, session: str) -> None:
        """End the streams of a session that was deleted: one that is made anew begins at record 1 again."""
        for stream, about in self._open.items():
            if about == session:
                stream.stop(_GONE)

    async def keep_alive(self) -> None:
        """Send heartbeats, without end."""
        beating: set[asyncio.Future[None]] = set()
        while True:
            await asyncio.sleep(self._bounds.heartbeat_seconds / 3)
            for stream in list(self._open):
                beat = asyncio.ensure_future(self._beat(stream))
                beating.add(beat)
                beat.add_done_callback(beating.discard)

    async def _beat(self, stream: EventStream) -> None:
        try:
            await stream.beat()
        except StalledError:
            stream.abort()
        except HoldfastError:
            # A store that cannot say whether a session is there still is asked again at the next beat.
            return


# --- what is told ------------------------------------------------------------------------------------------------


async def tell(stream: EventStream, session: Session, epoch: str, sight: LiveDelta | Logged) -> None:
    """Write what was seen in a session."""
    if isinstance(sight, LiveDelta):
        match sight.delta:
            case TextDelta(text=text):
                await stream.event("delta", DeltaSeen(sight.turn, sight.attempt, "text", text))
            case ReasoningDelta(text=text):
                await stream.event("delta", DeltaSeen(sight.turn, sight.attempt, "reasoning", text))
            case _:
                pass
        return
    if isinstance(sight.record, ToolStarted) and sight.record.reply:
        # Before the record, whose id says that everything up to it was told: a call is told twice rather than never.
        await stream.event("call", await open_call(session, sight.record))
    await stream.event("record", sight, cursor=cursor_of(epoch, sight))


async def open_call(session: Session, started: ToolStarted) -> OpenCall:
    """Return a call as the client that runs it must know it."""
    reply = await session.read(started.reply)
    arguments = arguments_of(reply, started.call_id)
    return OpenCall(started.turn, started.reply, started.call_id, started.name, arguments)


async def watch(stream: EventStream, session: Session, known: SessionInfo, start: Start) -> None:
    """Write everything that happens in a session behind `start`, as long as it lives."""
    epoch = epoch_of(known)
    stream.ending = partial(_life_after, session, epoch)
    if start.why:
        resync = await _resync(session, epoch, start)
        await stream.event("resync", resync, cursor=resync.cursor)
    else:
        cursor = await _cursor_at(session, epoch, start.after)
        await stream.event("watching", Watching(cursor, start.after), cursor=cursor)
    async with aclosing(session.live(after=start.after)) as sights:
        async for sight in sights:
            # Asked when the record was read: what is the same life now was the same life then.
            if isinstance(sight, Logged) and (ended := await stream.ending()) is not None:
                await stream.bid_farewell(ended)
                return
            await tell(stream, session, epoch, sight)


async def _life_after(session: Session, epoch: str) -> Gone | Resync | None:
    """Return how a watch over one life of a session ends; None while that life goes on."""
    known = await session.known()
    if known is None or known.last_seq == 0:
        return _GONE
    anew = epoch_of(known)
    return None if anew == epoch else await _resync(session, anew, Start(known.last_seq, _ANEW))


async def _resync(session: Session, epoch: str, start: Start) -> Resync:
    why = f"{start.why}; read what is missing from the records, it goes on behind {start.after}"
    return Resync(why, await _cursor_at(session, epoch, start.after), start.after)


async def _cursor_at(session: Session, epoch: str, seq: int) -> str:
    return cursor_of(epoch, await session.read(seq)) if seq else f"{epoch}-0-0"
