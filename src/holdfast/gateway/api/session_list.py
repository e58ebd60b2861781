"""The native API, over all sessions of a key: a list that says what each is doing, a search, and a watch."""

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

# Sessions that are searched side by side: as many as a store reads side by side.
_SEARCHED_AT_ONCE = 4
# Sessions whose words are looked up in one go, which takes some ten milliseconds.
_LOOKED_AT_AT_ONCE = 1_000


async def list_sessions(call: RequestContext) -> schemas.Sessions:
    """Answer with a page of this key's sessions."""
    wanted = call.query(schemas.PageOfSessions)
    call.check_length("the text to match", wanted.match, call.gateway.bounds.query_chars_max)
    limit = min(wanted.limit, call.gateway.bounds.page_max)
    found, following = await call.tenant.sessions(
        call.gateway.hold, after=wanted.after, limit=limit, match=wanted.match
    )
    return schemas.Sessions(await call.gateway.standings.summaries(found), following)


async def search_all(call: RequestContext) -> schemas.HitsOfAll:
    """Answer with what was said or done in any session, as far as there is time to look."""
    wanted, bounds = call.query(schemas.Search), call.gateway.bounds
    call.check_length("the query", wanted.query, bounds.query_chars_max)
    limit = min(wanted.limit, bounds.page_max)
    sessions = await call.tenant.every_session(call.gateway.hold, count_max=bounds.sessions_watched_max)
    store = call.gateway.hold.engine.store
    names = {known.key: key for key, known in sessions}
    hits, searched = list[schemas.SessionHit](), 0

    async def search(waiting: list[str]) -> None:
        nonlocal hits, searched
        while waiting:
            session = waiting.pop(0)
            found = await search_log(store, session, wanted.query, limit=limit)
            searched += 1
            hits += [schemas.SessionHit(names[session], one.seq, one.score, one.excerpt, one.call) for one in found]
            if len(hits) > 2 * limit:
                hits = _best(hits, limit)

    # What somebody looks for is more often in what was said lately.
    newest_first = sorted((known for _, known in sessions), key=lambda known: known.updated_at, reverse=True)
    with suppress(TimeoutError):
        async with asyncio.timeout(bounds.search_seconds_max):
            for start in range(0, len(newest_first), _LOOKED_AT_AT_ONCE):
                page = newest_first[start : start + _LOOKED_AT_AT_ONCE]
                worth = await candidates(store, page, wanted.query)
                searched += len(page) - len(worth)
                async with asyncio.TaskGroup() as group:
                    for _ in range(_SEARCHED_AT_ONCE):
                        group.create_task(search(worth))
    return schemas.HitsOfAll(_best(hits, limit), searched, len(sessions), is_complete=searched == len(sessions))


def _best(hits: list[schemas.SessionHit], limit: int) -> list[schemas.SessionHit]:
    return nlargest(limit, hits, key=lambda hit: hit.score)


async def watch_all(call: RequestContext) -> None:
    """Tell how sessions stand whenever they change, without end."""
    wanted = call.query(schemas.WatchAllFrom)
    told = header(call.scope, b"last-event-id")
    if told and wanted.cursor and told != wanted.cursor:
        raise InvalidError("cursor and the header Last-Event-ID differ; give one of them")
    pulse = call.gateway.pulses.of(call.tenant, call.gateway.bounds)
    await pulse.look(call.gateway.hold, at_once=True)
    position, why = pulse.position(wanted.cursor or told)
    await call.stream(lambda stream: _watch(call, stream, pulse, position, why))


async def _watch(call: RequestContext, stream: EventStream, pulse: SessionWatch, position: int, why: str) -> None:
    cursor = pulse.cursor(position)
    if why:
        await _resync(stream, pulse, position, why)
    else:
        await stream.event("watching", schemas.Watching(cursor, position), cursor=cursor)
    async for change in pulse.since(position, call.gateway.hold):
        if change is None:
            await _resync(stream, pulse, pulse.number, "too many sessions changed since the last event")
        else:
            await _tell(call, stream, pulse, change)


async def _resync(stream: EventStream, pulse: SessionWatch, position: int, why: str) -> None:
    cursor = pulse.cursor(position)
    told = schemas.Resync(f"{why}; read the list of sessions again, then it goes on", cursor, position)
    await stream.event("resync", told, cursor=cursor)


async def _tell(call: RequestContext, stream: EventStream, pulse: SessionWatch, change: Change) -> None:
    key, cursor = call.tenant.key_of(change.session), pulse.cursor(change.number)
    if key is None or change.session.startswith(RESERVED_KEYS):
        return
    store = call.gateway.hold.engine.store
    known = await store.info(change.session)
    newest = await store.read(change.session, after=known.last_seq - 1, limit=1) if known is not None else []
    if known is None or not newest:
        await stream.event("deleted", schemas.SessionDeleted(key), cursor=cursor)
        return
    kind = type(newest[0].record).__name__
    await stream.event("session", await _changed(call, key, known, kind), cursor=cursor)


async def _changed(call: RequestContext, key: str, known: SessionInfo, kind: str) -> schemas.SessionChanged:
    standing = await call.gateway.standings.of(known)
    return schemas.SessionChanged(
        session=key,
        seq=known.last_seq,
        kind=kind,
        state=standing.state,
        says=standing.says,
        gauge=standing.gauge,
        generation=standing.generation,
        unanswered=known.owed,
        open_turns=standing.open_turns,
        updated_at=known.updated_at,
    )
