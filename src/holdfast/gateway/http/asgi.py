"""ASGI helpers: read headers, queries and bodies within limits and timeouts, send responses and files.

This module does not depend on sessions. Every body has a size limit and a timeout.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, MutableMapping
from functools import lru_cache, partial
from typing import Any, TypeAlias, TypeVar
from urllib.parse import parse_qsl, unquote_to_bytes

import msgspec

from holdfast.errors import StoppingError
from holdfast.gateway.bounds import GatewayBounds
from holdfast.gateway.http.problems import (
    InvalidError,
    MalformedError,
    MediaTypeError,
    Problem,
    TooLargeError,
    TooSlowError,
    headers_of,
)

# ASGI types.
Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers: TypeAlias = Iterable[tuple[bytes, bytes]]

SchemaT = TypeVar("SchemaT")
_ResultT = TypeVar("_ResultT")
JSON = b"application/json"
# More fields than any query of ours has.
_QUERY_FIELDS_MAX = 20
# Cached split paths; the limit on header bytes bounds each.
_PATHS_MAX = 128
# Delay before the disconnect watch starts: work that finishes sooner needs no watch. An earlier disconnect is seen
# then.
_WATCHED_AFTER_SECONDS = 0.001
STOPPING = "the gateway is stopping; accepted messages are stored and will be answered: retry in a moment"
# Bodies up to this size are parsed on the event loop, in a millisecond or two; a thread costs a tenth of that.
_INLINE_BYTES_MAX = 256 * 2**10
# Bytes per write of a file, as many as a socket accepts at once.
_FILE_BYTES = 64 * 2**10


class ClientGoneError(Exception):
    """The client closed its connection before the request was complete or answered."""


def header(scope: Scope, name: bytes) -> str:
    """Return a header, "" if it is absent. Raises `MalformedError` if it is repeated or not ASCII."""
    found: bytes | None = None
    for key, value in scope["headers"]:
        if key == name:
            if found is not None:
                raise MalformedError(f"the header {name.decode()} is repeated; send it once")
            found = value
    try:
        return found.decode("ascii").strip() if found is not None else ""
    except UnicodeDecodeError as error:
        raise MalformedError(f"the header {name.decode()} is not ASCII") from error


def segments(scope: Scope) -> tuple[str, ...]:
    """Return the path segments, each decoded separately: an encoded slash is part of a name, not a separator."""
    return _segments(scope.get("raw_path") or scope["path"].encode())


@lru_cache(maxsize=_PATHS_MAX)
def _segments(raw: bytes) -> tuple[str, ...]:
    try:
        return tuple(unquote_to_bytes(part).decode() for part in raw.split(b"/")[1:])
    except UnicodeDecodeError as error:
        raise MalformedError("the path is not UTF-8; percent-encode its UTF-8 bytes") from error


def query(scope: Scope, schema: type[SchemaT]) -> SchemaT:
    """Parse the query into a struct. Raises on a repeated or unknown field."""
    try:
        pairs = parse_qsl(
            scope["query_string"].decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=_QUERY_FIELDS_MAX,
        )
    except ValueError as error:
        raise MalformedError("the query cannot be parsed; percent-encode its UTF-8 bytes") from error
    given = dict(pairs)
    if len(given) != len(pairs):
        raise InvalidError("a query field is repeated; send each once")
    try:
        return msgspec.convert(given, schema, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidError(f"the query does not match the schema: {error}") from error


async def json_body(scope: Scope, receive: Receive, schema: type[SchemaT], bounds: GatewayBounds) -> SchemaT:
    """Read and parse a JSON body into a struct."""
    kind = header(scope, b"content-type").partition(";")[0].strip().lower()
    if kind != JSON.decode():
        raise MediaTypeError(f"the content type must be application/json, not {kind[:80] or 'missing'!r}")
    body = await whole_body(scope, receive, bounds)
    try:
        return await off_loop(len(body), lambda: msgspec.json.decode(body, type=schema))
    except msgspec.ValidationError as error:
        raise InvalidError(f"the body does not match the schema: {error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedError(f"the body is not JSON: {error}") from error


async def off_loop(size_bytes: int, work: Callable[[], _ResultT]) -> _ResultT:
    """Run work on a body of a size: a large one in a thread, so that other requests are served meanwhile."""
    return work() if size_bytes <= _INLINE_BYTES_MAX else await asyncio.to_thread(work)


async def whole_body(scope: Scope, receive: Receive, bounds: GatewayBounds) -> bytes:
    """Read the complete body within the size limit and timeouts of a request."""
    bytes_max, idle_seconds = bounds.body_bytes_max, bounds.body_idle_seconds_max
    _check_content_length(scope, bytes_max)
    chunks: list[bytes] = []
    size_bytes, now = 0, asyncio.get_running_loop().time
    deadline = now() + bounds.body_seconds_max
    try:
        # One timer for both timeouts, because most bodies arrive in one chunk.
        async with asyncio.timeout_at(min(deadline, now() + idle_seconds)) as timer:
            is_more = True
            while is_more:
                event = await receive()
                chunks.append(_chunk(event, size_bytes, bytes_max))
                size_bytes += len(chunks[-1])
                is_more = event.get("more_body", False)
                if is_more:
                    timer.reschedule(min(deadline, now() + idle_seconds))
    except TimeoutError as error:
        if now() < deadline:
            raise TooSlowError(_idle_timeout(idle_seconds)) from error
        raise TooSlowError(f"the body was not complete after {bounds.body_seconds_max:g} seconds") from error
    return b"".join(chunks)


async def body_chunks(scope: Scope, receive: Receive, bounds: GatewayBounds, *, bytes_max: int) -> AsyncIterator[bytes]:
    """Yield the chunks of a body. Raises as soon as it exceeds the limit or the idle timeout."""
    _check_content_length(scope, bytes_max)
    size_bytes = 0
    while True:
        try:
            async with asyncio.timeout(bounds.body_idle_seconds_max):
                event = await receive()
        except TimeoutError as error:
            raise TooSlowError(_idle_timeout(bounds.body_idle_seconds_max)) from error
        chunk = _chunk(event, size_bytes, bytes_max)
        size_bytes += len(chunk)
        if chunk:
            yield chunk
        if not event.get("more_body", False):
            return


def _check_content_length(scope: Scope, bytes_max: int) -> None:
    length = header(scope, b"content-length")
    if length.isdigit() and int(length) > bytes_max:
        raise TooLargeError(f"the body has {int(length):,} bytes, the limit is {bytes_max:,}")


def _chunk(event: MutableMapping[str, Any], received_bytes: int, bytes_max: int) -> bytes:
    """Return the body bytes of an event. Raises if the client disconnected or the body exceeds its limit."""
    if event["type"] == "http.disconnect":
        raise ClientGoneError
    chunk: bytes = event.get("body", b"")
    if received_bytes + len(chunk) > bytes_max:
        raise TooLargeError(f"the body has more than {bytes_max:,} bytes, which is the limit")
    return chunk


def _idle_timeout(seconds: float) -> str:
    return f"no bytes of the body arrived for {seconds:g} seconds"


async def until_gone(receive: Receive) -> None:
    """Return when the client has disconnected."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def unless_gone(
    receive: Receive, work: Awaitable[_ResultT], *, stopping: asyncio.Event | None = None
) -> _ResultT:
    """Await `work`; cancel it when the client disconnects, or when `stopping` is set.

    Raises `ClientGoneError` or `StoppingError` then.
    """
    working = asyncio.current_task()
    assert working is not None, "requests are served in tasks"
    loop, was_cancelling = asyncio.get_running_loop(), working.cancelling()
    watching: list[asyncio.Task[Any]] = []
    reason: Exception | None = None
    is_done = False

    def cancel(error: Exception, watch: "asyncio.Task[Any]") -> None:
        nonlocal reason
        if reason is None and not is_done and not watch.cancelled():
            reason = error
            working.cancel()

    def start_watching() -> None:
        watching.append(loop.create_task(until_gone(receive), name="watch for disconnect"))
        watching[0].add_done_callback(partial(cancel, ClientGoneError()))
        if stopping is not None:
            watching.append(loop.create_task(stopping.wait(), name="watch for shutdown"))
            watching[1].add_done_callback(partial(cancel, StoppingError(STOPPING)))

    delayed_start = loop.call_later(_WATCHED_AFTER_SECONDS, start_watching)
    try:
        return await work
    except asyncio.CancelledError:
        # A second cancellation, by another caller, ends the task itself.
        if reason is not None and working.uncancel() <= was_cancelling:
            raise reason from None
        raise
    finally:
        is_done = True
        delayed_start.cancel()
        for watch in watching:
            watch.cancel()


