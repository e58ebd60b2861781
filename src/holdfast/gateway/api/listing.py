"""Handlers, schemas and routes for lists of sessions, labels, branches, the context, and long-term memory."""

from typing import Annotated, Any, Literal

import msgspec

from holdfast.errors import (
    BadInputError,
    QueueFullError,
    RetryLaterError,
    SeqMovedError,
    SessionBusyError,
    StoreFullError,
)
from holdfast.gateway.api import schemas
from holdfast.gateway.api.request_context import RequestContext
from holdfast.gateway.api.route import Route
from holdfast.gateway.api.schemas import RequestSchema
from holdfast.ports import ListedSession, SessionFilter, SessionInfo, SessionOrder
from holdfast.runtime.memory.notes import FOUND_MAX, Memory, Note
from holdfast.runtime.sessions.branches import Branch
from holdfast.runtime.sessions.labels import Labels
from holdfast.types.messages import Message, ToolSpec

_Seq = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class ListQuery(RequestSchema, frozen=True):
    """Page of sessions, filtered. `after` is the `next` of the page before; in key order, any key.

    With `total` the page has the number of all sessions of this key, filtered or not.
    """

    after: str = ""
    limit: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 100
    # The key contains this; the title, the key or a tag contains this. Case-insensitive.
    match: str = ""
    text: str = ""
    tag: str = ""
    # The model that the session was configured with.
    model: str = ""
    # `working`: a message or a request has no outcome yet.
    state: Literal["", "idle", "working"] = ""
    order: Literal["key", "recent"] = "key"
    total: bool = False


class LabelledSummary(schemas.SessionSummary, frozen=True):
    """A session without its content, with its labels. `is_title_made`: the title is made from the first message."""

    title: str
    is_title_made: bool
    tags: list[str]
    metadata: dict[str, str]


class SessionList(msgspec.Struct, frozen=True):
    """A page of sessions; `next` is the `after` of the next page, null at the end. `total` is null unless asked for.

    A filtered page may have fewer than `limit`, or none, and still have a next one.
    """

    sessions: list[LabelledSummary]
    next: str | None
    total: int | None


class LabelSession(RequestSchema, frozen=True):
    """Labels of a session. Omitted or null fields stay unchanged; an empty title returns to the made one."""

    title: str | None = None
    tags: list[str] | None = None
    metadata: dict[str, str] | None = None
    # Only directly after this record.
    expect: _Seq | None = None


class BranchList(msgspec.Struct, frozen=True):
    """The branches of a session, the current one last."""

    branches: list[Branch]


class SwitchBranch(RequestSchema, frozen=True):
    """Continue from the branch that ends at the record `head`."""

    head: _Seq
    expect: _Seq | None = None


class Regenerate(RequestSchema, frozen=True):
    """Answer the newest message again."""

    expect: _Seq | None = None


class ContextQuery(RequestSchema, frozen=True):
    """Budget of tokens, 0 for none, and the API of the request: openai-chat, openai-responses, anthropic or gemini."""

    max_tokens: _Seq = 0
    dialect: str = ""


class ContextShown(msgspec.Struct, frozen=True):
    """What the model would be shown. `request` is the JSON body for the dialect that was asked for."""

    system: str
    messages: list[Message]
    tools: list[ToolSpec]
    tokens_estimated: int
    is_whole: bool
    request: dict[str, Any] | None


class NotesQuery(RequestSchema, frozen=True):
    """Search for words; default: all notes."""

    query: str = ""
    limit: Annotated[int, msgspec.Meta(ge=1, le=FOUND_MAX)] = 10


class NoteText(RequestSchema, frozen=True):
    """The text of a note."""

    text: str
    client_id: str = ""


class Notes(msgspec.Struct, frozen=True):
    """Notes of a memory: all of them, oldest first, or those that match, best first."""

    notes: list[Note]


async def list_sessions(context: RequestContext) -> SessionList:
    """Return a page of this key's sessions."""
    query, bounds = context.query(ListQuery), context.state.bounds
    for what, text in (("the text to match", query.match), ("the text", query.text), ("the tag", query.tag)):
        context.check_length(what, text, bounds.query_chars_max)
    wanted = SessionFilter(
        key_text=query.match,
        text=query.text,
        tags=(query.tag,) if query.tag else (),
        model=query.model,
        is_pending={"": None, "idle": False, "working": True}[query.state],
    )
    found, following = await context.tenant.list_sessions(
        context.state.client,
        wanted,
        order=SessionOrder(query.order),
        after=query.after,
        limit=min(query.limit, bounds.page_max),
    )
    summaries = await context.state.statuses.summaries([(key, _without_labels(one)) for key, one in found])
    rows = zip(summaries, found, strict=True)
    total = None
    if query.total:
        total = len(await context.tenant.every_session(context.state.client, count_max=bounds.sessions_watched_max))
    return SessionList([_labelled(summary, one) for summary, (_, one) in rows], following, total)


def _without_labels(one: ListedSession) -> SessionInfo:
    """Return the part of a row by which statuses are cached."""
    return SessionInfo(one.key, one.last_seq, one.owed, one.created_at, one.updated_at)


