"""MCP: an agent looks up its earlier sessions, over standard input and output or over HTTP.

The protocol needs three requests here: initialize, the list of tools, and a call. Messages are JSON objects
(https://modelcontextprotocol.io/specification). The store is only read. Over HTTP each request is answered by itself:
there is no session of the protocol, and no stream from the server.
"""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Annotated, Any

import msgspec

from holdfast.core.limits.bounds import RESERVED_KEYS, Bounds
from holdfast.errors import HoldfastError, UsageError
from holdfast.gateway.api.request_context import AppState
from holdfast.gateway.http.asgi import Receive, Scope, Send, body_chunks, header, send_response
from holdfast.gateway.http.auth import Tenant
from holdfast.gateway.http.problems import InvalidError, MethodError
from holdfast.ports import Blobs, Log, SessionInfo
from holdfast.runtime.tools.recall import Recall, search_shown

# Versions of the protocol whose messages these are; the newest is offered to clients with another.
_PROTOCOLS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
# JSON-RPC's numbers.
_PARSE_ERROR, _INVALID_REQUEST, _NO_METHOD, _BAD_PARAMETERS = -32_700, -32_600, -32_601, -32_602
# A request is a few words; an endless one must not fill memory.
MESSAGE_BYTES_MAX = 2**20
_PAGE = 1_000
_SESSIONS_SHOWN = 50
# Sessions that a search without a session looks through, newest first, and hits that it shows.
_SEARCHED_MAX = 200
_HITS_SHOWN = 10


class _Sessions(msgspec.Struct, forbid_unknown_fields=True):
    """List earlier sessions, newest first, with the time of their last change."""


class _Search(msgspec.Struct, forbid_unknown_fields=True):
    """Search everything that was said or done in earlier sessions, also what a compaction removed from the context."""

    query: Annotated[str, msgspec.Meta(description="A few words, or a path, name or id as it was written.")]
    session: Annotated[str, msgspec.Meta(description="Search only this session.")] = ""


class _Read(msgspec.Struct, forbid_unknown_fields=True):
    """Read one record of a session in full: the n of [#n] in search results and summaries."""

    session: str
    seq: Annotated[int, msgspec.Meta(ge=1)]
    offset: Annotated[int, msgspec.Meta(ge=0, description="Go on reading from this byte.")] = 0


class _RecallBlob(msgspec.Struct, forbid_unknown_fields=True):
    """Read a kept original, such as long tool output: the first 12 characters of its id."""

    session: str
    blob: str
    offset: Annotated[int, msgspec.Meta(ge=0)] = 0


class _Request(msgspec.Struct):
    method: str
    id: int | str | None = None
    params: dict[str, Any] = msgspec.field(default_factory=dict)


