"""Records of a turn: attempts, replies, tools, its outcome. The lease holder appends them, with its fencing token."""

from enum import StrEnum

from holdfast.types.accounts import OwnRequest
from holdfast.types.faults import Fault, Refusal
from holdfast.types.limits import Budgets
from holdfast.types.messages import Reply, ToolResult, Usage
from holdfast.types.records.base import Record


class TurnStarted(Record, frozen=True):
    """The turn of the input with this seq started; the input is in the view."""

    turn: int


class AttemptStarted(Record, frozen=True):
    """A request is about to be sent to a model."""

    turn: int
    attempt: int
    model: str
    tokens_estimated: int = 0
    # Requested output limit; None: the dialect's default.
    output_tokens_max: int | None = None
    # Use and limit of each budget at that time; None: not measured.
    budgets: Budgets | None = None
    # The estimate before calibration.
    tokens_raw: int = 0


class ReplyRecorded(Record, frozen=True):
    """The model replied with text, tool calls, or both."""

    turn: int
    attempt: int
    reply: Reply
    origin: int | None = None
    # Cost at the time of the call; None: price or usage unknown.
    cost_usd: float | None = None
    # Tokens that the model seems to have read of a larger request. The next request of the session has at most so many.
    # 0: all of it, as far as known.
    tokens_suspected: int = 0
    # Calls that the gateway runs itself, by id; the client of the proxy does not see them. A reply with only such calls
    # has no origin: the client does not have it at all.
    own_calls: tuple[str, ...] = ()
    # Text of continued replies that the client was sent before this one, in the same message.
    said_before: str = ""
    # The request of the proxy's client as it came; None: it was sent unchanged.
    own_request: OwnRequest | None = None
    # Time of an answer to a client of the proxy, by the gateway's clock: the age of the provider's prompt cache. 0: of
    # another session.
    answered_at: float = 0.0


class AttemptFailed(Record, frozen=True):
    """The attempt failed: the raw error and its classification."""

    turn: int
    attempt: int
    refusal: Refusal
    fault: Fault
    # Of a reply that was billed and rejected.
    usage: Usage | None = None
    cost_usd: float | None = None
    # A part of the answer has reached the client of the proxy, so the request is not repeated.
    is_relayed: bool = False


class Abandonment(StrEnum):
    """The reason for abandoning an attempt."""

    # The process died or was stopped; the turn continues with another attempt.
    INTERRUPTED = "interrupted"
    CANCELLED = "cancelled"
    # The store is full, so the reply cannot be recorded; the turn ends.
    STORE_FULL = "store_full"


class AttemptAbandoned(Record, frozen=True):
    """The attempt was abandoned; a late reply is ignored."""

    turn: int
    attempt: int
    reason: Abandonment


class ToolStarted(Record, frozen=True):
    """A tool is about to run: the durable intent. From here on it may have side effects."""

    turn: int
    call_id: str
    name: str
    # Declared by the tool: it may be run again after an interruption.
    is_idempotent: bool = False
    # For client tools, the record of the reply with the call; 0: the tool runs in this process.
    reply: int = 0


class ToolInterrupted(Record, frozen=True):
    """The process died while an idempotent tool ran or a client's result was pending; the call may be started again."""

    turn: int
    call_id: str


class ToolSettled(Record, frozen=True):
    """The result of a tool call. A call with a recorded result is never run again."""

    turn: int
    result: ToolResult
    origin: int | None = None
    # The output with its repeated lines folded, a text per part, as it is shown; (): as it is.
    folded: tuple[str, ...] = ()


class OutputRefused(Record, frozen=True):
    """The answer is not of the requested type. The model is shown why, and answers again."""

    turn: int
    # The message to the model.
    shown: str


class ApprovalRequested(Record, frozen=True):
    """A tool call waits for an approval: a question that anyone may answer, at any time. The seq identifies it."""

    turn: int
    call_id: str
    name: str
    # The arguments as the model wrote them, truncated if long.
    arguments: str


class Outcome(StrEnum):
    """Outcome of a turn."""

    ANSWERED = "answered"
    CANCELLED = "cancelled"
    FAILED = "failed"


class TurnEnded(Record, frozen=True):
    """The one outcome of an input. A failure has a stable code and a sentence that says what to do."""

    turn: int
    outcome: Outcome
    code: str = ""
    sentence: str = ""
    # Total cost of the turn's calls, summaries included; None: no price known.
    cost_usd: float | None = None
