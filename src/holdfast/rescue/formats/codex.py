"""Codex: a log of JSON lines with items of the Responses API, in `~/.codex/sessions/YYYY/MM/DD/rollout-*.jsonl`.

The newest `compacted` line with a `replacement_history` replaces everything before it. A repair appends such a line, so
that positions of older lines, which Codex keeps in an index, stay as they are.
"""

from collections.abc import Iterator, Mapping
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
    encoded_media,
    joined_lines,
    media_of_url,
    now_text,
    read_lines,
    result_of,
    shown_result,
    text_of,
    without_large_media,
)
from holdfast.rescue.neutral import NeutralMessage, NeutralRole
from holdfast.types.messages import Media, Part, Reasoning, Text, ToolCall, ToolResult

AGENT = "codex"
_HEAD_BYTES = 64 * 1024
# Text that Codex writes into user items by itself, and sends again in a new process.
_OWN_TEXT = ("<environment_context>", "<user_instructions>", "# AGENTS.md instructions", "<permissions instructions>")


def find(home: Path, environ: Mapping[str, str], cwd: str) -> list[SessionRef]:
    """Return the stored sessions of a folder."""
    root = Path(environ.get("CODEX_HOME") or home / ".codex") / "sessions"
    found: list[SessionRef] = []
    for path in root.glob("*/*/*/rollout-*.jsonl"):
        with path.open("rb") as file:
            head = read_lines(file.read(_HEAD_BYTES).split(b"\n")[0] + b"\n").lines
        payload = head[0].value.get("payload") if head else None
        place = payload.get("cwd") if isinstance(payload, dict) else None
        # A first line that cannot be read belongs to every folder: the agent does not find the session either.
        if place in {cwd, None}:
            found.append(_ref(path, cwd))
    return found


def _ref(path: Path, cwd: str) -> SessionRef:
    known = path.stat()
    return SessionRef(AGENT, path.stem[-36:], path, cwd, known.st_mtime, known.st_size)


def is_one(lines: list[Line]) -> bool:
    """Return whether lines are of this format."""
    return any(
        line.value.get("type") in {"session_meta", "response_item"} and "payload" in line.value for line in lines
    )


class _Log(msgspec.Struct):
    """All items, those that Codex sends, and facts of the session."""

    items: list[dict[str, Any]]
    context: list[dict[str, Any]]
    meta: dict[str, Any]
    model: str = ""
    ordinal: int | None = None
    failed: tuple[str, ...] = ()


def _log(lines: list[Line], talk: Conversation) -> _Log:
    log = _Log([], [], {})
    for line in lines:
        payload = line.value.get("payload")
        ordinal = line.value.get("ordinal")
        log.ordinal = ordinal if isinstance(ordinal, int) else log.ordinal
        if not isinstance(payload, dict):
            talk.foreign["line without a payload"] += 1
            continue
        match line.value.get("type"):
            case "session_meta":
                log.meta = log.meta or payload
            case "response_item":
                log.items.append(payload)
                log.context.append(payload)
            case "compacted":
                _compact(log, payload)
            case "event_msg" if payload.get("type") == "thread_rolled_back":
                log.context = _rolled_back(log.context, payload.get("num_turns"))
            case kind:
                log.model = str(payload.get("model") or log.model) if kind == "turn_context" else log.model
                talk.foreign[f"{kind} {payload.get('type', '')}".strip()] += 1
    return log


def _compact(log: _Log, payload: dict[str, Any]) -> None:
    history = payload.get("replacement_history")
    message = payload.get("message")
    if isinstance(history, list) and history:
        log.context = [piece for piece in history if isinstance(piece, dict)]
    elif isinstance(message, str) and message:
        log.context = [*(piece for piece in log.context if piece.get("role") == "user"), _user_message(message)]
    else:
        log.failed = ("a compaction was recorded without a summary",)
        return
    log.failed = ()
    log.items += log.context if not log.items else [_user_message(str(message))] if message else []


def _rolled_back(context: list[dict[str, Any]], turns: object) -> list[dict[str, Any]]:
    users = [number for number, piece in enumerate(context) if piece.get("role") == "user"]
    count = turns if isinstance(turns, int) else 0
    return context[: users[-count]] if 0 < count <= len(users) else context


