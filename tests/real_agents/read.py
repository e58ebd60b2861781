"""Read real transcripts and count what is lost: `python -m tests.real_agents.read FILE ...` (Claude Code and pi).

Every block of content in a file must be a part of a message, or be counted as foreign. The exit code is 1 if one is
neither.
"""

import sys
from pathlib import Path
from typing import Any

from holdfast.rescue.formats.base import read_lines
from holdfast.rescue.sessions import find_session, read_session

_BLOCKS = ("block ", "empty text block", "empty thinking block", "line that was written twice")


def blocks_in(value: dict[str, Any]) -> int:
    """Return the blocks of content in a line with a message; 0 for other lines and for side chains."""
    message = value.get("message")
    content = message.get("content") if isinstance(message, dict) and not value.get("isSidechain") else None
    if isinstance(message, dict) and message.get("role") == "toolResult":
        return 1
    return len(content) if isinstance(content, list) else int(bool(content))


def main(names: list[str]) -> int:
    """Print a row per file."""
    lost = 0
    sys.stdout.write(
        "| file | blocks | parts | counted blocks | lines of other branches | faults |\n|---|---|---|---|---|---|\n"
    )
    for name in names:
        session = read_session(find_session(name, Path.home(), {}, ""))
        blocks = sum(blocks_in(line.value) for line in read_lines(Path(name).read_bytes()).lines)
        parts = sum(len(message.parts) for message in session.messages)
        counted = sum(count for kind, count in session.foreign.items() if kind.startswith(_BLOCKS))
        others = sum(count for kind, count in session.foreign.items() if "another branch" in kind)
        lost += not others and parts + counted < blocks
        sys.stdout.write(f"| {Path(name).name} | {blocks} | {parts} | {counted} | {others} | {len(session.faults)} |\n")
    return int(bool(lost))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
