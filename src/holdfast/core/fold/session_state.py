"""Where a session stands: the turn that is open, what waits, and what the view is made with."""

from enum import StrEnum

import msgspec

from holdfast.core.limits.prices import NOTHING_SPENT, Spent
from holdfast.types.faults import Fault, Rung
from holdfast.types.messages import Effort, ToolCall, ToolSpec
from holdfast.types.records import CompactionApplied, GenerationStarted, PartReplaced, Trigger
from holdfast.types.usage import Budgets


class InFlight(StrEnum):
    """What the outside world may be doing for a session right now: exactly what a restart must close."""

    # No turn is open.
    REST = "rest"
    # A turn is open and waits for the next decision.
    READY = "ready"
    MODEL = "model"
    TOOLS = "tools"
    RUNG = "rung"


# Turns between two compactions that nobody asked for. A trigger that fires again at once is a wrong reading, and every
# compaction costs a call and a cold prompt cache.
QUIET_TURNS = 3


class Call(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool call that the last reply asked for and that has no receipt, with how often it was started."""

    call: ToolCall
    starts: int = 0
    is_idempotent: bool = False
    # As in `ToolStarted`.
    reply: int = 0


class PendingCompaction(msgspec.Struct, frozen=True):
    """A request for compaction that has no outcome yet. `is_met`: one was applied since it was asked for."""

    seq: int
    trigger: Trigger
    focus: str = ""
    is_met: bool = False


class Piece(msgspec.Struct, frozen=True):
    """A model's notes on the originals between the piece before and the record `until`."""

    until: int
    notes: str
    focus: str = ""


class Asked(msgspec.Struct, frozen=True, omit_defaults=True):
    """A request: whom it was sent to, its tokens by estimate, with and without calibration, and as reported."""

    model: str = ""
    tokens: int = 0
    raw: int = 0
    reported: int = 0


NOTHING_ASKED = Asked()


class Turn(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a session stands after its records up to `seq`."""

    seq: int = 0
    in_flight: InFlight = InFlight.REST
    # Inputs admitted and not started; inputs that nobody wants an answer to any more. By seq, in order.
    waiting: tuple[int, ...] = ()
    cancelled: tuple[int, ...] = ()
    # Those that wait and cannot be read any more; up to which record the writer knew more than the log does now.
    unreadable: tuple[int, ...] = ()
    torn_until: int = 0
    # What the session was told about itself.
    model: str | None = None
    system: str | None = None
    tools: tuple[ToolSpec, ...] = ()

    # What the view is made with: the compaction in force and its record, the last turn that was started, inputs that
    # stay whatever happens, the seq before which tool output is masked, parts shown as something else, the seq before
    # which thinking is not sent back, and how much thinking is asked for.
    compaction: CompactionApplied | GenerationStarted | None = None
    compaction_seq: int = 0
    # The generation that the view is of, and how many were ever begun.
    generation: int = 1
    generations: int = 1
    last_turn: int = 0
    pins: tuple[int, ...] = ()
    masked_before: int = 0
    replaced: tuple[PartReplaced, ...] = ()
    reasoning_from: int = 0
    effort: Effort | None = None
    # A refused effort was changed; unpaired tool calls of a proxied client are repaired in every request.
    is_effort_changed: bool = False
    has_repaired_pairs: bool = False
    # Notes that are paid for, oldest first; and the last that were merged, with all that they cover.
    pieces: tuple[Piece, ...] = ()
    merged: Piece | None = None

    # A turn ended so that the person can choose how to make room, and no room was made since.
    is_choice_offered: bool = False
    # How full the person was last told the window is; turns to go before we ask for a compaction of our own again.
    warned_percent: int = 0
    # What the last request took of each budget, or what is known of the view since it became another one.
    budgets: Budgets | None = None
    quiet_turns: int = 0

    # Requests for compaction, the rungs climbed for them, summarisers given up, and why the last answer was not used.
    wanted: tuple[PendingCompaction, ...] = ()
    climbed_for_wanted: tuple[Rung, ...] = ()
    summarisers_passed: int = 0
    refused_why: str = ""
    # The rung in flight, and whether it was asked for instead of answering a fault.
    climbing: Rung | None = None
    is_wanted_climb: bool = False

    # What all calls of the session came to, and those for notes alone; those for notes since a compaction had its
    # outcome, and those on the day (since 1970, by UTC) on which the last were asked for; answers of summarisers that
    # could not be used, on that day, since the last that could.
    spent: Spent = NOTHING_SPENT
    spent_on_notes: Spent = NOTHING_SPENT
    spent_on_this: Spent = NOTHING_SPENT
    notes_day: int = 0
    spent_on_notes_today: Spent = NOTHING_SPENT
    notes_in_vain: int = 0

    # The last request, and the last that was answered.
    asked: Asked = NOTHING_ASKED
    answered: Asked = NOTHING_ASKED

    # From here on all is about the turn that is open, and at its default when none is.
    number: int = 0
    attempts: int = 0
    steps: int = 0
    has_answer: bool = False
    calls_asked: tuple[Call, ...] = ()
    calls_running: tuple[Call, ...] = ()
    # The last failure until a rung has answered it; the rungs climbed since the last reply, the one in flight included.
    fault: Fault | None = None
    climbed: tuple[Rung, ...] = ()
    # Models given up in this turn; processes that died since there was progress, at rest those of a compaction.
    models_passed: int = 0
    interruptions: int = 0
    # Output that the last attempt asked for; what is asked for at most until the model has answered.
    output_asked: int | None = None
    output_clamp: int | None = None
    # A reply that was not taken, because by its own count the model had not read everything, since the last that was.
    suspected: Fault | None = None
    # What a request had that was refused without a word and taken for too large, since the last reply; 0: none was.
    tokens_guessed: int = 0
    # A part of the failed answer has reached the client of the proxy.
    is_relayed: bool = False
    # What its calls came to, those for notes included.
    spent_on_turn: Spent = NOTHING_SPENT

    @property
    def owed(self) -> int:
        """How many outcomes the session owes: of inputs that wait, of the turn that is open, of wanted compactions."""
        return len(self.waiting) + bool(self.number) + len(self.wanted)

    @property
    def boundary(self) -> int:
        """The first turn that is in the view verbatim, by the seq of its input."""
        return self.compaction.boundary if self.compaction else 0

    @property
    def shows_changed(self) -> bool:
        """Whether the model is shown something else than the messages as they were sent."""
        return bool(
            self.compaction
            or self.replaced
            or self.masked_before
            or self.reasoning_from
            or self.is_effort_changed
            or self.has_repaired_pairs
        )

    @property
    def first_step(self) -> int:
        """The first record of that turn's work that is in the view; 0: all of it is."""
        return self.compaction.step if self.compaction else 0


class IllegalStepError(ValueError):
    """A record that cannot follow the ones before it: a bug in the writer or a damaged log."""

    def __init__(self, seq: int, why: str) -> None:
        self.seq, self.why = seq, why
        super().__init__(f"record {seq} {why}")


# What is about the turn that is open, as it is when none is.
NO_TURN = {
    "number": 0,
    "attempts": 0,
    "steps": 0,
    "has_answer": False,
    "calls_asked": (),
    "calls_running": (),
    "fault": None,
    "climbed": (),
    "models_passed": 0,
    "interruptions": 0,
    "output_asked": None,
    "output_clamp": None,
    "suspected": None,
    "tokens_guessed": 0,
    "is_relayed": False,
    "spent_on_turn": NOTHING_SPENT,
    "summarisers_passed": 0,
}
