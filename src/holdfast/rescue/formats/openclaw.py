"""OpenClaw since 2026.9: entries of pi's kind as rows of `~/.openclaw/agents/<agent>/agent/openclaw-agent.sqlite`.

Sessions are only read: OpenClaw checks identities, indexes and generations of its rows.
"""

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import apsw

from holdfast.rescue.formats import pi
from holdfast.rescue.formats.base import ForeignSession, SessionRef
from holdfast.rescue.formats.opencode import open_rows

# Older files of OpenClaw have pi's format and the name `openclaw`.
AGENT = "openclaw_rows"


def find(home: Path, environ: Mapping[str, str], cwd: str) -> list[SessionRef]:
    """Return all stored sessions: they belong to an agent, not to a folder."""
    del environ, cwd
    found: list[SessionRef] = []
    for path in (home / ".openclaw" / "agents").glob("*/agent/openclaw-agent.sqlite"):
        with contextlib.suppress(apsw.Error), contextlib.closing(open_rows(path)) as rows:
            found += [
                SessionRef(AGENT, str(key), path, "", _seconds(updated), path.stat().st_size)
                for key, updated in rows.execute("SELECT session_key, updated_at FROM session_nodes")
            ]
    return found


def _seconds(value: object) -> float:
    """Return a time in seconds; the column has milliseconds."""
    return float(value) / 1_000 if isinstance(value, int | float) else 0.0


def read(ref: SessionRef) -> ForeignSession:
    """Read a session. Events that are compressed are counted, and named as unread."""
    events: list[dict[str, Any]] = []
    unread = 0
    with contextlib.closing(open_rows(ref.path)) as rows:
        query = """
            SELECT event_json FROM transcript_events
            WHERE session_id = (SELECT current_session_id FROM session_nodes WHERE session_key = ?) ORDER BY seq
        """
        for (body,) in rows.execute(query, (ref.id,)):
            if body is None:
                unread += 1
                continue
            value = json.loads(str(body))
            events += [value] if isinstance(value, dict) else []
    tree = pi.tree_of(events)
    tree.header = {**tree.header, "id": ref.id}
    faults = (f"{unread} events are compressed and were not read",) if unread else ()
    return pi.session_of(ref, tree, faults, len(tree.entries) - len(tree.path))
