"""Description of an MCP server, without the SDK."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from holdfast.errors import UsageError

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,24}")
# Time to start a server and to list its tools: a package runner may download it first.
START_SECONDS = 60.0
# Code of the JSON-RPC error that the client gives to a call that did not run.
NOT_RUN = -32_001


class MCPServer(msgspec.Struct, frozen=True, kw_only=True):
    """An MCP server whose tools the sessions use. Make one with `MCPServer.stdio` or `MCPServer.http`."""

    # Prefix of the names of its tools.
    name: str
    # The program of a server over standard input and output, with arguments and environment; "" for a server over HTTP.
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] | None = None
    cwd: Path | None = None
    # The address of a server over HTTP, and additional headers.
    url: str = ""
    headers: Mapping[str, str] | None = None
    # Names of the tools to use, as the server names them; None: all.
    tools: tuple[str, ...] | None = None
    # Every call of its tools waits for an approval.
    approve: bool = False
    # Timeout of one call.
    seconds_max: float = 120.0

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise UsageError(f"MCP server {self.name[:80]!r}: a name has 1 to 24 letters, digits, '_' or '-'")
        if bool(self.command) == bool(self.url):
            raise UsageError(f"MCP server {self.name!r}: give either a command or an address")

    def __repr__(self) -> str:
        # Arguments, environment and headers may hold secrets.
        return f"MCPServer({self.name!r}, {self.command or self.url.partition('?')[0]!r})"

    @classmethod
    def stdio(  # noqa: PLR0913 - as the fields
        cls,
        name: str,
        command: str,
        *args: str,
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
        tools: Sequence[str] | None = None,
        approve: bool = False,
        seconds_max: float = 120.0,
    ) -> "MCPServer":
        """Describe a server that is started as a program and talks over standard input and output."""
        return cls(
            name=name,
            command=command,
            args=args,
            env=env,
            cwd=Path(cwd) if cwd is not None else None,
            tools=None if tools is None else tuple(tools),
            approve=approve,
            seconds_max=seconds_max,
        )

    @classmethod
    def http(
        cls,
        name: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        tools: Sequence[str] | None = None,
        approve: bool = False,
        seconds_max: float = 120.0,
    ) -> "MCPServer":
        """Describe a server at an address, over the transport "streamable HTTP"."""
        if not url.startswith(("http://", "https://")):
            raise UsageError(f"MCP server {name!r}: the address must start with http:// or https://")
        return cls(
            name=name,
            url=url,
            headers=headers,
            tools=None if tools is None else tuple(tools),
            approve=approve,
            seconds_max=seconds_max,
        )
