"""`holdfast mcp`: an MCP server over standard input and output, with which an agent looks up its earlier sessions."""

import asyncio
import sys

import click

from holdfast.cli.options import configure_logging, store_option, store_to_read
from holdfast.core.limits.bounds import Bounds
from holdfast.gateway.mcp import MESSAGE_BYTES_MAX, McpServer
from holdfast.wiring import Place, look_at_store


@click.command()
@click.option("--tenant", default="", metavar="NAME", help="Serve the sessions of this gateway key.")
@store_option
def mcp(tenant: str, store: Place | None) -> None:
    """Serve the sessions of a store to an agent, as an MCP server over standard input and output.

    Tools: sessions, search, read and recall. Nothing is written. Example for Claude Code: `claude mcp add holdfast --
    holdfast mcp`. `holdfast serve` has the same server at /mcp, with the sessions of the key that a client sends.
    """
    configure_logging()
    asyncio.run(_serve(store_to_read(store), tenant))


async def _serve(place: Place, tenant: str) -> None:
    records, blobs = look_at_store(place, Bounds())
    server = McpServer(records, blobs, tenant)
    try:
        while line := await asyncio.to_thread(sys.stdin.buffer.readline, MESSAGE_BYTES_MAX):
            answer = await server.answer(line) if line.strip() else None
            if answer is not None:
                sys.stdout.buffer.write(answer + b"\n")
                sys.stdout.buffer.flush()
    finally:
        await records.close()
