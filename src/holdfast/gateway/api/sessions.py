"""The native API, looking: sessions, what the model sees of them, their records, search, events.

Whatever the library checks is checked there, once; here a request becomes a call and what comes of it a shape.
"""

import asyncio

import msgspec

from holdfast.errors import RetryLaterError, UnknownModelError
from holdfast.gateway.api import report_schemas, schemas
from holdfast.gateway.api.request_context import RequestContext
from holdfast.gateway.http.asgi import header
from holdfast.gateway.http.events import cursor_of, epoch_of, start_of, watch
from holdfast.gateway.http.problems import InvalidError, NotFoundError
from holdfast.runtime.tools.recall import Page
from holdfast.types.messages import ToolSpec
from holdfast.types.records import CompactionOutcome, Logged


async def configure_session(call: RequestContext) -> schemas.SessionDetail:
    """Make a session, or tell it something else about itself."""
    wanted = await call.body(schemas.ConfigureSession)
    check_model(call, wanted.model)
    if wanted.system is not None:
        call.check_length("the system text", wanted.system, call.gateway.bounds.system_chars_max)
    key = call.tenant.store_key(call.key)
    tools = specs(wanted.tools)
    if tools is None and (await (await call.gateway.hold.session(key)).known()) is None:
        # With nothing to say the session is made all the same.
        tools = []
    await call.gateway.hold.session(key, model=wanted.model, system=wanted.system, tools=tools)
    return await show_session(call)


def check_model(call: RequestContext, model: str | None) -> None:
    """Raise where a session would ask for a model that is not offered."""
    offered = call.gateway.models
    if model is not None and model not in offered:
        raise UnknownModelError(f"model {model[:80]!r} is not offered here; there are: {', '.join(offered)}")


def specs(tools: list[schemas.DeclaredTool] | None) -> list[ToolSpec] | None:
    """Return tools as the engine knows them."""
    if tools is None:
        return None
    return [ToolSpec(one.name, one.description, msgspec.json.encode(one.parameters).decode()) for one in tools]


async def show_session(call: RequestContext) -> schemas.SessionDetail:
    """Answer with what a session was told and where it stands."""
    session, known = await call.session()
    turn = await session.state()
    newest = await session.read(known.last_seq)
    tools = [
        schemas.DeclaredTool(one.name, one.description, msgspec.json.decode(one.parameters, type=dict))
        for one in turn.tools
    ]
    running = [one for one in turn.calls_running if one.reply]
    return schemas.SessionDetail(
        key=call.key,
        records=known.last_seq,
        unanswered=known.owed,
        created_at=known.created_at,
        updated_at=known.updated_at,
        model=turn.model,
        system=turn.system,
        tools=tools,
        in_flight=turn.in_flight.value,
        turn=turn.number,
        waiting=list(turn.waiting),
        pinned=list(turn.pins),
        compaction=turn.compaction_seq,
        boundary=turn.boundary,
        calls=[
            schemas.OpenCall(turn.number, one.reply, one.call.call_id, one.call.name, one.call.arguments)
            for one in running
        ],
        cursor=cursor_of(epoch_of(known), newest),
        spent=turn.spent,
        spent_on_notes=turn.spent_on_notes,
    )


async def show_view(call: RequestContext) -> schemas.ViewNow:
    """Answer with what the model would see now."""
    session, _ = await call.session()
    view = await session.view()
    return schemas.ViewNow(
        system=view.system,
        messages=list(view.messages),
        tools=[spec.name for spec in view.tools],
        boundary=view.boundary,
        tokens_estimated=view.tokens_estimated,
        sizes=view.sizes,
        limits=view.limits,
    )


async def list_records(call: RequestContext) -> schemas.Records:
    """Answer with a page of records as they were written."""
    wanted = call.query(schemas.PageOfRecords)
    session, _ = await call.session()
    limit = min(wanted.limit, call.gateway.bounds.page_max)
    found = await session.history(after=wanted.after, limit=limit)
    return schemas.Records(found, found[-1].seq if len(found) == limit else None)


async def show_record(call: RequestContext) -> Logged:
    """Answer with one record as it was written."""
    session, _ = await call.session()
    seq = call.number("seq")
    found = await session.history(after=seq - 1, limit=1) if seq else []
    if not found:
        raise NotFoundError("there is no such record; records are numbered from 1")
    return found[0]


async def search(call: RequestContext) -> schemas.Hits:
    """Answer with what was said or done, also long ago."""
    wanted = call.query(schemas.Search)
    call.check_length("the query", wanted.query, call.gateway.bounds.query_chars_max)
    session, _ = await call.session()
    return schemas.Hits(await session.search(wanted.query, limit=min(wanted.limit, call.gateway.bounds.page_max)))


async def recall(call: RequestContext) -> Page:
    """Answer with a page of what a record or a blob holds, as the model itself could read it."""
    wanted = call.query(report_schemas.Recalled)
    call.check_length("the id of a blob", wanted.blob, call.gateway.bounds.query_chars_max)
    session, _ = await call.session()
    return await session.recall(seq=wanted.seq, blob=wanted.blob, offset=wanted.offset)


async def compact(call: RequestContext) -> schemas.Compacted:
    """Make the view smaller, and answer with what came of it."""
    wanted = await call.body(schemas.Compact)
    call.check_length("the focus", wanted.focus, call.gateway.bounds.focus_chars_max)
    session, _ = await call.session()
    try:
        async with asyncio.timeout(call.gateway.bounds.wait_seconds_max):
            settled = await call.unless_gone(session.compact(focus=wanted.focus))
    except TimeoutError:
        call.status = 202
        return schemas.Compacted(0, CompactionOutcome.DEFERRED, "it is still being made; its outcome will be a record")
    return schemas.Compacted(settled.request, settled.outcome, settled.why)


async def preview(call: RequestContext) -> schemas.Previewed:
    """Answer with what a compaction would do now."""
    wanted = await call.body(schemas.PreviewCompact)
    call.check_length("the focus", wanted.focus, call.gateway.bounds.focus_chars_max)
    session, _ = await call.session()
    try:
        async with asyncio.timeout(call.gateway.bounds.wait_seconds_max):
            looked = session.preview(focus=wanted.focus, with_model=wanted.with_model)
            return schemas.Previewed(await call.unless_gone(looked))
    except TimeoutError as error:
        raise RetryLaterError(
            "the model has not written its summary yet; what it wrote is kept, so ask again, or without a model"
        ) from error


async def undo(call: RequestContext) -> schemas.Undone:
    """Undo a compaction."""
    wanted = await call.body(schemas.Undo)
    session, _ = await call.session()
    return schemas.Undone(await session.undo(compaction=wanted.compaction))


async def events(call: RequestContext) -> None:
    """Tell what happens in a session, without end."""
    wanted = call.query(schemas.WatchFrom)
    told = header(call.scope, b"last-event-id")
    if told and wanted.cursor and told != wanted.cursor:
        raise InvalidError("cursor and the header Last-Event-ID differ; give one of them")
    session, known = await call.session()
    wanted = schemas.WatchFrom(wanted.cursor or told, wanted.after)
    start = await start_of(session, known, wanted, call.gateway.bounds)
    await call.stream(lambda stream: watch(stream, session, known, start), session=session.key)
