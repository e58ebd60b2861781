"""Handlers for all sessions of a key: list with statuses, search, and watch."""

import asyncio
from contextlib import suppress
from heapq import nlargest

from holdfast.core.limits.bounds import RESERVED_KEYS
from holdfast.gateway.api import schemas
from holdfast.gateway.api.request_context import RequestContext
from holdfast.gateway.http.asgi import header
from holdfast.gateway.http.events import EventStream
from holdfast.gateway.http.problems import InvalidError
from holdfast.gateway.session_watch import Change, SessionWatch
from holdfast.ports import SessionInfo
from holdfast.stores.fallbacks import candidates
from holdfast.stores.fallbacks import search as search_log

# Concurrent searches: as many as a store has readers.
_SEARCHED_AT_ONCE = 4
# Sessions per lookup of the query's words in the index, which takes about ten milliseconds.
_LOOKUP_SESSIONS = 1_000


async def list_sessions(context: RequestContext) -> schemas.Sessions:
    """Return a page of this key's sessions."""
    query = context.query(schemas.SessionsQuery)
    context.check_length("the text to match", query.match, context.state.bounds.query_chars_max)
    limit = min(query.limit, context.state.bounds.page_max)
    found, following = await context.tenant.sessions(
        context.state.client, after=query.after, limit=limit, match=query.match
    )
    return schemas.Sessions(await context.state.statuses.summaries(found), following)


async def search_all(context: RequestContext) -> schemas.HitsOfAll:
    """Search all sessions of this key until the timeout."""
    query, bounds = context.query(schemas.SearchQuery), context.state.bounds
    context.check_length("the query", query.query, bounds.query_chars_max)
    limit = min(query.limit, bounds.page_max)
    sessions = await context.tenant.every_session(context.state.client, count_max=bounds.sessions_watched_max)
    store = context.state.client.engine.store
    names = {known.key: key for key, known in sessions}
    hits, searched = list[schemas.SessionHit](), 0

    async def search(waiting: list[str]) -> None:
        nonlocal hits, searched
        while waiting:
            session = waiting.pop(0)
            found = await search_log(store, session, query.query, limit=limit)
            searched += 1
            hits += [schemas.SessionHit(names[session], one.seq, one.score, one.excerpt, one.call) for one in found]
            if len(hits) > 2 * limit:
                hits = _best(hits, limit)

    # Recently used sessions first: they are the likelier hits.
    newest_first = sorted((known for _, known in sessions), key=lambda known: known.updated_at, reverse=True)
    with suppress(TimeoutError):
        async with asyncio.timeout(bounds.search_seconds_max):
            for start in range(0, len(newest_first), _LOOKUP_SESSIONS):
                page = newest_first[start : start + _LOOKUP_SESSIONS]
                worth = await candidates(store, page, query.query)
                searched += len(page) - len(worth)
                async with asyncio.TaskGroup() as group:
                    for _ in range(_SEARCHED_AT_ONCE):
                        group.create_task(search(worth))
    return schemas.HitsOfAll(_best(hits, limit), searched, len(sessions), is_complete=searched == len(sessions))


def _best(hits: list[schemas.SessionHit], limit: int) -> list[schemas.SessionHit]:
    return nlargest(limit, hits, key=lambda hit: hit.score)


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
