"""Server-sent events of a session: every record once, or an explicit `resync`, never a silent gap.

An event id is a cursor: epoch (a hash of the session's creation time), seq, and time of the record. All three must
match the log, so a cursor from a deleted session, or from a store that was restored and diverged, is detected. So is a
session that another process deletes or recreates during the stream. Deltas have no id: the records contain the same
text.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from functools import partial
from typing import Any, Protocol, TypeAlias

import msgspec

from holdfast.errors import HoldfastError, StoppingError
from holdfast.gateway.api.schemas import DeltaSeen, Gone, OpenCall, Reconnect, Resync, Watching, WatchQuery
from holdfast.gateway.bounds import GatewayBounds
from holdfast.gateway.http.asgi import STOPPING, Receive, Scope, Send, StalledError, until_gone, write
from holdfast.gateway.http.problems import problem_of
from holdfast.ports import ReasoningDelta, SessionInfo, TextDelta
from holdfast.runtime.engine.live import LiveDelta
from holdfast.runtime.sessions.session import Session
from holdfast.runtime.tools.client_tools import arguments_of
from holdfast.runtime.tools.tool_runs import approval_of
from holdfast.types.records import ApprovalRequested, Logged, ToolStarted

_HEADERS = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    # Disable response buffering in reverse proxies.
    (b"x-accel-buffering", b"no"),
    (b"x-content-type-options", b"nosniff"),
]
# Reconnect delay of clients in milliseconds: all clients of a gateway reconnect together.
_RETRY_MILLISECONDS = 1_000
# 32 bits identify an epoch: clients cannot choose it, and a collision also needs a recreated session.
_EPOCH_BYTES = 4
# Interval between the deltas of a stream, after the first: smooth to read, and cheap for many streams.
DELTA_SECONDS = 0.02
# Encoded updates that are kept: streams of a session take them at the same time.
_ENCODED_MAX = 32
_RECONNECT = Reconnect("the gateway is stopping; reconnect with the last event id to miss nothing")
_DELETED = Gone("this session was deleted; a new session with this key is a different one")
_RECREATED = "this session was deleted and created again by another process"
_EndEvent: TypeAlias = Reconnect | Gone | Resync
_encode = msgspec.json.Encoder().encode


# --- Cursors ---


def epoch_of(known: SessionInfo) -> str:
    """Return the epoch of a session: it changes when the session is deleted and created again."""
    return hashlib.blake2b(repr(known.created_at).encode(), digest_size=_EPOCH_BYTES).hexdigest()


def cursor_of(epoch: str, logged: Logged) -> str:
    """Return the cursor that resumes after a record."""
    return f"{epoch}-{logged.seq}-{round(logged.at * 1_000)}"


class StreamStart(msgspec.Struct, frozen=True):
    """Start of a stream: the seq to resume after. `reason` is set if the requested start is not possible."""

    after: int
    reason: str = ""


async def stream_start(session: Session, known: SessionInfo, query: WatchQuery, bounds: GatewayBounds) -> StreamStart:
    """Return the start of a stream: the requested one, or the newest record with a reason."""
    if query.cursor:
        after, reason = await _resume_at(session, known, query.cursor)
    else:
        after, reason = (known.last_seq if query.after is None else query.after), ""
        if after > known.last_seq:
            reason = f"the session has {known.last_seq:,} records, not {after:,}"
    missed = known.last_seq - after
    if not reason and missed > bounds.replay_records_max:
        reason = f"{missed:,} records to replay, the limit is {bounds.replay_records_max:,}"
    return StreamStart(known.last_seq, reason) if reason else StreamStart(after)


async def _resume_at(session: Session, known: SessionInfo, cursor: str) -> tuple[int, str]:
    epoch, _, rest = cursor.partition("-")
    seq, _, milliseconds = rest.partition("-")
    if not (seq.isdecimal() and milliseconds.isdecimal() and len(seq) <= _SEQ_DIGITS_MAX):
        return 0, "the cursor is invalid"
    if epoch != epoch_of(known) or int(seq) > known.last_seq:
        return 0, _OTHER_SESSION
    if int(seq) == 0:
        return 0, ""
    if cursor_of(epoch, await session.read(int(seq))) != cursor:
        return 0, _OTHER_SESSION
    return int(seq), ""


# Digits of the highest possible seq.
_SEQ_DIGITS_MAX = 18
_OTHER_SESSION = "the cursor does not match: the session was deleted and created again, or restored from a backup"


# --- Streams ---


class FlowControl(Protocol):
    """State of a connection's buffer."""

    write_paused: bool


