"""OpenViking: `messages.jsonl` of a session, and archives in `history/archive_NNN`. Read only.

An archive without `.done` was interrupted; its messages are read all the same, because nothing else has them.
"""

from holdfast.rescue.formats.base import Conversation, ForeignSession, Line, SessionRef, blocks_of, read_lines
from holdfast.rescue.formats.hermes import add_chat_message
from holdfast.rescue.neutral import NeutralRole

AGENT = "openviking"


def is_one(lines: list[Line]) -> bool:
    """Return whether lines are of this format."""
    return bool(lines) and all(
        isinstance(one.value.get("role"), str) and ("parts" in one.value or "content" in one.value)
        for one in lines[:50]
    )


def read(ref: SessionRef) -> ForeignSession:
    """Read a session with its archives."""
    whole, sent = Conversation(ref.id), Conversation(ref.id)
    faults: list[str] = []
    unfinished: list[str] = []
    for folder in sorted((ref.path.parent / "history").glob("archive_*")):
        if not (folder / "messages.jsonl").is_file():
            continue
        found = read_lines((folder / "messages.jsonl").read_bytes())
        faults += [f"{folder.name}: {says}" for says in found.faults]
        if not (folder / ".done").exists():
            unfinished.append(f"{folder.name} was never finished")
        for line in found.lines:
            _add(whole, line)
    found = read_lines(ref.path.read_bytes())
    for line in found.lines:
        _add(whole, line)
        _add(sent, line)
    return ForeignSession(
        ref,
        "",
        tuple(whole.messages),
        tuple(sent.messages),
        dict(whole.foreign),
        (*faults, *found.faults),
        tuple(unfinished),
    )


def _add(talk: Conversation, line: Line) -> None:
    parts = line.value.get("parts")
    if not isinstance(parts, list):
        add_chat_message(talk, line.value)
        return
    blobs: dict[str, bytes] = {}
    role = NeutralRole.ASSISTANT if line.value.get("role") == "assistant" else NeutralRole.USER
    talk.add(role, blocks_of(parts, blobs, talk.foreign), blobs, line.value.get("created_at", ""))
