"""opencode: sessions, messages and parts as rows of `~/.local/share/opencode/opencode.db`."""

import contextlib
import json
import os
import secrets
import string
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import apsw
import msgspec

from holdfast.errors import RetryLaterError
from holdfast.rescue.formats.base import (
    INTERRUPTED,
    MEDIA_BYTES_MAX,
    Compaction,
    Conversation,
    ForeignSession,
    SessionRef,
    arguments_of,
    encoded_media,
    media_of_url,
    removed_note,
    result_of,
    shown_result,
    text_of,
)
from holdfast.rescue.neutral import NeutralMessage, NeutralRole
from holdfast.types.messages import Media, Part, Reasoning, Text, ToolCall, ToolOutcome, ToolResult

AGENT = "opencode"
_BUSY_MS = 2_000
_LETTERS = string.ascii_letters + string.digits


def open_rows(path: Path, *, is_writing: bool = False) -> apsw.Connection:
    """Open another agent's database."""
    flags = apsw.SQLITE_OPEN_READWRITE if is_writing else apsw.SQLITE_OPEN_READONLY
    found = apsw.Connection(str(path), flags=flags)
    found.set_busy_timeout(_BUSY_MS)
    return found


def backup_rows(path: Path, copy: Path) -> None:
    """Copy a database that may have a write-ahead log."""
    with contextlib.closing(open_rows(path)) as source, contextlib.closing(apsw.Connection(str(copy))) as target:
        with target.backup("main", source, "main") as backup:
            backup.step()
        target.execute("PRAGMA journal_mode=DELETE")
    copy.chmod(path.stat().st_mode & 0o7777)


def find(home: Path, environ: Mapping[str, str], cwd: str) -> list[SessionRef]:
    """Return the stored sessions of a folder, without those of subagents."""
    shared = Path(environ.get("XDG_DATA_HOME") or home / ".local" / "share")
    path = Path(environ.get("OPENCODE_DB") or shared / "opencode" / "opencode.db")
    if not path.is_file():
        return []
    query = """
        SELECT id, time_updated, (SELECT sum(length(data)) FROM part WHERE part.session_id = session.id)
        FROM session WHERE directory = ? AND parent_id IS NULL AND time_archived IS NULL
    """
    with contextlib.closing(open_rows(path)) as rows:
        return [
            SessionRef(AGENT, str(key), path, cwd, _number(updated) / 1_000, int(_number(size)))
            for key, updated, size in rows.execute(query, (cwd,))
        ]


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


class _Row(msgspec.Struct, frozen=True):
    """A message with its parts, each by its id."""

    id: str
    value: dict[str, Any]
    parts: list[tuple[str, dict[str, Any]]]


class _Rows(msgspec.Struct, frozen=True):
    """The messages of a session in order, and the ids of messages and parts that are not JSON objects."""

    messages: list[_Row]
    torn_messages: list[str]
    torn_parts: list[str]


def _object(body: object) -> dict[str, Any] | None:
    try:
        found = json.loads(str(body))
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _rows(rows: apsw.Connection, session: str) -> _Rows:
    """Return messages with their parts, in order. opencode does not load a session with a row that is torn."""
    found = _Rows([], [], [])
    parts: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    for identity, message, body in rows.execute(
        "SELECT id, message_id, data FROM part WHERE session_id = ? ORDER BY id", (session,)
    ):
        if (value := _object(body)) is None:
            found.torn_parts.append(str(identity))
        else:
            parts.setdefault(str(message), []).append((str(identity), value))
    for identity, body in rows.execute(
        "SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created, id", (session,)
    ):
        if (value := _object(body)) is None:
            found.torn_messages.append(str(identity))
        else:
            found.messages.append(_Row(str(identity), value, parts.get(str(identity), [])))
    return found


def read(ref: SessionRef) -> ForeignSession:
    """Read a session."""
    whole, sent = Conversation(ref.id), Conversation(ref.id)
    with contextlib.closing(open_rows(ref.path)) as rows:
        found = _rows(rows, ref.id)
    begin, failed = _context_begin(found.messages)
    model = ""
    for number, row in enumerate(found.messages):
        identity, value, parts = row.id, row.value, row.parts
        chosen = value.get("model")
        model = str(value.get("modelID") or (chosen.get("modelID") if isinstance(chosen, dict) else "") or model)
        if value.get("error"):
            whole.foreign["answer that failed"] += 1
        _add(whole, identity, value, parts)
        if number >= begin:
            _add(sent, identity, value, parts)
    failures = ("a compaction never finished, or has no summary",) if failed else ()
    torn = len(found.torn_messages) + len(found.torn_parts)
    faults = (f"{torn} rows cannot be read, so opencode does not load it",) if torn else ()
    return ForeignSession(
        ref, model, tuple(whole.messages), tuple(sent.messages), dict(whole.foreign), faults, failures
    )


