"""pi, and OpenClaw before 2026.9: a tree of JSON lines by `id` and `parentId` after a header line.

pi skips a line that it cannot read, and everything before it then leaves the context, because the chain is cut.
"""

import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from holdfast.errors import UsageError
from holdfast.rescue.formats.base import (
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
    read_lines,
    result_of,
    without_large_media,
)
from holdfast.rescue.neutral import NeutralMessage, NeutralRole
from holdfast.types.messages import Media, Part, Text, ToolCall, ToolOutcome, ToolResult

AGENT = "pi"


def find(home: Path, environ: Mapping[str, str], cwd: str) -> list[SessionRef]:
    """Return the stored sessions of a folder, also of OpenClaw's older files, which belong to no folder."""
    root = Path(environ.get("PI_CODING_AGENT_DIR") or home / ".pi" / "agent") / "sessions"
    name = "".join("-" if char in "/\\:" else char for char in cwd.removeprefix("/"))
    found = [_ref("pi", path, cwd) for path in (root / f"--{name}--").glob("*.jsonl")]
    older = (home / ".openclaw" / "agents").glob("*/sessions/*.jsonl")
    return found + [_ref("openclaw", path, "") for path in older]


def _ref(agent: str, path: Path, cwd: str) -> SessionRef:
    known = path.stat()
    return SessionRef(agent, path.stem.rpartition("_")[2], path, cwd, known.st_mtime, known.st_size)


def is_one(lines: list[Line]) -> bool:
    """Return whether lines are of this format."""
    return any(
        line.value.get("type") == "session"
        or ("parentId" in line.value and line.value.get("type") in {"message", "model_change"})
        for line in lines[:50]
    )


class Tree(msgspec.Struct):
    """The entries from the root to the leaf, and those whose parent was never written."""

    header: dict[str, Any]
    entries: list[dict[str, Any]]
    path: list[dict[str, Any]]
    dangling: dict[str, str | None]


def tree_of(values: list[dict[str, Any]]) -> Tree:
    """Return the path to the last entry. A missing parent is replaced by the entry before it."""
    header = next((value for value in values if value.get("type") == "session"), {})
    entries = _identified([value for value in values if value.get("type") != "session"])
    known = {value["id"]: number for number, value in enumerate(entries)}
    dangling: dict[str, str | None] = {}
    path: list[dict[str, Any]] = []
    seen: set[int] = set()
    at = len(entries) - 1
    while at >= 0 and at not in seen:
        seen.add(at)
        path.append(entries[at])
        parent = entries[at].get("parentId")
        if parent is None:
            break
        if parent not in known:
            dangling[entries[at]["id"]] = entries[at - 1]["id"] if at else None
        at = known.get(parent, at - 1)
    path.reverse()
    return Tree(header, entries, path, dangling)


