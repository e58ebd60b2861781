"""LangGraph: checkpoints of a `SqliteSaver` file, one thread a session. Read only; name the file.

A checkpoint has the whole state in msgpack, with messages of LangChain as extension 5. The newest one is the context;
messages that a summary has removed are in older ones.
"""

import contextlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from holdfast.rescue.formats.base import Conversation, ForeignSession, SessionRef, blocks_of, result_of, text_of
from holdfast.rescue.formats.libraries.openai_agents import named_in
from holdfast.rescue.formats.opencode import open_rows
from holdfast.rescue.neutral import NeutralRole
from holdfast.types.messages import Part, ToolCall

AGENT = "langgraph"
# A Pydantic model: its module, its name, its fields, and the method that makes it.
_MODEL, _FIELDS = 5, 2
_ROLES = {
    "human": NeutralRole.USER,
    "ai": NeutralRole.ASSISTANT,
    "tool": NeutralRole.TOOL,
    "system": NeutralRole.SYSTEM,
}


def sessions_in(path: Path) -> list[SessionRef]:
    """Return the threads of a file; none if it is another database."""
    return named_in(path, AGENT, "SELECT DISTINCT thread_id FROM checkpoints ORDER BY 1")


def read(ref: SessionRef) -> ForeignSession:
    """Read a thread, with messages that only older checkpoints have."""
    known: dict[str, dict[str, Any]] = {}
    newest: list[dict[str, Any]] = []
    faults: list[str] = []
    foreign: Counter[str] = Counter()
    query = "SELECT checkpoint_id, checkpoint_ns, type, checkpoint FROM checkpoints WHERE thread_id = ? ORDER BY 1"
    with contextlib.closing(open_rows(ref.path)) as rows:
        for identity, space, kind, body in rows.execute(query, (ref.id,)):
            if space:
                foreign["checkpoint of a subgraph"] += 1
                continue
            try:
                values = _decode(kind, body)
            except (msgspec.DecodeError, TypeError, RecursionError):
                faults.append(f"checkpoint {identity} cannot be read")
                continue
            newest = list(_messages(values, foreign))
            known |= {str(one.get("id") or one): one for one in newest}
    whole, sent = Conversation(ref.id), Conversation(ref.id)
    for one in known.values():
        _add(whole, one)
    for one in newest:
        _add(sent, one)
    counted = dict(foreign + whole.foreign)
    return ForeignSession(ref, "", tuple(whole.messages), tuple(sent.messages), counted, tuple(faults))


def _decode(kind: object, body: object) -> dict[str, Any]:
    """Return the values of a checkpoint. Raises for a form that is not known."""
    if not isinstance(body, bytes):
        raise TypeError("a checkpoint is bytes")
    state = msgspec.json.decode(body) if kind == "json" else msgspec.msgpack.decode(body, ext_hook=_extension)
    values = state.get("channel_values") if isinstance(state, dict) else None
    if not isinstance(values, dict):
        raise TypeError("a checkpoint has channel_values")
    return values


def _extension(code: int, body: memoryview) -> object:
    value: Any = msgspec.msgpack.decode(body, ext_hook=_extension)
    if code == _MODEL and isinstance(value, list):
        fields = value[_FIELDS] if len(value) > _FIELDS else None
        if isinstance(fields, dict):
            return fields
    return {"extension": code, "value": value}


def _messages(values: dict[str, Any], foreign: Counter[str]) -> Iterator[dict[str, Any]]:
    """Yield the messages of a state. Other channels are counted once each."""
    for channel, value in values.items():
        listed = value if isinstance(value, list) else []
        found = [one for one in listed if isinstance(one, dict) and one.get("type") in _ROLES]
        yield from found
        if len(found) < len(listed) or not isinstance(value, list):
            foreign[f"channel {channel}"] = max(foreign[f"channel {channel}"], 1, len(listed) - len(found))


def _add(talk: Conversation, value: dict[str, Any]) -> None:
    blobs: dict[str, bytes] = {}
    said: list[Part] = blocks_of(value.get("content"), blobs, talk.foreign)
    role = _ROLES[str(value["type"])]
    if role is NeutralRole.TOOL:
        is_error = value.get("status") == "error"
        said = [result_of(str(value.get("tool_call_id", "")), said, is_error=is_error)]
    calls = value.get("tool_calls")
    ids = {part.call_id for part in said if isinstance(part, ToolCall)}
    for call in calls if isinstance(calls, list) else []:
        if isinstance(call, dict) and call.get("id") not in ids:
            said.append(ToolCall(str(call.get("id") or ""), str(call.get("name", "")), text_of(call.get("args", {}))))
    talk.add(role, said, blobs)
