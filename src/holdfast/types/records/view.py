"""Records of what was done to the view: rungs, compactions, generations, parts that are shown as something else."""

from enum import StrEnum

from holdfast.types.faults import Fault, FaultKind, Rung
from holdfast.types.messages import Effort, Media, Text, Usage
from holdfast.types.records.base import Record


class PieceSummarised(Record, frozen=True):
    """A model's notes on a run of originals. Paid for once: whoever needs them next uses them again.

    They cover what entered the conversation from the record `since`, where the piece before ends, up to `until`. Anyone
    may append them: the view changes only when a compaction uses them.
    """

    turn: int
    until: int
    notes: str
    model: str
    usage: Usage | None = None
    since: int = 0
    # What they were to keep in particular.
    focus: str = ""
    # All pieces up to there as one, because side by side they were too long. The pieces stay.
    is_merged: bool = False
    cost_usd: float | None = None
    # They were asked for behind the conversation as it was last sent, most of it read from the provider's cache.
    is_riding: bool = False


class RungStarted(Record, frozen=True):
    """A way of recovering, or of meeting a request for compaction, is about to be tried. At rest `turn` is 0."""

    turn: int
    rung: Rung
    # The fault it answers; None where a compaction was asked for.
    kind: FaultKind | None
    # How long a BACK_OFF waits.
    seconds: float = 0.0


class SummaryRefused(Record, frozen=True):
    """A summariser was asked and its answer could not be used: it refused, failed, or wrote something else."""

    turn: int
    model: str
    why: str
    fault: Fault | None = None
    usage: Usage | None = None
    cost_usd: float | None = None
    # No model was asked: the notes would have cost more than they may.
    is_over_budget: bool = False
    # It was asked behind the conversation as it was last sent; the usual way follows.
    is_riding: bool = False


class SummaryKind(StrEnum):
    """Who made what stands for the past."""

    SUMMARY = "summary"
    # Made without a model: a debt, to be redone by one.
    DIGEST = "digest"


class CompactionApplied(Record, frozen=True):
    """The boundary moved: what lies before it is represented by `summary` from here on."""

    turn: int
    # The first turn that stays verbatim, by the seq of its input.
    boundary: int
    summary: str
    tokens_before: int
    tokens_after: int
    kind: SummaryKind = SummaryKind.DIGEST
    model: str = ""
    # Where that turn alone is too long: of what was done in it, only what came from this record on stays verbatim.
    step: int = 0
    # The record of what was in force before, which an undo goes back to; 0: nothing was.
    before: int = 0
    # What its notes cost, those that could not be used included, and what each further request costs less, once the
    # cache is warm again. None where no price is known.
    cost_usd: float | None = None
    saves_usd: float | None = None


class GenerationStarted(CompactionApplied, frozen=True):
    """The session rolled over: of all that came before, only `summary` and the newest input are in the view.

    A compaction that goes as far as one can: what was pinned is no longer carried along, and nothing of the work on the
    newest input stays verbatim. The log is the same, so the generations before stay readable.
    """

    # The number of this generation, which no other has, and of the one it follows.
    generation: int = 2
    left: int = 1
    # Pins that it does not carry along, for an undo.
    pins_left: tuple[int, ...] = ()


class ReasoningDropped(Record, frozen=True):
    """The model's thinking before this seq is not sent back any more: its issuer could not read it."""

    turn: int
    before: int


class EffortChanged(Record, frozen=True):
    """The model is asked to think so much from here on; None leaves it to the provider."""

    turn: int
    effort: Effort | None


class OutputClamped(Record, frozen=True):
    """Until the model has answered it is asked for so much output at most: more was refused."""

    turn: int
    output_tokens_max: int


class OutputMasked(Record, frozen=True):
    """Tool output before this seq is shown by a line that says how to read it."""

    turn: int
    before: int


class PartReplaced(Record, frozen=True):
    """One part of a message is shown as something else from here on. The original stays in the log and its blob."""

    turn: int
    # The record that holds the part, and the part's place in it.
    seq: int
    place: int
    shown: Text | Media
    why: str


class RungResult(StrEnum):
    """What climbing a rung came to."""

    # What would be sent next is different: try again.
    CHANGED = "changed"
    # There was nothing to change: the next rung, without a call of the model.
    UNCHANGED = "unchanged"
    # The process died or the turn was cancelled half-way: nothing changed, and it does not count as climbed.
    INTERRUPTED = "interrupted"


class RungFinished(Record, frozen=True):
    """A way of recovering was tried."""

    turn: int
    rung: Rung
    result: RungResult


class CompactionOutcome(StrEnum):
    """What came of a request for compaction."""

    APPLIED = "applied"
    NOTHING_TO_DO = "nothing_to_do"
    # Given up for something more urgent; it will be wanted again.
    DEFERRED = "deferred"
    FAILED = "failed"


class CompactionSettled(Record, frozen=True):
    """The one outcome of a request for compaction, by its seq."""

    request: int
    outcome: CompactionOutcome
    why: str = ""
