"""What goes over the wire about a session over time, its past, and health: more shapes of the native API.

See `shapes`: the same rules hold here.
"""

from typing import Annotated, Literal

import msgspec

from holdfast.gateway.api.schemas import Gauge, RequestSchema
from holdfast.gateway.health import Checked, Node, RecentFault
from holdfast.types.limits import Learned
from holdfast.types.messages import Usage
from holdfast.types.records import SummaryKind

_Limit = Annotated[int, msgspec.Meta(ge=1, le=100_000, description="How many at most; the gateway may give fewer.")]
_Seq = Annotated[int, msgspec.Meta(ge=0, le=2**53, description="A record's number in its session, from 1.")]


# --- what is asked for -------------------------------------------------------------------------------------------


class BudgetsQuery(RequestSchema, frozen=True):
    """Which part of a session to chart: requests and marks behind the seq `after`.

    `total_usd` is that of the page before, so that totals run on from there.
    """

    after: _Seq = 0
    limit: _Limit = 500
    total_usd: Annotated[float, msgspec.Meta(ge=0, description="What was paid up to `after`.")] = 0.0


class RecallQuery(RequestSchema, frozen=True):
    """What to read: a record by its seq, or a blob by 12 characters or more of its id; from the byte `offset` on."""

    seq: _Seq = 0
    blob: str = ""
    offset: Annotated[int, msgspec.Meta(ge=0, le=2**53, description="How many bytes to pass over.")] = 0


# --- budgets over time -------------------------------------------------------------------------------------------


class RequestMade(msgspec.Struct, frozen=True):
    """One request to a model: what it took of each budget and what there was, and what the model reports of it."""

    seq: int
    at: float
    turn: int
    model: str
    gauge: Gauge
    outcome: Literal["answered", "failed", "given_up", "open"]
    # As the model reported it; null where it reported nothing.
    usage: Usage | None
    # What it cost in US dollars, by declared prices; null where it was not answered, or no price is known.
    cost_usd: float | None = None
    # What everything up to here cost, summaries too. Calls without a price are in no sum.
    total_usd: float = 0.0


class Mark(msgspec.Struct, frozen=True):
    """Something to mark in a chart: what kind of thing happened, and in plain words."""

    seq: int
    at: float
    kind: Literal["warning", "compaction", "fault", "rung", "roll_over", "undo", "change", "notice", "damage"]
    words: str


class BudgetsOverTime(msgspec.Struct, frozen=True):
    """Requests and marks in order; `next` is the `after` of the next page, null at the end."""

    requests: list[RequestMade]
    marks: list[Mark]
    next: int | None
    # What everything up to the end of this page cost: the `total_usd` to ask for the next page with.
    total_usd: float = 0.0


# --- the past ----------------------------------------------------------------------------------------------------


class Left(msgspec.Struct, frozen=True):
    """Records that the model no longer sees as they are, from `first` to `last`, why, and by which record.

    `compacted` and `rolled_over`: what stands for them is the compaction in force. `masked`, `replaced`: a line or
    something smaller is shown in their place. `thinking`: of their messages, the thinking is not sent back.
    """

    first: int
    last: int
    reason: Literal["compacted", "rolled_over", "masked", "replaced", "thinking"]
    # 0: not known without reading more of the log.
    by: int
    words: str
    # What is shown in its place, where that is its own.
    shown: str = ""


class CompactionMade(msgspec.Struct, frozen=True):
    """A compaction that led to the view of now. It took the records `first` to `last` out of it; 0: none of its own."""

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
    """What stands for the past now: its record, the originals it stands for, its text, and the exact facts in that."""

    seq: int
    kind: SummaryKind
    model: str
    first: int
    last: int
    text: str
    ledger: list[str]


class Past(msgspec.Struct, frozen=True):
    """What left the view, why, and what stands in its place. Messages that are pinned stayed all the same."""

    boundary: int
    generation: int
    in_force: InForce | None
    # Newest first; `is_whole` is false where there are more than are told.
    compactions: list[CompactionMade]
    left: list[Left]
    pinned: list[int]
    is_whole: bool


# --- health ------------------------------------------------------------------------------------------------------


class Health(msgspec.Struct, frozen=True):
    """How the gateway is. With keys, everybody but the operator is told about its own sessions, and null for the rest.

    To the operator sessions are named as in the store. `owing` are sessions without an outcome, `working` those that
    this process works on, `learned` what calls have taught about each model, by dialect, endpoint and name.
    """

    is_operator: bool
    models: list[str]
    streams: int
    requests: int
    owing_count: int
    # Some of them; sessions that follow a client of the drop-in endpoints wait for it.
    owing: list[str]
    working: list[str]
    # The newest that this process has seen, newest first.
    faults: list[RecentFault]
    learned: dict[str, Learned] | None
    # Who holds leases; null also where the store is in memory.
    nodes: list[Node] | None
    # What the doctor found when it was last asked to look, in this process.
    check: Checked | None
    is_checking: bool


class CheckState(msgspec.Struct, frozen=True):
    """What the doctor found; `found` is null while it still looks: it will be in the health."""

    found: Checked | None
    is_running: bool
