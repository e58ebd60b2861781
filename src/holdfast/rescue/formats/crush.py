"""Crush: rows of `.crush/crush.db` in the folder of work. Crush itself repairs open calls. Read only."""

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holdfast.rescue.formats.base import Conversation, ForeignSession, SessionRef, media_of, result_of, text_of
from holdfast.rescue.formats.opencode import open_rows
from holdfast.rescue.neutral import NeutralRole
from holdfast.types.messages import Part, Reasoning, Text, ToolCall

AGENT = "crush"


def find(home: Path, environ: Mapping[str, str], cwd: str) -> list[SessionRef]:
    """Return the sessions of a folder, without those of subagents."""
    del home, environ
    path = Path(cwd) / ".crush" / "crush.db"
    if not path.is_file():
        return []
    query = "SELECT id, updated_at FROM sessions WHERE parent_session_id IS NULL OR parent_session_id = ''"
    with contextlib.closing(open_rows(path)) as rows:
        found = list(rows.execute(query))
    size = path.stat().st_size
    return [SessionRef(AGENT, str(key), path, cwd, float(str(at or 0)), size) for key, at in found]


def read(ref: SessionRef) -> ForeignSession:
    """Read a session. The newest summary begins the context."""
    whole, sent = Conversation(ref.id), Conversation(ref.id)
    faults: list[str] = []
    model = ""
    query = "SELECT id, role, parts, created_at, model FROM messages WHERE session_id = ? ORDER BY created_at, rowid"
    with contextlib.closing(open_rows(ref.path)) as rows:
        chosen = rows.execute("SELECT summary_message_id FROM sessions WHERE id = ?", (ref.id,)).fetchall()
        summary = str(chosen[0][0] or "") if chosen else ""
        for identity, role, parts, at, named in rows.execute(query, (ref.id,)):
            try:
                blocks = json.loads(str(parts))
            except ValueError:
                faults.append(f"message {identity} cannot be read")
                continue
            model = str(named or model)
            if identity == summary:
                sent = Conversation(ref.id)
            for talk in (whole, sent):
                # Crush sends the summary as a message of the user.
                _add(talk, "user" if identity == summary else str(role), blocks, at)
    return ForeignSession(ref, model, tuple(whole.messages), tuple(sent.messages), dict(whole.foreign), tuple(faults))


def _add(talk: Conversation, role: str, blocks: object, at: object) -> None:
    blobs: dict[str, bytes] = {}
    said: list[Part] = []
    for block in blocks if isinstance(blocks, list) else [blocks]:
        if isinstance(block, dict):
            said += _parts(talk, str(block.get("type")), _table(block.get("data")), blobs)
        else:
            talk.foreign["part that is no object"] += 1
    roles = {"assistant": NeutralRole.ASSISTANT, "tool": NeutralRole.TOOL, "system": NeutralRole.SYSTEM}
    talk.add(roles.get(role, NeutralRole.USER), said, blobs, at)


def _parts(talk: Conversation, kind: str, fields: dict[str, Any], blobs: dict[str, bytes]) -> list[Part]:
    match kind:
        case "text" if fields.get("text"):
            return [Text(str(fields["text"]))]
        case "reasoning" if fields.get("thinking"):
            return [Reasoning(str(fields["thinking"]))]
        case "binary":
            return [media_of(str(fields.get("Data") or fields.get("data") or ""), _kind(fields), blobs)]
        case "tool_call":
            return [
                ToolCall(str(fields.get("id", "")), str(fields.get("name", "")), text_of(fields.get("input") or "{}"))
            ]
        case "tool_result":
            shown = Text(text_of(fields.get("content", "")))
            return [result_of(str(fields.get("tool_call_id", "")), [shown], is_error=bool(fields.get("is_error")))]
        case _:
            talk.foreign[f"part {kind}"] += 1
            return []


def _kind(fields: dict[str, Any]) -> str:
    return str(fields.get("MIMEType") or fields.get("mime_type") or "")


def _table(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
