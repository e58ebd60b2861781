"""MCP client: tools of MCP servers for the sessions, by the official SDK (extra `mcp`).

A connection lives in a task of its own and is opened again after it is lost, before the next call. A call that was sent
when the connection was lost is not repeated: its effect is unknown, and the model is told so.
"""

import asyncio
import base64
import json
import logging
import os
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

from holdfast.errors import HoldfastError, OperatorError, RetryLaterError, UsageError
from holdfast.ports import Attachment, Tool
from holdfast.runtime.tools.mcp_server import NOT_RUN, START_SECONDS, MCPServer
from holdfast.types.messages import ToolSpec

if TYPE_CHECKING:
    from mcp import ClientSession
    from mcp.types import CallToolResult, ReadResourceResult
    from mcp.types import Tool as ListedTool

    from holdfast.runtime.tools.mcp_http import OpenCalls

log = logging.getLogger("holdfast")

Result = TypeVar("Result")

_UNSAFE = re.compile(r"[^a-zA-Z0-9_-]+")
_NAME_CHARS_MAX = 64
# Pages of a listing that are read: a server with more tools than this would fill the window.
_PAGES_MAX = 20
_DESCRIPTION_CHARS_MAX = 4_000
_READ = "read_resource"
# Code of the error that the SDK gives to a call if the server does not know the session.
_SESSION_GONE = 32_600
_READ_PARAMETERS = json.dumps(
    {
        "type": "object",
        "properties": {
            "uri": {"type": "string", "description": "The resource to read; empty: list all.", "default": ""}
        },
    }
)


class MCPError(OperatorError):
    """An MCP server could not be started or reached."""

    code = "mcp_unavailable"


class McpCallError(HoldfastError):
    """A tool of an MCP server failed. The message is the server's own."""

    code = "mcp_call_failed"


class _LostError(Exception):
    """The connection was lost while a call was in flight."""


@asynccontextmanager
async def open_servers(servers: Sequence[MCPServer]) -> AsyncGenerator[Sequence[Tool], None]:
    """Connect to servers, and yield their tools until the end of the block."""
    names = [server.name for server in servers]
    if len(set(names)) < len(names):
        raise UsageError(f"two MCP servers have the same name; they are {', '.join(names)}")
    try:
        import mcp  # noqa: F401, PLC0415 - the extra; takes half a second
    except ImportError as error:
        raise UsageError("MCP servers need the extra `mcp`: pip install 'holdfast[mcp]'") from error
    async with AsyncExitStack() as stack:
        connections = [Connection(server) for server in servers]
        for connection in connections:
            stack.push_async_callback(connection.close)
        listed = await asyncio.gather(*(connection.tools() for connection in connections))
        yield [tool for tools in listed for tool in tools]


