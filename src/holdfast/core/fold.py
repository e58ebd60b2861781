"""Where a session stands, and what each record changes of it.

This is the meaning of the records, one by one. Which record may follow which is the turn's to say.
"""

from enum import StrEnum
from typing import TypeAlias, assert_never

import msgspec
from msgspec.structs import replace

from holdfast.core.faults import OK, Confidence, Fault, FaultKind
from holdfast.core.ladder import SUMMARIES, Rung
from holdfast.core.messages import Effort, ToolCall, ToolSpec
from holdfast.core.records import (
    Abandonment,
    AttemptAbandoned,
    AttemptFailed,
    AttemptStarted,
    CancelRequested,
    CompactionApplied,
    CompactionRequested,
    CompactionSettled,
    CompactionUndone,
    EffortChanged,
    GenerationStarted,
    InboxRecord,
    InputAdmitted,
    LimitsLearned,
    MessagePinned,
    NoticePosted,
    OutputClamped,
    OutputMasked,
    PartReplaced,
    PieceSummarised,
    ReasoningDropped,
    ReplyRecorded,
    ResultSubmitted,
    RungFinished,
    RungResult,
    RungStarted,
    SessionConfigured,
    StepRecord,
    SummaryRefused,
    ToolInterrupted,
    ToolSettled,
    ToolStarted,
    Trigger,
    TurnEnded,
    TurnStarted,
    WindowWarned,
)

# What comes of a climb, and of the requests that it may be for.
_ClimbRecord: TypeAlias = (
    RungStarted
    | SummaryRefused
    | CompactionApplied
    | GenerationStarted
    | ReasoningDropped
    | EffortChanged
    | OutputClamped
    | OutputMasked
    | PartReplaced
    | RungFinished
    | CompactionSettled
)


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


class Wanted(msgspec.Struct, frozen=True):
    """A request for compaction that has no outcome yet. `is_met`: one was applied since it came."""

    seq: int
    trigger: Trigger
    focus: str = ""
    is_met: bool = False


class Piece(msgspec.Struct, frozen=True):
    """A model's notes on the originals between the piece before and the record `until`."""

    until: int
    notes: str
    focus: str = ""


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
    # Notes that are paid for, oldest first; and the last that were merged, with all that they cover.
    pieces: tuple[Piece, ...] = ()
    merged: Piece | None = None

    # How full the person was last told the window is; turns to go before we ask for a compaction of our own again.
    warned_percent: int = 0
    quiet_turns: int = 0

    # Requests for compaction, the rungs climbed for them, summarisers given up, and why the last answer was not used.
    wanted: tuple[Wanted, ...] = ()
    climbed_for_wanted: tuple[Rung, ...] = ()
    summarisers_passed: int = 0
    refused_why: str = ""
    # The rung in flight, and whether it was asked for instead of answering a fault.
    climbing: Rung | None = None
    is_wanted_climb: bool = False

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

    @property
    def owed(self) -> int:
        """How many outcomes the session owes: of inputs that wait, of the turn that is open, of wanted compactions."""
        return len(self.waiting) + bool(self.number) + len(self.wanted)

    @property
    def boundary(self) -> int:
        """The first turn that is in the view verbatim, by the seq of its input."""
        return self.compaction.boundary if self.compaction else 0

    @property
    def first_step(self) -> int:
        """The first record of that turn's work that is in the view; 0: all of it is."""
        return self.compaction.step if self.compaction else 0


class IllegalStepError(ValueError):
    """A record that cannot follow the ones before it: a bug in the writer or a damaged log."""

    def __init__(self, seq: int, why: str) -> None:
        self.seq, self.why = seq, why
        super().__init__(f"record {seq} {why}")


def receive(turn: Turn, seq: int, record: InboxRecord) -> Turn:
    """Return where the session stands after something came into its inbox."""
    match record:
        case SessionConfigured(model=model, system=system, tools=tools):
            return replace(turn, model=model, system=system, tools=tools)
        case InputAdmitted():
            return replace(turn, waiting=(*turn.waiting, seq))
        case CancelRequested(turn=number):
            # Whoever asks too late, again, or for what never was, asks for nothing.
            is_owed = number in turn.waiting or (number == turn.number and number > 0)
            if not is_owed or number in turn.cancelled:
                return turn
            return replace(turn, cancelled=(*turn.cancelled, number))
        case CompactionRequested(trigger=trigger, focus=focus):
            return replace(turn, wanted=(*turn.wanted, Wanted(seq, trigger, focus)))
        case CompactionUndone():
            return _undone(turn, record)
        case MessagePinned(pinned=pinned):
            others = tuple(other for other in turn.pins if other != pinned)
            return replace(turn, pins=tuple(sorted((*others, pinned))) if record.is_pinned else others)
        case PieceSummarised():
            return _noted(turn, record)
        case LimitsLearned() | ResultSubmitted():
            # A result counts when whoever waits for it has written its receipt.
            return turn
        case _:
            assert_never(record)


