"""goose: rows of `sessions.db` in its data folder. goose repairs open calls when it loads a session. Read only."""

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holdfast.rescue.formats.base import Conversation, ForeignSession, SessionRef, media_of, result_of, text_of
from holdfast.rescue.formats.opencode import open_rows
from holdfast.rescue.neutral import NeutralRole
from holdfast.types.messages import Part, Reasoning, Text, ToolCall

AGENT = "goose"


def find(home: Path, environ: Mapping[str, str], cwd: str) -> list[SessionRef]:
    """Return the stored sessions of a folder."""
    root = Path(environ.get("XDG_DATA_HOME") or home / ".local" / "share")
    path = root / "goose" / "sessions" / "sessions.db"
    if not path.is_file():
        return []
    with contextlib.closing(open_rows(path)) as rows:
        found = list(rows.execute("SELECT id, strftime('%s', updated_at) FROM sessions WHERE working_dir = ?", (cwd,)))
    return [SessionRef(AGENT, str(key), path, cwd, float(str(at or 0)), path.stat().st_size) for key, at in found]


def read(ref: SessionRef) -> ForeignSession:
    """Read a session. A row that cannot be read is a fault: it keeps goose from loading the session."""
    whole, sent = Conversation(ref.id), Conversation(ref.id)
    faults: list[str] = []
    query = """
        SELECT id, role, content_json, created_timestamp, metadata_json FROM messages
        WHERE session_id = ? ORDER BY created_timestamp, id
    """
    with contextlib.closing(open_rows(ref.path)) as rows:
        for identity, role, content, at, metadata in rows.execute(query, (ref.id,)):
            try:
                blocks = json.loads(str(content))
                told = json.loads(str(metadata)) if metadata else {}
            except ValueError:
                faults.append(f"message {identity} cannot be read, so goose does not load the session")
                continue
            _add(whole, str(role), blocks, at)
            if not isinstance(told, dict) or told.get("agentVisible", True):
                _add(sent, str(role), blocks, at)
    return ForeignSession(ref, "", tuple(whole.messages), tuple(sent.messages), dict(whole.foreign), tuple(faults))


def _add(talk: Conversation, role: str, blocks: object, at: object) -> None:
    blobs: dict[str, bytes] = {}
    said: list[Part] = []
    results: list[Part] = []
    for block in blocks if isinstance(blocks, list) else []:
        if isinstance(block, dict):
            _add_block(talk, block, said, results, blobs)
        else:
            talk.foreign["content that is no block"] += 1
    if said or not results:
        talk.add(NeutralRole.ASSISTANT if role == "assistant" else NeutralRole.USER, said, blobs, at)
    if results:
        talk.add(NeutralRole.TOOL, results, {}, at)


def _add_block(
    talk: Conversation, block: dict[str, Any], said: list[Part], results: list[Part], blobs: dict[str, bytes]
) -> None:
    match block.get("type"):
        case "text" if block.get("text"):
            said.append(Text(str(block["text"])))
        case "thinking":
            said.append(Reasoning(str(block.get("thinking", ""))))
        case "image":
            said.append(media_of(str(block.get("data", "")), str(block.get("mimeType", "")), blobs))
        case "toolRequest":
            call = _value(block.get("toolCall"))
            said.append(
                ToolCall(str(block.get("id", "")), str(call.get("name", "")), text_of(call.get("arguments", {})))
            )
        case "toolResponse":
            shown = text_of(block.get("toolResult", ""))
            results.append(result_of(str(block.get("id", "")), [Text(shown)], is_error='"error"' in shown[:40]))
        case kind:
            talk.foreign[f"block {kind}"] += 1


def _value(told: object) -> dict[str, Any]:
    inner = told.get("value", told) if isinstance(told, dict) else {}
    return inner if isinstance(inner, dict) else {}