class Connection:
    """The connection to one server, opened on use and again after it is lost."""

    def __init__(self, server: MCPServer) -> None:
        self.server = server
        self._opening = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._session: ClientSession | None = None
        self._stop = asyncio.Event()

    async def tools(self) -> list[Tool]:
        """Connect, and return the server's tools; with one that reads its resources, if it has any."""
        session = await self._connected()
        async with asyncio.timeout(START_SECONDS):
            found: list[Tool] = [McpTool(self, one) for one in await self._list_tools(session)]
            capabilities = session.get_server_capabilities()
        if capabilities is not None and capabilities.resources is not None and self.server.tools is None:
            found.append(ResourceTool(self))
        return found

    async def _list_tools(self, session: "ClientSession") -> "list[ListedTool]":
        listed: list[ListedTool] = []
        cursor: str | None = None
        for _ in range(_PAGES_MAX):
            page = await session.list_tools(cursor)
            listed += page.tools
            if (cursor := page.nextCursor) is None:
                break
        wanted = self.server.tools
        if wanted is not None and (missing := set(wanted) - {one.name for one in listed}):
            raise UsageError(f"MCP server {self.server.name!r} has no tool {min(missing)!r}")
        return [one for one in listed if wanted is None or one.name in wanted]

    async def call(self, work: "Callable[[ClientSession], Awaitable[Result]]") -> Result:
        """Do some work with the session of the server. Raises `_LostError` if the connection is lost meanwhile.

        A server that does not know the session, because it was restarted, has done nothing: the work is done with a new
        session then.
        """
        from mcp import McpError  # noqa: PLC0415 - the extra

        session = await self._connected()
        try:
            return await self._do(session, work)
        except McpError as error:
            if error.error.code != _SESSION_GONE:
                raise
        await self._forget(session)
        return await self._do(await self._connected(), work)

    async def _forget(self, session: "ClientSession") -> None:
        """Close the connection of a session, unless it was opened again meanwhile."""
        async with self._opening:
            if self._session is session:
                await self.close()

    async def _do(self, session: "ClientSession", work: "Callable[[ClientSession], Awaitable[Result]]") -> Result:
        holder = self._task
        assert holder is not None, "set with the session"
        running = asyncio.ensure_future(work(session))
        try:
            await asyncio.wait([running, holder], return_when=asyncio.FIRST_COMPLETED)
            if running.done() and not holder.done():
                return running.result()
            if running.done() and running.exception() is None:
                return running.result()
        finally:
            running.cancel()
        raise _LostError(f"the connection to the MCP server {self.server.name} was lost")

    async def _connected(self) -> "ClientSession":
        async with self._opening:
            if self._session is None or self._task is None or self._task.done():
                await self._open()
            assert self._session is not None, "set by `_hold`"
            return self._session

    async def _open(self) -> None:
        ready: asyncio.Future[ClientSession] = asyncio.get_running_loop().create_future()
        self._stop = asyncio.Event()
        # Its own task: the SDK's scopes must be left by the task that entered them.
        self._task = asyncio.create_task(self._hold(ready, self._stop), name=f"mcp {self.server.name}")
        either: list[asyncio.Future[Any]] = [ready, self._task]
        try:
            async with asyncio.timeout(START_SECONDS):
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            self._task.cancel()
        if not ready.done():
            reason = f"it did not answer within {START_SECONDS:g} seconds"
            if self._task.done() and not self._task.cancelled() and (error := self._task.exception()):
                reason = _reason(error)
            raise MCPError(f"the MCP server {self.server.name!r} could not be opened: {reason}")
        self._session = ready.result()

    async def _hold(self, ready: "asyncio.Future[ClientSession]", stop: asyncio.Event) -> None:
        """Keep the connection open until it is lost or closed."""
        import anyio  # noqa: PLC0415 - comes with the extra
        from mcp import ClientSession  # noqa: PLC0415 - the extra

        async with AsyncExitStack() as stack:
            # Messages of servers may hold anything, and would fill the terminal.
            discarded = stack.enter_context(open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, ASYNC230, SIM115 - no disk
            # The SDK does not say when a server is gone, so what it sends passes through here.
            sender, receiver = anyio.create_memory_object_stream[Any](0)
            for stream in (sender, receiver):
                stack.callback(stream.close)
            transport, calls = _transport(self.server, discarded, sender)
            streams = await stack.enter_async_context(transport)
            session = await stack.enter_async_context(ClientSession(receiver, streams[1]))
            passing = asyncio.ensure_future(_pass_on(streams[0], sender, calls))
            stopping = asyncio.ensure_future(stop.wait())
            try:
                await session.initialize()
                ready.set_result(session)
                await asyncio.wait([passing, stopping], return_when=asyncio.FIRST_COMPLETED)
            finally:
                self._session = None
                if calls is not None:
                    calls.close()
                for task in (passing, stopping):
                    task.cancel()
                await asyncio.wait([passing, stopping])

    async def close(self) -> None:
        """Close the connection; a server that was started is stopped."""
        self._stop.set()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=10.0)
            self._task.cancel()


async def _pass_on(source: Any, target: Any, calls: "OpenCalls | None") -> None:  # noqa: ANN401 - streams of the SDK
    """Pass messages on until the source ends, and end the target too."""
    async with source, target:
        async for message in source:
            root = getattr(getattr(message, "message", None), "root", None)
            if calls is not None and not hasattr(root, "method") and (call := getattr(root, "id", None)) is not None:
                calls.end(call)
            await target.send(message)


def _transport(
    server: MCPServer,
    errlog: TextIO,
    sender: Any,  # noqa: ANN401 - a stream of the SDK
) -> "tuple[AbstractAsyncContextManager[Any], OpenCalls | None]":
    """Return the transport to a server, and over HTTP its open calls, whose errors go to `sender`."""
    if server.url:
        from holdfast.runtime.tools.mcp_http import OpenCalls, http_transport  # noqa: PLC0415 - needs the extra

        calls = OpenCalls(sender.send)
        return http_transport(server.url, server.headers or {}, calls), calls
    from mcp.client.stdio import StdioServerParameters, get_default_environment, stdio_client  # noqa: PLC0415 - the extra

    environment = {**get_default_environment(), **(server.env or {})}
    given = StdioServerParameters(command=server.command, args=list(server.args), env=environment, cwd=server.cwd)
    return stdio_client(given, errlog=errlog), None


