"""Schemas of the native API for reports: budgets over time, the past of a session, and health.

The rules of `schemas` apply.
"""

from typing import Annotated, Literal

import msgspec

from holdfast.core.limits.claims import ClaimInWords
from holdfast.core.limits.prices import Prices
from holdfast.core.limits.savings import OwnTotals
from holdfast.gateway.api.schemas import Gauge, RequestSchema
from holdfast.gateway.health import Checked, Node, RecentFault
from holdfast.types.accounts import KeyLimits, UsageTotals
from holdfast.types.limits import Learned
from holdfast.types.messages import Usage
from holdfast.types.records import SummaryKind

_Limit = Annotated[int, msgspec.Meta(ge=1, le=100_000, description="Maximum number; the gateway may return fewer.")]
_Seq = Annotated[int, msgspec.Meta(ge=0, le=2**53, description="A record's number in its session, from 1.")]


# --- Requests ---


class BudgetsQuery(RequestSchema, frozen=True):
    """Page of a session's chart: requests and marks after the seq `after`.

    `total_usd` is the total of the previous page, so that running totals continue.
    """

    after: _Seq = 0
    limit: _Limit = 500
    total_usd: Annotated[float, msgspec.Meta(ge=0, description="Total cost up to `after`.")] = 0.0


class RecallQuery(RequestSchema, frozen=True):
    """Record or blob to read from the byte `offset` on: a seq, or at least 12 characters of a blob's id."""

    seq: _Seq = 0
    blob: str = ""
    offset: Annotated[int, msgspec.Meta(ge=0, le=2**53, description="Bytes to skip.")] = 0


# --- Budgets over time ---


class RequestMade(msgspec.Struct, frozen=True):
    """One request to a model: its size against each budget, its outcome, and the usage that the model reported."""

    seq: int
    at: float
    turn: int
    model: str
    gauge: Gauge
    outcome: Literal["answered", "failed", "given_up", "open"]
    # As reported by the model; null if it reported nothing.
    usage: Usage | None
    # Cost in US dollars, by declared prices; null if it was not answered or no price is known.
    cost_usd: float | None = None
    # Total cost up to here, including summaries. Calls without a price are excluded.
    total_usd: float = 0.0


class Mark(msgspec.Struct, frozen=True):
    """An event to mark in a chart: its kind and a description."""

    seq: int
    at: float
    kind: Literal["warning", "compaction", "fault", "rung", "roll_over", "undo", "change", "notice", "damage"]
    words: str


class BudgetsOverTime(msgspec.Struct, frozen=True):
    """Requests and marks in order; `next` is the `after` of the next page, null at the end."""

    requests: list[RequestMade]
    marks: list[Mark]
    next: int | None
    # Total cost up to the end of this page: the `total_usd` of the request for the next page.
    total_usd: float = 0.0


# --- Past ---


class Left(msgspec.Struct, frozen=True):
    """Records `first` to `last` that the model no longer sees unchanged, the reason, and the record that did it.

    `compacted`, `rolled_over`: the current compaction replaces them. `masked`, `replaced`: a line or a smaller part
    replaces them. `thinking`: their reasoning is not sent back. `heartbeat`: a compaction dropped them.
    """

    first: int
    last: int
    reason: Literal["compacted", "rolled_over", "masked", "replaced", "thinking", "excluded", "heartbeat"]
    # 0: unknown without reading more of the log.
    by: int
    words: str
    # The replacement, if it has one of its own.
    shown: str = ""


class CompactionMade(msgspec.Struct, frozen=True):
    """A compaction that led to the current view. It removed the records `first` to `last`; 0: none."""

    seq: int
    at: float
    kind: SummaryKind
    model: str
    first: int
    last: int
    tokens_before: int
    tokens_after: int
    generation: int | None


class InForce(msgspec.Struct, frozen=True):
    """The current compaction: its record, the records it replaces, its text, and the exact facts in that text."""

    seq: int
    kind: SummaryKind
    model: str
    first: int
    last: int
    text: str
    ledger: list[str]


class ViewQuery(RequestSchema, frozen=True):
    """Part of a long view: made of at most `limit` records, the last or those before the seq `before`."""

    before: Annotated[int, msgspec.Meta(ge=0, le=2**53, description="A record's number; 0: the end.")] = 0
    # Reading and encoding so many takes about ten milliseconds.
    limit: Annotated[int, msgspec.Meta(ge=1, le=100_000, description="Maximum number of records.")] = 500


class Past(msgspec.Struct, frozen=True):
    """Records that left the view, the reasons, and the replacement. Pinned messages stay in the view."""

    boundary: int
    generation: int
    in_force: InForce | None
    # Newest first; `is_whole` is false if the lists are truncated.
    compactions: list[CompactionMade]
    left: list[Left]
    pinned: list[int]
    is_whole: bool


# --- Health ---


class Health(msgspec.Struct, frozen=True):
    """Health of the gateway. With keys, the operator sees all sessions; other keys see theirs, and null for the rest.

    The operator sees store keys. `owing` are sessions with pending work, `working` those that this process runs,
    `learned` the limits learned from calls to each model, by dialect, endpoint and name.
    """

    is_operator: bool
    models: list[str]
    streams: int
    requests: int
    owing_count: int
    # Truncated; sessions of the proxy endpoints wait for their client.
    owing: list[str]
    # Age of the oldest message without an outcome, in seconds; null: there is none.
    oldest_unanswered_seconds: float | None
    working: list[str]
    # Recorded by this process, newest first.
    faults: list[RecentFault]
    learned: dict[str, Learned] | None
    # Lease holders; null also for a store in memory.
    nodes: list[Node] | None
    # Result of the last doctor check in this process.
    check: Checked | None
    is_checking: bool


class UsageQuery(RequestSchema, frozen=True):
    """Usage of the newest periods. The operator may name a key, or get those of all keys."""

    # Days, and months of older usage.
    periods: Annotated[int, msgspec.Meta(ge=1, le=100)] = 31
    # Name of a key; empty: all that the caller may see.
    key: Annotated[str, msgspec.Meta(max_length=64)] = ""


class KeyUsage(msgspec.Struct, frozen=True):
    """Usage of a model by a key in one period: a day of UTC, or a month if it is long ago."""

    key: str
    period: str
    model: str
    totals: UsageTotals
    # Totals of the requests as clients sent them, without the changes of the proxy.
    without_changes: OwnTotals


class UsageReport(msgspec.Struct, frozen=True):
    """Usage by key, period and model, the newest period first; and the limits of the caller's own key."""

    rows: list[KeyUsage]
    limits: KeyLimits


class LearnedModel(msgspec.Struct, frozen=True):
    """What calls have taught about a model: its claims, and the largest accepted request."""

    # Dialect, endpoint and name.
    model: str
    claims: list[ClaimInWords]
    accepted_tokens: int
    accepted_wire_bytes: int


class ModelPrices(msgspec.Struct, frozen=True):
    """List prices of a model in US dollars per million tokens, and the page or file that states them."""

    model: str
    prices: Prices
    stated_in: str


class LearnedModels(msgspec.Struct, frozen=True):
    """The models about which something was learned, by name; and the list prices by which calls are counted."""

    models: list[LearnedModel]
    prices: list[ModelPrices] = []


class Forgotten(msgspec.Struct, frozen=True):
    """The model whose claims were dropped."""

    model: str


class CheckState(msgspec.Struct, frozen=True):
    """Result of a doctor check; `found` is null while it runs, and then part of the health."""

    found: Checked | None
    is_running: bool
