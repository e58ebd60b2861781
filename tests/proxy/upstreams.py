"""A provider that writes down the raw requests it gets and answers each with the same bytes."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Seen:
    """A request as it came: method, target, headers and body."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


@dataclass
class RawUpstream:
    """The provider, what it saw, and what it answers."""

    url: str = ""
    seen: list[Seen] = field(default_factory=list)
    body: bytes = b'{"id":"resp_1","object":"response","output":[]}'
    headers: bytes = b"content-type: application/json\r\n"

    @property
    def targets(self) -> list[str]:
        return [one.target for one in self.seen]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                line, *rest = head.decode("latin-1").split("\r\n")
                method, target, _ = line.split(" ")
                headers = {name.lower(): text.strip() for name, _, text in (one.partition(":") for one in rest if one)}
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                self.seen.append(Seen(method, target, headers, body))
                length = f"content-length: {len(self.body)}\r\n\r\n".encode()
                writer.write(b"HTTP/1.1 200 OK\r\n" + self.headers + length + (b"" if method == "HEAD" else self.body))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


@asynccontextmanager
async def a_raw_upstream() -> AsyncGenerator[RawUpstream]:
    """Serve on a free port until the end of the context."""
    upstream = RawUpstream()
    server = await asyncio.start_server(upstream.serve, "127.0.0.1", 0)
    upstream.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/team-a"
    try:
        yield upstream
    finally:
        server.close()
