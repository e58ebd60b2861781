"""Records that change the view: recovery steps, compactions, generations and replaced parts."""

from enum import StrEnum

from holdfast.types.faults import Fault, FaultKind, Rung
from holdfast.types.messages import Effort, Media, Text, Usage
from holdfast.types.records.base import Record


class PieceSummarised(Record, frozen=True):
    """A node of the tree of notes: a model's summary of a run of messages, or of the nodes on it.

    Billed once: later compactions reuse it, and only a node that covers it replaces it. It covers the conversation from
    the record `since`, the end of the previous piece, up to `until`. Anyone may append it: the view changes only when a
    compaction uses it.
    """

    turn: int
    until: int
    notes: str
    model: str
    usage: Usage | None = None
    since: int = 0
    # The focus that was requested.
    focus: str = ""
    # All pieces up to `until` merged into one, because together they were too long. The pieces stay. Written by older
    # versions, before there was a tree.
    is_merged: bool = False
    cost_usd: float | None = None
    # Characters of the rendered message at `until` that are covered too, and at `since` that the previous piece covers:
    # a message that is too long for one request is read in several.
    offset: int = 0
    since_offset: int = 0
    # Height in the tree of notes. Above 0 it was merged from the pieces between `since` and `until`, and replaces them.
    level: int = 0
    # A cached summary: requested after the conversation as last sent, to reuse the provider's prompt cache.
    is_riding: bool = False


class RungStarted(Record, frozen=True):
    """A recovery or compaction step is about to run. `turn` is 0 while the session is idle."""

    turn: int
    rung: Rung
    # The fault to recover from; None for a requested compaction.
    kind: FaultKind | None
    # Delay of a BACKOFF.
    seconds: float = 0.0


class SummaryRefused(Record, frozen=True):
    """A summary failed: the model returned an error, declined, or wrote an unusable text."""

    turn: int
    model: str
    why: str
    fault: Fault | None = None
    usage: Usage | None = None
    cost_usd: float | None = None
    # No model was called: the summary would have exceeded the spend limit.
    is_over_budget: bool = False
    # It was a cached summary; a regular summary request follows.
    is_riding: bool = False


class SummaryKind(StrEnum):
    """Origin of the text that replaces the compacted messages."""

    SUMMARY = "summary"
    # Made without a model, to be replaced by a summary later.
    DIGEST = "digest"


class CompactionApplied(Record, frozen=True):
    """The boundary moved: `summary` replaces everything before it in the view."""

    turn: int
    # The first verbatim turn, by the seq of its input.
    boundary: int
    summary: str
    tokens_before: int
    tokens_after: int
    kind: SummaryKind = SummaryKind.DIGEST
    model: str = ""
    # If that turn alone is too long: the record from which its work stays verbatim.
    step: int = 0
    # The record of the previous compaction, for an undo; 0: none.
    before: int = 0
    # Cost of its summaries, failed ones included, and saving per later request once the cache is warm again. None: no
    # price known.
    cost_usd: float | None = None
    saves_usd: float | None = None
    # The place from which no model has read the messages before the boundary yet; 0: all are read.
    unread: int = 0


class GenerationStarted(CompactionApplied, frozen=True):
    """The session rolled over: the view holds only `summary` and the newest input.

    The strongest compaction: pins are dropped, and none of the work on the newest input stays verbatim. The log is the
    same, so earlier generations stay readable.
    """

    # The unique number of this generation, and that of the previous one.
    generation: int = 2
    left: int = 1
    # The dropped pins, for an undo.
    pins_left: tuple[int, ...] = ()


class ReasoningDropped(Record, frozen=True):
    """Reasoning before this seq is no longer sent back: its issuer rejected it."""

    turn: int
    before: int


class EffortChanged(Record, frozen=True):
    """Reasoning effort from here on; None: the provider's default."""

    turn: int
    effort: Effort | None


class ParameterDropped(Record, frozen=True):
    """A refused parameter is left out, or sent under its other name, until the turn ends or another model is asked."""

    turn: int
    # Its name on the wire, and the provider's own message, truncated.
    parameter: str
    said: str = ""


class OutputClamped(Record, frozen=True):
    """Output limit until the next reply: the provider rejected a larger one."""

    turn: int
    output_tokens_max: int


class OutputMasked(Record, frozen=True):
    """Tool output before this seq is masked by a line that says how to read it."""

    turn: int
    before: int
    # Requests after which it was to pay, by prices and cache; None: the window was full.
    payback_requests: float | None = None


class PartReplaced(Record, frozen=True):
    """One part of a message is replaced in the view. The original stays in the log and its blob."""

    turn: int
    # The record with the part, and the part's index in it.
    seq: int
    place: int
    shown: Text | Media
    why: str


class MessageExcluded(Record, frozen=True):
    """A message, or one part of it, is left out of the view, or taken back into it. The log keeps it.

    A line takes its place. Anyone may append this; the ladder does for content that a provider refuses.
    """

    # The record of the message: an input, a reply or a tool result. The index of the part; None: the whole message.
    excluded: int
    place: int | None = None
    is_excluded: bool = True
    # The turn and the kind of fault for which the ladder left it out; 0 and "": a person did.
    turn: int = 0
    why: str = ""


class RungResult(StrEnum):
    """Result of a recovery step."""

    # The next request differs: retry.
    CHANGED = "changed"
    # Nothing to change: take the next rung without calling the model.
    UNCHANGED = "unchanged"
    # The process died or the turn was cancelled: nothing changed, and the rung does not count as tried.
    INTERRUPTED = "interrupted"


class RungFinished(Record, frozen=True):
    """A recovery step ended."""

    turn: int
    rung: Rung
    result: RungResult


class CompactionOutcome(StrEnum):
    """Outcome of a compaction request."""

    APPLIED = "applied"
    NOTHING_TO_DO = "nothing_to_do"
    # Postponed for more urgent work; it will be requested again.
    DEFERRED = "deferred"
    FAILED = "failed"
    CANCELLED = "cancelled"


class CompactionSettled(Record, frozen=True):
    """The outcome of the compaction request with this seq."""

    request: int
    outcome: CompactionOutcome
    # The reason, if nothing was applied.
    why: str = ""