def _labelled(summary: schemas.SessionSummary, one: ListedSession) -> LabelledSummary:
    return LabelledSummary(
        **msgspec.structs.asdict(summary),
        title=one.title,
        is_title_made=one.is_title_made,
        tags=list(one.tags),
        metadata=dict(one.metadata),
    )


async def show_labels(context: RequestContext) -> Labels:
    """Return the labels of a session."""
    session, _ = await context.session()
    return await session.labels()


async def set_labels(context: RequestContext) -> Labels:
    """Set the labels of a session."""
    body = await context.body(LabelSession)
    session = await context.state.client.session(context.tenant.store_key(context.key))
    labels = await session.label(title=body.title, tags=body.tags, metadata=body.metadata, expect=body.expect)
    known = await session.known()
    context.state.watches.touch(session.key, known.last_seq if known else 0)
    return labels


async def list_branches(context: RequestContext) -> BranchList:
    """Return the branches of a session."""
    session, _ = await context.session()
    return BranchList(await session.branches())


async def switch_branch(context: RequestContext) -> Branch:
    """Continue from another branch."""
    body = await context.body(SwitchBranch)
    session, _ = await context.session()
    return await session.switch(body.head, expect=body.expect)


async def regenerate(context: RequestContext) -> schemas.Accepted:
    """Answer the newest message again."""
    body = await context.body(Regenerate)
    session, _ = await context.session()
    turn = await session.repost(expect=body.expect)
    context.state.watches.touch(session.key, turn)
    return schemas.Accepted(turn)


async def show_context(context: RequestContext) -> ContextShown:
    """Return what the model would be shown."""
    query = context.query(ContextQuery)
    session, _ = await context.session()
    shown = await session.context(max_tokens=query.max_tokens or None, dialect=query.dialect or None)
    request = None if shown.request is None else dict(shown.request)
    return ContextShown(
        shown.system, list(shown.messages), list(shown.tools), shown.tokens_estimated, shown.is_whole, request
    )


def _memory(context: RequestContext) -> Memory:
    return context.state.client.memory(context.tenant.store_key(context.names["scope"]))


async def list_notes(context: RequestContext) -> Notes:
    """Return the notes of a memory, or those that match."""
    query = context.query(NotesQuery)
    context.check_length("the query", query.query, context.state.bounds.query_chars_max)
    memory = _memory(context)
    return Notes(await memory.search(query.query, limit=query.limit) if query.query else await memory.notes())


async def add_note(context: RequestContext) -> Note:
    """Add a note to a memory."""
    body = await context.body(NoteText)
    return await _memory(context).add(body.text, client_id=body.client_id)


async def edit_note(context: RequestContext) -> Note:
    """Change a note of a memory."""
    body = await context.body(NoteText)
    return await _memory(context).edit(context.names["note"], body.text)


async def remove_note(context: RequestContext) -> schemas.Done:
    """Remove a note of a memory."""
    await _memory(context).remove(context.names["note"])
    return schemas.Done()


_WRITING = (SeqMovedError, SessionBusyError, RetryLaterError, QueueFullError, StoreFullError, BadInputError)

ROUTES: tuple[Route, ...] = (
    Route("GET", "/sessions/{key}/labels", show_labels, "Get the title, tags and metadata of a session.", Labels),
    Route(
        "PUT",
        "/sessions/{key}/labels",
        set_labels,
        "Set the title, tags or metadata of a session.",
        Labels,
        body=LabelSession,
        errors=_WRITING,
    ),
    Route(
        "GET",
        "/sessions/{key}/branches",
        list_branches,
        "List the branches of a session: versions that an edit or another answer has left.",
        BranchList,
    ),
    Route(
        "POST",
        "/sessions/{key}/switch",
        switch_branch,
        "Continue from another branch. The current one becomes a branch.",
        Branch,
        body=SwitchBranch,
        errors=_WRITING,
    ),
    Route(
        "POST",
        "/sessions/{key}/regenerate",
        regenerate,
        "Answer the newest message again. The old answer becomes a branch.",
        schemas.Accepted,
        status=202,
        body=Regenerate,
        errors=_WRITING,
    ),
    Route(
        "GET",
        "/sessions/{key}/context",
        show_context,
        "Get what the model would be shown, within a budget and as a provider's request, for your own model calls.",
        ContextShown,
        query=ContextQuery,
        errors=(BadInputError,),
    ),
    Route(
        "GET",
        "/memory/{scope}",
        list_notes,
        "List or search the long-term notes of a scope.",
        Notes,
        query=NotesQuery,
        errors=(BadInputError,),
    ),
    Route(
        "POST", "/memory/{scope}", add_note, "Add a long-term note.", Note, status=201, body=NoteText, errors=_WRITING
    ),
    Route(
        "PUT",
        "/memory/{scope}/{note}",
        edit_note,
        "Change a long-term note.",
        Note,
        body=NoteText,
        errors=_WRITING,
    ),
    Route(
        "DELETE",
        "/memory/{scope}/{note}",
        remove_note,
        "Remove a long-term note. Its log keeps it.",
        schemas.Done,
        errors=_WRITING,
    ),
)
