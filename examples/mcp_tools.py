"""Tools of an MCP server over standard input and output. Needs the extra: pip install 'holdfast[mcp]'.

The server is this file itself, started with an argument; any other server works alike, such as
`holdfast.MCPServer.stdio("files", "npx", "-y", "@modelcontextprotocol/server-filesystem", "/srv/files")`.

It prints:

    tools: harbour_depth, harbour_read_resource, recall
    The tool harbour_depth returned: 12 fathoms at Kiel
"""

import asyncio
import sys

import holdfast


def serve() -> None:
    """Be an MCP server with one tool and one resource."""
    from mcp.server.fastmcp import FastMCP  # noqa: PLC0415 - only in the process of the server

    server = FastMCP("harbour")

    @server.tool()
    def depth(place: str) -> str:
        """Return how deep the water is at a place."""
        return f"12 fathoms at {place}"

    @server.resource("harbour://log")
    def log() -> str:
        """Return the harbour's log."""
        return "berth 17 is free"

    server.run()


async def main() -> None:
    """Use the tools of the server in a session."""
    server = holdfast.MCPServer.stdio("harbour", sys.executable, __file__, "serve")
    async with holdfast.open(":memory:", mcp=[server]) as client:
        chat = await client.session("pilot")
        print("tools:", ", ".join(spec.name for spec in (await chat.view()).tools))
        print(await chat.send('call harbour_depth {"place": "Kiel"}'))


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        serve()
    else:
        asyncio.run(main())
