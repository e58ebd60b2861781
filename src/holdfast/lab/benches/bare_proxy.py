"""Minimal streaming reverse proxy with the gateway's server and client libraries: the reference for its latency.

Run as `python -m holdfast.lab.benches.bare_proxy UPSTREAM`; it prints its address.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

import aiohttp
import uvicorn

_Scope: TypeAlias = MutableMapping[str, Any]
_Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
_Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class BareProxy:
    """Forwards requests and responses unchanged."""

    def __init__(self, upstream: str) -> None:
        self._upstream = upstream
        self._session: aiohttp.ClientSession | None = None

    async def __call__(self, scope: _Scope, receive: _Receive, send: _Send) -> None:
        """Forward one request."""
        if self._session is None:
            self._session = aiohttp.ClientSession(auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar())
        body = b""
        while (event := await receive())["type"] == "http.request":
            body += event["body"]
            if not event["more_body"]:
                break
        headers = {name.decode(): text.decode() for name, text in scope["headers"] if name != b"host"}
        async with self._session.request(
            scope["method"], self._upstream + scope["path"], data=body, headers=headers
        ) as response:
            forwarded = [(name, text) for name, text in response.raw_headers if name.lower() != b"transfer-encoding"]
            await send({"type": "http.response.start", "status": response.status, "headers": forwarded})
            async for chunk in response.content.iter_any():
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _serve(upstream: str) -> None:
    config = uvicorn.Config(
        BareProxy(upstream), port=0, log_config=None, access_log=False, lifespan="off", http="httptools", ws="none"
    )
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    await server.startup()
    port = server.servers[0].sockets[0].getsockname()[1]
    sys.stdout.write(f"bare proxy on http://127.0.0.1:{port}\n")
    sys.stdout.flush()
    await server.main_loop()


if __name__ == "__main__":
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(sys.argv[1]))
