"""Schemas of the native API: one struct per request body, query, response and event; OpenAPI is generated from them.

An unknown field in a request is an error, because a misspelt one would otherwise be ignored silently.
"""

from typing import Annotated, Any, Literal

import msgspec

from holdfast.core.limits.fit import Sizes
from holdfast.core.limits.prices import Spent
from holdfast.core.limits.savings import OwnTotals
from holdfast.ports import Hit
from holdfast.runtime.sessions.view import Preview
from holdfast.runtime.tools.tool_runs import Approval
from holdfast.types.limits import Limits
from holdfast.types.messages import Message, Part, Usage
from holdfast.types.records import CompactionOutcome, Logged, Outcome
from holdfast.types.settings import Settings

_Limit = Annotated[int, msgspec.Meta(ge=1, le=100_000, description="Maximum number; the gateway may return fewer.")]
_Seq = Annotated[int, msgspec.Meta(ge=0, le=2**53, description="A record's number in its session, from 1.")]


class RequestSchema(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of request bodies and queries."""


# --- Requests ---


class Nothing(RequestSchema, frozen=True):
    """An empty object, or an empty query."""


class DeclaredTool(RequestSchema, frozen=True):
    """A tool that the client runs. `parameters` is the JSON Schema of its arguments."""

    name: Annotated[str, msgspec.Meta(pattern="^[a-zA-Z0-9_-]{1,64}$")]
    description: str = ""
    parameters: dict[str, Any] = {}


class ConfigureSession(RequestSchema, frozen=True):
    """Configuration of a session. Omitted or null fields stay unchanged."""

    model: str | None = None
    system: str | None = None
    # Tools that the client runs; they replace earlier ones. An empty list removes all.
    tools: list[DeclaredTool] | None = None
    # Settings of its requests; they replace earlier ones. An empty object removes all.
    settings: Settings | None = None


class Attached(RequestSchema, frozen=True):
    """An attachment: either the id of an upload or its bytes in base64."""

    upload: str = ""
    content: bytes = b""
    name: str = ""
    media_type: str = ""


class SendMessage(RequestSchema, frozen=True):
    """A message. `mode` selects the response: "wait" the answer, "post" the acceptance, "stream" events."""

    text: str = ""
    attachments: list[Attached] = []
    # Idempotency key, or use the header Idempotency-Key: a message sent twice with the same id is one message.
    client_id: str = ""
    mode: Literal["wait", "post", "stream"] = "wait"
    # Only directly after this record; and the message that this one takes the place of, by its seq.
    expect: _Seq | None = None
    replaces: _Seq | None = None
    # Answered and recorded, but never part of a summary; the next compaction drops it from the view.
    is_heartbeat: bool = False
    # As in ConfigureSession, from this message on.
    tools: list[DeclaredTool] | None = None
    # Settings of this message alone.
    settings: Settings | None = None
    # A JSON Schema of type object: the answer is JSON of it, and its value is the answer's `output`.
    output: dict[str, Any] | None = None


class SubmitResult(RequestSchema, frozen=True):
    """Result of a client tool call, identified by `reply` and `call_id` of its event."""

    reply: _Seq
    call_id: str
    output: str = ""
    attachments: list[Attached] = []
    is_failure: bool = False


class Compact(RequestSchema, frozen=True):
    """Compact the view. `focus` says what the summary should keep in particular."""

    focus: str = ""


class PreviewCompact(RequestSchema, frozen=True):
    """Preview a compaction. With `with_model` a model writes the real summary, which costs a call."""

    focus: str = ""
    with_model: bool = False


class Fork(RequestSchema, frozen=True):
    """Copy this session's records up to the record `at` (default: all) into a new session `into`."""

    into: str
    at: Annotated[int, msgspec.Meta(ge=1, le=2**53)] | None = None


class ImportQuery(RequestSchema, frozen=True):
    """Key of the imported session; default: its original key."""

    key: str = ""


class Undo(RequestSchema, frozen=True):
    """Undo the current compaction. With `compaction`, the seq of its record, the request is idempotent."""

    compaction: _Seq | None = None


class RecordsQuery(RequestSchema, frozen=True):
    """Page of records after the seq `after`."""

    after: _Seq = 0
    limit: _Limit = 100


class SearchQuery(RequestSchema, frozen=True):
    """Search for words, a path, a name or an id."""

    query: str
    limit: _Limit = 10


class WatchAllQuery(RequestSchema, frozen=True):
    """Start of the stream: after a cursor (or the header Last-Event-ID); default: now."""

    cursor: str = ""


class WatchQuery(RequestSchema, frozen=True):
    """Start of the stream: after a cursor (or the header Last-Event-ID) or after a seq; default: now."""

    cursor: str = ""
    after: _Seq | None = None


class WaitQuery(RequestSchema, frozen=True):
    """Time to wait for the outcome; 0 returns the current state."""

    wait_seconds: Annotated[float, msgspec.Meta(ge=0, le=3_600)] = 0.0


class UploadQuery(RequestSchema, frozen=True):
    """Name of an upload; its type is detected from its content."""

    name: str = ""


# --- Responses ---


class Budget(msgspec.Struct, frozen=True):
    """Usage against a limit. At a fraction of 1 the provider rejects the next request; null if no limit is known."""

    used: int
    limit: int | None
    fraction: float | None


class Gauge(msgspec.Struct, frozen=True):
    """Usage of the three budgets after the last request or compaction; null if unknown."""

    tokens: Budget | None
    wire_bytes: Budget | None
    media: Budget | None


class SessionSummary(msgspec.Struct, frozen=True):
    """A session without its content. `unanswered` counts messages and requests without an outcome."""

    key: str
    records: int
    unanswered: int
    created_at: float
    # Time of its last activity.
    updated_at: float
    # Activity: `rest`, `waiting`, `ready`, `approval`, `model`, `tools`, `rung` or `working`; and as text.
    state: str
    says: str
    gauge: Gauge | None
    # Null if a list cannot know it.
    generation: int | None
    # Messages without an outcome.
    open_turns: int
    model: str | None
    # The model of the last request, "" before it or if a list cannot know it.
    asked_model: str
    # Cost of its calls in US dollars, by declared prices; null if a list cannot know it.
    cost_usd: float | None


class OpenCall(msgspec.Struct, frozen=True):
    """A pending tool call for the client to run, identified by `reply` and `call_id`."""

    turn: int
    reply: int
    call_id: str
    name: str
    # The JSON text exactly as the model wrote it; it may be invalid.
    arguments: str


class SessionDetail(msgspec.Struct, frozen=True):
    """A session: its configuration, its state, and the cursor of its newest record."""

    key: str
    records: int
    unanswered: int
    created_at: float
    updated_at: float
    model: str | None
    system: str | None
    tools: list[DeclaredTool]
    settings: Settings
    in_flight: str
    # The current turn (0: none) and queued ones, by the seq of their message.
    turn: int
    waiting: list[int]
    pinned: list[int]
    # Messages that are left out of the view as a whole.
    excluded: list[int]
    # The record of the current compaction (0: none), and the first turn that is shown verbatim.
    compaction: int
    boundary: int
    calls: list[OpenCall]
    # Tool calls that wait for an approval.
    approvals: list[Approval]
    cursor: str
    # Totals of all calls, and of calls for summaries. `unpriced` calls are not part of the cost.
    spent: Spent
    spent_on_notes: Spent
    # Of a proxied session: totals of the client's own requests, without the changes. Null for others.
    without_changes: OwnTotals | None = None


class Accepted(msgspec.Struct, frozen=True):
    """The message is stored durably and will be answered. `turn` identifies it, and is the `after` to watch from."""

    turn: int


class Answered(msgspec.Struct, frozen=True):
    """A model's answer, with notices for the user."""

    turn: int
    text: str
    model: str
    parts: list[Part]
    usage: Usage | None
    notices: list[str]
    # Cost of all calls of the turn in US dollars, by declared prices; null if no price is known.
    cost_usd: float | None
    # The value of a message that was sent with `output`; else null.
    output: msgspec.Raw


class TurnState(msgspec.Struct, frozen=True):
    """State of a turn. `outcome` is null while it is open; `answer` is set if it was answered."""

    turn: int
    outcome: Outcome | None
    code: str = ""
    sentence: str = ""
    answer: Answered | None = None


class Submitted(msgspec.Struct, frozen=True):
    """The result is stored durably. `is_new` is false if the call already had a result, which stays."""

    is_new: bool


class Compacted(msgspec.Struct, frozen=True):
    """Outcome of a compaction request."""

    request: int
    outcome: CompactionOutcome
    why: str


class Previewed(msgspec.Struct, frozen=True):
    """Effect of a compaction; null if there is nothing to compact."""

    would: Preview | None


class Forked(msgspec.Struct, frozen=True):
    """The new session: its key and number of records."""

    key: str
    records: int


class Imported(msgspec.Struct, frozen=True):
    """The imported session, and its original key."""

    key: str
    records: int
    blobs: int
    origin: str


class Removed(msgspec.Struct, frozen=True):
    """Deleted objects. A blob stored within the last hour is removed later."""

    records: int
    segments: int
    blobs: int


class Undone(msgspec.Struct, frozen=True):
    """Whether there was a compaction to undo."""

    is_undone: bool


class Done(msgspec.Struct, frozen=True):
    """The request is stored durably."""

    done: bool = True


class ViewNow(msgspec.Struct, frozen=True):
    """The view that the model would get now, its size, and the model's limits. `first`: the first record of a part."""

    system: str
    messages: list[Message]
    tools: list[str]
    boundary: int
    tokens_estimated: int
    sizes: Sizes
    limits: Limits
    first: int = 0
    is_whole: bool = True


class Records(msgspec.Struct, frozen=True):
    """A page of records; `next` is the `after` of the next page, null at the end."""

    records: list[Logged]
    next: int | None


class Hits(msgspec.Struct, frozen=True):
    """Hits, best first."""

    hits: list[Hit]


class Uploaded(msgspec.Struct, frozen=True):
    """A pending upload: refer to it by `upload` in a message."""

    upload: str
    size_bytes: int
    expires_at: float


# --- Events ---


class Watching(msgspec.Struct, frozen=True):
    """The first event: the start of the stream."""

    cursor: str
    seq: int


class Resync(msgspec.Struct, frozen=True):
    """Earlier events cannot be replayed from the given cursor: read the records. Then the stream continues."""

    why: str
    cursor: str
    seq: int


class SessionChanged(msgspec.Struct, frozen=True):
    """Watch over all sessions: a session has a new newest record, of the type `kind`, and this status."""

    session: str
    seq: int
    kind: str
    state: str
    says: str
    gauge: Gauge | None
    generation: int | None
    unanswered: int
    open_turns: int
    updated_at: float


class SessionDeleted(msgspec.Struct, frozen=True):
    """Watch over all sessions: a session was deleted."""

    session: str


class DeltaSeen(msgspec.Struct, frozen=True):
    """A chunk of a streamed answer. Chunks of a failed attempt are void; the record has the complete answer."""

    turn: int
    attempt: int
    kind: Literal["text", "reasoning"]
    text: str


class Gone(msgspec.Struct, frozen=True):
    """The session was deleted; there is nothing left to watch."""

    why: str


class Reconnect(msgspec.Struct, frozen=True):
    """The gateway is stopping: reconnect with the last event id, to this gateway or another on the same store."""

    why: str
