"""An MCP server for tests, over standard input and output, or with a port over HTTP. It notes effects in a folder."""

import base64
import os
import sys
from pathlib import Path

from mcp.server.fastmcp import FastMCP
from mcp.types import ImageContent

FOLDER = Path(sys.argv[1])
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
server = FastMCP("tests")


def note(line: str) -> None:
    """Record an effect where the test can count it."""
    with (FOLDER / "effects.txt").open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")


@server.tool()
def add(first: int, second: int) -> str:
    """Add two numbers."""
    note("add")
    return f"sum = {first + second}"


@server.tool()
def fail() -> str:
    """Fail."""
    raise ValueError("the server is cross")


@server.tool()
def die() -> str:
    """Have an effect, and die before the answer."""
    note("die")
    os._exit(3)


@server.tool()
def picture() -> ImageContent:
    """Draw a picture."""
    return ImageContent(type="image", data=base64.b64encode(PNG).decode(), mimeType="image/png")


@server.resource("note://log", description="The log of the harbour.")
def harbour_log() -> str:
    """Return a long text."""
    return "berth 17 is free\n" + "the tide turns. " * 8_000


if __name__ == "__main__":
    if len(sys.argv) > 2:
        server.settings.host, server.settings.port = "127.0.0.1", int(sys.argv[2])
        server.run("streamable-http")
    else:
        server.run()
