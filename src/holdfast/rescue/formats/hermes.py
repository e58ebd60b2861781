"""hermes: rows of `~/.hermes/state.db`. Sessions that a compression ended continue in their children. Read only."""

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holdfast.rescue.formats.base import Conversation, ForeignSession, SessionRef, blocks_of, result_of, text_of
from holdfast.rescue.formats.opencode import open_rows
from holdfast.rescue.neutral import NeutralRole
from holdfast.types.messages import Part, Text, ToolCall

AGENT = "hermes"


def find(home: Path, environ: Mapping[str, str], cwd: str) -> list[SessionRef]:
    """Return the stored sessions of a folder, each by its newest continuation."""
    path = Path(environ.get("HERMES_HOME") or home / ".hermes") / "state.db"
    if not path.is_file():
        return []
    query = """
        SELECT id, started_at FROM sessions WHERE cwd = ? AND NOT EXISTS
        (SELECT 1 FROM sessions AS later WHERE later.parent_session_id = sessions.id)
    """
    with contextlib.closing(open_rows(path)) as rows:
        found = list(rows.execute(query, (cwd,)))
    return [SessionRef(AGENT, str(key), path, cwd, _time(at), path.stat().st_size) for key, at in found]


def _time(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def read(ref: SessionRef) -> ForeignSession:
    """Read a session with the sessions that it continues."""
    whole, sent = Conversation(ref.id), Conversation(ref.id)
    with contextlib.closing(open_rows(ref.path)) as rows:
        names = [ref.id]
        while found := list(rows.execute("SELECT parent_session_id FROM sessions WHERE id = ?", (names[0],))):
            parent = found[0][0]
            if not isinstance(parent, str) or parent in names:
                break
            names.insert(0, parent)
        for name in names:
            query = "SELECT * FROM messages WHERE session_id = ? ORDER BY id"
            cursor = rows.execute(query, (name,))
            for row in cursor:
                value = dict(zip([column[0] for column in cursor.get_description()], row, strict=True))
                add_chat_message(whole, value)
                if name == ref.id and value.get("active", 1):
                    add_chat_message(sent, value)
    return ForeignSession(ref, "", tuple(whole.messages), tuple(sent.messages), dict(whole.foreign))


def add_chat_message(talk: Conversation, value: Mapping[str, Any]) -> None:
    """Add a message in the form of chat completions: role, content, tool_calls, tool_call_id."""
    blobs: dict[str, bytes] = {}
    content = value.get("content")
    parts: list[Part] = blocks_of(content, blobs, talk.foreign)
    role = str(value.get("role", ""))
    if role == "tool":
        result = result_of(str(value.get("tool_call_id", "")), parts, is_error=bool(value.get("is_error")))
        talk.add(NeutralRole.TOOL, [result], blobs, value.get("created_at", value.get("timestamp", "")))
        return
    calls = value.get("tool_calls")
    with contextlib.suppress(ValueError):
        calls = json.loads(calls) if isinstance(calls, str) else calls
    for call in calls if isinstance(calls, list) else []:
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            arguments = text_of(function.get("arguments", "{}"))
            parts.append(ToolCall(str(call.get("id", "")), str(function.get("name", "")), arguments))
    roles = {"user": NeutralRole.USER, "assistant": NeutralRole.ASSISTANT}
    if not parts and isinstance(content, dict):
        parts = [Text(text_of(content))]
    talk.add(roles.get(role, NeutralRole.SYSTEM), parts, blobs, value.get("created_at", value.get("timestamp", "")))
