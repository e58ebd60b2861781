"""What goes over the wire of the native API: one struct per body, query and answer, which are also the OpenAPI schemas.

An unknown field in a request is an error, because a misspelt one would otherwise be passed over in silence.
"""

from typing import Annotated, Any, Literal

import msgspec

from holdfast.core.limits.fit import Sizes
from holdfast.core.limits.prices import Spent
from holdfast.ports import Hit
from holdfast.runtime.engine.preview import Preview
from holdfast.types.limits import Limits
from holdfast.types.messages import Message, Part, Usage
from holdfast.types.records import CompactionOutcome, Logged, Outcome

_Limit = Annotated[int, msgspec.Meta(ge=1, le=100_000, description="How many at most; the gateway may give fewer.")]
_Seq = Annotated[int, msgspec.Meta(ge=0, le=2**53, description="A record's number in its session, from 1.")]


class RequestSchema(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The base of what is asked for."""


# --- what is asked for -------------------------------------------------------------------------------------------


class Nothing(RequestSchema, frozen=True):
    """An empty object, or an empty query."""


class DeclaredTool(RequestSchema, frozen=True):
    """A tool that the client runs. `parameters` is the JSON Schema of its arguments."""

    name: Annotated[str, msgspec.Meta(pattern="^[a-zA-Z0-9_-]{1,64}$")]
    description: str = ""
    parameters: dict[str, Any] = {}


class ConfigureSession(RequestSchema, frozen=True):
    """What a session is told about itself. Left out, or null: as it is."""

    model: str | None = None
    system: str | None = None
    # Tools that the client runs; they replace those declared before. An empty list takes them away.
    tools: list[DeclaredTool] | None = None


class Attached(RequestSchema, frozen=True):
    """Something attached: the id of an upload, or its bytes in base64. One of the two."""

    upload: str = ""
    content: bytes = b""
    name: str = ""
    media_type: str = ""


class SendMessage(RequestSchema, frozen=True):
    """A message. `mode` says what the answer is: "wait" the model's, "post" that it is accepted, "stream" events."""

    text: str = ""
    attachments: list[Attached] = []
    # What the client calls this message; the same one sent twice is one message. Or the header Idempotency-Key.
    client_id: str = ""
    mode: Literal["wait", "post", "stream"] = "wait"
    # As in ConfigureSession: from this message on.
    tools: list[DeclaredTool] | None = None


class SubmitResult(RequestSchema, frozen=True):
    """What came of a call that the client was told to run, named by `reply` and `call_id` of its event."""

    reply: _Seq
    call_id: str
    output: str = ""
    attachments: list[Attached] = []
    is_failure: bool = False


class Compact(RequestSchema, frozen=True):
    """Make the view smaller. `focus` says what the summary should keep in particular."""

    focus: str = ""


class PreviewCompact(RequestSchema, frozen=True):
    """Look at what a compaction would do. With `with_model` a model writes the real summary, which costs a call."""

    focus: str = ""
    with_model: bool = False


class Fork(RequestSchema, frozen=True):
    """Make a session `into` of this one's records, up to the record `at`; left out, all of them."""

    into: str
    at: Annotated[int, msgspec.Meta(ge=1, le=2**53)] | None = None


class ImportQuery(RequestSchema, frozen=True):
    """The key to import a session under; left out, the one that it had."""

    key: str = ""


class Undo(RequestSchema, frozen=True):
    """Undo the compaction in force; with `compaction`, the seq of its record, only that one: asking twice is safe."""

    compaction: _Seq | None = None


class SessionsQuery(RequestSchema, frozen=True):
    """Which sessions to list: those behind the key `after` that have `match` in their key, in order of their keys."""

    after: str = ""
    limit: _Limit = 100
    # Capital and small letters are the same.
    match: str = ""


class RecordsQuery(RequestSchema, frozen=True):
    """Which records to read: those behind the seq `after`."""

    after: _Seq = 0
    limit: _Limit = 100


class SearchQuery(RequestSchema, frozen=True):
    """What to look for: words, a path, a name or an id."""

    query: str
    limit: _Limit = 10


class WatchAllQuery(RequestSchema, frozen=True):
    """Where to begin: behind a cursor (or the header Last-Event-ID), or, without one, now."""

    cursor: str = ""


class WatchQuery(RequestSchema, frozen=True):
    """Where to begin: behind a cursor (or the header Last-Event-ID), behind a seq, or, without both, now."""

    cursor: str = ""
    after: _Seq | None = None


class WaitQuery(RequestSchema, frozen=True):
    """How long to wait for the outcome; 0 asks how it stands."""

    wait_seconds: Annotated[float, msgspec.Meta(ge=0, le=3_600)] = 0.0


class UploadQuery(RequestSchema, frozen=True):
    """What an upload is called; its type is told from its content."""

    name: str = ""


# --- what is answered --------------------------------------------------------------------------------------------


class Budget(msgspec.Struct, frozen=True):
    """How much is used of how much. At a fraction of 1 the next request is refused; null where no limit is known."""

    used: int
    limit: int | None
    fraction: float | None


class Gauge(msgspec.Struct, frozen=True):
    """How full the three budgets are, as of the last request or compaction; null where that is not known."""

    tokens: Budget | None
    wire_bytes: Budget | None
    media: Budget | None


class SessionSummary(msgspec.Struct, frozen=True):
    """A session without its content. `unanswered` counts messages and requests without an outcome."""

    key: str
    records: int
    unanswered: int
    created_at: float
    # Its last activity.
    updated_at: float
    # What it is doing: `rest`, `waiting`, `ready`, `model`, `tools`, `rung` or `working`; and in plain words.
    state: str
    says: str
    gauge: Gauge | None
    # Null where a list cannot know it.
    generation: int | None
    # Messages without an outcome.
    open_turns: int
    model: str | None


class Sessions(msgspec.Struct, frozen=True):
    """A page of sessions; `next` is the `after` of the next page, null at the end.

    With `match` a page may have fewer than `limit`, or none, and still have a next one.
    """

    sessions: list[SessionSummary]
    next: str | None


class OpenCall(msgspec.Struct, frozen=True):
    """A call that the client is to run, named by `reply` and `call_id`. Its result is awaited."""

    turn: int
    reply: int
    call_id: str
    name: str
    # The JSON text exactly as the model wrote it; it may be invalid.
    arguments: str


class SessionDetail(msgspec.Struct, frozen=True):
    """A session: what it was told, where it stands, and the cursor of its newest record."""

    key: str
    records: int
    unanswered: int
    created_at: float
    updated_at: float
    model: str | None
    system: str | None
    tools: list[DeclaredTool]
    in_flight: str
    # The turn being answered (0: none) and those that wait, by the seq of their message.
    turn: int
    waiting: list[int]
    pinned: list[int]
    # The record of the compaction in force (0: none), and the first turn that is shown verbatim.
    compaction: int
    boundary: int
    calls: list[OpenCall]
    cursor: str
    # What all calls came to so far, and those for summaries alone. `unpriced` calls are in no sum of money.
    spent: Spent
    spent_on_notes: Spent


class Accepted(msgspec.Struct, frozen=True):
    """The message is on disk and will be answered. `turn` names it from here on, and is the `after` to watch from."""

    turn: int


class Answered(msgspec.Struct, frozen=True):
    """A model's answer, and what the person should know besides."""

    turn: int
    text: str
    model: str
    parts: list[Part]
    usage: Usage | None
    notices: list[str]
    # What all calls of the turn cost, in US dollars, by declared prices; null where no price is known.
    cost_usd: float | None = None


class TurnState(msgspec.Struct, frozen=True):
    """How a turn stands. `outcome` is null while it is open; `answer` is there where it was answered."""

    turn: int
    outcome: Outcome | None
    code: str = ""
    sentence: str = ""
    answer: Answered | None = None


class Submitted(msgspec.Struct, frozen=True):
    """A result is on disk. `is_new` is false where the call had its result already, which then counts."""

    is_new: bool


class Compacted(msgspec.Struct, frozen=True):
    """The one outcome of a request for compaction."""

    request: int
    outcome: CompactionOutcome
    why: str


class Previewed(msgspec.Struct, frozen=True):
    """What a compaction would do; null where there is nothing to do."""

    would: Preview | None


class Forked(msgspec.Struct, frozen=True):
    """A session that was made of another: its key, and how many records it has."""

    key: str
    records: int


class Imported(msgspec.Struct, frozen=True):
    """A session that was imported, and the key that it had where it comes from."""

    key: str
    records: int
    blobs: int
    origin: str


class Removed(msgspec.Struct, frozen=True):
    """What is gone. A blob that was put within the last hour stays for now."""

    records: int
    segments: int
    blobs: int


class Undone(msgspec.Struct, frozen=True):
    """Whether there was a compaction to undo."""

    is_undone: bool


class Done(msgspec.Struct, frozen=True):
    """It is on disk."""

    done: bool = True


class ViewNow(msgspec.Struct, frozen=True):
    """What the model would see now, what that comes to, and what the model accepts, as far as that is known."""

    system: str
    messages: list[Message]
    tools: list[str]
    boundary: int
    tokens_estimated: int
    sizes: Sizes
    limits: Limits


class Records(msgspec.Struct, frozen=True):
    """A page of records; `next` is the `after` of the next page, null at the end."""

    records: list[Logged]
    next: int | None


class Hits(msgspec.Struct, frozen=True):
    """What was found, best first."""

    hits: list[Hit]


class SessionHit(msgspec.Struct, frozen=True):
    """A record of a session that answers a search; see `Hit`."""

    session: str
    seq: int
    score: float
    excerpt: str
    call: int


class HitsOfAll(msgspec.Struct, frozen=True):
    """What was found in all sessions, best first. Those that changed last are searched first.

    `is_complete` is false where not all of them could be searched in time: ask again, and it comes further.
    """

    hits: list[SessionHit]
    searched: int
    sessions: int
    is_complete: bool


class Uploaded(msgspec.Struct, frozen=True):
    """An upload that waits to be sent: name it by `upload` in a message."""

    upload: str
    size_bytes: int
    expires_at: float


# --- events ------------------------------------------------------------------------------------------------------


class Watching(msgspec.Struct, frozen=True):
    """The first event: where the stream begins."""

    cursor: str
    seq: int


class Resync(msgspec.Struct, frozen=True):
    """What came before cannot be replayed from the cursor that was given: read it from the records. Then it goes on."""

    why: str
    cursor: str
    seq: int


class SessionChanged(msgspec.Struct, frozen=True):
    """Of the watch over all sessions: one has another newest record, of the type `kind`, and stands so now."""

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
    """Of the watch over all sessions: one is no longer there."""

    session: str


class DeltaSeen(msgspec.Struct, frozen=True):
    """A piece of an answer as it is written. That of an attempt that fails is void; the record has it whole."""

    turn: int
    attempt: int
    kind: Literal["text", "reasoning"]
    text: str


class Gone(msgspec.Struct, frozen=True):
    """The session was deleted; there is nothing left to watch."""

    why: str


class Reconnect(msgspec.Struct, frozen=True):
    """The gateway is stopping: connect again with the last id, here or where it is started next."""

    why: str
