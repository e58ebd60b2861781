"""Handler for the list of sessions as a person reads it: last used first, with first words and cost.

`GET /sessions` pages by key, for programs that need every session once. This list is for a screen: a page of it needs
no page before it, and the total is known at once.
"""

from collections.abc import Sequence
from typing import Annotated

import msgspec

from holdfast.gateway.api.request_context import RequestContext
from holdfast.gateway.api.schemas import RequestSchema, SessionSummary
from holdfast.gateway.http.problems import InvalidError
from holdfast.gateway.status_cache import StatusCache, summary
from holdfast.ports import SessionInfo


class RecentQuery(RequestSchema, frozen=True):
    """Page of sessions, last used first, after the cursor `after` (the `next` of the page before)."""

    after: str = ""
    limit: Annotated[int, msgspec.Meta(ge=1, le=100_000, description="Maximum number; fewer may come.")] = 100


class RecentSession(msgspec.Struct, frozen=True):
    """A session with the first words of its first message and the model of its last request, "" if unknown."""

    session: SessionSummary
    opening: str
    asked_model: str
    # Cost of its calls in US dollars, by declared prices; null if a list cannot know it.
    cost_usd: float | None


class RecentSessions(msgspec.Struct, frozen=True):
    """A page of sessions, and the number of all; `next` is the `after` of the next page, null at the end."""

    sessions: list[RecentSession]
    total: int
    next: str | None


async def list_recent(context: RequestContext) -> RecentSessions:
    """Return a page of this key's sessions, last used first."""
    query, bounds = context.query(RecentQuery), context.state.bounds
    context.check_length("the cursor", query.after, bounds.query_chars_max)
    limit = min(query.limit, bounds.page_max)
    found = await context.tenant.every_session(context.state.client, count_max=bounds.sessions_watched_max)
    found.sort(key=_position, reverse=True)
    start = _after(found, query.after) if query.after else 0
    page = found[start : start + limit]
    rows = [await _row(context.state.statuses, key, known) for key, known in page]
    following = _cursor(page[-1]) if page and start + limit < len(found) else None
    return RecentSessions(rows, len(found), following)


async def _row(statuses: StatusCache, key: str, known: SessionInfo) -> RecentSession:
    status = await statuses.of(known)
    opening = await statuses.opening(known, status)
    return RecentSession(summary(key, known, status), opening, status.asked_model, status.cost_usd)


def _position(named: tuple[str, SessionInfo]) -> tuple[float, str]:
    return named[1].updated_at, named[0]


def _cursor(named: tuple[str, SessionInfo]) -> str:
    # The shortest text that reads back as the same number.
    return f"{named[1].updated_at!r}|{named[0]}"


def _after(found: Sequence[tuple[str, SessionInfo]], cursor: str) -> int:
    """Return the place of the first session after a cursor. One that was used since is on an earlier page."""
    text, mark, key = cursor.partition("|")
    try:
        position = (float(text), key)
    except ValueError:
        mark = ""
    if not mark:
        raise InvalidError("the cursor is invalid; use the `next` of the page before")
    return next((place for place, one in enumerate(found) if _position(one) < position), len(found))