def _reason(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"


class McpTool:
    """A tool of an MCP server."""

    is_idempotent = False

    def __init__(self, connection: Connection, listed: "ListedTool") -> None:
        self._connection = connection
        self._own_name = listed.name
        name = f"{connection.server.name}_{_UNSAFE.sub('_', listed.name)}"[:_NAME_CHARS_MAX]
        description = (listed.description or listed.title or "")[:_DESCRIPTION_CHARS_MAX]
        self.spec = ToolSpec(name, description, json.dumps(listed.inputSchema, ensure_ascii=False))
        self.seconds_max = connection.server.seconds_max

    def needs_approval(self, _arguments: str) -> bool:
        """Return whether the server is one whose calls wait for an approval."""
        return self._connection.server.approve

    async def run(self, arguments: str) -> Sequence[str | Attachment]:
        """Call the tool of the server."""
        given = json.loads(arguments or "{}")
        if not isinstance(given, dict):
            raise McpCallError(f"the tool {self.spec.name} did not run: write one JSON object with its arguments")
        result = await _once(self._connection, lambda session: session.call_tool(self._own_name, given))
        output = list(_contents(result))
        if result.isError:
            texts = [piece for piece in output if isinstance(piece, str)]
            raise McpCallError("\n".join(texts) or "the server gave no reason")
        return output


class ResourceTool:
    """A tool that lists and reads the resources of an MCP server. Long ones are kept as blobs, which `recall` reads."""

    # It only reads.
    is_idempotent = True

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        name = f"{connection.server.name}_{_READ}"
        told = f"List the resources of {connection.server.name}, or read one of them."
        self.spec = ToolSpec(name, told, _READ_PARAMETERS)
        self.seconds_max = connection.server.seconds_max

    async def run(self, arguments: str) -> Sequence[str | Attachment]:
        """Return the list of resources, or the content of one."""
        given = json.loads(arguments or "{}")
        uri = given.get("uri", "") if isinstance(given, dict) else ""
        if not uri:
            listed = await _once(self._connection, lambda session: session.list_resources())
            lines = [f"{one.uri} {one.name}: {one.description or ''}".rstrip(": ") for one in listed.resources]
            return ["\n".join(lines) or "there are no resources"]
        from pydantic import AnyUrl  # noqa: PLC0415 - comes with the extra

        read = await _once(self._connection, lambda session: session.read_resource(AnyUrl(uri)))
        return list(_resource(read))


async def _once(connection: Connection, work: "Callable[[ClientSession], Awaitable[Result]]") -> Result:
    """Do work once. A call that was sent when the connection was lost is not repeated."""
    from mcp import McpError  # noqa: PLC0415 - the extra
    from mcp.types import CONNECTION_CLOSED  # noqa: PLC0415 - the extra

    name = connection.server.name
    try:
        return await connection.call(work)
    except McpError as error:
        if error.error.code == NOT_RUN:
            raise RetryLaterError(
                f"the call was not made: MCP server {name}: {error}. It may be called again"
            ) from error
        if error.error.code != CONNECTION_CLOSED:
            raise McpCallError(str(error)) from error
    except _LostError:
        pass
    raise RetryLaterError(
        f"outcome unknown: the connection to the MCP server {name} was lost while the call ran. It "
        "may or may not have had its effect and was not repeated. Check before you call it again"
    )


def _contents(result: "CallToolResult") -> list[str | Attachment]:
    output = [_content(one) for one in result.content]
    if not output and result.structuredContent is not None:
        output = [json.dumps(result.structuredContent, ensure_ascii=False)]
    return output


def _content(one: Any) -> str | Attachment:  # noqa: ANN401 - a union of the SDK
    match one.type:
        case "text":
            return str(one.text)
        case "image" | "audio":
            return Attachment(base64.b64decode(one.data), media_type=one.mimeType)
        case "resource":
            return _embedded(one.resource)
        case "resource_link":
            return f"[resource {one.uri} {one.name}]"
        case _:
            return f"[content of type {one.type}, which is not supported]"


def _resource(read: "ReadResourceResult") -> list[str | Attachment]:
    return [_embedded(one) for one in read.contents]


def _embedded(one: Any) -> str | Attachment:  # noqa: ANN401 - a union of the SDK
    if hasattr(one, "text"):
        return str(one.text)
    return Attachment(base64.b64decode(one.blob), name=str(one.uri).rpartition("/")[2], media_type=one.mimeType or "")
