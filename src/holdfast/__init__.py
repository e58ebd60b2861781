"""Durable sessions for LLM agents: an append-only log, a view that fits the context window, and recovery.

async with holdfast.open() as client:
    chat = await client.session("telegram:42")
    reply = await chat.send("Hello")

Public names are imported on first use, so that `import holdfast` and `holdfast --help` stay fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.core.faults.public import Classification, classify
    from holdfast.core.fold.session_state import Turn
    from holdfast.core.limits.bounds import Bounds, Deadlines
    from holdfast.core.limits.fit import Sizes
    from holdfast.core.limits.prices import Spent
    from holdfast.errors import (
        BadInputError,
        ConflictError,
        HoldfastError,
        OperatorError,
        RetryLaterError,
        TurnFailedError,
        UsageError,
    )
    from holdfast.models.reference import Model
    from holdfast.ports import (
        Attachment,
        Hit,
        ListedSession,
        ReasoningDelta,
        SessionFilter,
        SessionInfo,
        SessionOrder,
        SessionPage,
        TextDelta,
    )
    from holdfast.runtime.engine.live import LiveDelta
    from holdfast.runtime.memory.notes import Memory, Note
    from holdfast.runtime.sessions.answers import Answer, OutputAnswer
    from holdfast.runtime.sessions.appending import Appended, Draft, StoredMessage, session_key
    from holdfast.runtime.sessions.branches import Branch
    from holdfast.runtime.sessions.client import Client
    from holdfast.runtime.sessions.delete import Deleted, DeletedAll
    from holdfast.runtime.sessions.labels import Labels
    from holdfast.runtime.sessions.session import Event, Session
    from holdfast.runtime.sessions.transfer import Copied
    from holdfast.runtime.sessions.view import Context, Preview, View
    from holdfast.runtime.subagents import Agent
    from holdfast.runtime.tools.function_tool import tool
    from holdfast.runtime.tools.mcp_server import MCPServer
    from holdfast.runtime.tools.recall import Page
    from holdfast.runtime.tools.tool_context import ToolContext, ToolProgress
    from holdfast.runtime.tools.tool_runs import Approval
    from holdfast.types.limits import Limits
    from holdfast.types.messages import (
        BlobRef,
        LargeText,
        Media,
        Message,
        Reasoning,
        Role,
        Text,
        ToolCall,
        ToolResult,
        ToolSpec,
        Usage,
    )
    from holdfast.types.records import CompactionSettled, Logged
    from holdfast.types.settings import Settings
    from holdfast.wiring import Tuning, ask, open  # noqa: A004 - `holdfast.open()` reads as it should

    __version__: str

# Module of each public name.
_HOMES = {
    "Agent": "runtime.subagents",
    "Answer": "runtime.sessions.answers",
    "Approval": "runtime.tools.tool_runs",
    "Attachment": "ports",
    "BadInputError": "errors",
    "Bounds": "core.limits.bounds",
    "Branch": "runtime.sessions.branches",
    "Deadlines": "core.limits.bounds",
    "Event": "runtime.sessions.session",
    "Classification": "core.faults.public",
    "Client": "runtime.sessions.client",
    "Context": "runtime.sessions.view",
    "HoldfastError": "errors",
    "Labels": "runtime.sessions.labels",
    "LargeText": "types.messages",
    "Limits": "types.limits",
    "ListedSession": "ports",
    "Logged": "types.records",
    "MCPServer": "runtime.tools.mcp_server",
    "Media": "types.messages",
    "Memory": "runtime.memory.notes",
    "Message": "types.messages",
    "Model": "models.reference",
    "Note": "runtime.memory.notes",
    "OperatorError": "errors",
    "OutputAnswer": "runtime.sessions.answers",
    "Preview": "runtime.sessions.view",
    "ReasoningDelta": "ports",
    "RetryLaterError": "errors",
    "Session": "runtime.sessions.session",
    "SessionInfo": "ports",
    "Settings": "types.settings",
    "Text": "types.messages",
    "TextDelta": "ports",
    "ToolContext": "runtime.tools.tool_context",
    "ToolProgress": "runtime.tools.tool_context",
    "ToolSpec": "types.messages",
    "Tuning": "wiring",
    "TurnFailedError": "errors",
    "UsageError": "errors",
    "View": "runtime.sessions.view",
    "Appended": "runtime.sessions.appending",
    "Draft": "runtime.sessions.appending",
    "StoredMessage": "runtime.sessions.appending",
    "Role": "types.messages",
    "ToolCall": "types.messages",
    "ToolResult": "types.messages",
    "Reasoning": "types.messages",
    "ConflictError": "errors",
    "BlobRef": "types.messages",
    "CompactionSettled": "types.records",
    "Copied": "runtime.sessions.transfer",
    "Deleted": "runtime.sessions.delete",
    "DeletedAll": "runtime.sessions.delete",
    "Hit": "ports",
    "LiveDelta": "runtime.engine.live",
    "Page": "runtime.tools.recall",
    "SessionFilter": "ports",
    "SessionOrder": "ports",
    "SessionPage": "ports",
    "Sizes": "core.limits.fit",
    "Spent": "core.limits.prices",
    "Turn": "core.fold.session_state",
    "Usage": "types.messages",
    "ask": "wiring",
    "classify": "core.faults.public",
    "open": "wiring",
    "session_key": "runtime.sessions.appending",
    "tool": "runtime.tools.function_tool",
}

__all__ = [
    "Agent",
    "Answer",
    "Appended",
    "Approval",
    "Attachment",
    "BadInputError",
    "BlobRef",
    "Bounds",
    "Branch",
    "Classification",
    "Client",
    "CompactionSettled",
    "ConflictError",
    "Context",
    "Copied",
    "Deadlines",
    "Deleted",
    "DeletedAll",
    "Draft",
    "Event",
    "Hit",
    "HoldfastError",
    "Labels",
    "LargeText",
    "Limits",
    "ListedSession",
    "LiveDelta",
    "Logged",
    "MCPServer",
    "Media",
    "Memory",
    "Message",
    "Model",
    "Note",
    "OperatorError",
    "OutputAnswer",
    "Page",
    "Preview",
    "Reasoning",
    "ReasoningDelta",
    "RetryLaterError",
    "Role",
    "Session",
    "SessionFilter",
    "SessionInfo",
    "SessionOrder",
    "SessionPage",
    "Settings",
    "Sizes",
    "Spent",
    "StoredMessage",
    "Text",
    "TextDelta",
    "ToolCall",
    "ToolContext",
    "ToolProgress",
    "ToolResult",
    "ToolSpec",
    "Tuning",
    "Turn",
    "TurnFailedError",
    "Usage",
    "UsageError",
    "View",
    "ask",
    "classify",
    "open",
    "session_key",
    "tool",
]


if not TYPE_CHECKING:
    # Hidden from type checkers: with `__getattr__` they would accept any misspelt name.
    def __getattr__(name: str) -> object:
        """Import a public name on first use."""
        if name == "__version__":
            # Read on use: the metadata of packages is slow to load.
            found: object = import_module("importlib.metadata").version("holdfast")
            globals()[name] = found
            return found
        if name not in _HOMES:
            raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
        found = getattr(import_module(f"holdfast.{_HOMES[name]}"), name)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted(__all__)
