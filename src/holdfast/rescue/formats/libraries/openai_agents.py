"""openai-agents: items of the Responses API as rows of a `SQLiteSession` file. Read only; name the file."""

import contextlib
import json
from pathlib import Path

import apsw

from holdfast.errors import BadInputError
from holdfast.rescue.formats.base import Conversation, ForeignSession, SessionRef
from holdfast.rescue.formats.codex import add_piece
from holdfast.rescue.formats.opencode import open_rows

AGENT = "openai_agents"


def sessions_in(path: Path) -> list[SessionRef]:
    """Return the sessions of a file; none if it is another database."""
    return named_in(path, AGENT, "SELECT DISTINCT session_id FROM agent_messages ORDER BY id")


def named_in(path: Path, agent: str, query: str) -> list[SessionRef]:
    """Return the sessions whose ids a query finds; none if the database has no such table."""
    stat = path.stat()
    with contextlib.suppress(apsw.Error), contextlib.closing(open_rows(path)) as rows:
        names = [str(key) for (key,) in rows.execute(query)]
        return [SessionRef(agent, name, path, "", stat.st_mtime, stat.st_size) for name in names]
    return []


def read(ref: SessionRef) -> ForeignSession:
    """Read a session."""
    talk = Conversation(ref.id)
    faults: list[str] = []
    query = "SELECT id, message_data FROM agent_messages WHERE session_id = ? ORDER BY id"
    with contextlib.closing(open_rows(ref.path)) as rows:
        for identity, body in rows.execute(query, (ref.id,)):
            try:
                piece = json.loads(str(body))
            except ValueError:
                faults.append(f"row {identity} cannot be read")
                continue
            if not isinstance(piece, dict):
                raise BadInputError(f"{ref.path}: row {identity} is not an item")
            # Short forms have no type, and their content is a text.
            content = piece.get("content")
            text = [{"type": "input_text", "text": content}] if isinstance(content, str) else content
            add_piece(talk, {"type": "message", **piece, "content": text})
    messages = tuple(talk.messages)
    return ForeignSession(ref, "", messages, messages, dict(talk.foreign), tuple(faults))
