"""Claude Code: a tree of JSON lines by `uuid` and `parentUuid`, in `~/.claude/projects/<folder>/<id>.jsonl`."""

import re
import uuid as uuids
from collections.abc import Iterator, Mapping
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
    arguments_of,
    blocks_of,
    encode_line,
    encoded_media,
    joined_lines,
    now_text,
    open_calls,
    read_lines,
    without_large_media,
)
from holdfast.rescue.neutral import NeutralMessage, NeutralRole
from holdfast.types.messages import Media, Part, Text, ToolCall, ToolOutcome, ToolResult

AGENT = "claude_code"
_IN_CONTEXT = frozenset({"user", "assistant", "attachment", "system"})


def find(home: Path, environ: Mapping[str, str], cwd: str) -> list[SessionRef]:
    """Return the stored sessions of a folder."""
    root = Path(environ.get("CLAUDE_CONFIG_DIR") or home / ".claude") / "projects"
    folder = root / re.sub(r"[^a-zA-Z0-9]", "-", cwd)[:200]
    return [_ref(path, cwd) for path in folder.glob("*.jsonl")] if folder.is_dir() else []


def _ref(path: Path, cwd: str) -> SessionRef:
    found = path.stat()
    return SessionRef(AGENT, path.stem, path, cwd, found.st_mtime, found.st_size)


def is_one(lines: list[Line]) -> bool:
    """Return whether lines are of this format."""
    return any("parentUuid" in line.value and "isSidechain" in line.value for line in lines[:50])


class _Tree(msgspec.Struct):
    """The lines with a uuid in order, the path from the first to the leaf, and what is wrong with it."""

    lines: list[Line]
    path: list[Line]
    # Lines whose parent was never written, with the uuid that replaces it.
    dangling: dict[str, str]
    faults: tuple[str, ...]

    @property
    def leaf(self) -> dict[str, Any]:
        return self.path[-1].value if self.path else {}


def _tree(content: bytes) -> _Tree:
    read = read_lines(content)
    nodes = [line for line in read.lines if _is_node(line.value)]
    known = {line.value["uuid"]: number for number, line in enumerate(nodes)}
    dangling: dict[str, str] = {}
    path: list[Line] = []
    seen: set[int] = set()
    at: int | None = len(nodes) - 1 if nodes else None
    while at is not None and at not in seen:
        seen.add(at)
        path.append(nodes[at])
        value = nodes[at].value
        at, is_dangling = _parent(value, at, known)
        if at is not None and is_dangling:
            dangling[value["uuid"]] = nodes[at].value["uuid"]
    path.reverse()
    faults = read.faults
    if dangling:
        faults = (*faults, f"{len(dangling)} messages name a parent that was never written")
    return _Tree(read.lines, _with_side_branches(path, nodes), dangling, faults)


def _parent(value: dict[str, Any], at: int, known: Mapping[str, int]) -> tuple[int | None, bool]:
    """Return the place of a line's parent, and whether the named one was never written."""
    parent = value.get("parentUuid") or value.get("logicalParentUuid")
    if parent is None:
        return None, False
    if parent in known:
        return known[parent], False
    return (at - 1 if at else None), bool(value.get("parentUuid"))


def _is_node(value: dict[str, Any]) -> bool:
    return value.get("type") in _IN_CONTEXT and isinstance(value.get("uuid"), str) and not value.get("isSidechain")


def _with_side_branches(path: list[Line], nodes: list[Line]) -> list[Line]:
    """Add parallel calls of an answer on the path, and results of its calls, which are on side branches."""
    calls = _side_calls(path, nodes)
    last = {_message(line.value).get("id"): number for number, line in enumerate(path)}
    added = _side_results([*path, *(one for found in calls.values() for one in found)], nodes)
    result: list[Line] = []
    for number, line in enumerate(path):
        identity = _message(line.value).get("id")
        beside = calls.get(str(identity), []) if last.get(identity) == number else []
        result += [line, *beside]
        for one in (line, *beside):
            result += added.get(one.value["uuid"], [])
    return result


def _side_results(path: list[Line], nodes: list[Line]) -> dict[str, list[Line]]:
    """Return lines with results that are not on the path, by the line on it that they follow."""
    on_path = {line.value["uuid"] for line in path}
    answered = {call for line in path for call in _results(line.value)}
    added: dict[str, list[Line]] = {}
    for line in nodes:
        value = line.value
        is_new = value["uuid"] not in on_path and value.get("parentUuid") in on_path
        if is_new and not answered.issuperset(_results(value)):
            added.setdefault(value["parentUuid"], []).append(line)
    return added


