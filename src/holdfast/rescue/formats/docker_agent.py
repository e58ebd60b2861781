"""docker-agent (cagent): rows of `~/.cagent/session.db`; the last summary and later items are sent. Read only."""

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path

from holdfast.rescue.formats.base import Conversation, ForeignSession, SessionRef
from holdfast.rescue.formats.hermes import add_chat_message
from holdfast.rescue.formats.opencode import open_rows
from holdfast.rescue.neutral import NeutralRole
from holdfast.types.messages import Text

AGENT = "docker_agent"


def find(home: Path, environ: Mapping[str, str], cwd: str) -> list[SessionRef]:
    """Return the stored sessions of a folder, without those of subagents."""
    del environ
    path = home / ".cagent" / "session.db"
    if not path.is_file():
        return []
    query = "SELECT id FROM sessions WHERE working_dir = ? AND (parent_id IS NULL OR parent_id = '')"
    with contextlib.closing(open_rows(path)) as rows:
        names = [str(key) for (key,) in rows.execute(query, (cwd,))]
    stat = path.stat()
    return [SessionRef(AGENT, name, path, cwd, stat.st_mtime, stat.st_size) for name in names]


def read(ref: SessionRef) -> ForeignSession:
    """Read a session. An item that cannot be read is a fault: it keeps the agent from loading the session."""
    whole, sent = Conversation(ref.id), Conversation(ref.id)
    faults: list[str] = []
    query = """
        SELECT position, item_type, message_json, summary_text FROM session_items WHERE session_id = ? ORDER BY position
    """
    with contextlib.closing(open_rows(ref.path)) as rows:
        for position, kind, body, summary in rows.execute(query, (ref.id,)):
            if kind == "summary":
                sent = Conversation(ref.id)
                for talk in (whole, sent):
                    talk.add(NeutralRole.USER, [Text(str(summary))] if summary else [], {})
                continue
            try:
                value = json.loads(str(body)) if body else None
            except ValueError:
                faults.append(f"item {position} cannot be read, so the agent does not load the session")
                continue
            inner = value.get("message", value) if isinstance(value, dict) else None
            if not isinstance(inner, dict) or "role" not in inner:
                whole.foreign[f"item {kind}"] += 1
                continue
            add_chat_message(whole, inner)
            add_chat_message(sent, inner)
    return ForeignSession(ref, "", tuple(whole.messages), tuple(sent.messages), dict(whole.foreign), tuple(faults))
