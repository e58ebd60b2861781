"""Handlers and schemas for messages that are appended without a turn, and for retractions.

A part of a request never names a blob: a hash would give a client the bytes of another.
"""

from typing import Annotated, TypeAlias

import msgspec

from holdfast.gateway.api.request_context import RequestContext
from holdfast.gateway.api.schemas import RequestSchema
from holdfast.runtime.sessions.appending import Draft, StoredMessage
from holdfast.types.messages import Message, Part, Reasoning, Role, Text, ToolCall, ToolOutcome, ToolResult

# Messages per request, and per page.
_MESSAGES_MAX = 1_000


class GivenResult(RequestSchema, frozen=True, tag_field="type", tag="tool_result"):
    """The result of a tool call, as text."""

    call_id: str
    text: str
    is_failure: bool = False


GivenPart: TypeAlias = Text | ToolCall | Reasoning | GivenResult


class GivenMessage(RequestSchema, frozen=True):
    """A message, a payload or both. `payload` is base64 in JSON, kept byte for byte; `tag` names its format.

    A user message may be a heartbeat: with the answers after it, it never becomes part of a summary.
    """

    role: Role | None = None
    parts: Annotated[tuple[GivenPart, ...], msgspec.Meta(max_length=_MESSAGES_MAX)] = ()
    payload: bytes | None = None
    tag: str = ""
    client_id: str = ""
    is_heartbeat: bool = False


class AppendMessages(RequestSchema, frozen=True):
    """Messages to append, all of them or none. `expect` is the last seq that the client knows."""

    messages: Annotated[list[GivenMessage], msgspec.Meta(min_length=1, max_length=_MESSAGES_MAX)]
    expect: Annotated[int, msgspec.Meta(ge=0)] | None = None
    client_id: str = ""


class Appended(msgspec.Struct, frozen=True):
    """The records of the messages. `is_new` is false for an append that was made before."""

    first: int
    last: int
    is_new: bool


class RetractMessages(RequestSchema, frozen=True):
    """Take back everything after a record; 0: everything."""

    after: Annotated[int, msgspec.Meta(ge=0)]
    expect: Annotated[int, msgspec.Meta(ge=0)] | None = None


class Retracted(msgspec.Struct, frozen=True):
    """Whether there was anything to take back."""

    is_retracted: bool


class AppendedQuery(RequestSchema, frozen=True):
    """`limit`: the newest so many. `client_id`: only the one with this id."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=_MESSAGES_MAX)] = 100
    client_id: str = ""


class AppendedMessages(msgspec.Struct, frozen=True):
    """Appended messages, oldest first."""

    messages: list[StoredMessage]


async def append_messages(context: RequestContext) -> Appended:
    """Append messages without running a turn."""
    body = await context.body(AppendMessages)
    key = context.tenant.store_key(context.key)
    session = await context.state.client.session(key)
    drafts = [_draft(one) for one in body.messages]
    done = await session.append(drafts, expect=body.expect, client_id=body.client_id)
    context.state.watches.touch(key, done.last)
    return Appended(done.first, done.last, done.is_new)


async def retract_messages(context: RequestContext) -> Retracted:
    """Take back messages."""
    body = await context.body(RetractMessages)
    session, _ = await context.session()
    return Retracted(await session.retract(after=body.after, expect=body.expect))


async def show_appended(context: RequestContext) -> AppendedMessages:
    """Return appended messages with their payloads."""
    query = context.query(AppendedQuery)
    session, _ = await context.session()
    if not query.client_id:
        return AppendedMessages(await session.stored(limit=query.limit))
    found = await session.lookup(query.client_id)
    return AppendedMessages([found] if found is not None else [])


def _draft(given: GivenMessage) -> Draft:
    message = None if given.role is None else Message(given.role, tuple(_part(one) for one in given.parts))
    return Draft(message, given.payload, given.tag, given.client_id, given.is_heartbeat)


def _part(given: GivenPart) -> Part:
    if not isinstance(given, GivenResult):
        return given
    outcome = ToolOutcome.FAILED if given.is_failure else ToolOutcome.DONE
    return ToolResult(given.call_id, (Text(given.text),), outcome)
