"""Session state: the open turn, waiting inputs, and the parameters of the view."""

from enum import StrEnum

import msgspec

from holdfast.core.limits.prices import NOTHING_SPENT, Spent
from holdfast.core.limits.savings import NO_CACHE, PromptCache
from holdfast.core.turn.failure_messages import FailedModel
from holdfast.types.accounts import NOTHING_SAVED, Saved
from holdfast.types.faults import Fault, Rung
from holdfast.types.limits import Budgets
from holdfast.types.messages import Effort, ToolCall, ToolSpec
from holdfast.types.records import (
    CompactionApplied,
    GenerationStarted,
    MessageExcluded,
    ParameterDropped,
    PartReplaced,
    SessionConfigured,
    SessionLabelled,
    Trigger,
)
from holdfast.types.settings import Settings


class InFlight(StrEnum):
    """External work in flight for a session, which a restart must close."""

    # No turn is open.
    REST = "rest"
    # A turn is open and waits for the next decision.
    READY = "ready"
    MODEL = "model"
    TOOLS = "tools"
    RUNG = "rung"


# Turns between two automatic compactions. A trigger that fires again at once is a measuring error, and every compaction
# costs a call and a cold prompt cache.
QUIET_TURNS = 3


class Call(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool call of the last reply that has no result yet, and the number of its starts."""

    call: ToolCall
    starts: int = 0
    is_idempotent: bool = False
    # As in `ToolStarted`.
    reply: int = 0
    # The gateway runs it, although the turn belongs to a client of the proxy.
    is_own: bool = False
    # The seq of its approval request, 0: none; the answer, None: not answered; and its note.
    approval: int = 0
    is_approved: bool | None = None
    note: str = ""

    @property
    def is_waiting(self) -> bool:
        """True while the call waits for an approval."""
        return self.approval > 0 and self.is_approved is None


class PendingCompaction(msgspec.Struct, frozen=True):
    """A compaction request without an outcome. `is_met`: a compaction was applied since the request."""

    seq: int
    trigger: Trigger
    focus: str = ""
    is_met: bool = False


class Piece(msgspec.Struct, frozen=True, omit_defaults=True):
    """A node of the tree of notes: a model's notes on the records after the previous one, up to the record `until`."""

    until: int
    notes: str
    focus: str = ""
    # Characters of the rendered message at `until` that the notes cover too.
    offset: int = 0
    # Height in the tree: 0 for notes on messages, more for notes merged from others; and the number of notes on
    # messages below it, itself included.
    level: int = 0
    weight: int = 1


class LeftBranch(msgspec.Struct, frozen=True, omit_defaults=True):
    """A branch that the conversation left at the record `head`: the parameters of the view there.

    `since` is the last record that it shares with the branch that was taken up in its place.
    """

    head: int
    since: int
    last_turn: int = 0
    retracted: tuple[tuple[int, int], ...] = ()
    compaction_seq: int = 0
    generation: int = 1
    pins: tuple[int, ...] = ()
    replaced: tuple[PartReplaced, ...] = ()
    excluded: tuple[MessageExcluded, ...] = ()


class KeptMemory(msgspec.Struct, frozen=True, omit_defaults=True):
    """A stored memory of the messages from the place `since` up to the place `until`, for digests and ledgers.

    It is derived from the log and stands beside the state in a snapshot. `left_out` identifies the messages among them
    that were left out of it. See `core.compaction.memory.kept`.
    """

    version: int
    until: int
    body: bytes
    since: int = 0
    left_out: str = ""


class Asked(msgspec.Struct, frozen=True, omit_defaults=True):
    """A model request: its model, and its tokens as estimated (calibrated and raw) and as reported.

    `suspected` are the tokens that the model seems to have read of it; 0: all.
    """

    model: str = ""
    tokens: int = 0
    raw: int = 0
    reported: int = 0
    suspected: int = 0


NOTHING_ASKED = Asked()


class Turn(msgspec.Struct, frozen=True, omit_defaults=True):
    """The session state after the records up to `seq`."""

    seq: int = 0
    # External work that a restart must close.
    in_flight: InFlight = InFlight.REST
    # Inputs admitted and not started; cancelled inputs. By seq, in order.
    waiting: tuple[int, ...] = ()
    cancelled: tuple[int, ...] = ()
    # Waiting inputs that are damaged; the last record whose writer relied on records that are now lost.
    unreadable: tuple[int, ...] = ()
    torn_until: int = 0
    # Configuration of the session.
    model: str | None = None
    system: str | None = None
    tools: tuple[ToolSpec, ...] = ()
    settings: Settings | None = None
    tool_names: tuple[str, ...] | None = None
    # The agent at work, and the configurations of those that handed the session over, oldest first.
    agent: str = ""
    handed_over: tuple[SessionConfigured, ...] = ()
    # Labels of the session, and the beginning of its first message, of which a title is made.
    labels: SessionLabelled | None = None
    opening: str = ""

    # Parameters of the view: the compaction in force and its record, the last turn started, pinned inputs, the seq
    # before which tool output is masked, replaced parts, the seq before which reasoning is dropped, and the effort.
    compaction: CompactionApplied | GenerationStarted | None = None
    compaction_seq: int = 0
    # The generation in view, and the number of generations ever started.
    generation: int = 1
    generations: int = 1
    last_turn: int = 0
    pins: tuple[int, ...] = ()
    masked_before: int = 0
    # Tool output is shown with its repeated lines folded.
    has_folded: bool = False
    replaced: tuple[PartReplaced, ...] = ()
    # Messages and parts that are left out, oldest first.
    excluded: tuple[MessageExcluded, ...] = ()
    # Retracted runs of records, oldest first and apart: after the first number, up to and including the second.
    retracted: tuple[tuple[int, int], ...] = ()
    # Branches that can be shown again, oldest first.
    branches: tuple[LeftBranch, ...] = ()
    reasoning_from: int = 0
    effort: Effort | None = None
    # A refused effort was changed; orphaned tool calls of a proxied client are repaired in every request.
    is_effort_changed: bool = False
    has_repaired_pairs: bool = False
    # Notes that cover the conversation from its beginning, oldest first; notes that an older version merged from them.
    pieces: tuple[Piece, ...] = ()
    merged: Piece | None = None

    # A turn ended with the overflow choice, and no compaction was applied since.
    is_choice_offered: bool = False
    # Turns in a row that ended because the provider refused the content of the request.
    refused_turns: int = 0
    # Window usage of the last warning, in percent.
    warned_percent: int = 0
    # Usage of each budget by the last request, or an estimate for the view if it changed since.
    budgets: Budgets | None = None
    # Turns left before the next automatic compaction.
    quiet_turns: int = 0

    # Compaction requests, the rungs climbed for them, summarisers given up, and why the last summary was rejected.
    wanted: tuple[PendingCompaction, ...] = ()
    climbed_for_wanted: tuple[Rung, ...] = ()
    summarisers_passed: int = 0
    refused_why: str = ""
    # The rung in flight, and whether it serves a compaction request instead of a fault.
    climbing: Rung | None = None
    is_wanted_climb: bool = False

    # Costs of the session: all calls; summary calls; summary calls since the last outcome of a compaction; the day of
    # the last summary call (since 1970, UTC) and the summary calls on it; unusable summaries on that day less usable
    # ones.
    spent: Spent = NOTHING_SPENT
    spent_on_notes: Spent = NOTHING_SPENT
    spent_on_this: Spent = NOTHING_SPENT
    notes_day: int = 0
    spent_on_notes_today: Spent = NOTHING_SPENT
    notes_in_vain: int = 0
    # Unusable summaries since the last outcome of a compaction.
    refused_on_this: int = 0
    # Savings of changed answers, without the cost of summaries; and the provider's prompt cache.
    saved: Saved = NOTHING_SAVED
    cache: PromptCache = NO_CACHE

    # The last request, and the last answered request.
    asked: Asked = NOTHING_ASKED
    answered: Asked = NOTHING_ASKED

    # The fields below belong to the open turn, and have their defaults while none is open.
    number: int = 0
    attempts: int = 0
    steps: int = 0
    has_answer: bool = False
    # Answers that were not of the requested type.
    outputs_refused: int = 0
    calls_asked: tuple[Call, ...] = ()
    calls_running: tuple[Call, ...] = ()
    # Replies in a row that were continued here, without the client of the proxy.
    own_rounds: int = 0
    # The last fault until a rung has handled it; rungs climbed since the last reply, including the one in flight.
    fault: Fault | None = None
    climbed: tuple[Rung, ...] = ()
    # Models given up in this turn; crashes since the last progress (between turns: of a compaction).
    models_passed: int = 0
    interruptions: int = 0
    # The models given up, with their faults.
    failed_models: tuple[FailedModel, ...] = ()
    # A digest of the last error response, and how often in a row it came for the same request.
    refused_as: str = ""
    refused_times: int = 0
    # Output limit of the last attempt; upper bound for it until the next reply.
    output_asked: int | None = None
    output_clamp: int | None = None
    # Parameters that the current model has refused in this turn.
    dropped: tuple[ParameterDropped, ...] = ()
    # Fault of the last reply rejected because its reported usage was below the request size.
    suspected: Fault | None = None
    # Tokens of a request that was refused without a reason and classified as an overflow; 0: none since the last reply.
    tokens_guessed: int = 0
    # Part of the failed answer has reached the client of the proxy.
    is_relayed: bool = False
    # Costs of its calls, including summaries.
    spent_on_turn: Spent = NOTHING_SPENT

    @property
    def owed(self) -> int:
        """The number of pending outcomes: waiting inputs, the open turn and compaction requests."""
        return len(self.waiting) + bool(self.number) + len(self.wanted)

    @property
    def boundary(self) -> int:
        """The first turn that is in the view verbatim, by the seq of its input."""
        return self.compaction.boundary if self.compaction else 0

    @property
    def shows_changed(self) -> bool:
        """True if the view differs from the messages as they were sent."""
        return bool(
            self.compaction
            or self.replaced
            or self.excluded
            or self.retracted
            or self.masked_before
            or self.has_folded
            or self.reasoning_from
            or self.is_effort_changed
            or self.has_repaired_pairs
        )

    @property
    def hides_parts(self) -> bool:
        """True if something has left the view: only the tool `recall` reads it."""
        return bool(self.compaction or self.masked_before or self.replaced or self.excluded)

    @property
    def view_changes(self) -> tuple[int, ...]:
        """Numbers that change whenever the beginning of the view does, other than by new messages."""
        return (self.compaction_seq, self.masked_before, self.reasoning_from, len(self.replaced), len(self.excluded))

    @property
    def shown_from(self) -> int:
        """The record that the last compaction reached."""
        return max(self.boundary, self.first_step)

    @property
    def has_notes_ahead(self) -> bool:
        """True if notes exist on messages that are still shown, for the next compaction."""
        return bool(self.pieces) and self.pieces[-1].until > self.shown_from

    @property
    def first_step(self) -> int:
        """The first record of the boundary turn's work that is in the view; 0: all of it is."""
        return self.compaction.step if self.compaction else 0


class IllegalStepError(ValueError):
    """A record that cannot follow the ones before it: a bug in the writer or a damaged log."""

    def __init__(self, seq: int, why: str) -> None:
        self.seq, self.why = seq, why
        super().__init__(f"record {seq} {why}")


# Fields of the open turn, with the values they have while none is open.
NO_TURN = {
    "number": 0,
    "attempts": 0,
    "steps": 0,
    "has_answer": False,
    "outputs_refused": 0,
    "calls_asked": (),
    "calls_running": (),
    "own_rounds": 0,
    "fault": None,
    "climbed": (),
    "models_passed": 0,
    "interruptions": 0,
    "failed_models": (),
    "refused_as": "",
    "refused_times": 0,
    "output_asked": None,
    "output_clamp": None,
    "dropped": (),
    "suspected": None,
    "tokens_guessed": 0,
    "is_relayed": False,
    "spent_on_turn": NOTHING_SPENT,
    "summarisers_passed": 0,
}