def frame_of(name: str, payload: object, cursor: str = "") -> bytes:
    """Return an event as the bytes of a stream."""
    event_id = f"id: {cursor}\n" if cursor else ""
    return f"event: {name}\n{event_id}data: ".encode() + _encode(payload) + b"\n\n"


class EventStream:
    """One response of server-sent events, with backpressure and a timeout for stalled readers."""

    def __init__(self, scope: Scope, send: Send, bounds: GatewayBounds, encoded: "EncodedUpdates") -> None:
        self._send, self._bounds, self.encoded = send, bounds, encoded
        # Closes the connection without flushing; set by our own server.
        self._abort: Callable[[], None] | None = scope.get("holdfast.abort")
        self._flow: FlowControl | None = scope.get("holdfast.flow")
        self._loop = asyncio.get_running_loop()
        self._written_at = self._loop.time()
        self._end_event: asyncio.Future[_EndEvent] = self._loop.create_future()
        # Returns the last event if the session was deleted; called before a heartbeat.
        self.check_ended: Callable[[], Awaitable[Gone | Resync | None]] | None = None

    async def event(self, name: str, payload: object, *, cursor: str = "") -> None:
        """Write an event."""
        await self.write(frame_of(name, payload, cursor))

    async def heartbeat(self) -> None:
        """Write a heartbeat comment if the stream was idle for long enough."""
        if self._loop.time() - self._written_at >= self._bounds.heartbeat_seconds:
            if self.check_ended is not None and (ended := await self.check_ended()) is not None:
                self.stop(ended)
                return
            await self.write(b":\n\n")

    async def send_end(self, end_event: _EndEvent) -> None:
        """Write the last event."""
        match end_event:
            case Reconnect():
                await self.event("reconnect", end_event)
            case Gone():
                await self.event("gone", end_event)
            case Resync():
                # The cursor makes a reconnecting client resume here.
                await self.event("resync", end_event, cursor=end_event.cursor)

    def stop(self, end_event: _EndEvent = _RECONNECT) -> None:
        """End the stream with an event: its reader must reconnect, or the session was deleted."""
        if not self._end_event.done():
            self._end_event.set_result(end_event)

    def abort(self) -> None:
        """Close the connection without a last event: the reader accepts no data."""
        if self._abort is not None:
            self._abort()

    async def write(self, chunk: bytes) -> None:
        """Write bytes. Raises `StalledError` if the reader does not accept them in time."""
        if self._flow is not None and not self._flow.write_paused:
            # The server takes them at once: no timer is needed.
            await self._send({"type": "http.response.body", "body": chunk, "more_body": True})
        else:
            await write(self._send, chunk, seconds_max=self._bounds.stall_seconds_max)
        self._written_at = self._loop.time()

    async def run(self, receive: Receive, produce: Callable[["EventStream"], Awaitable[None]]) -> None:
        """Send the events of `produce` until it returns, the reader disconnects or stalls, or the gateway stops."""
        await self._send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        work = asyncio.ensure_future(self._produce(produce))
        gone = asyncio.ensure_future(until_gone(receive))
        try:
            awaited: set[asyncio.Future[Any]] = {work, gone, self._end_event}
            await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
            if gone.done():
                return
            if work.done():
                work.result()
            else:
                await self.send_end(self._end_event.result())
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})
        except StalledError:
            self.abort()
        finally:
            for task in (work, gone):
                task.cancel()
            await asyncio.wait({work, gone})

    async def _produce(self, produce: Callable[["EventStream"], Awaitable[None]]) -> None:
        await self.write(f"retry: {_RETRY_MILLISECONDS}\n\n".encode())
        try:
            await produce(self)
        except HoldfastError as error:
            await self.event("problem", problem_of(error))


class Streams:
    """All event streams of a gateway, with one heartbeat task."""

    def __init__(self, bounds: GatewayBounds) -> None:
        self.bounds = bounds
        # Each with its session; "": all sessions.
        self._open: dict[EventStream, str] = {}
        self.encoded = EncodedUpdates()
        self.stopping = asyncio.Event()

    def check_running(self) -> None:
        """Raise `StoppingError` if the gateway is stopping."""
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
        """Serve one stream until it ends."""
        stream = EventStream(scope, send, self.bounds, self.encoded)
        self._open[stream] = session
        if self.stopping.is_set():
            stream.stop()
        try:
            await stream.run(receive, produce)
        finally:
            del self._open[stream]

    def stop(self) -> None:
        """End all streams, and every stream that is opened later."""
        self.stopping.set()
        for stream in self._open:
            stream.stop()

    def end_session(self, session: str) -> None:
        """End the streams of a deleted session: a new session with its key begins at record 1 again."""
        for stream, watched in self._open.items():
            if watched == session:
                stream.stop(_DELETED)

    async def keep_alive(self) -> None:
        """Send heartbeats forever."""
        running: set[asyncio.Future[None]] = set()
        while True:
            await asyncio.sleep(self.bounds.heartbeat_seconds / 3)
            for stream in list(self._open):
                heartbeat = asyncio.ensure_future(self._heartbeat(stream))
                running.add(heartbeat)
                heartbeat.add_done_callback(running.discard)

    async def _heartbeat(self, stream: EventStream) -> None:
        try:
            await stream.heartbeat()
        except StalledError:
            stream.abort()
        except HoldfastError:
            # The store could not be read; the next heartbeat retries.
            return