def _undone(turn: Turn, record: CompactionUndone) -> Turn:
    gone = turn.compaction
    if gone is None or record.undone != turn.compaction_seq:
        return turn
    # Whoever wants the view as it was does not want us to compact it again at once.
    turn = replace(
        turn, compaction=record.restored, compaction_seq=record.restored_seq, warned_percent=0, quiet_turns=QUIET_TURNS
    )
    if isinstance(gone, GenerationStarted):
        turn = replace(turn, generation=gone.left, pins=tuple(sorted({*turn.pins, *gone.pins_left})))
    return turn


def _noted(turn: Turn, record: PieceSummarised) -> Turn:
    piece = Piece(record.until, record.notes, record.focus)
    if record.is_merged:
        return replace(turn, merged=piece)
    kept = tuple(other for other in turn.pieces if other.until <= record.since)
    if record.since != (kept[-1].until if kept else 0) or record.until <= record.since:
        # Made by somebody who did not see what came meanwhile; with a gap before them notes cover less than they say.
        return turn
    is_merged_of_others = turn.merged is not None and record.since < turn.merged.until
    return replace(turn, pieces=(*kept, piece), merged=None if is_merged_of_others else turn.merged)


def notice(turn: Turn, record: WindowWarned | NoticePosted) -> Turn:
    """Return where the session stands after the person was told something."""
    return replace(turn, warned_percent=record.percent) if isinstance(record, WindowWarned) else turn


def apply(turn: Turn, seq: int, record: StepRecord) -> Turn:
    """Return where the session stands after one step of work. What is in flight is not changed here."""
    match record:
        case TurnStarted(turn=number):
            return _started(turn, seq, number)
        case AttemptStarted():
            return replace(turn, attempts=turn.attempts + 1, output_asked=record.output_tokens_max)
        case ReplyRecorded(reply=reply):
            asked = tuple(Call(part) for part in reply.parts if isinstance(part, ToolCall))
            # A reply is progress: the ladder and the count of deaths begin anew. Steps are bounded, so all of it is.
            return replace(
                turn,
                steps=turn.steps + 1,
                calls_asked=asked,
                has_answer=not asked,
                climbed=(),
                interruptions=0,
                output_clamp=None,
                suspected=None,
            )
        case AttemptFailed(fault=fault):
            return replace(turn, fault=fault, suspected=fault if _is_suspicion(record) else turn.suspected)
        case AttemptAbandoned(reason=reason):
            died = reason is Abandonment.INTERRUPTED
            return replace(turn, interruptions=turn.interruptions + died)
        case ToolStarted():
            return _tool_started(turn, seq, record)
        case ToolInterrupted(call_id=call_id):
            call, running = _take(turn.calls_running, call_id, seq)
            return replace(turn, calls_running=running, calls_asked=(*turn.calls_asked, call))
        case ToolSettled(result=result):
            _, running = _take(turn.calls_running, result.call_id, seq)
            return replace(turn, calls_running=running)
        case TurnEnded(turn=number):
            return _ended(turn, seq, number)
        case _:
            return _apply_climb(turn, seq, record)


def _is_suspicion(failed: AttemptFailed) -> bool:
    """Return whether a model did answer, and only its own count of what it read was against it."""
    fault = failed.fault
    is_guess = fault.kind is FaultKind.TOKEN_OVERFLOW and fault.confidence is Confidence.GUESS
    return is_guess and failed.refusal.status == OK


def _apply_climb(turn: Turn, seq: int, record: _ClimbRecord) -> Turn:
    match record:
        case RungStarted(rung=rung, kind=None):
            climbed = (*turn.climbed_for_wanted, rung)
            return replace(turn, climbed_for_wanted=climbed, climbing=rung, is_wanted_climb=True)
        case RungStarted(rung=rung):
            return replace(turn, climbed=(*turn.climbed, rung), climbing=rung, is_wanted_climb=False)
        case SummaryRefused(why=why):
            # Of a climb that answers a fault, nobody who asks for a compaction later wants to hear.
            return replace(turn, refused_why=why) if turn.is_wanted_climb else turn
        case GenerationStarted(generation=generation):
            pins = tuple(pin for pin in turn.pins if pin not in record.pins_left)
            turn = replace(turn, generation=generation, generations=generation, pins=pins)
            return _compacted(turn, seq, record)
        case CompactionApplied():
            return _compacted(turn, seq, record)
        case ReasoningDropped(before=before):
            return replace(turn, reasoning_from=before)
        case EffortChanged(effort=effort):
            return replace(turn, effort=effort)
        case OutputClamped(output_tokens_max=most):
            return replace(turn, output_clamp=most)
        case OutputMasked(before=before):
            return replace(turn, masked_before=max(turn.masked_before, before))
        case PartReplaced():
            return replace(turn, replaced=(*turn.replaced, record))
        case RungFinished():
            return _rung_finished(turn, record)
        case CompactionSettled(request=request):
            return _settled(turn, seq, request)
        case _:
            assert_never(record)