def _user_message(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


def read(ref: SessionRef) -> ForeignSession:
    """Read a session."""
    found = read_lines(ref.path.read_bytes())
    talk, sent = Conversation(ref.id), Conversation(ref.id)
    log = _log(found.lines, talk)
    for piece in log.items:
        add_piece(talk, piece)
    for piece in log.context:
        add_piece(sent, piece)
    faults = found.faults if log.meta else (*found.faults, "its first line cannot be read, so Codex does not find it")
    cwd = str(log.meta.get("cwd") or ref.cwd)
    ref = msgspec.structs.replace(ref, cwd=cwd, id=str(log.meta.get("id") or ref.id))
    return ForeignSession(
        ref, log.model, tuple(talk.messages), tuple(sent.messages), dict(talk.foreign), faults, log.failed
    )


def add_piece(talk: Conversation, piece: dict[str, Any]) -> None:
    """Add an item of the Responses API."""
    blobs: dict[str, bytes] = {}
    match piece.get("type"):
        case "message":
            parts = _parts(piece.get("content"), blobs)
            talk.add(_role(piece, parts), parts, blobs, entry=str(piece.get("id", "")))
        case "function_call" | "custom_tool_call" | "local_shell_call":
            arguments = piece.get("arguments", piece.get("input", piece.get("action", {})))
            call = ToolCall(str(piece.get("call_id", "")), str(piece.get("name", "shell")), text_of(arguments))
            talk.add(NeutralRole.ASSISTANT, [call], blobs)
        case "function_call_output" | "custom_tool_call_output" | "local_shell_call_output":
            output = piece.get("output")
            parts = _parts(output, blobs) if isinstance(output, list) else [Text(text_of(output))]
            talk.add(NeutralRole.TOOL, [result_of(str(piece.get("call_id", "")), parts, is_error=False)], blobs)
        case "reasoning":
            shown = "\n".join(part.text for part in _parts(piece.get("summary"), blobs) if isinstance(part, Text))
            talk.add(NeutralRole.ASSISTANT, [Reasoning(shown)] if shown else [], blobs)
        case kind:
            talk.foreign[f"item {kind}"] += 1


def _role(piece: dict[str, Any], parts: list[Part]) -> NeutralRole:
    """Return the role of a message; text that Codex itself adds is a system text."""
    roles = {"user": NeutralRole.USER, "assistant": NeutralRole.ASSISTANT}
    role = roles.get(str(piece.get("role")), NeutralRole.SYSTEM)
    is_own = all(isinstance(part, Text) and part.text.startswith(_OWN_TEXT) for part in parts)
    return NeutralRole.SYSTEM if role is NeutralRole.USER and is_own else role


def _parts(content: object, blobs: dict[str, bytes]) -> list[Part]:
    found: list[Part] = []
    for block in content if isinstance(content, list) else []:
        if not isinstance(block, dict):
            continue
        if block.get("type") == "input_image":
            found.append(media_of_url(text_of(block.get("image_url", "")), blobs))
        elif isinstance(block.get("text"), str) and block["text"]:
            found.append(Text(block["text"]))
    return found


# --- Repair ---


def repair(session: ForeignSession, compaction: Compaction | None) -> bytes:
    """Return the repaired file: readable lines, and one compaction if it is given or media are too large."""
    found = read_lines(session.ref.path.read_bytes())
    talk = Conversation(session.ref.id)
    log = _log(found.lines, talk)
    lines = [line.raw for line in found.lines]
    if not log.meta:
        lines.insert(0, encode_line(_first_line(session)))
    history, has_shrunk = without_large_media(log.context)
    if compaction is not None:
        history = [piece for piece in history if piece.get("role") == "developer"]
        history.append(_user_message(compaction.summary))
        history += [piece for message in compaction.tail for piece in _pieces(message)]
    if compaction is not None or has_shrunk:
        line: dict[str, Any] = {"timestamp": now_text(), "type": "compacted"}
        if log.ordinal is not None:
            line["ordinal"] = log.ordinal + 1
        text = compaction.summary if compaction else "Media that were too large were removed."
        line["payload"] = {"message": text, "replacement_history": history}
        lines.append(encode_line(line))
    return joined_lines(lines)


def _pieces(message: NeutralMessage) -> Iterator[dict[str, Any]]:
    """Yield a message as items of the Responses API. Reasoning is left out: only its issuer accepts it."""
    is_answer = message.role is NeutralRole.ASSISTANT
    content: list[dict[str, Any]] = []
    for part in message.parts:
        match part:
            case Text(text=text):
                content.append({"type": "output_text" if is_answer else "input_text", "text": text})
            case Media(media_type=kind):
                url = f"data:{kind};base64,{encoded_media(part, message)}"
                content.append({"type": "input_image", "image_url": url})
            case _:
                pass
    if content:
        yield {"type": "message", "role": "assistant" if is_answer else "user", "content": content}
    for part in message.parts:
        match part:
            case ToolCall(call_id=call, name=name, arguments=arguments):
                yield {"type": "function_call", "name": name, "arguments": arguments, "call_id": call}
            case ToolResult(call_id=call):
                yield {"type": "function_call_output", "call_id": call, "output": shown_result(part)}
            case _:
                pass


def _first_line(session: ForeignSession) -> dict[str, Any]:
    """Return a first line for a file whose own is lost; its id is in the file's name."""
    payload = {
        "id": session.ref.path.stem[-36:],
        "timestamp": now_text(),
        "cwd": session.ref.cwd,
        "originator": "codex_cli_rs",
        "cli_version": "0.0.0",
        "instructions": None,
        "source": "cli",
    }
    return {"timestamp": now_text(), "type": "session_meta", "payload": payload}
