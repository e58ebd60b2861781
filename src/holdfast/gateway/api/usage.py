"""Handlers for usage: a session's budgets over time with marks for events, and totals by key, day and model."""

from collections.abc import Iterable
from typing import Literal

from msgspec.structs import replace

from holdfast.core.limits.savings import own_totals
from holdfast.gateway.accounts import usage_by_period
from holdfast.gateway.api.report_schemas import (
    BudgetsOverTime,
    BudgetsQuery,
    KeyUsage,
    Mark,
    RequestMade,
    UsageQuery,
    UsageReport,
)
from holdfast.gateway.api.request_context import RequestContext
from holdfast.gateway.status_cache import gauge_of
from holdfast.runtime.sessions.record_text import describe_record
from holdfast.types.limits import Budgets
from holdfast.types.messages import Usage
from holdfast.types.records import (
    AnyRecord,
    AttemptAbandoned,
    AttemptFailed,
    AttemptStarted,
    CompactionApplied,
    CompactionUndone,
    DamageSetAside,
    GenerationStarted,
    Logged,
    MessageExcluded,
    NoticePosted,
    OutputMasked,
    PartReplaced,
    PieceSummarised,
    ReasoningDropped,
    ReplyRecorded,
    RungStarted,
    SummaryRefused,
    WindowWarned,
)

# Records read for one page: a tenth of a second of work, and a few MiB with the largest usual records.
_RECORDS_MAX = 5_000
# As in the session's own totals.
_DECIMALS = 9
# Limit of a mark's text: a provider's error may be long.
_WORDS_CHARS_MAX = 500

_MarkKind = Literal["warning", "compaction", "fault", "rung", "roll_over", "undo", "change", "notice", "damage"]
_Outcome = Literal["answered", "failed", "given_up", "open"]


async def show_usage(context: RequestContext) -> UsageReport:
    """Return usage by key, period and model."""
    query, accounts, tenant = context.query(UsageQuery), context.state.accounts, context.tenant
    if query.key not in {"", tenant.name}:
        context.state.check_operator(tenant, "figures of another key")
        names = [query.key]
    elif query.key or not context.state.is_operator(tenant):
        names = [tenant.name]
    else:
        names = await accounts.names()
    rows = [
        KeyUsage(name, period, model, totals, own_totals(totals, totals.saved))
        for name in names
        for period, model, totals in usage_by_period(await accounts.account(name), periods_max=query.periods)
    ]
    return UsageReport(sorted(rows, key=lambda row: row.period, reverse=True), tenant.key.limits)


async def show_budgets(context: RequestContext) -> BudgetsOverTime:
    """Return requests and marks after a record."""
    query = context.query(BudgetsQuery)
    session, known = await context.session()
    limit = min(query.limit, context.state.bounds.page_max)
    records = await session.history(after=query.after, limit=_RECORDS_MAX)
    page = _page(records, limit)
    if page.next is None and records and records[-1].seq < known.last_seq:
        page = replace(page, next=records[-1].seq)
    return _with_costs(_without_open_request(page, records), records, query.total_usd)


def _page(records: Iterable[Logged], limit: int) -> BudgetsOverTime:
    requests: list[RequestMade] = []
    marks: list[Mark] = []
    # Index of each request by its turn and attempt.
    places: dict[tuple[int, int], int] = {}
    following: int | None = None
    for logged in records:
        record = logged.record
        ended = _outcome(record)
        if ended is not None and (place := places.get(ended[0])) is not None:
            requests[place] = replace(requests[place], outcome=ended[1], usage=ended[2])
        kind = mark_kind(record)
        if following is not None or (kind is None and not isinstance(record, AttemptStarted)):
            continue
        if len(requests) + len(marks) == limit:
            # The page is full; keep reading for the outcomes of its requests.
            following = logged.seq - 1
            continue
        if isinstance(record, AttemptStarted):
            places[record.turn, record.attempt] = len(requests)
            requests.append(_request(logged, record))
        if kind is not None:
            marks.append(Mark(logged.seq, logged.at, kind, describe_record(record)[:_WORDS_CHARS_MAX]))
    return BudgetsOverTime(requests, marks, following)


def _outcome(record: AnyRecord) -> tuple[tuple[int, int], _Outcome, Usage | None] | None:
    """Return the attempt that a record ends, its outcome and its reported usage; None for other records."""
    match record:
        case ReplyRecorded(turn=turn, attempt=attempt, reply=reply):
            return (turn, attempt), "answered", reply.usage
        case AttemptFailed(turn=turn, attempt=attempt):
            return (turn, attempt), "failed", None
        case AttemptAbandoned(turn=turn, attempt=attempt):
            return (turn, attempt), "given_up", None
        case _:
            return None


def _without_open_request(page: BudgetsOverTime, records: list[Logged]) -> BudgetsOverTime:
    """Move a last request that is still open to the next page, unless it is the first record of this one."""
    if page.next is None or not page.requests or page.requests[-1].outcome != "open":
        return page
    last = page.requests[-1].seq
    if last == records[0].seq:
        return page
    return BudgetsOverTime(page.requests[:-1], [mark for mark in page.marks if mark.seq < last], last - 1)


def _with_costs(page: BudgetsOverTime, records: Iterable[Logged], before_usd: float) -> BudgetsOverTime:
    """Add to each request its cost and the running total. `before_usd` is the total before these records."""
    places = {request.seq: place for place, request in enumerate(page.requests)}
    requests, open_at = list(page.requests), dict[tuple[int, int], int]()
    total = page_total = before_usd
    for logged in records:
        record = logged.record
        usd = cost_of(record)
        total = round(total + (usd or 0.0), _DECIMALS)
        if page.next is None or logged.seq <= page.next:
            page_total = total
        if isinstance(record, AttemptStarted) and (place := places.get(logged.seq)) is not None:
            open_at[record.turn, record.attempt] = place
            requests[place] = replace(requests[place], total_usd=total)
        ended = _outcome(record)
        if ended is not None and (place := open_at.get(ended[0])) is not None:
            requests[place] = replace(requests[place], cost_usd=usd, total_usd=total)
    return BudgetsOverTime(requests, page.marks, page.next, page_total)


def cost_of(record: AnyRecord) -> float | None:
    """Return the cost in a record; None if it has none."""
    match record:
        case ReplyRecorded() | AttemptFailed() | PieceSummarised() | SummaryRefused():
            return record.cost_usd
        case _:
            return None


def _request(logged: Logged, record: AttemptStarted) -> RequestMade:
    gauge = gauge_of(record.budgets or Budgets(record.tokens_estimated))
    assert gauge is not None, "a request has a size"
    return RequestMade(logged.seq, logged.at, record.turn, record.model, gauge, "open", None)


def mark_kind(record: AnyRecord) -> _MarkKind | None:
    """Return the kind of chart mark of a record; None if it is not marked."""
    match record:
        case WindowWarned():
            return "warning"
        case GenerationStarted():
            return "roll_over"
        case CompactionApplied():
            return "compaction"
        case CompactionUndone():
            return "undo"
        case AttemptFailed() | SummaryRefused():
            return "fault"
        case RungStarted():
            return "rung"
        case PartReplaced() | MessageExcluded() | OutputMasked() | ReasoningDropped():
            return "change"
        case NoticePosted():
            return "notice"
        case DamageSetAside():
            return "damage"
        case _:
            return None
