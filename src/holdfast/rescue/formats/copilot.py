"""Copilot CLI: a log of events in `~/.copilot/session-state/<id>/events.jsonl`."""

import re
import uuid as uuids
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from holdfast.rescue.formats.base import (
    INTERRUPTED,
    Compaction,
    Conversation,
    ForeignSession,
    Line,
    SessionRef,
    encode_line,
    joined_lines,
    now_text,
    open_calls,
    read_lines,
    result_of,
    text_of,
)
from holdfast.rescue.neutral import NeutralRole
from holdfast.types.messages import Part, Text, ToolCall

AGENT = "copilot"
_CWD = re.compile(r"^cwd:\s*(?P<cwd>.+?)\s*$", re.MULTILINE)
_SPOKEN = {"user.message": NeutralRole.USER, "assistant.message": NeutralRole.ASSISTANT}


def find(home: Path, environ: Mapping[str, str], cwd: str) -> list[SessionRef]:
    """Return the stored sessions of a folder."""
    root = Path(environ.get("COPILOT_HOME") or home / ".copilot") / "session-state"
    found: list[SessionRef] = []
    for path in root.glob("*/events.jsonl"):
        try:
            place = _CWD.search((path.parent / "workspace.yaml").read_text("utf-8"))
        except OSError:
            continue
        if place is not None and place["cwd"].strip("\"'") == cwd:
            stat = path.stat()
            found.append(SessionRef(AGENT, path.parent.name, path, cwd, stat.st_mtime, stat.st_size))
    return found


def is_one(lines: list[Line]) -> bool:
    """Return whether lines are of this format."""
    return any(one.value.get("type") in {"session.start", *_SPOKEN} and "data" in one.value for one in lines[:50])


def read(ref: SessionRef) -> ForeignSession:
    """Read a session."""
    found = read_lines(ref.path.read_bytes())
    whole, sent = Conversation(ref.id), Conversation(ref.id)
    model = ""
    for line in found.lines:
        value = line.value
        event = value.get("data") if isinstance(value.get("data"), dict) else {}
        assert isinstance(event, dict), "replaced above"
        model = str(event.get("model") or event.get("selectedModel") or model)
        if value.get("agentId"):
            whole.foreign["event of a subagent"] += 1
        elif value.get("type") == "session.compaction_complete" and event.get("success"):
            sent = Conversation(ref.id)
            for talk in (whole, sent):
                talk.add(NeutralRole.USER, [Text(text_of(event.get("summaryContent", "")))], {}, value.get("timestamp"))
        elif value.get("type") == "session.snapshot_rewind":
            _rewind(sent, str(event.get("upToEventId", "")))
        else:
            _add(whole, value, event)
            _add(sent, value, event)
    ref = msgspec.structs.replace(ref, id=ref.path.parent.name)
    return ForeignSession(ref, model, tuple(whole.messages), tuple(sent.messages), dict(whole.foreign), found.faults)


def _rewind(talk: Conversation, event: str) -> None:
    at = next((number for number, one in enumerate(talk.messages) if one.meta["entry"] == event), None)
    if at is not None:
        del talk.messages[at:]


def _add(talk: Conversation, value: Mapping[str, Any], event: Mapping[str, Any]) -> None:
    kind, at, entry = str(value.get("type")), value.get("timestamp"), str(value.get("id", ""))
    if kind in _SPOKEN:
        parts: list[Part] = [Text(text_of(event["content"]))] if event.get("content") else []
        for call in event.get("toolRequests") or []:
            if isinstance(call, dict):
                name, arguments = str(call.get("name", "")), text_of(call.get("arguments", {}))
                parts.append(ToolCall(str(call.get("toolCallId", "")), name, arguments))
        talk.add(_SPOKEN[kind], parts, {}, at, entry)
    elif kind == "tool.execution_complete":
        result, error = event.get("result"), event.get("error")
        shown = result.get("content") if isinstance(result, dict) else None
        failure = error.get("message") if isinstance(error, dict) else ""
        text = text_of(shown if shown is not None else failure)
        is_error = not event.get("success")
        talk.add(
            NeutralRole.TOOL,
            [result_of(str(event.get("toolCallId", "")), [Text(text)], is_error=is_error)],
            {},
            at,
            entry,
        )
    else:
        talk.foreign[f"event {kind}"] += 1


def repair(session: ForeignSession, compaction: Compaction | None) -> bytes:
    """Return the file with readable lines, results for open calls and, for a summary, a finished compaction."""
    found = read_lines(session.ref.path.read_bytes())
    # Raw line breaks and U+2028 inside an object would end its line again.
    lines = [
        encode_line(line.value) if line.fault == "split" or "\u2028" in line.raw.decode(errors="replace") else line.raw
        for line in found.lines
    ]
    parent = str(found.lines[-1].value.get("id", "")) if found.lines else ""
    events: list[tuple[str, dict[str, Any]]] = [
        ("tool.execution_complete", {"toolCallId": call, "success": False, "error": {"message": INTERRUPTED}})
        for call in open_calls(session.context)
    ]
    if compaction is not None:
        events.append(("session.compaction_complete", {"success": True, "summaryContent": compaction.as_text()}))
    for kind, event in events:
        identity = str(uuids.uuid4())
        told = {"type": kind, "data": event, "id": identity, "timestamp": now_text(), "parentId": parent or None}
        lines.append(encode_line(told))
        parent = identity
    return joined_lines(lines)