def _compacted(turn: Turn, seq: int, record: CompactionApplied | GenerationStarted) -> Turn:
    return replace(
        turn,
        compaction=record,
        compaction_seq=seq,
        warned_percent=0,
        quiet_turns=QUIET_TURNS,
        # Signatures may be bound to what stood before them, and that has changed.
        reasoning_from=seq,
        wanted=tuple(replace(wanted, is_met=True) for wanted in turn.wanted),
        # What is pinned stays in the view, and so does what stands for parts of it.
        replaced=tuple(one for one in turn.replaced if one.seq >= record.boundary or one.seq in turn.pins),
    )


def _started(turn: Turn, seq: int, number: int) -> Turn:
    if number not in turn.waiting:
        raise IllegalStepError(seq, f"starts turn {number}, which is not waiting")
    waiting = tuple(other for other in turn.waiting if other != number)
    # Deaths while a compaction was made at rest are not this turn's.
    return replace(turn, waiting=waiting, number=number, last_turn=number, interruptions=0)


def _settled(turn: Turn, seq: int, request: int) -> Turn:
    left = tuple(wanted for wanted in turn.wanted if wanted.seq != request)
    if left == turn.wanted:
        raise IllegalStepError(seq, f"settles request {request}, which is not wanted")
    return replace(
        turn,
        wanted=left,
        climbed_for_wanted=(),
        summarisers_passed=0,
        refused_why="",
        quiet_turns=QUIET_TURNS,
        # An outcome is progress, as a reply is.
        interruptions=0,
    )


def _tool_started(turn: Turn, seq: int, record: ToolStarted) -> Turn:
    call, asked = _take(turn.calls_asked, record.call_id, seq)
    call = replace(call, starts=call.starts + 1, is_idempotent=record.is_idempotent, reply=record.reply)
    return replace(turn, calls_asked=asked, calls_running=(*turn.calls_running, call))


def _take(calls: tuple[Call, ...], call_id: str, seq: int) -> tuple[Call, tuple[Call, ...]]:
    """Return one call and the others."""
    for place, call in enumerate(calls):
        if call.call.call_id == call_id:
            return call, calls[:place] + calls[place + 1 :]
    raise IllegalStepError(seq, f"is about tool call {call_id!r}, which is not open")


def _rung_finished(turn: Turn, record: RungFinished) -> Turn:
    turn = replace(turn, climbing=None)
    match record.result:
        case RungResult.UNCHANGED:
            return turn
        case RungResult.INTERRUPTED:
            return _uncount(turn)
        case RungResult.CHANGED if record.rung is Rung.NEXT_SUMMARISER:
            # The next summariser may try the same ways. There are finitely many summarisers.
            return replace(
                turn,
                summarisers_passed=turn.summarisers_passed + 1,
                climbed=_without_summaries(turn.climbed),
                climbed_for_wanted=_without_summaries(turn.climbed_for_wanted),
            )
        case RungResult.CHANGED if turn.is_wanted_climb:
            return turn
        case RungResult.CHANGED if record.rung is Rung.NEXT_MODEL:
            # Another model is another ladder. There are finitely many models.
            return replace(
                turn, fault=None, climbed=(), models_passed=turn.models_passed + 1, output_clamp=None, suspected=None
            )
        case RungResult.CHANGED:
            return replace(turn, fault=None)
        case _:
            assert_never(record.result)


def _uncount(turn: Turn) -> Turn:
    """Let a rung that was interrupted be climbed again."""
    if turn.is_wanted_climb:
        return replace(turn, climbed_for_wanted=turn.climbed_for_wanted[:-1], interruptions=turn.interruptions + 1)
    return replace(turn, climbed=turn.climbed[:-1], interruptions=turn.interruptions + 1)


def _without_summaries(climbed: tuple[Rung, ...]) -> tuple[Rung, ...]:
    return tuple(rung for rung in climbed if rung not in (*SUMMARIES, Rung.NEXT_SUMMARISER))


def _ended(turn: Turn, seq: int, number: int) -> Turn:
    # An input that waits ends without having started, but not while another is being answered.
    if number not in ((turn.number,) if turn.number else turn.waiting):
        raise IllegalStepError(seq, f"ends turn {number}, which is not open")
    return replace(
        turn,
        waiting=tuple(other for other in turn.waiting if other != number),
        cancelled=tuple(other for other in turn.cancelled if other != number),
        unreadable=tuple(other for other in turn.unreadable if other != number),
        quiet_turns=max(turn.quiet_turns - 1, 0),
        **NO_TURN,
    )


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
    "summarisers_passed": 0,
}