async def send_response(send: Send, status: int, body: bytes, *, headers: Headers = (), kind: bytes = JSON) -> None:
    """Send a complete response."""
    given = [
        (b"content-type", kind),
        (b"content-length", str(len(body)).encode()),
        (b"x-content-type-options", b"nosniff"),
        (b"cache-control", b"no-store"),
        *headers,
    ]
    await send({"type": "http.response.start", "status": status, "headers": given})
    await send({"type": "http.response.body", "body": body, "more_body": False})


class StalledError(Exception):
    """The reader accepted no data for too long."""


async def write(send: Send, chunk: bytes, *, seconds_max: float) -> None:
    """Send a chunk of a response. Raises `StalledError` if the reader does not accept it in time."""
    try:
        async with asyncio.timeout(seconds_max):
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
    except TimeoutError as error:
        raise StalledError from error


async def send_file(
    send: Send, lines: AsyncIterator[bytes], *, kind: str, headers: Headers, bounds: GatewayBounds
) -> None:
    """Stream lines as a file with backpressure. An error before the first line still becomes a problem response."""
    pending, size_bytes = [await anext(lines)], 0
    given = [
        (b"content-type", kind.encode()),
        (b"x-content-type-options", b"nosniff"),
        (b"cache-control", b"no-store"),
        *headers,
    ]
    await send({"type": "http.response.start", "status": 200, "headers": given})
    async for line in lines:
        pending.append(line)
        size_bytes += len(line)
        if size_bytes >= _FILE_BYTES:
            await write(send, b"".join(pending), seconds_max=bounds.stall_seconds_max)
            pending, size_bytes = [], 0
    await write(send, b"".join(pending), seconds_max=bounds.stall_seconds_max)
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def send_problem(send: Send, problem: Problem, *, headers: Headers = ()) -> None:
    """Send problem details."""
    given = [*headers_of(problem), *headers]
    body = msgspec.json.encode(problem)
    await send_response(send, problem.status, body, headers=given, kind=b"application/problem+json")