def _context_begin(messages: list[_Row]) -> tuple[int, list[str]]:
    """Return the first message of the context, and the ids of compactions that never finished, with their answers."""
    children: dict[str, list[_Row]] = {}
    for row in messages:
        children.setdefault(str(row.value.get("parentID", "")), []).append(row)
    begin = 0
    failed: list[str] = []
    for number, row in enumerate(messages):
        if not any(part.get("type") == "compaction" for _, part in row.parts):
            continue
        answers = children.get(row.id, [])
        if any(map(_is_summary, answers)):
            begin, failed = number, []
        else:
            failed += [row.id, *(child.id for child in answers)]
    return begin, failed


def _is_summary(row: _Row) -> bool:
    """Return whether an answer is a finished summary with a text."""
    is_finished = row.value.get("summary") and row.value.get("finish") and not row.value.get("error")
    return bool(is_finished) and any(part.get("type") == "text" and part.get("text") for _, part in row.parts)


def _add(talk: Conversation, identity: str, value: dict[str, Any], parts: list[tuple[str, dict[str, Any]]]) -> None:
    blobs: dict[str, bytes] = {}
    said: list[Part] = []
    results: list[Part] = []
    for _, part in parts:
        match part.get("type"):
            case "text" if part.get("text"):
                said.append(Text(str(part["text"])))
            case "reasoning" if part.get("text"):
                said.append(Reasoning(str(part["text"])))
            case "file":
                said.append(media_of_url(str(part.get("url", "")), blobs))
            case "tool":
                _add_tool(part, said, results)
            case kind:
                talk.foreign[f"part {kind}"] += 1
    created = value.get("time", {}).get("created", "") if isinstance(value.get("time"), dict) else ""
    role = NeutralRole.ASSISTANT if value.get("role") == "assistant" else NeutralRole.USER
    talk.add(role, said, blobs, created, identity)
    if results:
        talk.add(NeutralRole.TOOL, results, {}, created, identity)


def _add_tool(part: dict[str, Any], said: list[Part], results: list[Part]) -> None:
    state = part.get("state") if isinstance(part.get("state"), dict) else {}
    assert isinstance(state, dict), "replaced above"
    call = str(part.get("callID", ""))
    said.append(ToolCall(call, str(part.get("tool", "")), text_of(state.get("input", {}))))
    if state.get("status") == "completed":
        results.append(result_of(call, [Text(text_of(state.get("output", "")))], is_error=False))
    elif state.get("status") == "error":
        results.append(result_of(call, [Text(text_of(state.get("error", "")))], is_error=True))


# --- Repair ---


def repair_rows(session: ForeignSession, compaction: Compaction | None) -> None:
    """Repair a session in one transaction. Raises `RetryLaterError` if the database is locked."""
    try:
        with contextlib.closing(open_rows(session.ref.path, is_writing=True)) as rows, rows:
            rows.execute("PRAGMA foreign_keys=ON")
            _repair(rows, session.ref.id, compaction)
    except apsw.BusyError as error:
        raise RetryLaterError("opencode is writing to its database; end it, then run the command again") from error


def _repair(rows: apsw.Connection, session: str, compaction: Compaction | None) -> None:
    found = _rows(rows, session)
    now = int(time.time() * 1_000)
    for identity in found.torn_parts:
        rows.execute("DELETE FROM part WHERE id = ?", (identity,))
    for row in found.messages:
        for identity, part in row.parts:
            fixed = _fixed(part, now)
            if fixed is not None:
                rows.execute("UPDATE part SET data = ? WHERE id = ?", (json.dumps(fixed, ensure_ascii=False), identity))
    removed = [*_context_begin(found.messages)[1], *found.torn_messages]
    for identity in removed:
        rows.execute("DELETE FROM part WHERE message_id = ?", (identity,))
        rows.execute("DELETE FROM message WHERE id = ?", (identity,))
    messages = [row for row in found.messages if row.id not in removed]
    if compaction is not None and messages:
        _append_compaction(rows, session, messages, compaction)


