"""Records of a turn: attempts, replies, tools, its outcome. The holder of the lease appends them, under its fence."""

from enum import StrEnum

from holdfast.types.faults import Fault, Refusal
from holdfast.types.messages import Reply, ToolResult, Usage
from holdfast.types.records.base import Record
from holdfast.types.usage import Budgets


class TurnStarted(Record, frozen=True):
    """The input with this seq entered the view and is being answered."""

    turn: int


class AttemptStarted(Record, frozen=True):
    """A request is about to be sent to a model."""

    turn: int
    attempt: int
    model: str
    tokens_estimated: int = 0
    # How long an answer it asks for at most; None leaves it to the dialect.
    output_tokens_max: int | None = None
    # What it takes of each budget, and what there was then; None where nobody measured it.
    budgets: Budgets | None = None
    # What was estimated before the model's own way of counting was taken into account.
    tokens_raw: int = 0


class ReplyRecorded(Record, frozen=True):
    """The model answered, with text, with calls of tools, or both."""

    turn: int
    attempt: int
    reply: Reply
    origin: int | None = None
    # What it cost when it was made; None where the price or the count is not known.
    cost_usd: float | None = None


class AttemptFailed(Record, frozen=True):
    """The model did not answer: what it said, as it came, and how we read it."""

    turn: int
    attempt: int
    refusal: Refusal
    fault: Fault
    # Of an answer that was paid for and could not be taken.
    usage: Usage | None = None
    cost_usd: float | None = None
    # A part of the answer has reached the client of the proxy, so the request is not repeated.
    is_relayed: bool = False


class Abandonment(StrEnum):
    """Why nobody waits for an attempt any more."""

    # The process died or was stopped; the turn goes on with another attempt.
    INTERRUPTED = "interrupted"
    CANCELLED = "cancelled"
    # What it would answer could not be kept; the turn ends.
    STORE_FULL = "store_full"


class AttemptAbandoned(Record, frozen=True):
    """Nobody waits for this attempt any more; what it may still answer is not read."""

    turn: int
    attempt: int
    reason: Abandonment


class ToolStarted(Record, frozen=True):
    """A tool is about to run: the durable intent. From here on it may have had its effect."""

    turn: int
    call_id: str
    name: str
    # Declared by the tool: running it twice does no more than running it once.
    is_idempotent: bool = False
    # The record of the reply that asked for it, where a client is to run it; 0: it runs here.
    reply: int = 0


class ToolInterrupted(Record, frozen=True):
    """The process died while an idempotent tool ran, or a client's result was awaited; it may be started again."""

    turn: int
    call_id: str


class ToolSettled(Record, frozen=True):
    """A tool's receipt: what came of the call. A call with a receipt is never run again."""

    turn: int
    result: ToolResult
    origin: int | None = None


class Outcome(StrEnum):
    """How a turn ended."""

    ANSWERED = "answered"
    CANCELLED = "cancelled"
    FAILED = "failed"


class TurnEnded(Record, frozen=True):
    """The one outcome of an input. A failure has a stable code and a sentence that says what to do."""

    turn: int
    outcome: Outcome
    code: str = ""
    sentence: str = ""
    # What all calls of the turn cost, summaries included; None where no price is known.
    cost_usd: float | None = None
