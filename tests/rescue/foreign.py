"""One small conversation in the store of each agent: a question, a call, its result, an answer."""

import contextlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import apsw

from holdfast.rescue.formats.base import SessionRef
from holdfast.rescue.sessions import format_of

CWD = "/srv/ship"
QUESTION, ANSWER = "remember harbour = Kiel", "I will remember that harbour = Kiel."
CALL, OUTPUT = {"command": "ls berths"}, "berth 17"
# Long enough ago that no agent is at work.
LONG_AGO = 1_700_000_000


def lines(path: Path, values: Sequence[Mapping[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(value) + "\n" for value in values), "utf-8")
    os.utime(path, (LONG_AGO, LONG_AGO))
    return path


def rows(path: Path, statements: str, inserts: Sequence[tuple[str, Sequence[Any]]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.closing(apsw.Connection(str(path))) as store, store:
        store.execute(statements)
        for statement, values in inserts:
            store.execute(statement, tuple(values))
    os.utime(path, (LONG_AGO, LONG_AGO))
    return path


def claude_code(home: Path) -> None:
    base = {"isSidechain": False, "sessionId": "s-1", "cwd": CWD, "version": "2.1.325", "userType": "external"}
    call = {"type": "tool_use", "id": "c-1", "name": "Bash", "input": CALL}
    result = {"type": "tool_result", "tool_use_id": "c-1", "content": OUTPUT}
    said = [
        ("user", {"role": "user", "content": QUESTION}),
        ("assistant", {"id": "m-1", "role": "assistant", "model": "claude-sonnet-4-5", "content": [call]}),
        ("user", {"role": "user", "content": [result]}),
        ("assistant", {"id": "m-2", "role": "assistant", "content": [{"type": "text", "text": ANSWER}]}),
    ]
    values: list[dict[str, Any]] = [{"type": "mode", "mode": "normal", "sessionId": "s-1"}]
    for number, (kind, message) in enumerate(said):
        parent = f"u-{number - 1}" if number else None
        values.append({**base, "parentUuid": parent, "uuid": f"u-{number}", "type": kind, "message": message})
    lines(home / ".claude/projects/-srv-ship/s-1.jsonl", values)


def codex(home: Path) -> None:
    def text(role: str, told: str) -> dict[str, Any]:
        return {"type": "message", "role": role, "content": [{"type": "input_text", "text": told}]}

    items = [
        text("user", f"<environment_context>{CWD}</environment_context>"),
        text("user", QUESTION),
        {"type": "function_call", "name": "shell", "arguments": json.dumps(CALL), "call_id": "c-1"},
        {"type": "function_call_output", "call_id": "c-1", "output": OUTPUT},
        text("assistant", ANSWER),
    ]
    values: list[dict[str, Any]] = [
        {"type": "session_meta", "ordinal": 0, "payload": {"id": "s-1", "cwd": CWD}},
        {"type": "turn_context", "ordinal": 1, "payload": {"model": "gpt-5"}},
    ]
    values += [{"type": "response_item", "ordinal": 2 + at, "payload": item} for at, item in enumerate(items)]
    lines(home / ".codex/sessions/2026/11/18/rollout-2026-11-18T00-00-00-s-1.jsonl", values)


def pi_entries() -> list[dict[str, Any]]:
    call = {"type": "toolCall", "id": "c-1", "name": "bash", "arguments": CALL}
    said: list[dict[str, Any]] = [
        {"role": "user", "content": QUESTION},
        {"role": "assistant", "content": [call]},
        {"role": "toolResult", "toolCallId": "c-1", "content": [{"type": "text", "text": OUTPUT}], "isError": False},
        {"role": "assistant", "content": [{"type": "text", "text": ANSWER}]},
    ]
    values: list[dict[str, Any]] = [{"type": "session", "version": 3, "id": "s-1", "cwd": CWD}]
    values.append({"type": "model_change", "id": "e-0", "parentId": None, "modelId": "gpt-5"})
    for number, message in enumerate(said, start=1):
        values.append({"type": "message", "id": f"e-{number}", "parentId": f"e-{number - 1}", "message": message})
    return values


def pi(home: Path) -> None:
    lines(home / ".pi/agent/sessions/--srv-ship--/2026_s-1.jsonl", pi_entries())


def openclaw(home: Path) -> None:
    lines(home / ".openclaw/agents/main/sessions/s-1.jsonl", pi_entries())


def openclaw_rows(home: Path) -> None:
    tables = """
        CREATE TABLE session_nodes (session_key TEXT, current_session_id TEXT, entry_json TEXT, updated_at INTEGER);
        CREATE TABLE transcript_events (session_id TEXT, seq INTEGER, event_json TEXT, event_zstd BLOB);
    """
    events = [
        ("INSERT INTO transcript_events VALUES ('s-1', ?, ?, NULL)", (seq, json.dumps(value)))
        for seq, value in enumerate(pi_entries())
    ]
    node = ("INSERT INTO session_nodes VALUES ('agent:main:main', 's-1', '{}', ?)", (LONG_AGO * 1_000,))
    rows(home / ".openclaw/agents/main/agent/openclaw-agent.sqlite", tables, [node, *events])


def opencode(home: Path) -> None:
    tables = """
        CREATE TABLE session (id TEXT, parent_id TEXT, directory TEXT, revert TEXT, time_updated INTEGER,
            time_archived INTEGER);
        CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER, time_updated INTEGER,
            data TEXT);
        CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, time_created INTEGER,
            time_updated INTEGER, data TEXT);
    """
    state = {"status": "completed", "input": CALL, "output": OUTPUT, "time": {"start": 1, "end": 2}}
    chosen = {"providerID": "local", "modelID": "gpt-5"}
    said: list[tuple[dict[str, Any], list[dict[str, Any]]]] = [
        ({"role": "user", "time": {"created": 1}, "model": chosen}, [{"type": "text", "text": QUESTION}]),
        (
            {"role": "assistant", "parentID": "m-0", "time": {"created": 2}, "finish": "tool-calls"},
            [{"type": "step-start"}, {"type": "tool", "callID": "c-1", "tool": "bash", "state": state}],
        ),
        (
            {"role": "assistant", "parentID": "m-0", "time": {"created": 3}, "finish": "stop"},
            [{"type": "text", "text": ANSWER}],
        ),
    ]
    inserts: list[tuple[str, Sequence[Any]]] = [("INSERT INTO session VALUES ('s-1', NULL, ?, NULL, 1, NULL)", (CWD,))]
    for number, (value, parts) in enumerate(said):
        inserts.append(
            ("INSERT INTO message VALUES (?, 's-1', ?, ?, ?)", (f"m-{number}", number, number, json.dumps(value)))
        )
        for at, part in enumerate(parts):
            told = (f"p-{number}{at}", f"m-{number}", number, number, json.dumps(part))
            inserts.append(("INSERT INTO part VALUES (?, ?, 's-1', ?, ?, ?)", told))
    rows(home / ".local/share/opencode/opencode.db", tables, inserts)


def _gemini_said() -> list[dict[str, Any]]:
    return [
        {"role": "user", "parts": [{"text": QUESTION}]},
        {"role": "model", "parts": [{"functionCall": {"id": "c-1", "name": "bash", "args": CALL}}]},
        {"role": "user", "parts": [{"functionResponse": {"id": "c-1", "name": "bash", "response": OUTPUT}}]},
        {"role": "model", "parts": [{"text": ANSWER}]},
    ]


def qwen_code(home: Path) -> None:
    values = [
        {"uuid": f"q-{at}", "parentUuid": f"q-{at - 1}" if at else None, "type": "user", "cwd": CWD, "message": message}
        for at, message in enumerate(_gemini_said())
    ]
    lines(home / ".qwen/projects/-srv-ship/chats/s-1.jsonl", values)


def gemini(home: Path) -> None:
    call = {"id": "c-1", "name": "bash", "args": CALL, "result": OUTPUT, "status": "success"}
    values: list[dict[str, Any]] = [
        {"sessionId": "s-1", "projectHash": "h"},
        {"id": "g-1", "type": "user", "content": "an older text"},
        {"id": "g-1", "type": "user", "content": [{"text": QUESTION}]},
        {"id": "g-2", "type": "gemini", "content": "", "toolCalls": [call]},
        {"id": "g-3", "type": "gemini", "content": ANSWER},
        {"id": "g-4", "type": "info", "content": "a hint"},
    ]
    (home / ".gemini").mkdir()
    (home / ".gemini/projects.json").write_text(json.dumps({"projects": {CWD: "ship"}}))
    lines(home / ".gemini/tmp/ship/chats/session-2026-s-1.jsonl", values)


def copilot(home: Path) -> None:
    call = {"toolCallId": "c-1", "name": "bash", "arguments": CALL}
    events: list[tuple[str, dict[str, Any]]] = [
        ("session.start", {"selectedModel": "gpt-5"}),
        ("user.message", {"content": QUESTION}),
        ("assistant.message", {"content": "", "toolRequests": [call]}),
        ("tool.execution_complete", {"toolCallId": "c-1", "success": True, "result": {"content": OUTPUT}}),
        ("assistant.message", {"content": ANSWER}),
    ]
    path = home / ".copilot/session-state/s-1/events.jsonl"
    lines(path, [{"type": kind, "data": event, "id": f"v-{at}"} for at, (kind, event) in enumerate(events)])
    path.with_name("workspace.yaml").write_text(f"id: s-1\ncwd: {CWD}\n")


def _chat_said() -> list[dict[str, Any]]:
    call = {"id": "c-1", "type": "function", "function": {"name": "bash", "arguments": json.dumps(CALL)}}
    return [
        {"role": "user", "content": QUESTION},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": OUTPUT, "tool_call_id": "c-1"},
        {"role": "assistant", "content": ANSWER},
    ]


def hermes(home: Path) -> None:
    tables = """
        CREATE TABLE sessions (id TEXT, parent_session_id TEXT, end_reason TEXT, cwd TEXT, started_at REAL);
        CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content TEXT, tool_calls TEXT,
            tool_call_id TEXT, active INTEGER, compacted INTEGER);
    """
    inserts: list[tuple[str, Sequence[Any]]] = [
        ("INSERT INTO sessions VALUES ('s-1', NULL, NULL, ?, 1.0)", (CWD,)),
    ]
    for one in _chat_said():
        calls = json.dumps(one["tool_calls"]) if "tool_calls" in one else None
        told = (one["role"], one["content"], calls, one.get("tool_call_id"))
        inserts.append(("INSERT INTO messages VALUES (NULL, 's-1', ?, ?, ?, ?, 1, 0)", told))
    rows(home / ".hermes/state.db", tables, inserts)


def goose(home: Path) -> None:
    tables = """
        CREATE TABLE sessions (id TEXT, working_dir TEXT, updated_at TEXT);
        CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content_json TEXT,
            created_timestamp INTEGER, metadata_json TEXT);
    """
    call = {"type": "toolRequest", "id": "c-1", "toolCall": {"value": {"name": "bash", "arguments": CALL}}}
    said = [
        ("user", [{"type": "text", "text": QUESTION}]),
        ("assistant", [call]),
        ("user", [{"type": "toolResponse", "id": "c-1", "toolResult": OUTPUT}]),
        ("assistant", [{"type": "text", "text": ANSWER}]),
    ]
    inserts: list[tuple[str, Sequence[Any]]] = [
        ("INSERT INTO sessions VALUES ('s-1', ?, '2026-11-18 00:00:00')", (CWD,)),
    ]
    for at, (role, blocks) in enumerate(said):
        told = (role, json.dumps(blocks), at)
        inserts.append(("INSERT INTO messages VALUES (NULL, 's-1', ?, ?, ?, '{\"agentVisible\": true}')", told))
    rows(home / ".local/share/goose/sessions/sessions.db", tables, inserts)


def docker_agent(home: Path) -> None:
    tables = """
        CREATE TABLE sessions (id TEXT, working_dir TEXT, parent_id TEXT);
        CREATE TABLE session_items (session_id TEXT, position INTEGER, item_type TEXT, message_json TEXT,
            summary_text TEXT);
    """
    inserts: list[tuple[str, Sequence[Any]]] = [("INSERT INTO sessions VALUES ('s-1', ?, NULL)", (CWD,))]
    for at, one in enumerate(_chat_said()):
        told = (at, json.dumps({"agentName": "root", "message": one}))
        inserts.append(("INSERT INTO session_items VALUES ('s-1', ?, 'message', ?, NULL)", told))
    rows(home / ".cagent/session.db", tables, inserts)


def crush(home: Path) -> None:
    """Write the database into the home folder, which is the folder of work here."""
    tables = """
        CREATE TABLE sessions (id TEXT, parent_session_id TEXT, summary_message_id TEXT, updated_at INTEGER);
        CREATE TABLE messages (id TEXT, session_id TEXT, role TEXT, parts TEXT, created_at INTEGER, model TEXT);
        INSERT INTO sessions VALUES ('s-1', NULL, NULL, 1), ('sub', 's-1', NULL, 1);
    """
    call = {"id": "c-1", "name": "bash", "input": json.dumps(CALL), "finished": True}
    said = [
        ("user", [{"type": "text", "data": {"text": QUESTION}}]),
        ("assistant", [{"type": "tool_call", "data": call}, {"type": "finish", "data": {"reason": "tool_use"}}]),
        ("tool", [{"type": "tool_result", "data": {"tool_call_id": "c-1", "content": OUTPUT}}]),
        ("assistant", [{"type": "text", "data": {"text": ANSWER}}]),
    ]
    insert = "INSERT INTO messages VALUES (?, 's-1', ?, ?, ?, 'm')"
    inserts = [(insert, (f"m-{at}", role, json.dumps(parts), at)) for at, (role, parts) in enumerate(said)]
    rows(home / ".crush" / "crush.db", tables, inserts)


def anthropic_said() -> list[dict[str, Any]]:
    return [
        {"role": "user", "content": [{"type": "text", "text": QUESTION}], "ts": 1},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c-1", "name": "ls", "input": CALL}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c-1", "content": OUTPUT}]},
        {"role": "assistant", "content": ANSWER},
    ]