class RpcError(Exception):
    """An error response with its number."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class McpServer:
    """Answers requests over the sessions of one owner."""

    def __init__(self, store: Log, blobs: Blobs, tenant: str = "") -> None:
        self._store = store
        self._prefix = f"@{tenant}/" if tenant else ""
        self._recall = Recall(store, blobs, Bounds())
        self._tools: dict[str, tuple[type[msgspec.Struct], Callable[[Any], Awaitable[str]]]] = {
            "sessions": (_Sessions, self._sessions),
            "search": (_Search, self._search),
            "read": (_Read, self._read),
            "recall": (_RecallBlob, self._read_blob),
        }

    async def answer(self, line: bytes) -> bytes | None:
        """Return the response to a message; None for a notification."""
        try:
            request = msgspec.json.decode(line, type=_Request)
        except msgspec.ValidationError as error:
            return _response(None, error=(_INVALID_REQUEST, str(error)))
        except msgspec.DecodeError as error:
            return _response(None, error=(_PARSE_ERROR, str(error)))
        if request.id is None:
            return None
        try:
            return _response(request.id, result=await self._result(request))
        except RpcError as error:
            return _response(request.id, error=(error.code, str(error)))

    async def _result(self, request: _Request) -> dict[str, Any]:
        match request.method:
            case "initialize":
                asked = request.params.get("protocolVersion")
                return {
                    "protocolVersion": asked if asked in _PROTOCOLS else _PROTOCOLS[-1],
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "holdfast", "version": version("holdfast")},
                }
            case "ping":
                return {}
            case "tools/list":
                return {"tools": [_described(name, kind) for name, (kind, _) in self._tools.items()]}
            case "tools/call":
                return await self._call(request.params)
            case _:
                raise RpcError(_NO_METHOD, f"there is no method {request.method!r}")

    async def _call(self, params: dict[str, Any]) -> dict[str, Any]:
        name = params.get("name")
        if name not in self._tools:
            raise RpcError(_BAD_PARAMETERS, f"there is no tool {name!r}; tools: {', '.join(self._tools)}")
        kind, run = self._tools[name]
        try:
            text, is_error = await run(msgspec.convert(params.get("arguments") or {}, kind, strict=False)), False
        except (HoldfastError, msgspec.ValidationError) as error:
            # The model reads it and corrects its call.
            text, is_error = str(error), True
        return {"content": [{"type": "text", "text": text}], "isError": is_error}

    # --- Tools ---

    async def _owned(self) -> list[SessionInfo]:
        """Return the sessions of the owner, newest first."""
        found: list[SessionInfo] = []
        after = self._prefix
        while page := await self._store.sessions(after=after, limit=_PAGE):
            found += [one for one in page if self._is_own(one.key)]
            after = page[-1].key
        return sorted(found, key=lambda one: -one.updated_at)

    def _is_own(self, key: str) -> bool:
        if self._prefix:
            return key.startswith(self._prefix)
        return not key.startswith(("@", RESERVED_KEYS))

    async def _key(self, session: str) -> str:
        """Return the store's key of a session. Raises `UsageError` if the owner has no such session."""
        key = self._prefix + session
        # Without the nearest key as a hint, which could be another owner's.
        if not self._is_own(key) or await self._store.info(key) is None:
            raise UsageError(f"there is no session {session!r}; the tool `sessions` lists all")
        return key

    async def _sessions(self, _arguments: _Sessions) -> str:
        found = await self._owned()
        lines = [
            f"{one.key.removeprefix(self._prefix)}  {_time(one.updated_at)}  {one.last_seq:,} records"
            for one in found[:_SESSIONS_SHOWN]
        ]
        more = [f"and {len(found) - _SESSIONS_SHOWN:,} older ones"] if len(found) > _SESSIONS_SHOWN else []
        return "\n".join([*lines, *more]) or "there are no sessions"

    async def _search(self, arguments: _Search) -> str:
        if arguments.session:
            keys = [await self._key(arguments.session)]
        else:
            keys = [one.key for one in (await self._owned())[:_SEARCHED_MAX]]
        hits = [
            (hit, key)
            for key in keys
            for hit in await search_shown(self._store, key, arguments.query, limit=_HITS_SHOWN)
        ]
        hits.sort(key=lambda found: -found[0].score)
        lines = [f"{key.removeprefix(self._prefix)} [#{hit.seq}] {hit.excerpt}" for hit, key in hits[:_HITS_SHOWN]]
        return "\n\n".join(lines) or f"nothing found for {arguments.query!r}"

    async def _read(self, arguments: _Read) -> str:
        key = await self._key(arguments.session)
        return (await self._recall.read(key, seq=arguments.seq, offset=arguments.offset)).as_text()

    async def _read_blob(self, arguments: _RecallBlob) -> str:
        key = await self._key(arguments.session)
        return (await self._recall.read(key, blob=arguments.blob, offset=arguments.offset)).as_text()


def _described(name: str, kind: type[msgspec.Struct]) -> dict[str, Any]:
    schema = msgspec.json.schema(kind)["$defs"][kind.__name__]
    shape = {key: schema[key] for key in ("type", "properties", "required") if key in schema}
    return {"name": name, "description": " ".join((kind.__doc__ or "").split()), "inputSchema": shape}


def _response(
    identity: int | str | None, *, result: dict[str, Any] | None = None, error: tuple[int, str] | None = None
) -> bytes:
    told: dict[str, Any] = {"jsonrpc": "2.0", "id": identity}
    if error is not None:
        told["error"] = {"code": error[0], "message": error[1]}
    else:
        told["result"] = result
    return msgspec.json.encode(told)


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, tz=UTC).strftime("%Y-%m-%d %H:%M UTC")


class McpApp:
    """The server over HTTP, with the sessions of the key that a request presents."""

    def __init__(self, state: AppState) -> None:
        self._state = state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one message."""
        if scope["method"] != "POST":
            # A client asks for a stream with GET, and goes on without one.
            raise MethodError("this address allows POST: one message of the protocol per request")
        spoken = header(scope, b"mcp-protocol-version")
        if spoken and spoken not in _PROTOCOLS:
            raise InvalidError(f"version {spoken[:40]!r} of the protocol is not known; known: {', '.join(_PROTOCOLS)}")
        tenant = scope["holdfast.tenant"]
        assert isinstance(tenant, Tenant), "the gateway authenticates before it calls a mount"
        with tenant.working():
            chunks = body_chunks(scope, receive, self._state.bounds, bytes_max=MESSAGE_BYTES_MAX)
            body = b"".join([chunk async for chunk in chunks])
            engine = self._state.client.engine
            answer = await McpServer(engine.store, engine.blobs, tenant.name).answer(body)
        if answer is None:
            await send_response(send, 202, b"")
        else:
            await send_response(send, 200, answer)
