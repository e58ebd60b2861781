"""Handlers for sessions: list and watch all of a key; configuration, view, records, search, compaction, events of one.

Handlers translate requests to library calls and results to schemas. The library validates input.
"""

import asyncio

import msgspec

from holdfast.core.limits.bounds import RESERVED_KEYS, is_proxy_session
from holdfast.core.limits.savings import own_totals, session_saved
from holdfast.core.turn.decide import waiting_calls
from holdfast.errors import RetryLaterError, UnknownModelError
from holdfast.gateway.accounts import check_allowed
from holdfast.gateway.api import report_schemas, schemas
from holdfast.gateway.api.request_context import RequestContext
from holdfast.gateway.http.asgi import header
from holdfast.gateway.http.events import EventStream, cursor_of, epoch_of, stream_start, watch
from holdfast.gateway.http.problems import InvalidError, NotFoundError
from holdfast.gateway.status_cache import Change, SessionWatch
from holdfast.ports import SessionInfo
from holdfast.runtime.tools.recall import Page
from holdfast.types.messages import ToolSpec
from holdfast.types.records import CompactionOutcome, Logged
from holdfast.types.settings import NO_SETTINGS


async def configure_session(context: RequestContext) -> schemas.SessionDetail:
    """Create a session or change its configuration."""
    body = await context.body(schemas.ConfigureSession)
    check_model(context, body.model)
    if body.system is not None:
        context.check_length("the system text", body.system, context.state.bounds.system_chars_max)
    key = context.tenant.store_key(context.key)
    tools = tool_specs(body.tools)
    if tools is None and (await (await context.state.client.session(key)).known()) is None:
        # An empty configuration also creates the session.
        tools = []
    await context.state.client.session(key, model=body.model, system=body.system, tools=tools, settings=body.settings)
    return await show_session(context)


def check_model(context: RequestContext, model: str | None) -> None:
    """Raise `UnknownModelError` for a model that this gateway does not offer."""
    offered = context.state.models
    if model is not None and model not in offered:
        raise UnknownModelError(f"unknown model {model[:80]!r}; this gateway offers: {', '.join(offered)}")
    if model is not None:
        check_allowed(context.tenant.key.limits, model)


def tool_specs(tools: list[schemas.DeclaredTool] | None) -> list[ToolSpec] | None:
    """Convert declared tools to the engine's tool specifications."""
    if tools is None:
        return None
    return [ToolSpec(one.name, one.description, msgspec.json.encode(one.parameters).decode()) for one in tools]


async def show_session(context: RequestContext) -> schemas.SessionDetail:
    """Return the configuration and state of a session."""
    session, known = await context.session()
    context.check_tag(known)
    turn = await context.state.statuses.turn(known)
    newest = await session.read(known.last_seq)
    tools = [
        schemas.DeclaredTool(one.name, one.description, msgspec.json.decode(one.parameters, type=dict))
        for one in turn.tools
    ]
    running = [one for one in turn.calls_running if one.reply]
    return schemas.SessionDetail(
        key=context.key,
        records=known.last_seq,
        unanswered=known.owed,
        created_at=known.created_at,
        updated_at=known.updated_at,
        model=turn.model,
        system=turn.system,
        tools=tools,
        settings=turn.settings or NO_SETTINGS,
        in_flight=turn.in_flight.value,
        turn=turn.number,
        waiting=list(turn.waiting),
        pinned=list(turn.pins),
        excluded=sorted(one.excluded for one in turn.excluded if one.place is None),
        compaction=turn.compaction_seq,
        boundary=turn.boundary,
        calls=[
            schemas.OpenCall(turn.number, one.reply, one.call.call_id, one.call.name, one.call.arguments)
            for one in running
        ],
        approvals=await session.approvals() if waiting_calls(turn) else [],
        cursor=cursor_of(epoch_of(known), newest),
        spent=turn.spent,
        spent_on_notes=turn.spent_on_notes,
        without_changes=own_totals(turn.spent, session_saved(turn.saved, turn.spent_on_notes))
        if is_proxy_session(session.key)
        else None,
    )


async def show_view(context: RequestContext) -> schemas.ViewNow:
    """Return the view that the model would get now."""
    query = context.query(report_schemas.ViewQuery)
    session, known = await context.session()
    state = await context.state.statuses.turn(known)
    limit = min(query.limit, context.state.bounds.page_max)
    view = await session.view(records_max=limit, before=query.before, state=state)
    return schemas.ViewNow(
        system=view.system,
        messages=list(view.messages),
        tools=[spec.name for spec in view.tools],
        boundary=view.boundary,
        tokens_estimated=view.tokens_estimated,
        sizes=view.sizes,
        limits=view.limits,
        first=view.first,
        is_whole=view.is_whole,
    )


async def list_records(context: RequestContext) -> schemas.Records:
    """Return a page of records."""
    query = context.query(schemas.RecordsQuery)
    session, _ = await context.session()
    limit = min(query.limit, context.state.bounds.page_max)
    found = await session.history(after=query.after, limit=limit)
    return schemas.Records(found, found[-1].seq if len(found) == limit else None)


async def show_record(context: RequestContext) -> Logged:
    """Return one record."""
    session, _ = await context.session()
    seq = context.number("seq")
    found = await session.history(after=seq - 1, limit=1) if seq else []
    if not found:
        raise NotFoundError("record not found; records are numbered from 1")
    return found[0]


