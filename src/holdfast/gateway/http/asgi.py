"""Requests and answers at the level of ASGI: read within bounds and deadlines, written whole or as events.

Nothing here knows a session. A body is never held longer or larger than its bound, whoever sends it and however slowly.
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

# ASGI's own shapes.
Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers: TypeAlias = Iterable[tuple[bytes, bytes]]

SchemaT = TypeVar("SchemaT")
_ResultT = TypeVar("_ResultT")
JSON = b"application/json"
# More names than any query of ours has.
_QUERY_FIELDS_MAX = 20
# Paths that are remembered in parts; each has at most what headers may have.
_PATHS_MAX = 128
# A client is watched from so many seconds on: one that goes before is noticed then, and what is ready by then needs
# nobody who watches.
_WATCHED_AFTER_SECONDS = 0.001
# What whoever waits for a gateway that stops is told.
STOPPING = "the gateway is stopping; what was accepted is kept and answered: ask again in a moment"
# Bytes of a file that are sent at once: what a socket takes in one go.
_FILE_BYTES = 64 * 2**10


class ClientGoneError(Exception):
    """The client closed its connection before it had said everything."""


def header(scope: Scope, name: bytes) -> str:
    """Return a header, empty where there is none. Raises `MalformedError` where it is given twice or is not ASCII."""
    found: bytes | None = None
    for key, value in scope["headers"]:
        if key == name:
            if found is not None:
                raise MalformedError(f"the header {name.decode()} is given more than once; give it once")
            found = value
    try:
        return found.decode("ascii").strip() if found is not None else ""
    except UnicodeDecodeError as error:
        raise MalformedError(f"the header {name.decode()} has characters that are not ASCII") from error


def segments(scope: Scope) -> tuple[str, ...]:
    """Return the parts of the path, each decoded by itself: an encoded slash is part of a name, not a separator."""
    return _segments(scope.get("raw_path") or scope["path"].encode())


@lru_cache(maxsize=_PATHS_MAX)
def _segments(raw: bytes) -> tuple[str, ...]:
    try:
        return tuple(unquote_to_bytes(part).decode() for part in raw.split(b"/")[1:])
    except UnicodeDecodeError as error:
        raise MalformedError("the path is not UTF-8; encode it as UTF-8 first, then with %") from error


def query(scope: Scope, schema: type[SchemaT]) -> SchemaT:
    """Return the query as a shape. Raises where it has a name twice or one that is not known."""
    try:
        pairs = parse_qsl(
            scope["query_string"].decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=_QUERY_FIELDS_MAX,
        )
    except ValueError as error:
        raise MalformedError("the query cannot be read; encode it as UTF-8, then with %") from error
    given = dict(pairs)
    if len(given) != len(pairs):
        raise InvalidError("a name in the query is given twice; give each once")
    try:
        return msgspec.convert(given, schema, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidError(f"the query is not of the right shape: {error}") from error


async def json_body(scope: Scope, receive: Receive, schema: type[SchemaT], bounds: GatewayBounds) -> SchemaT:
    """Return the body as a shape."""
    kind = header(scope, b"content-type").partition(";")[0].strip().lower()
    if kind != JSON.decode():
        raise MediaTypeError(f"the body must be application/json, not {kind[:80] or 'without a type'!r}")
    body = await whole_body(scope, receive, bounds)
    try:
        return msgspec.json.decode(body, type=schema)
    except msgspec.ValidationError as error:
        raise InvalidError(f"the body is not of the right shape: {error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedError(f"the body is not JSON: {error}") from error


async def whole_body(scope: Scope, receive: Receive, bounds: GatewayBounds) -> bytes:
    """Return the body in one piece, within the bounds of every request."""
    bytes_max, idle_seconds = bounds.body_bytes_max, bounds.body_idle_seconds_max
    _check_told(scope, bytes_max)
    pieces: list[bytes] = []
    size_bytes, now = 0, asyncio.get_running_loop().time
    whole_by = now() + bounds.body_seconds_max
    try:
        # One clock for both deadlines: most bodies are there in one piece, and pay for one.
        async with asyncio.timeout_at(min(whole_by, now() + idle_seconds)) as clock:
            is_more = True
            while is_more:
                event = await receive()
                pieces.append(_piece(event, size_bytes, bytes_max))
                size_bytes += len(pieces[-1])
                is_more = event.get("more_body", False)
                if is_more:
                    clock.reschedule(min(whole_by, now() + idle_seconds))
    except TimeoutError as error:
        if now() < whole_by:
            raise TooSlowError(_stopped(idle_seconds)) from error
        raise TooSlowError(f"the body was not complete after {bounds.body_seconds_max:g} seconds") from error
    return b"".join(pieces)


async def body_chunks(scope: Scope, receive: Receive, bounds: GatewayBounds, *, bytes_max: int) -> AsyncIterator[bytes]:
    """Yield the body as it comes. Raises as soon as it is known to be too long, or when it stops coming."""
    _check_told(scope, bytes_max)
    size_bytes = 0
    while True:
        try:
            async with asyncio.timeout(bounds.body_idle_seconds_max):
                event = await receive()
        except TimeoutError as error:
            raise TooSlowError(_stopped(bounds.body_idle_seconds_max)) from error
        chunk = _piece(event, size_bytes, bytes_max)
        size_bytes += len(chunk)
        if chunk:
            yield chunk
        if not event.get("more_body", False):
            return


def _check_told(scope: Scope, bytes_max: int) -> None:
    told = header(scope, b"content-length")
    if told.isdigit() and int(told) > bytes_max:
        raise TooLargeError(f"the body has {int(told):,} bytes, at most {bytes_max:,} are taken")


def _piece(event: MutableMapping[str, Any], before_bytes: int, bytes_max: int) -> bytes:
    """Return what an event brings of a body of which so many bytes are there."""
    if event["type"] == "http.disconnect":
        raise ClientGoneError
    chunk: bytes = event.get("body", b"")
    if before_bytes + len(chunk) > bytes_max:
        raise TooLargeError(f"the body has more than {bytes_max:,} bytes, which is the most that is taken")
    return chunk


def _stopped(seconds: float) -> str:
    return f"nothing of the body came for {seconds:g} seconds"


async def until_gone(receive: Receive) -> None:
    """Return when the client has closed its connection."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def unless_gone(
    receive: Receive, work: Awaitable[_ResultT], *, stopping: asyncio.Event | None = None
) -> _ResultT:
    """Work for as long as the client waits, and until the gateway stops where that is told; else let go at once.

    Raises `ClientGoneError` or `StoppingError` in place of what was worked for.
    """
    working = asyncio.current_task()
    assert working is not None, "requests are served in tasks"
    loop, was_cancelling = asyncio.get_running_loop(), working.cancelling()
    watching: list[asyncio.Task[Any]] = []
    why: Exception | None = None
    is_over = False

    def cut(reason: Exception, watch: "asyncio.Task[Any]") -> None:
        nonlocal why
        if why is None and not is_over and not watch.cancelled():
            why = reason
            working.cancel()

    def begin() -> None:
        watching.append(loop.create_task(until_gone(receive), name="watch for a client that goes"))
        watching[0].add_done_callback(partial(cut, ClientGoneError()))
        if stopping is not None:
            watching.append(loop.create_task(stopping.wait(), name="watch for a gateway that stops"))
            watching[1].add_done_callback(partial(cut, StoppingError(STOPPING)))

    beginning = loop.call_later(_WATCHED_AFTER_SECONDS, begin)
    try:
        return await work
    except asyncio.CancelledError:
        # Whoever else stops this task wants it stopped, not the request answered.
        if why is not None and working.uncancel() <= was_cancelling:
            raise why from None
        raise
    finally:
        is_over = True
        beginning.cancel()
        for watch in watching:
            watch.cancel()


async def send_response(send: Send, status: int, body: bytes, *, headers: Headers = (), kind: bytes = JSON) -> None:
    """Send a whole answer."""
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
    """The reader has taken nothing for too long."""


async def write(send: Send, chunk: bytes, *, seconds_max: float) -> None:
    """Send a piece of an answer. Raises `StalledError` where its reader does not take it."""
    try:
        async with asyncio.timeout(seconds_max):
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
    except TimeoutError as error:
        raise StalledError from error


async def send_file(
    send: Send, lines: AsyncIterator[bytes], *, kind: str, headers: Headers, bounds: GatewayBounds
) -> None:
    """Send lines as a file, some at a time, as fast as they are read. What fails before the first is a problem yet."""
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
