"""Keeps the sessions of LLM agents alive: a durable log, a view that always fits, recovery that always answers.

async with holdfast.open() as hold:
    chat = await hold.session("telegram:42")
    reply = await chat.send("Hello")
"""

from holdfast.core.limits import Bounds, Deadlines, Limits
from holdfast.core.messages import LargeText, Media, Message, Text
from holdfast.core.records import Logged
from holdfast.errors import (
    BadInputError,
    HoldfastError,
    OperatorError,
    RetryLaterError,
    TurnFailedError,
    UsageError,
)
from holdfast.ports import Attachment, ReasoningDelta, SessionInfo, TextDelta
from holdfast.runtime.sessions import Answer, Event, Hold, Session, View
from holdfast.runtime.toolbox import tool
from holdfast.wiring import Tuning, ask, open  # noqa: A004 - `holdfast.open()` reads as it should

__all__ = [
    "Answer",
    "Attachment",
    "BadInputError",
    "Bounds",
    "Deadlines",
    "Event",
    "Hold",
    "HoldfastError",
    "LargeText",
    "Limits",
    "Logged",
    "Media",
    "Message",
    "OperatorError",
    "ReasoningDelta",
    "RetryLaterError",
    "Session",
    "SessionInfo",
    "Text",
    "TextDelta",
    "Tuning",
    "TurnFailedError",
    "UsageError",
    "View",
    "ask",
    "open",
    "tool",
]
