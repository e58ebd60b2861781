"""Handlers across all sessions of a key: search, and the gateway at a glance."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from heapq import nlargest
from math import log1p
from typing import Annotated, Literal

import msgspec

from holdfast.core.limits.bounds import RESERVED_KEYS
from holdfast.core.search.rank import query_words, said_text
from holdfast.gateway.api.request_context import RequestContext
from holdfast.gateway.api.schemas import RequestSchema
from holdfast.gateway.health import StorageUse
from holdfast.ports import Hit, Log, SessionInfo
from holdfast.runtime.sessions.record_text import FAULTS
from holdfast.runtime.tools.recall import search_shown
from holdfast.stores.fallbacks import candidates
from holdfast.types.records import AnyRecord, InputAdmitted, MessageAppended, ReplyRecorded, ToolSettled

_DAY_SECONDS = 86_400.0


# --- Search ---

# Concurrent searches: as many as a store has readers.
_SEARCHED_AT_ONCE = 4
# Sessions per lookup of a word in the index, which takes about 15 milliseconds.
_LOOKUP_SESSIONS = 1_000
# Words of a query that are looked up.
_LOOKUP_WORDS_MAX = 6
# Sessions whose matches are ranked: a search takes each a millisecond or two. Those with the rarest words of the query,
# then those last used.
_RANKED_MAX = 150
# Matches of a session that a filter or a phrase is applied to.
_FILTERED_MAX = 50

Author = Literal["user", "model", "tool"]


class SearchAllQuery(RequestSchema, frozen=True):
    """Search for words, a path, a name or an id; with `exact` for the text as it is, regardless of case.

    `since` and `until` are times of the records, in seconds since 1970; `match` is a part of the session's key.
    """

    query: str
    limit: Annotated[int, msgspec.Meta(ge=1, le=100_000, description="Maximum number; fewer may come.")] = 10
    exact: bool = False
    since: float = 0.0
    until: float = 0.0
    match: str = ""
    author: Author | Literal[""] = ""

    @property
    def is_filtered(self) -> bool:
        """Whether matches are left out."""
        return self.exact or bool(self.since or self.until or self.author)


class SessionHit(msgspec.Struct, frozen=True):
    """A hit in a record of a session; see `Hit`. `at` is the time of the record, `author` who said it."""

    session: str
    seq: int
    score: float
    excerpt: str
    call: int
    at: float = 0.0
    author: Author | Literal[""] = ""


class HitsOfAll(msgspec.Struct, frozen=True):
    """Hits in all sessions, best first.

    Every session is looked up in the index; the hits are of those with the rarest words of the query, then of those
    last used. `is_complete` is false if the search timed out: repeat it, and it gets further.
    """

    hits: list[SessionHit]
    searched: int
    sessions: int
    is_complete: bool


async def search_all(context: RequestContext) -> HitsOfAll:
    """Search all sessions of this key until the timeout."""
    query, bounds = context.query(SearchAllQuery), context.state.bounds
    for what, text in (("the query", query.query), ("the text to match", query.match)):
        context.check_length(what, text, bounds.query_chars_max)
    limit = min(query.limit, bounds.page_max)
    sessions = await context.tenant.every_session(context.state.client, count_max=bounds.sessions_watched_max)
    store, names = context.state.client.engine.store, {known.key: key for key, known in sessions}
    # Recently used sessions first: they are the likelier hits.
    asked = sorted((one for key, one in sessions if _is_asked(query, key, one)), key=lambda one: -one.updated_at)
    # `looked_up` sessions need no search: the index has no match of theirs, or others are better.
    hits, looked_up, searched = list[SessionHit](), 0, 0

    async def search(waiting: list[str]) -> None:
        nonlocal hits, searched
        while waiting:
            session = waiting.pop(0)
            hits += [_named(hit, names[session]) for hit in await _search(store, session, query, limit)]
            searched += 1
            if len(hits) > 2 * limit:
                hits = _best(hits, limit)

    with suppress(TimeoutError):
        async with asyncio.timeout(bounds.search_seconds_max):
            left = await _worth(store, asked, query.query)
            looked_up = len(sessions) - len(left)
            async with asyncio.TaskGroup() as group:
                for _ in range(_SEARCHED_AT_ONCE):
                    group.create_task(search(left))
    searched += looked_up
    return HitsOfAll(_best(hits, limit), searched, len(sessions), is_complete=searched == len(sessions))


def _is_asked(query: SearchAllQuery, key: str, known: SessionInfo) -> bool:
    is_in_time = known.updated_at >= query.since and (not query.until or known.created_at <= query.until)
    return is_in_time and query.match.casefold() in key.casefold()


async def _worth(store: Log, asked: Sequence[SessionInfo], query: str) -> list[str]:
    """Return the sessions whose matches are ranked: those with the rarest words of the query, then those last used.

    The sessions last used show which words are rare. Those are looked up first, until they lead to enough sessions.
    Sessions that are not indexed yet come last, all of them: a search indexes them.
    """
    stale = set(await _having(store, asked, ""))
    indexed = [one for one in asked if one.key not in stale]
    weights: Counter[str] = Counter()
    for word in await _rarest_first(store, indexed[:_LOOKUP_SESSIONS], query):
        found = await _having(store, indexed, word)
        weights.update(dict.fromkeys(found, log1p(len(indexed) / (len(found) or 1))))
        if len(weights) >= _RANKED_MAX:
            break
    ranked = sorted((one.key for one in indexed if one.key in weights), key=lambda key: -weights[key])
    return [*ranked[:_RANKED_MAX], *(one.key for one in asked if one.key in stale)]


async def _rarest_first(store: Log, newest: Sequence[SessionInfo], query: str) -> list[str]:
    """Return the words to look up, those that few of the newest sessions have first. Parts replace a compound."""
    words = [word for word in query_words(query) if len(query_words(word)) == 1][:_LOOKUP_WORDS_MAX]
    counts = {word: len(await _having(store, newest, word)) for word in words if len(words) > 1}
    return sorted(words, key=lambda word: counts.get(word, 0))


async def _having(store: Log, sessions: Sequence[SessionInfo], word: str) -> list[str]:
    """Return the sessions with a word, and those that are not indexed yet; without a word, only those."""
    parts = [sessions[start : start + _LOOKUP_SESSIONS] for start in range(0, len(sessions), _LOOKUP_SESSIONS)]
    return [key for found in await asyncio.gather(*(candidates(store, part, word) for part in parts)) for key in found]


async def _search(store: Log, session: str, query: SearchAllQuery, limit: int) -> list[SessionHit]:
    """Return the hits of a session that the filters let pass."""
    found = await search_shown(store, session, query.query, limit=_FILTERED_MAX if query.is_filtered else limit)
    return [hit for one in found if (hit := await _detailed(store, session, one, query)) is not None]


async def _detailed(store: Log, session: str, hit: Hit, query: SearchAllQuery) -> SessionHit | None:
    """Return a hit with its time and author; None if a filter leaves it out."""
    page = await store.read(session, after=hit.seq - 1, limit=1)
    if not page:
        return None
    logged = page[0]
    author, text = _said(logged.record)
    is_out = logged.at < query.since or (query.until and logged.at > query.until)
    if is_out or query.author not in {"", author}:
        return None
    if query.exact and query.query.strip().casefold() not in f"{text}\n{hit.excerpt}".casefold():
        return None
    return SessionHit(session, hit.seq, hit.score, hit.excerpt, hit.call, logged.at, author)


def _said(record: AnyRecord) -> tuple[Author | Literal[""], str]:
    """Return who said a record, and its text."""
    match record:
        case InputAdmitted(parts=parts):
            return "user", said_text(parts)
        case ReplyRecorded(reply=reply):
            return "model", said_text(reply.parts)
        case ToolSettled(result=result):
            return "tool", said_text(result.parts)
        case MessageAppended(role=role, parts=parts):
            authors: dict[str, Author] = {"user": "user", "assistant": "model", "tool": "tool"}
            return authors.get(role.value, ""), said_text(parts)
        case _:
            return "", ""


def _named(hit: SessionHit, key: str) -> SessionHit:
    return msgspec.structs.replace(hit, session=key)


def _best(hits: list[SessionHit], limit: int) -> list[SessionHit]:
    return nlargest(limit, hits, key=lambda hit: hit.score)


# --- At a glance ---


class FaultCount(msgspec.Struct, frozen=True):
    """Number of faults of a kind, of a model; "" if a count is over all models."""

    model: str
    kind: str
    words: str
    count: int


class Overview(msgspec.Struct, frozen=True):
    """The gateway at a glance. A key sees its own figures, the operator those of all keys.

    Turns, faults and rescues are counted since `since`, when this process started.
    """

    sessions: int
    # Used within a day; with pending work; working in this process.
    used_today: int
    pending: int
    working: int
    since: float
    answered: int
    failed: int
    cancelled: int
    # Most frequent first. A rescue is an answered turn that had a fault, counted by its first one.
    faults: list[FaultCount]
    rescues: list[FaultCount]
    # Bytes on disk; null for others than the operator, and for stores that are not files.
    storage: list[StorageUse] | None


async def show_overview(context: RequestContext) -> Overview:
    """Return the gateway at a glance."""
    state, tenant = context.state, context.tenant
    is_operator = state.is_operator(tenant)
    engine = state.client.engine
    found = await tenant.every_session(state.client, count_max=state.bounds.sessions_watched_max)
    day_ago = engine.clock.now() - _DAY_SECONDS
    working = [one for one in state.client.working() if not one.startswith(RESERVED_KEYS)]
    tally = state.faults.tallies.of(None if is_operator else {tenant.name})
    turns = {outcome.value: number for outcome, number in tally.turns.items()}
    return Overview(
        sessions=len(found),
        used_today=sum(known.updated_at >= day_ago for _, known in found),
        pending=sum(known.owed > 0 for _, known in found),
        working=sum(tenant.key_of(one) is not None for one in working),
        since=state.faults.tallies.since,
        answered=turns.get("answered", 0),
        failed=turns.get("failed", 0),
        cancelled=turns.get("cancelled", 0),
        faults=[
            FaultCount(model, kind.value, FAULTS[kind], number) for (model, kind), number in tally.faults.most_common()
        ],
        rescues=[FaultCount("", kind.value, FAULTS[kind], number) for kind, number in tally.rescues.most_common()],
        storage=await _storage(context) if is_operator else None,
    )


async def _storage(context: RequestContext) -> list[StorageUse] | None:
    inspection = context.state.inspection
    return None if inspection is None or inspection.storage is None else await inspection.storage()