def task(home: Path, extension: str, values: Sequence[Mapping[str, Any]], history: Mapping[str, Any]) -> Path:
    """Write a task of an extension of VS Code."""
    storage = home / ".config/Code/User/globalStorage" / extension
    path = storage / "tasks/s-1/api_conversation_history.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(values), "utf-8")
    (path.parent / "history_item.json").write_text(json.dumps(history), "utf-8")
    os.utime(path, (LONG_AGO, LONG_AGO))
    return path


def cline(home: Path) -> None:
    storage = task(home, "saoudrizwan.claude-dev", anthropic_said(), {}).parents[2]
    (storage / "state").mkdir(exist_ok=True)
    listed = [{"id": "s-1", "cwdOnTaskInitialization": CWD}, {"id": "s-0"}]
    (storage / "state/taskHistory.json").write_text(json.dumps(listed), "utf-8")


def roo(home: Path) -> None:
    task(home, "rooveterinaryinc.roo-cline", anthropic_said(), {"id": "s-1", "workspace": CWD})


WRITERS: dict[str, Callable[[Path], None]] = {
    "claude_code": claude_code,
    "codex": codex,
    "opencode": opencode,
    "pi": pi,
    "openclaw": openclaw,
    "openclaw_rows": openclaw_rows,
    "qwen_code": qwen_code,
    "gemini": gemini,
    "copilot": copilot,
    "hermes": hermes,
    "goose": goose,
    "docker_agent": docker_agent,
    "crush": crush,
    "cline": cline,
    "roo": roo,
}
# Formats of lines that are repaired in place.
LINE_FORMATS = ("claude_code", "codex", "pi", "openclaw", "qwen_code", "gemini", "copilot")


def found(agent: str, home: Path) -> SessionRef:
    # Crush has its sessions in the folder of work.
    cwd = str(home) if agent == "crush" else CWD
    [ref] = [one for one in format_of(agent).find(home, {}, cwd) if one.agent == agent]
    return ref


def made(agent: str, home: Path) -> SessionRef:
    """Write the conversation in the agent's own form, and return its session."""
    WRITERS[agent](home)
    return found(agent, home)