def _side_calls(path: list[Line], nodes: list[Line]) -> dict[str, list[Line]]:
    """Return answered calls that are not on the path, by the answer on the path that they belong to."""
    on_path = {line.value["uuid"] for line in path}
    answers = {_message(line.value).get("id") for line in path if line.value["type"] == "assistant"} - {None}
    parents = {line.value.get("parentUuid") for line in nodes if _results(line.value)}
    found: dict[str, list[Line]] = {}
    for line in nodes:
        value = line.value
        if value["type"] == "assistant" and value["uuid"] not in on_path and value["uuid"] in parents:
            identity = _message(value).get("id")
            if identity in answers:
                found.setdefault(str(identity), []).append(line)
    return found


def _results(value: dict[str, Any]) -> list[str]:
    content = _content(value)
    blocks = content if isinstance(content, list) else []
    return [str(one.get("tool_use_id")) for one in blocks if isinstance(one, dict) and one.get("type") == "tool_result"]


def _content(value: dict[str, Any]) -> object:
    message = value.get("message")
    return message.get("content") if isinstance(message, dict) else None


def read(ref: SessionRef) -> ForeignSession:
    """Read a session."""
    tree = _tree(ref.path.read_bytes())
    talk = Conversation(ref.id)
    talk.foreign.update(_left_out(tree))
    begin, has_summary = 0, True
    for line in tree.path:
        value = line.value
        if value["type"] in {"system", "attachment"}:
            talk.foreign[f"{value['type']} {value.get('subtype', '')}".strip()] += 1
            if value.get("subtype") == "compact_boundary":
                begin, has_summary = len(talk.messages), False
            continue
        has_summary = has_summary or bool(value.get("isCompactSummary") and _content(value))
        _add(talk, value)
    failed = () if has_summary else ("a compaction was begun, and its summary was never written",)
    messages = tuple(_merged(talk))
    # A boundary counts messages before lines of one answer are merged.
    kept = tuple(one for one in messages if one.seq > begin)
    model, cwd = _facts(tree.path)
    ref = msgspec.structs.replace(ref, cwd=cwd or ref.cwd)
    return ForeignSession(ref, model, messages, kept, dict(talk.foreign), tree.faults, failed)


def _left_out(tree: _Tree) -> Iterator[str]:
    """Yield the kinds of the lines that are not on the path."""
    known = {line.value["uuid"]: id(line) for line in tree.path}
    for line in tree.lines:
        if not _is_node(line.value):
            yield _kind(line.value)
        elif line.value["uuid"] not in known:
            yield "line of another branch"
        elif known[line.value["uuid"]] != id(line):
            yield "line that was written twice"


def _kind(value: dict[str, Any]) -> str:
    return "side chain" if value.get("isSidechain") else str(value.get("type", "line without a type"))


def _facts(path: list[Line]) -> tuple[str, str]:
    """Return the newest model and folder of work."""
    return (
        _newest([_message(line.value).get("model") for line in path]),
        _newest([line.value.get("cwd") for line in path]),
    )


def _message(value: dict[str, Any]) -> dict[str, Any]:
    message = value.get("message")
    return message if isinstance(message, dict) else {}


def _newest(values: list[Any]) -> str:
    return next((value for value in reversed(values) if isinstance(value, str) and value), "")


def _add(talk: Conversation, value: dict[str, Any]) -> None:
    blobs: dict[str, bytes] = {}
    parts = blocks_of(_content(value), blobs, talk.foreign)
    role = NeutralRole.ASSISTANT if value["type"] == "assistant" else NeutralRole.USER
    if role is NeutralRole.USER and any(isinstance(part, ToolResult) for part in parts):
        role = NeutralRole.TOOL
    message_id = value["message"].get("id", "") if isinstance(value.get("message"), dict) else ""
    talk.add(role, parts, blobs, value.get("timestamp"), str(message_id or value["uuid"]))


