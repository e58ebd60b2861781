"""Five ways in which sessions of agents die, written into the agents' own files."""

import base64
import contextlib
import json
from pathlib import Path
from typing import Any

import apsw

from holdfast.rescue.formats import claude_code, codex, opencode, pi
from holdfast.rescue.formats.base import SessionRef, encode_line, now_text, read_lines

BREAKAGES = ("overflow", "orphaned call", "huge image", "torn tail", "glued lines", "half compaction")
# Noise, as a photograph has it: 6 MB, above the limit of the provider.
_IMAGE = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 24_000).decode()


def session_of(agent: str, home: Path, cwd: str) -> SessionRef:
    """Return the newest session of an agent."""
    finders = {"claude": claude_code.find, "codex": codex.find, "opencode": opencode.find, "pi": pi.find}
    return max(finders[agent](home, {}, cwd), key=lambda ref: ref.updated_at)


def break_session(agent: str, ref: SessionRef, how: str) -> None:
    """Damage a session. An overflow is not written here: the agent causes it itself."""
    if agent == "opencode":
        _break_rows(ref, how)
    elif how == "torn tail":
        # The newest line with a message is written by half, and nothing after it.
        content = ref.path.read_bytes()
        at = max(content.rfind(b"hello"), content.rfind(b"Hello"))
        begin, end = content.rfind(b"\n", 0, at) + 1, content.find(b"\n", at)
        ref.path.write_bytes(content[: begin + (end - begin) // 2])
    elif how == "glued lines":
        # Two writes without the line break between them, as a crash and the next start leave it.
        content = ref.path.read_bytes()
        end = content.find(b"\n", content.rfind(b"remember berth = 17"))
        ref.path.write_bytes(content[:end] + content[end + 1 :])
    else:
        _append(agent, ref, how)


def _append(agent: str, ref: SessionRef, how: str) -> None:
    values = [line.value for line in read_lines(ref.path.read_bytes()).lines]
    made = {"claude": _claude, "codex": _codex, "pi": _pi}[agent](values, how)
    with ref.path.open("ab") as file:
        file.writelines(encode_line(value) + b"\n" for value in made)


def _claude(values: list[dict[str, Any]], how: str) -> list[dict[str, Any]]:
    leaf = [value for value in values if value.get("type") in {"user", "assistant"} and not value.get("isSidechain")][
        -1
    ]
    names = ("cwd", "sessionId", "version", "gitBranch", "userType", "isSidechain")
    own = {name: leaf[name] for name in names if name in leaf}
    base = {**own, "parentUuid": leaf["uuid"], "uuid": "0" * 8 + leaf["uuid"][8:], "timestamp": now_text()}
    if how == "orphaned call":
        call = {"type": "tool_use", "id": "toolu_01", "name": "Bash", "input": {"command": "ls"}}
        message = {"id": "msg_9", "type": "message", "role": "assistant", "model": "model-1", "content": [call]}
        return [{**base, "type": "assistant", "message": message}]
    if how == "huge image":
        source = {"type": "base64", "media_type": "image/png", "data": _IMAGE}
        content = [{"type": "image", "source": source}, {"type": "text", "text": "a picture"}]
        return [{**base, "type": "user", "message": {"role": "user", "content": content}}]
    boundary = {"parentUuid": None, "logicalParentUuid": leaf["uuid"], "type": "system", "subtype": "compact_boundary"}
    told = {"content": "Conversation compacted", "isMeta": False, "level": "info"}
    compacted = {**base, **boundary, **told, "compactMetadata": {"trigger": "auto", "preTokens": 1}}
    empty = {"type": "user", "isCompactSummary": True, "message": {"role": "user", "content": ""}}
    return [compacted, {**base, **empty, "parentUuid": base["uuid"], "uuid": "1" * 8 + leaf["uuid"][8:]}]


def _codex(values: list[dict[str, Any]], how: str) -> list[dict[str, Any]]:
    ordinal = max((value["ordinal"] for value in values if isinstance(value.get("ordinal"), int)), default=0) + 1
    base = {"timestamp": now_text(), "ordinal": ordinal, "type": "response_item"}
    if how == "orphaned call":
        call = {"type": "function_call", "name": "shell", "arguments": '{"command":["ls"]}', "call_id": "call_1"}
        return [{**base, "payload": call}]
    if how == "huge image":
        image = {"type": "input_image", "image_url": f"data:image/png;base64,{_IMAGE}"}
        return [{**base, "payload": {"type": "message", "role": "user", "content": [image]}}]
    return [{**base, "type": "compacted", "payload": {"message": "", "replacement_history": []}}]


def _pi(values: list[dict[str, Any]], how: str) -> list[dict[str, Any]]:
    base = {"id": "0badc0de", "parentId": values[-1]["id"], "timestamp": now_text()}
    if how == "orphaned call":
        answer = next(
            value["message"] for value in reversed(values) if value.get("message", {}).get("role") == "assistant"
        )
        call = {"type": "toolCall", "id": "call_1", "name": "bash", "arguments": {"command": "ls"}}
        return [{**base, "type": "message", "message": {**answer, "content": [call], "stopReason": "toolUse"}}]
    if how == "huge image":
        content = [{"type": "image", "data": _IMAGE, "mimeType": "image/png"}, {"type": "text", "text": "a picture"}]
        return [{**base, "type": "message", "message": {"role": "user", "content": content, "timestamp": 1}}]
    return [{**base, "type": "compaction", "summary": "", "firstKeptEntryId": "0badc0de", "tokensBefore": 1}]


def _break_rows(ref: SessionRef, how: str) -> None:
    with contextlib.closing(apsw.Connection(str(ref.path))) as rows, rows:
        newest = (
            "SELECT id, data FROM message WHERE session_id = ? AND json_extract(data, '$.role') = ? ORDER BY id DESC"
        )
        question, asked = next(rows.execute(newest, (ref.id, "user")))
        answer, replied = next(rows.execute(newest, (ref.id, "assistant")))
        parts = (
            "INSERT INTO part (id, message_id, session_id, time_created, time_updated, data) VALUES (?, ?, ?, 1, 1, ?)"
        )
        messages = "INSERT INTO message (id, session_id, time_created, time_updated, data) VALUES (?, ?, ?, ?, ?)"
        if how == "orphaned call":
            state = {"status": "running", "input": {"command": "ls"}, "time": {"start": 1}}
            part = {"type": "tool", "callID": "call_1", "tool": "bash", "state": state}
            rows.execute(parts, ("prt_zzz", answer, ref.id, json.dumps(part)))
        elif how == "huge image":
            part = {"type": "file", "mime": "image/png", "filename": "a.png", "url": f"data:image/png;base64,{_IMAGE}"}
            rows.execute(parts, ("prt_zzz", question, ref.id, json.dumps(part)))
        elif how == "torn tail":
            # A write that never ended: the newest answer has no parts and no end.
            torn = {name: value for name, value in json.loads(str(replied)).items() if name != "finish"}
            torn["time"] = {"created": torn["time"]["created"]}
            rows.execute("DELETE FROM part WHERE message_id = ?", (answer,))
            rows.execute("UPDATE message SET data = ? WHERE id = ?", (json.dumps(torn), answer))
        elif how == "glued lines":
            # Its like in a database: a row that is no JSON any more.
            rows.execute(
                "UPDATE part SET data = substr(data, 1, length(data) / 2) WHERE message_id = ? AND "
                "json_extract(data, '$.type') = 'text'",
                (answer,),
            )
        else:
            late = json.loads(str(replied))["time"]["created"] + 1_000
            order = {**json.loads(str(asked)), "time": {"created": late}}
            summary = {**json.loads(str(replied)), "parentID": f"{answer}y", "summary": True, "mode": "compaction"}
            summary["finish"] = "stop"
            rows.execute(messages, (f"{answer}y", ref.id, late, late, json.dumps(order)))
            rows.execute(parts, ("prt_zzy", f"{answer}y", ref.id, json.dumps({"type": "compaction", "auto": True})))
            rows.execute(messages, (f"{answer}z", ref.id, late, late, json.dumps(summary)))
