"""qwen-code: a tree of JSON lines by `uuid` and `parentUuid`, in `~/.qwen/projects/<folder>/chats/<id>.jsonl`."""

import re
import uuid as uuids
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from holdfast.rescue.formats.base import (
    Compaction,
    Conversation,
    ForeignSession,
    Line,
    SessionRef,
    encode_line,
    joined_lines,
    media_of,
    now_text,
    read_lines,
    result_of,
    text_of,
)
from holdfast.rescue.neutral import NeutralRole
from holdfast.types.messages import Part, Reasoning, Text, ToolCall

AGENT = "qwen_code"


def find(home: Path, environ: Mapping[str, str], cwd: str) -> list[SessionRef]:
    """Return the stored sessions of a folder."""
    del environ
    folder = home / ".qwen" / "projects" / re.sub(r"[^a-zA-Z0-9]", "-", cwd) / "chats"
    found = [(path, path.stat()) for path in folder.glob("*.jsonl")]
    return [SessionRef(AGENT, path.stem, path, cwd, stat.st_mtime, stat.st_size) for path, stat in found]


def is_one(lines: list[Line]) -> bool:
    """Return whether lines are of this format."""
    return any("parentUuid" in one.value and _parts_of(one.value) is not None for one in lines[:50])


def _parts_of(value: Mapping[str, Any]) -> list[Any] | None:
    message = value.get("message")
    parts = message.get("parts") if isinstance(message, dict) else None
    return parts if isinstance(parts, list) else None


def gemini_parts(parts: object, blobs: dict[str, bytes], foreign: Counter[str]) -> list[Part]:
    """Return the parts of a content in Gemini's form."""
    if isinstance(parts, str):
        return [Text(parts)] if parts else []
    found: list[Part] = []
    for part in parts if isinstance(parts, list) else []:
        if not isinstance(part, dict):
            foreign["content that is no part"] += 1
        elif isinstance(part.get("text"), str):
            found += [Reasoning(part["text"]) if part.get("thought") else Text(part["text"])] if part["text"] else []
        elif isinstance(call := part.get("functionCall"), dict):
            found.append(ToolCall(str(call.get("id", "")), str(call.get("name", "")), text_of(call.get("args", {}))))
        elif isinstance(result := part.get("functionResponse"), dict):
            output = text_of(result.get("response", ""))
            found.append(result_of(str(result.get("id", "")), [Text(output)], is_error=False))
        elif isinstance(inline := part.get("inlineData"), dict):
            found.append(media_of(str(inline.get("data", "")), str(inline.get("mimeType", "")), blobs))
        else:
            foreign[f"part {', '.join(sorted(part))}"] += 1
    return found


def _path(lines: list[Line]) -> tuple[list[dict[str, Any]], int]:
    """Return the entries from the root to the leaf, and how many are on other branches."""
    nodes = {str(line.value["uuid"]): line.value for line in lines if isinstance(line.value.get("uuid"), str)}
    path: list[dict[str, Any]] = []
    at = next(reversed(nodes), None)
    while at in nodes:
        value = nodes.pop(at)
        path.append(value)
        at = value.get("parentUuid")
    path.reverse()
    return path, len(nodes)


def read(ref: SessionRef) -> ForeignSession:
    """Read a session."""
    found = read_lines(ref.path.read_bytes())
    whole, sent = Conversation(ref.id), Conversation(ref.id)
    path, side = _path(found.lines)
    if side:
        whole.foreign["entry of another branch"] = side
    model = ""
    failed: tuple[str, ...] = ()
    for value in path:
        model = str(value.get("model") or model)
        if value.get("subtype") == "chat_compression":
            history = _compressed(value)
            failed = () if history else ("a compaction was recorded without a summary",)
            sent = Conversation(ref.id) if history else sent
            for content in history:
                _add(sent, {"message": content})
            continue
        _add(whole, value)
        _add(sent, value)
    cwd = str(path[-1].get("cwd") or ref.cwd) if path else ref.cwd
    ref = msgspec.structs.replace(ref, cwd=cwd)
    return ForeignSession(
        ref, model, tuple(whole.messages), tuple(sent.messages), dict(whole.foreign), found.faults, failed
    )


def _compressed(value: Mapping[str, Any]) -> list[Any]:
    payload = value.get("systemPayload")
    history = payload.get("compressedHistory") if isinstance(payload, dict) else None
    return history if isinstance(history, list) else []


def _add(talk: Conversation, value: Mapping[str, Any]) -> None:
    blobs: dict[str, bytes] = {}
    message = value.get("message")
    if not isinstance(message, dict):
        talk.foreign[f"entry {value.get('type', '')} {value.get('subtype', '')}".strip()] += 1
        return
    parts = gemini_parts(message.get("parts"), blobs, talk.foreign)
    if any("functionResponse" in part for part in message.get("parts") or [] if isinstance(part, dict)):
        role = NeutralRole.TOOL
    else:
        role = NeutralRole.ASSISTANT if message.get("role") == "model" else NeutralRole.USER
    talk.add(role, parts, blobs, value.get("timestamp", ""), str(value.get("uuid", "")))


def repair(session: ForeignSession, compaction: Compaction | None) -> bytes:
    """Return the file with readable lines and, for a summary, one compression entry. qwen-code cures open calls."""
    found = read_lines(session.ref.path.read_bytes())
    lines = [line.raw for line in found.lines]
    path, _ = _path(found.lines)
    if compaction is not None and path:
        leaf = path[-1]
        kept: dict[str, Any] = {
            name: leaf[name] for name in ("sessionId", "cwd", "version", "gitBranch") if name in leaf
        }
        history = [
            {"role": "user", "parts": [{"text": compaction.as_text()}]},
            {"role": "model", "parts": [{"text": "Understood."}]},
        ]
        entry: dict[str, Any] = {
            "uuid": str(uuids.uuid4()),
            "parentUuid": leaf["uuid"],
            **kept,
            "timestamp": now_text(),
        }
        entry |= {"type": "system", "subtype": "chat_compression"}
        lines.append(encode_line({**entry, "systemPayload": {"info": {}, "compressedHistory": history}}))
    return joined_lines(lines)