def _merged(talk: Conversation) -> list[Any]:
    """Merge the lines of one answer, one block each, into one message."""
    result: list[Any] = []
    for message in talk.messages:
        before = result[-1] if result else None
        if (
            before is not None
            and before.role is message.role is NeutralRole.ASSISTANT
            and before.meta["entry"] == message.meta["entry"]
        ):
            result[-1] = msgspec.structs.replace(
                message, parts=(*before.parts, *message.parts), blobs={**before.blobs, **message.blobs}
            )
        else:
            result.append(message)
    return result


# --- Repair ---


def repair(session: ForeignSession, compaction: Compaction | None) -> bytes:
    """Return the repaired file; None leaves the conversation as it is."""
    tree = _tree(session.ref.path.read_bytes())
    lines = [_repaired_line(line, tree.dangling) for line in tree.lines]
    leaf = tree.leaf
    if not leaf:
        return joined_lines(lines)
    orphans = open_calls(session.context)
    if orphans:
        content = [
            {"type": "tool_result", "tool_use_id": call, "is_error": True, "content": INTERRUPTED} for call in orphans
        ]
        leaf = _child(leaf, "user", {"message": {"role": "user", "content": content}})
        lines.append(encode_line(leaf))
    if compaction is not None:
        boundary = leaf
        if not session.failed_compactions:
            boundary = _child(leaf, "system", {"subtype": "compact_boundary", "content": "Conversation compacted"})
            boundary |= {"parentUuid": None, "logicalParentUuid": leaf["uuid"], "isMeta": False, "level": "info"}
            boundary["compactMetadata"] = {"trigger": "manual", "preTokens": 0}
            lines.append(encode_line(boundary))
        told = {"message": {"role": "user", "content": compaction.summary}, "isCompactSummary": True}
        leaf = _child(boundary, "user", told)
        lines.append(encode_line(leaf))
        for message in compaction.tail:
            leaf = _child(leaf, *_spoken(message, session.model))
            lines.append(encode_line(leaf))
    if orphans or compaction is not None:
        last = {"type": "last-prompt", "leafUuid": leaf["uuid"], "sessionId": session.ref.id}
        lines.append(encode_line(last))
    return joined_lines(lines)


def _spoken(message: NeutralMessage, model: str) -> tuple[str, dict[str, Any]]:
    """Return the kind and the fields of a line with a message."""
    content = [block for part in message.parts if (block := _block(part, message)) is not None]
    if message.role is not NeutralRole.ASSISTANT:
        return "user", {"message": {"role": "user", "content": content}}
    calls = any(block["type"] == "tool_use" for block in content)
    answer = {"id": f"msg_{uuids.uuid4().hex[:24]}", "type": "message", "role": "assistant", "model": model}
    ended = {"stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None}
    usage = {"input_tokens": 0, "output_tokens": 0}
    return "assistant", {"message": {**answer, "content": content, **ended, "usage": usage}}


def _block(part: Part, message: NeutralMessage) -> dict[str, Any] | None:
    """Return a part as a block; None for reasoning, which only its issuer accepts."""
    match part:
        case Text(text=text):
            return {"type": "text", "text": text}
        case Media(media_type=kind):
            source = {"type": "base64", "media_type": kind, "data": encoded_media(part, message)}
            return {"type": "image" if kind.startswith("image/") else "document", "source": source}
        case ToolCall(call_id=call, name=name):
            return {"type": "tool_use", "id": call, "name": name, "input": arguments_of(part)}
        case ToolResult(call_id=call, parts=parts, outcome=outcome):
            inner = [block for one in parts if (block := _block(one, message)) is not None]
            is_error = outcome is not ToolOutcome.DONE
            return {"type": "tool_result", "tool_use_id": call, "content": inner, "is_error": is_error}
        case _:
            return None


def _child(leaf: dict[str, Any], kind: str, more: dict[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {
        name: leaf[name] for name in ("cwd", "sessionId", "version", "gitBranch", "userType") if name in leaf
    }
    own = {"parentUuid": leaf["uuid"], "isSidechain": False, "type": kind}
    return {**own, **kept, **more, "uuid": str(uuids.uuid4()), "timestamp": now_text()}


def _repaired_line(line: Line, dangling: dict[str, str]) -> bytes:
    value, is_changed = line.value, False
    if (parent := dangling.get(str(value.get("uuid", "")))) is not None:
        value, is_changed = {**value, "parentUuid": parent}, True
    small, has_shrunk = without_large_media(value)
    return encode_line(small) if is_changed or has_shrunk else line.raw
