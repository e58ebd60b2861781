"""Cline and Roo: tasks of the extensions of VS Code, each a JSON array of messages in Anthropic's form. Read only.

A file that was cut off while it was written reads as empty in the extension; every whole message of it is read here. In
Roo, a message with `isSummary` begins the context anew, and a marker hides the messages that name it.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from holdfast.errors import BadInputError
from holdfast.rescue.formats.base import Conversation, ForeignSession, SessionRef, blocks_of
from holdfast.rescue.neutral import NeutralRole
from holdfast.types.messages import Part, ToolResult

NAME = "api_conversation_history.json"
# The extension's folder in `globalStorage`, by agent.
EXTENSIONS = {"cline": "saoudrizwan.claude-dev", "roo": "rooveterinaryinc.roo-cline"}
_EDITORS = ("Code", "Code - Insiders", "VSCodium", "Cursor", "Windsurf")
_scanner = json.JSONDecoder()


def find(home: Path, environ: Mapping[str, str], cwd: str) -> list[SessionRef]:
    """Return the tasks of a folder of work, in all editors."""
    config = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    roots = [config / editor for editor in _EDITORS] + [
        home / "Library" / "Application Support" / editor for editor in _EDITORS
    ]
    return [
        ref
        for root in roots
        for agent, extension in EXTENSIONS.items()
        for ref in _tasks(agent, root / "User" / "globalStorage" / extension, cwd)
    ]


def _tasks(agent: str, storage: Path, cwd: str) -> Iterator[SessionRef]:
    folders = _folders(storage)
    for path in sorted((storage / "tasks").glob(f"*/{NAME}")):
        task = path.parent
        if (folders.get(task.name) or _json(task / "history_item.json").get("workspace")) == cwd:
            stat = path.stat()
            yield SessionRef(agent, task.name, path, cwd, stat.st_mtime, stat.st_size)


def _folders(storage: Path) -> dict[str, str]:
    """Return the folder of work of each task in Cline's list."""
    found = _load(storage / "state" / "taskHistory.json")
    listed = [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
    return {str(one.get("id")): str(one.get("cwdOnTaskInitialization") or one.get("workspace") or "") for one in listed}


def _load(path: Path) -> object:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None


def _json(path: Path) -> dict[str, Any]:
    found = _load(path)
    return found if isinstance(found, dict) else {}


def ref_of_file(path: Path) -> SessionRef:
    """Return the task of a file, whose folder says which extension it is of."""
    agent = next((agent for agent, extension in EXTENSIONS.items() if extension in path.parts), "cline")
    stat = path.stat()
    return SessionRef(agent, path.parent.name, path, "", stat.st_mtime, stat.st_size)


def read(ref: SessionRef) -> ForeignSession:
    """Read a task."""
    values, faults = _messages(ref)
    whole, sent = Conversation(ref.id), Conversation(ref.id)
    first = max((at for at, one in enumerate(values) if one.get("isSummary")), default=0)
    markers = {one.get("truncationId") for one in values if one.get("isTruncationMarker")} - {None}
    for at, value in enumerate(values):
        _add(whole, value)
        if at >= first and value.get("truncationParent") not in markers:
            _add(sent, value)
    return ForeignSession(ref, "", tuple(whole.messages), tuple(sent.messages), dict(whole.foreign), faults)


def _messages(ref: SessionRef) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    """Return the whole messages of a file, and sentences about damage."""
    text = ref.path.read_bytes().replace(b"\0", b"").decode(errors="replace")
    at = text.find("[") + 1
    if not at:
        raise BadInputError(f"{ref.path} has no list of messages")
    found: list[dict[str, Any]] = []
    faults: list[str] = []
    while (at := _next(text, at)) < len(text) and text[at] != "]":
        try:
            value, at = _scanner.raw_decode(text, at)
        except ValueError:
            faults.append(f"message {len(found) + 1} is torn: its end was never written, so the task reads as empty")
            break
        if isinstance(value, dict):
            found.append(value)
        else:
            faults.append(f"entry {len(found) + len(faults) + 1} is not a message")
    else:
        if at >= len(text):
            faults.append("the list has no end, so the task reads as empty")
    return found, tuple(faults)


def _next(text: str, at: int) -> int:
    """Return the position of the next value."""
    while at < len(text) and text[at] in ", \t\r\n":
        at += 1
    return at


def _add(talk: Conversation, value: dict[str, Any]) -> None:
    blobs: dict[str, bytes] = {}
    said: list[Part] = []
    results: list[Part] = []
    for part in blocks_of(value.get("content"), blobs, talk.foreign):
        (results if isinstance(part, ToolResult) else said).append(part)
    if results:
        talk.add(NeutralRole.TOOL, results, blobs, value.get("ts", ""))
    if said or not results:
        role = NeutralRole.ASSISTANT if value.get("role") == "assistant" else NeutralRole.USER
        talk.add(role, said, blobs, value.get("ts", ""))