def _fixed(part: dict[str, Any], now: int) -> dict[str, Any] | None:
    """Return the repaired part; None if nothing is wrong with it."""
    url = part.get("url")
    if part.get("type") == "file" and isinstance(url, str) and (size := len(url) * 3 // 4) > MEDIA_BYTES_MAX:
        return {"type": "text", "text": removed_note("file", size), "synthetic": True}
    state = part.get("state")
    if part.get("type") == "tool" and isinstance(state, dict) and state.get("status") in {"pending", "running"}:
        began = state.get("time") if isinstance(state.get("time"), dict) else {}
        assert isinstance(began, dict), "replaced above"
        ended = {"status": "error", "input": state.get("input", {}), "error": INTERRUPTED}
        return {**part, "state": {**ended, "time": {"start": began.get("start", now), "end": now}}}
    return None


def _append_compaction(rows: apsw.Connection, session: str, messages: list[_Row], compaction: Compaction) -> None:
    """Append a compaction in opencode's own form: a message with the order, its finished summary, and the tail."""
    last = _newest(messages, "user")
    answer = _newest(messages, "assistant")
    now = max(int(time.time() * 1_000), 1 + max(_created(row.value) for row in messages))
    chosen = last.get("model", {})
    asked = {"role": "user", "agent": last.get("agent", "build"), "model": chosen}
    spent = {"total": 0, "input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}}
    replied = {
        "role": "assistant",
        "path": answer.get("path", {"cwd": os.sep, "root": os.sep}),
        "cost": 0,
        "tokens": spent,
        "modelID": chosen.get("modelID", ""),
        "providerID": chosen.get("providerID", ""),
        "finish": "stop",
    }
    summarised = {**replied, "mode": "compaction", "agent": "compaction", "summary": True}
    mode = answer.get("mode", asked["agent"])
    written = _Writer(rows, session, now)
    written.add(asked, [{"type": "compaction", "auto": True}])
    written.add(summarised, [{"type": "text", "text": compaction.summary, "time": {"start": now, "end": now}}])
    for message, parts in _spoken(compaction.tail, now):
        is_answer = message.role is NeutralRole.ASSISTANT
        written.add({**replied, "mode": mode, "agent": asked["agent"]} if is_answer else asked, parts)
    rows.execute("UPDATE session SET time_updated = ? WHERE id = ?", (written.at, session))


class _Writer:
    """Appends messages with their parts, each later than the one before."""

    def __init__(self, rows: apsw.Connection, session: str, at: int) -> None:
        self._rows, self._session, self.at = rows, session, at
        self._asked = ""

    def add(self, value: Mapping[str, Any], parts: Sequence[Mapping[str, Any]]) -> None:
        """Append a message; an answer is the child of the newest question."""
        at, self.at = self.at, self.at + 1
        identity = _identity("msg", at)
        if value["role"] == "assistant":
            stored = {**value, "parentID": self._asked, "time": {"created": at, "completed": at}}
        else:
            self._asked = identity
            stored = {**value, "time": {"created": at}}
        self._rows.execute(
            "INSERT INTO message (id, session_id, time_created, time_updated, data) VALUES (?, ?, ?, ?, ?)",
            (identity, self._session, at, at, json.dumps(stored, ensure_ascii=False)),
        )
        for place, part in enumerate(parts):
            self._rows.execute(
                "INSERT INTO part (id, message_id, session_id, time_created, time_updated, data) "
                "VALUES (?, ?, ?, ?, ?, ?)",
                (_identity("prt", at, place), identity, self._session, at, at, json.dumps(part, ensure_ascii=False)),
            )


def _spoken(tail: Sequence[NeutralMessage], now: int) -> Iterator[tuple[NeutralMessage, list[dict[str, Any]]]]:
    """Yield messages with their parts; results of tools are in the parts of their calls."""
    results = {part.call_id: part for message in tail for part in message.parts if isinstance(part, ToolResult)}
    for message in tail:
        parts: list[dict[str, Any]] = []
        for part in message.parts:
            match part:
                case Text(text=text):
                    parts.append({"type": "text", "text": text})
                case Media(media_type=kind, name=name):
                    url = f"data:{kind};base64,{encoded_media(part, message)}"
                    parts.append({"type": "file", "mime": kind, "filename": name or "file", "url": url})
                case ToolCall():
                    parts.append(_tool_part(part, results.get(part.call_id), now))
                case _:
                    pass
        if parts:
            yield message, parts


def _tool_part(call: ToolCall, result: ToolResult | None, now: int) -> dict[str, Any]:
    state: dict[str, Any] = {"input": arguments_of(call), "time": {"start": now, "end": now}}
    if result is not None and result.outcome is ToolOutcome.DONE:
        state |= {"status": "completed", "output": shown_result(result), "title": call.name, "metadata": {}}
    else:
        state |= {"status": "error", "error": shown_result(result) if result is not None else INTERRUPTED}
    return {"type": "tool", "callID": call.call_id, "tool": call.name, "state": state}


def _newest(messages: list[_Row], role: str) -> dict[str, Any]:
    return next((row.value for row in reversed(messages) if row.value.get("role") == role), {})


def _created(value: dict[str, Any]) -> int:
    times = value.get("time")
    return int(_number(times.get("created"))) if isinstance(times, dict) else 0


def _identity(kind: str, at_ms: int, place: int = 0) -> str:
    """Return an id that sorts by time and place, as opencode makes them: 48 bits, then random letters."""
    number = (at_ms * 0x1000 + 1 + place) & 0xFFFFFFFFFFFF
    return f"{kind}_{number:012x}" + "".join(secrets.choice(_LETTERS) for _ in range(14))
