"""Gemini CLI: JSON lines with messages that later lines replace, in `~/.gemini/tmp/<project>/chats/session-*.jsonl`."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holdfast.rescue.formats.base import (
    Compaction,
    Conversation,
    ForeignSession,
    Line,
    SessionRef,
    encode_line,
    joined_lines,
    now_text,
    read_lines,
    result_of,
    text_of,
)
from holdfast.rescue.formats.qwen_code import gemini_parts
from holdfast.rescue.neutral import NeutralRole
from holdfast.types.messages import Part, Reasoning, Text, ToolCall

AGENT = "gemini"


def find(home: Path, environ: Mapping[str, str], cwd: str) -> list[SessionRef]:
    """Return the stored sessions of a folder, whose id is in `projects.json`."""
    del environ
    root = home / ".gemini"
    try:
        known = json.loads((root / "projects.json").read_text("utf-8"))
    except (OSError, ValueError):
        return []
    projects = known.get("projects", known) if isinstance(known, dict) else {}
    name = projects.get(cwd) if isinstance(projects, dict) else None
    if not isinstance(name, str):
        return []
    found = [(path, path.stat()) for path in (root / "tmp" / name / "chats").glob("session-*.jsonl")]
    return [SessionRef(AGENT, path.stem, path, cwd, stat.st_mtime, stat.st_size) for path, stat in found]


def is_one(lines: list[Line]) -> bool:
    """Return whether lines are of this format."""
    return any("projectHash" in one.value or "$set" in one.value or "$rewindTo" in one.value for one in lines[:50])


def _history(lines: list[Line], talk: Conversation) -> dict[str, dict[str, Any]]:
    """Return the messages that Gemini CLI would load, by id."""
    found: dict[str, dict[str, Any]] = {}
    for line in lines:
        value = line.value
        if isinstance(change := value.get("$set"), dict):
            if isinstance(change.get("messages"), list):
                before, found = found, _by_id(change["messages"])
                talk.foreign["message that was replaced"] += len(before.keys() - found.keys())
            talk.foreign["change of settings"] += "messages" not in change
        elif "$rewindTo" in value:
            names = list(found)
            at = names.index(value["$rewindTo"]) if value["$rewindTo"] in found else 0
            talk.foreign["message that a rewind removed"] += len(names) - at
            found = {name: found[name] for name in names[:at]}
        elif isinstance(value.get("id"), str) and "type" in value:
            found[value["id"]] = value
        else:
            talk.foreign["header"] += 1
    talk.foreign = +talk.foreign
    return found


def _by_id(messages: list[Any]) -> dict[str, dict[str, Any]]:
    return {str(one["id"]): one for one in messages if isinstance(one, dict) and "id" in one}


def read(ref: SessionRef) -> ForeignSession:
    """Read a session."""
    found = read_lines(ref.path.read_bytes())
    talk = Conversation(ref.id)
    model = ""
    for value in _history(found.lines, talk).values():
        model = str(value.get("model") or model)
        _add(talk, value)
    messages = tuple(talk.messages)
    return ForeignSession(ref, model, messages, messages, dict(talk.foreign), found.faults)


def _add(talk: Conversation, value: Mapping[str, Any]) -> None:
    blobs: dict[str, bytes] = {}
    kind = value.get("type")
    if kind not in {"user", "gemini"}:
        talk.foreign[f"{kind} message"] += 1
        return
    said: list[Part] = [
        Reasoning(text_of(one.get("description", ""))) for one in value.get("thoughts") or [] if isinstance(one, dict)
    ]
    said += gemini_parts(value.get("content"), blobs, talk.foreign)
    results: list[Part] = []
    for call in value.get("toolCalls") or []:
        if not isinstance(call, dict):
            continue
        identity = str(call.get("id", ""))
        said.append(ToolCall(identity, str(call.get("name", "")), text_of(call.get("args", {}))))
        if call.get("result") is not None:
            results.append(result_of(identity, [Text(text_of(call["result"]))], is_error=call.get("status") == "error"))
    role = NeutralRole.USER if kind == "user" else NeutralRole.ASSISTANT
    talk.add(role, said, blobs, value.get("timestamp", ""), str(value.get("id", "")))
    if results:
        talk.add(NeutralRole.TOOL, results, {}, value.get("timestamp", ""), str(value.get("id", "")))


def repair(session: ForeignSession, compaction: Compaction | None) -> bytes:
    """Return the file with readable lines and, for a summary, a line that replaces the history."""
    found = read_lines(session.ref.path.read_bytes())
    lines = [line.raw for line in found.lines]
    if compaction is not None:
        message = {
            "id": "holdfast-summary",
            "timestamp": now_text(),
            "type": "user",
            "content": [{"text": compaction.as_text()}],
        }
        lines.append(encode_line({"$set": {"messages": [message]}}))
    return joined_lines(lines)
