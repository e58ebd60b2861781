"""Logs for operators as one JSON object per line: constant text, fields apart, no keys, no text of messages.

An exception is told by its type and the lines it came through, not by its own words: those may quote what was sent.
"""

import logging
import traceback
from collections.abc import Iterable

import msgspec

# What every record of the standard library has; whatever else is there came as a field.
_OWN = frozenset(vars(logging.LogRecord("", 0, "", 0, "", (), None))) | {"message", "asctime", "color_message"}
# A field is an id, a code or a number; a sentence of ours has under 500 characters.
_CHARS_MAX = 1_000


class JsonLines(logging.Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line: dict[str, object] = {
            "at": round(record.created, 3),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage()[:_CHARS_MAX],
        }
        line.update((name, _plain(value)) for name, value in vars(record).items() if name not in _OWN)
        if record.exc_info and record.exc_info[0] is not None:
            line["error"] = record.exc_info[0].__name__
            line["came_through"] = list(_places(traceback.extract_tb(record.exc_info[2])))
        return msgspec.json.encode(line).decode()


def _plain(value: object) -> object:
    return value if isinstance(value, int | float | None) else str(value)[:_CHARS_MAX]


def _places(frames: Iterable[traceback.FrameSummary]) -> Iterable[str]:
    for frame in frames:
        yield f"{frame.filename.rpartition('holdfast/')[2]}:{frame.lineno} {frame.name}"


def log_as_json(level: str) -> logging.Handler:
    """Send the logs of Holdfast and of its server to standard error, as JSON; return who does it."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    for name in ("holdfast", "uvicorn.error"):
        log = logging.getLogger(name)
        log.handlers = [handler]
        log.propagate = False
        log.setLevel(level.upper())
    # The server says when it starts and stops, which we do; what it warns of is about bytes that were no HTTP.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    return handler