# --- Session events ---


class EncodedUpdates:
    """The newest updates as bytes of a stream, so that each is encoded once for all streams of a session."""

    def __init__(self) -> None:
        # Records by session and cursor, deltas by identity: with the update itself, which keeps its identity unique.
        self._encoded: dict[tuple[str, str | int], tuple[LiveDelta | Logged, bytes]] = {}
        # Updates that were encoded.
        self.count = 0

    def of(self, session: str, update: LiveDelta | Logged, cursor: str = "") -> bytes:
        """Return the event of an update; empty for a delta that is no text."""
        key = (session, cursor or id(update))
        found = self._encoded.get(key)
        if found is not None:
            return found[1]
        self.count += 1
        if isinstance(update, LiveDelta):
            seen = _delta_seen(update)
            encoded = b"" if seen is None else frame_of("delta", seen)
        else:
            encoded = frame_of("record", update, cursor)
        if len(self._encoded) >= _ENCODED_MAX:
            del self._encoded[next(iter(self._encoded))]
        self._encoded[key] = (update, encoded)
        return encoded


def _delta_seen(update: LiveDelta) -> DeltaSeen | None:
    match update.delta:
        case TextDelta(text=text):
            return DeltaSeen(update.turn, update.attempt, "text", text)
        case ReasoningDelta(text=text):
            return DeltaSeen(update.turn, update.attempt, "reasoning", text)
        case _:
            return None


async def send_update(stream: EventStream, session: Session, epoch: str, update: LiveDelta | Logged) -> None:
    """Write a delta or a record as events."""
    if isinstance(update, LiveDelta):
        if encoded := stream.encoded.of(session.key, update):
            await stream.write(encoded)
        return
    if isinstance(update.record, ToolStarted) and update.record.reply:
        # Before the record, whose id acknowledges everything up to it: a call is sent at least once.
        await stream.event("call", await open_call(session, update.record))
    if isinstance(update.record, ApprovalRequested):
        await stream.event("approval", approval_of(update.seq, update.at, update.record))
    cursor = cursor_of(epoch, update)
    await stream.write(stream.encoded.of(session.key, update, cursor))


async def open_call(session: Session, started: ToolStarted) -> OpenCall:
    """Return the tool call that a client must run."""
    reply = await session.read(started.reply)
    arguments = arguments_of(reply, started.call_id)
    return OpenCall(started.turn, started.reply, started.call_id, started.name, arguments)


async def watch(stream: EventStream, session: Session, known: SessionInfo, start: StreamStart) -> None:
    """Write the events of a session after `start` until it is deleted."""
    epoch = epoch_of(known)
    stream.check_ended = partial(_end_of_life, session, epoch)
    if start.reason:
        resync = await _resync(session, epoch, start)
        await stream.event("resync", resync, cursor=resync.cursor)
    else:
        cursor = await _cursor_at(session, epoch, start.after)
        await stream.event("watching", Watching(cursor, start.after), cursor=cursor)
    async with aclosing(session.live(after=start.after, delta_seconds=DELTA_SECONDS)) as updates:
        async for update in updates:
            # Checked after the record was read: if the epoch is unchanged now, it was unchanged then.
            if isinstance(update, Logged) and (ended := await stream.check_ended()) is not None:
                await stream.send_end(ended)
                return
            await send_update(stream, session, epoch, update)


async def _end_of_life(session: Session, epoch: str) -> Gone | Resync | None:
    """Return the last event if the session was deleted or created again; None while its epoch is unchanged."""
    known = await session.known()
    if known is None or known.last_seq == 0:
        return _DELETED
    current = epoch_of(known)
    return None if current == epoch else await _resync(session, current, StreamStart(known.last_seq, _RECREATED))


async def _resync(session: Session, epoch: str, start: StreamStart) -> Resync:
    reason = f"{start.reason}; read the missing records, the stream resumes after {start.after}"
    return Resync(reason, await _cursor_at(session, epoch, start.after), start.after)


async def _cursor_at(session: Session, epoch: str, seq: int) -> str:
    return cursor_of(epoch, await session.read(seq)) if seq else f"{epoch}-0-0"
