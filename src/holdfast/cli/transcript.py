"""Which session of a transcript a command is about, and what to say where that is not clear."""

from pathlib import Path

from holdfast.core.facts import Passage
from holdfast.errors import UsageError
from holdfast.rescue.neutral import NeutralMessage, read_neutral

# Enough ids to recognise the one that was meant.
_SESSIONS_SHOWN = 10


def read_session(path: Path, session: str | None) -> list[NeutralMessage]:
    """Return the messages of one session of a file. A file of a single session needs no id."""
    found: list[NeutralMessage] = []
    # In the order of the file, and only as many as are shown.
    sessions: dict[str, None] = {}
    for message in read_neutral(path):
        sessions.setdefault(message.session_id)
        if session is None and len(sessions) > _SESSIONS_SHOWN:
            break
        if session in (None, message.session_id):
            found.append(message)
    if not found:
        missing = "no messages" if session is None else f"no session {session!r}"
        raise UsageError(f"{path} has {missing}{_shown(sessions)}")
    if session is None and len(sessions) > 1:
        raise UsageError(f"{path} has several sessions: name one with --session{_shown(sessions)}")
    return found


def _shown(sessions: dict[str, None]) -> str:
    if not sessions:
        return ""
    ids = list(sessions)
    more = ", ..." if len(ids) > _SESSIONS_SHOWN else ""
    return f"; it has {', '.join(ids[:_SESSIONS_SHOWN])}{more}"


def passages_of(messages: list[NeutralMessage]) -> list[Passage]:
    """Return what a view would hold of some messages: all but the system texts, which are re-read from their source."""
    return [Passage(found.seq, found.message) for found in messages if found.message is not None]
