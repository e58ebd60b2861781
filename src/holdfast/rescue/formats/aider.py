"""aider: `.aider.chat.history.md` in the folder of work; `#### ` begins a user's line, `> ` one of a tool."""

from collections.abc import Mapping
from pathlib import Path

from holdfast.rescue.formats.base import Conversation, ForeignSession, SessionRef
from holdfast.rescue.neutral import NeutralRole
from holdfast.types.messages import Text

AGENT = "aider"
NAME = ".aider.chat.history.md"


def find(home: Path, environ: Mapping[str, str], cwd: str) -> list[SessionRef]:
    """Return the history of a folder, if it has one."""
    del home, environ
    path = Path(cwd) / NAME
    if not path.is_file():
        return []
    stat = path.stat()
    return [SessionRef(AGENT, NAME, path, cwd, stat.st_mtime, stat.st_size)]


def read(ref: SessionRef) -> ForeignSession:
    """Read a history."""
    talk = Conversation(ref.id)
    role, lines = NeutralRole.ASSISTANT, list[str]()

    def close() -> None:
        text = "\n".join(lines).strip()
        if text:
            talk.add(role, [Text(text)], {})
        lines.clear()

    for line in ref.path.read_text("utf-8", errors="replace").split("\n"):
        if line.startswith("# "):
            talk.foreign["heading"] += 1
            continue
        if line.startswith("> "):
            talk.foreign["line of a tool"] += 1
            continue
        spoken = NeutralRole.USER if line.startswith("#### ") else NeutralRole.ASSISTANT
        if line.strip() and spoken is not role:
            close()
            role = spoken
        lines.append(line.removeprefix("#### "))
    close()
    messages = tuple(talk.messages)
    return ForeignSession(ref, "", messages, messages, dict(talk.foreign))