async def search(context: RequestContext) -> schemas.Hits:
    """Search all records of a session."""
    query = context.query(schemas.SearchQuery)
    context.check_length("the query", query.query, context.state.bounds.query_chars_max)
    session, _ = await context.session()
    return schemas.Hits(await session.search(query.query, limit=min(query.limit, context.state.bounds.page_max)))


async def recall(context: RequestContext) -> Page:
    """Return a page of text of a record or blob, as the model's recall tool does."""
    query = context.query(report_schemas.RecallQuery)
    context.check_length("the id of a blob", query.blob, context.state.bounds.query_chars_max)
    session, _ = await context.session()
    return await session.recall(seq=query.seq, blob=query.blob, offset=query.offset)


async def compact(context: RequestContext) -> schemas.Compacted:
    """Compact the view and return the outcome."""
    body = await context.body(schemas.Compact)
    context.check_length("the focus", body.focus, context.state.bounds.focus_chars_max)
    session, _ = await context.session()
    try:
        async with asyncio.timeout(context.state.bounds.wait_seconds_max):
            settled = await context.unless_gone(session.compact(focus=body.focus))
    except TimeoutError:
        context.status = 202
        return schemas.Compacted(0, CompactionOutcome.DEFERRED, "still running; a record will hold the outcome")
    return schemas.Compacted(settled.request, settled.outcome, settled.why)


async def preview(context: RequestContext) -> schemas.Previewed:
    """Return the effect that a compaction would have now."""
    body = await context.body(schemas.PreviewCompact)
    context.check_length("the focus", body.focus, context.state.bounds.focus_chars_max)
    session, _ = await context.session()
    try:
        async with asyncio.timeout(context.state.bounds.wait_seconds_max):
            return schemas.Previewed(
                await context.unless_gone(session.preview(focus=body.focus, with_model=body.with_model))
            )
    except TimeoutError as error:
        raise RetryLaterError(
            "the model's summary is not complete; finished parts are kept, so retry, or preview without a model"
        ) from error


async def undo(context: RequestContext) -> schemas.Undone:
    """Undo a compaction."""
    body = await context.body(schemas.Undo)
    session, _ = await context.session()
    return schemas.Undone(await session.undo(compaction=body.compaction))


async def events(context: RequestContext) -> None:
    """Stream the events of a session."""
    query = context.query(schemas.WatchQuery)
    last_event_id = header(context.scope, b"last-event-id")
    if last_event_id and query.cursor and last_event_id != query.cursor:
        raise InvalidError("cursor and the header Last-Event-ID differ; send one of them")
    session, known = await context.session()
    query = schemas.WatchQuery(query.cursor or last_event_id, query.after)
    start = await stream_start(session, known, query, context.state.bounds)
    await context.stream(lambda stream: watch(stream, session, known, start), session=session.key)


async def watch_all(context: RequestContext) -> None:
    """Stream the statuses of sessions that change."""
    query = context.query(schemas.WatchAllQuery)
    last_event_id = header(context.scope, b"last-event-id")
    if last_event_id and query.cursor and last_event_id != query.cursor:
        raise InvalidError("cursor and the header Last-Event-ID differ; send one of them")
    watch = context.state.watches.of(context.tenant, context.state.bounds)
    await watch.poll(context.state.client, at_once=True)
    position, reason = watch.position(query.cursor or last_event_id)
    await context.stream(lambda stream: _watch(context, stream, watch, position, reason))


async def _watch(context: RequestContext, stream: EventStream, watch: SessionWatch, position: int, reason: str) -> None:
    cursor = watch.cursor(position)
    if reason:
        await _resync(stream, watch, position, reason)
    else:
        await stream.event("watching", schemas.Watching(cursor, position), cursor=cursor)
    async for change in watch.since(position, context.state.client):
        if change is None:
            await _resync(stream, watch, watch.number, "too many sessions changed since the last event")
        else:
            await _send_change(context, stream, watch, change)


async def _resync(stream: EventStream, watch: SessionWatch, position: int, reason: str) -> None:
    cursor = watch.cursor(position)
    resync = schemas.Resync(f"{reason}; read the list of sessions again, then the stream continues", cursor, position)
    await stream.event("resync", resync, cursor=cursor)


async def _send_change(context: RequestContext, stream: EventStream, watch: SessionWatch, change: Change) -> None:
    key, cursor = context.tenant.key_of(change.session), watch.cursor(change.number)
    if key is None or change.session.startswith(RESERVED_KEYS):
        return
    store = context.state.client.engine.store
    known = await store.info(change.session)
    newest = await store.read(change.session, after=known.last_seq - 1, limit=1) if known is not None else []
    if known is None or not newest:
        await stream.event("deleted", schemas.SessionDeleted(key), cursor=cursor)
        return
    kind = type(newest[0].record).__name__
    await stream.event("session", await _changed(context, key, known, kind), cursor=cursor)


async def _changed(context: RequestContext, key: str, known: SessionInfo, kind: str) -> schemas.SessionChanged:
    status = await context.state.statuses.of(known)
    return schemas.SessionChanged(
        session=key,
        seq=known.last_seq,
        kind=kind,
        state=status.state,
        says=status.says,
        gauge=status.gauge,
        generation=status.generation,
        unanswered=known.owed,
        open_turns=status.open_turns,
        updated_at=known.updated_at,
    )