def _identified(values: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return entries with ids. The first version of the format has none: its entries follow each other."""
    if any(isinstance(value.get("id"), str) for value in values):
        return [value for value in values if isinstance(value.get("id"), str)]
    return [
        {**value, "id": f"line {number}", "parentId": f"line {number - 1}" if number else None}
        for number, value in enumerate(values)
    ]


def read(ref: SessionRef) -> ForeignSession:
    """Read a session."""
    found = read_lines(ref.path.read_bytes())
    tree = tree_of([line.value for line in found.lines])
    faults = list(found.faults)
    if not tree.header:
        faults.append("its header cannot be read, so the agent does not load it")
    if tree.dangling:
        faults.append(f"{len(tree.dangling)} entries name a parent that was never written")
    side = len(tree.entries) - len(tree.path)
    return session_of(ref, tree, tuple(faults), side)


def session_of(ref: SessionRef, tree: Tree, faults: tuple[str, ...], side: int) -> ForeignSession:
    """Return a session from its entries."""
    edits = {one.get("targetId"): one.get("replacement") for one in tree.path if one.get("type") == "context_edit"}
    whole, sent = Conversation(ref.id), Conversation(ref.id)
    if side:
        whole.foreign["entry of another branch"] = side
    begin, failed = _context_begin(tree.path)
    for number, value in enumerate(tree.path):
        _add(whole, value, edits)
        if number >= begin:
            _add(sent, value, edits)
    model = next((str(one["modelId"]) for one in reversed(tree.path) if one.get("modelId")), "")
    cwd = str(tree.header.get("cwd") or ref.cwd)
    ref = msgspec.structs.replace(ref, cwd=cwd, id=str(tree.header.get("id") or ref.id))
    return ForeignSession(ref, model, tuple(whole.messages), tuple(sent.messages), dict(whole.foreign), faults, failed)


def _context_begin(path: list[dict[str, Any]]) -> tuple[int, tuple[str, ...]]:
    """Return the place of the first entry that is sent, and a sentence if the newest compaction has no summary."""
    last = max((number for number, value in enumerate(path) if _cuts(value)), default=-1)
    if last < 0:
        return 0, ()
    cut, ids = path[last], [value["id"] for value in path]
    is_empty = cut.get("type") == "compaction" and not cut.get("summary")
    failed = ("a compaction was recorded without a summary",) if is_empty else ()
    kept = cut.get("firstKeptEntryId")
    return (ids.index(kept) if kept in ids else last), failed


def _cuts(value: dict[str, Any]) -> bool:
    return value.get("type") in {"compaction", "reset"}


def _add(talk: Conversation, value: dict[str, Any], edits: Mapping[Any, Any]) -> None:
    blobs: dict[str, bytes] = {}
    kind, at = value.get("type"), value.get("timestamp")
    if kind in {"compaction", "branch_summary"} and isinstance(value.get("summary"), str) and value["summary"]:
        talk.add(NeutralRole.USER, [Text(value["summary"])], blobs, at, value["id"])
        return
    message = value.get("message") if kind == "message" else value if kind == "custom_message" else None
    if not isinstance(message, dict):
        talk.foreign[f"entry {kind}"] += 1
        return
    content = message.get("content")
    if value["id"] in edits:
        replacement = edits[value["id"]]
        content = replacement.get("content") if isinstance(replacement, dict) else None
        if content is None:
            talk.foreign["entry that an edit removed"] += 1
            return
    parts = blocks_of(content, blobs, talk.foreign)
    match message.get("role"):
        case "assistant":
            role = NeutralRole.ASSISTANT
        case "toolResult":
            role = NeutralRole.TOOL
            parts = [result_of(str(message.get("toolCallId", "")), parts, is_error=bool(message.get("isError")))]
        case _:
            role = NeutralRole.USER
    talk.add(role, parts, blobs, at, value["id"])


# --- Repair ---


def repair(session: ForeignSession, compaction: Compaction | None) -> bytes:
    """Return the repaired file. Raises `UsageError` for the first version of the format, which pi itself converts."""
    found = read_lines(session.ref.path.read_bytes())
    tree = tree_of([line.value for line in found.lines])
    if tree.path and tree.path[-1]["id"].startswith("line "):
        raise UsageError(
            f"{session.ref.path} was written by an old version of pi; open it once with a current one, or import it: "
            f"`holdfast rescue {session.ref.id}`"
        )
    lines = [_relinked(line, tree.dangling) for line in found.lines]
    if not tree.header:
        first = {"type": "session", "version": 3, "id": session.ref.id, "timestamp": now_text(), "cwd": session.ref.cwd}
        lines.insert(0, encode_line(first))
    leaf = tree.path[-1]["id"] if tree.path else None
    for identity, content in _smaller_contents(tree.path):
        edit = _entry("context_edit", leaf) | {"targetId": identity, "replacement": {"content": content}}
        leaf = edit["id"]
        lines.append(encode_line(edit))
    if compaction is not None:
        entry = _entry("compaction", leaf)
        # No entry has this id: nothing before the summary is kept beside it.
        entry |= {"summary": compaction.summary, "firstKeptEntryId": entry["id"], "tokensBefore": 0}
        lines.append(encode_line(entry))
        for message in _spoken(compaction.tail, _answer_fields(tree.path)):
            entry = _entry("message", entry["id"]) | {"message": message}
            lines.append(encode_line(entry))
    return joined_lines(lines)


def _answer_fields(path: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the fields of an answer other than its content, from the newest answer of the session."""
    messages = [value["message"] for value in path if isinstance(value.get("message"), dict)]
    newest: dict[str, Any] = next((one for one in reversed(messages) if one.get("role") == "assistant"), {})
    spent: dict[str, Any] = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 0}
    spent["cost"] = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}
    return {**{name: str(newest.get(name, "")) for name in ("api", "provider", "model")}, "usage": spent}


def _spoken(tail: Sequence[NeutralMessage], answer: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield messages in the form of pi: each result of a tool is a message of its own."""
    names = {part.call_id: part.name for one in tail for part in one.parts if isinstance(part, ToolCall)}
    for message in tail:
        now = {"timestamp": int(time.time() * 1_000)}
        for part in message.parts:
            if isinstance(part, ToolResult):
                yield {**_result(part, message, names), **now}
        content = _blocks(message.parts, message)
        if content and message.role is NeutralRole.ASSISTANT:
            calls = any(block["type"] == "toolCall" for block in content)
            yield {
                "role": "assistant",
                "content": content,
                **answer,
                "stopReason": "toolUse" if calls else "stop",
                **now,
            }
        elif content:
            yield {"role": "user", "content": content, **now}


def _result(result: ToolResult, message: NeutralMessage, names: Mapping[str, str]) -> dict[str, Any]:
    named = {"toolCallId": result.call_id, "toolName": names.get(result.call_id, "")}
    is_error = result.outcome is not ToolOutcome.DONE
    return {"role": "toolResult", **named, "content": _blocks(result.parts, message), "isError": is_error}


def _blocks(parts: Sequence[Part], message: NeutralMessage) -> list[dict[str, Any]]:
    return [block for part in parts if (block := _block(part, message)) is not None]


def _block(part: Part, message: NeutralMessage) -> dict[str, Any] | None:
    """Return a part as a block; None for results, which are messages, and for reasoning."""
    match part:
        case Text(text=text):
            return {"type": "text", "text": text}
        case Media(media_type=kind):
            return {"type": "image", "data": encoded_media(part, message), "mimeType": kind}
        case ToolCall(call_id=call, name=name):
            return {"type": "toolCall", "id": call, "name": name, "arguments": arguments_of(part)}
        case _:
            return None


def _smaller_contents(path: list[dict[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Yield the contents with large media removed, by the ids of their entries. Edited ones have none any more."""
    edited = {value.get("targetId") for value in path if value.get("type") == "context_edit"}
    for value in path:
        message = value.get("message")
        if value["id"] in edited or not isinstance(message, dict):
            continue
        content, has_shrunk = without_large_media(message.get("content"))
        if has_shrunk:
            yield value["id"], content


def _relinked(line: Line, dangling: Mapping[str, str | None]) -> bytes:
    identity = str(line.value.get("id"))
    if line.value.get("type") != "session" and identity in dangling:
        return encode_line({**line.value, "parentId": dangling[identity]})
    return line.raw


def _entry(kind: str, parent: str | None) -> dict[str, Any]:
    return {"type": kind, "id": secrets.token_hex(4), "parentId": parent, "timestamp": now_text()}
