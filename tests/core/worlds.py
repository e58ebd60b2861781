"""A world that answers every action as it likes: what it does is read off a list of numbers, over and over.

Whatever the numbers, each log that comes of it is one that the engine could have written: the core decides, and only
people and providers are arbitrary. An exhausted list starts again, so a hostile world stays hostile for ever; people
fall silent when it is through for the first time.
"""

from collections.abc import Sequence
from typing import TypeVar

import pytest
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.core.compaction.plan import generation_after, shown_less
from holdfast.core.fold.session_state import InFlight, Turn
from holdfast.core.limits.bounds import Bounds
from holdfast.core.turn.decide import (
    Action,
    Backoff,
    CallModel,
    Climb,
    EndTurn,
    Rest,
    RunTools,
    SettleCompactions,
    StartTurn,
    decide,
    interruptions,
)
from holdfast.core.turn.ladder import SUMMARIES
from holdfast.core.turn.transitions import evolve
from holdfast.core.view import lens_of, through
from holdfast.testing.builders import a_message
from holdfast.types.faults import Confidence, Fault, FaultKind, Phase, Refusal, Rung
from holdfast.types.messages import (
    BlobRef,
    ContentPart,
    Effort,
    LargeText,
    Media,
    Reasoning,
    Text,
    ToolCall,
    ToolOutcome,
    ToolResult,
)
from holdfast.types.records import (
    Abandonment,
    AnyRecord,
    AttemptFailed,
    AttemptStarted,
    CancelRequested,
    CompactionApplied,
    CompactionRequested,
    CompactionSettled,
    CompactionUndone,
    EffortChanged,
    GenerationStarted,
    InputAdmitted,
    Logged,
    MessageExcluded,
    MessagePinned,
    NoticePosted,
    OutputClamped,
    OutputMasked,
    ParameterDropped,
    PartReplaced,
    PieceSummarised,
    ReasoningDropped,
    ReplyRecorded,
    RungFinished,
    RungResult,
    RungStarted,
    SessionConfigured,
    SummaryKind,
    SummaryRefused,
    ToolSettled,
    ToolStarted,
    Trigger,
    TurnEnded,
    TurnStarted,
    WindowWarned,
    WorkRecord,
)

BOUNDS = Bounds(steps_max=3, interruptions_max=2, tool_starts_max=2, tool_calls_parallel_max=2)
MODELS = 3
# People stop asking somewhere; this is far more than a person has in flight.
_ASKED_MAX = 12
# A turn of three steps on three models, each with its whole ladder and three summarisers, and all its deaths, comes to
# about 1,500 actions at the worst.
_ACTIONS_MAX = 1_500 * _ASKED_MAX

# The longest ladders are the ones to see more of.
_OVERFLOWS = (FaultKind.TOKEN_OVERFLOW, FaultKind.WIRE_OVERFLOW, FaultKind.MEDIA_OVERFLOW)
_KINDS = (*FaultKind, *[FaultKind.TOKEN_OVERFLOW] * 8, *[FaultKind.WIRE_OVERFLOW, FaultKind.MEDIA_OVERFLOW] * 3)

Chosen = TypeVar("Chosen")
# Short lists make a world that does the same few things for ever.
numbers = st.lists(st.integers(0, 255), min_size=1, max_size=150) | st.lists(st.integers(0, 59), min_size=1, max_size=4)


class World:
    """A session, those who use it, and whatever its actions meet."""

    def __init__(self, script: Sequence[int], *, is_narrow: bool = False) -> None:
        # A narrow world refuses everything for its size until the session has rolled over.
        self._is_narrow = is_narrow
        self.log: list[Logged] = []
        self.turns: list[Turn] = [Turn()]
        self._script = script
        self._read = 0
        self._asked = 0
        # What was in force before each compaction.
        self._before: dict[int, tuple[CompactionApplied | None, int]] = {}

    @property
    def turn(self) -> Turn:
        return self.turns[-1]

    @property
    def _is_first_pass(self) -> bool:
        return self._read < len(self._script)

    def live(self) -> None:
        """Go on until there is nothing to do."""
        self._append(InputAdmitted((Text("input @1"),)))
        for _ in range(_ACTIONS_MAX):
            action = decide(self.turn, BOUNDS)
            if isinstance(action, Rest):
                return
            self._perform(action)
        pytest.fail("there is no end to it")

    # What happens.

    def _perform(self, action: Action) -> None:
        self._append(*_begun(action, self.turn))
        while self.turn.in_flight not in {InFlight.REST, InFlight.READY}:
            if self._choose((*[False] * 11, True)):
                is_cancelled = self.turn.number in self.turn.cancelled
                reason = Abandonment.CANCELLED if is_cancelled else Abandonment.INTERRUPTED
                self._append(*interruptions(self.turn, reason, BOUNDS))
                assert self.turn.in_flight in {InFlight.REST, InFlight.READY}, "something is still in flight"
            else:
                answer = self._answer()
                # A process may die with only a part of its records written, but not for ever.
                is_torn = self._is_first_pass and self._choose((False, False, False, True))
                self._append(*answer[: 1 if is_torn else None])

    def _answer(self) -> list[WorkRecord]:
        """Return the next thing that comes of what is in flight."""
        match self.turn.in_flight:
            case InFlight.MODEL:
                return self._model_answers()
            case InFlight.TOOLS:
                call = self._choose(self.turn.calls_running)
                result = ToolResult(call.call.call_id, self._parts("output"), self._choose(tuple(ToolOutcome)))
                return [ToolSettled(self.turn.number, result)]
            case _:
                return self._rung_ends()

    def _model_answers(self) -> list[WorkRecord]:
        turn, here = self.turn, len(self.log) + 1
        if self._is_narrow and not (isinstance(turn.compaction, GenerationStarted) and turn.boundary == turn.number):
            fault = Fault(self._choose(_OVERFLOWS), Confidence.CERTAIN)
            return [AttemptFailed(turn.number, turn.attempts, Refusal("x", Phase.RESPONSE, 400), fault)]
        match self._choose(("text", "calls", "fault", "calls", "fault", "empty")):
            case "fault":
                wait = self._choose((None, 1.5, 900.0))
                kind, sure = self._choose(_KINDS), self._choose((Confidence.CERTAIN, Confidence.GUESS))
                second = self._choose((None, *FaultKind)) if sure is Confidence.GUESS else None
                fault = Fault(kind, sure, second, retry_after_seconds=wait)
                return [AttemptFailed(turn.number, turn.attempts, Refusal("x", Phase.RESPONSE, 400), fault)]
            case "calls":
                calls = [ToolCall(f"c{n}", "look_up", "{}") for n in range(self._choose((1, 2, 3)))]
                reply = a_message(f"reply @{here}", *calls)
            case "text":
                reply = a_message(f"reply @{here}")
            case _:
                reply = a_message("  ")
        if self._choose((False, True)):
            reply = replace(reply, parts=(Reasoning(f"thought @{here}", "m", "c2ln"), *reply.parts))
        warned = [WindowWarned(turn.number, 85, "It is 85 % full.")] if self._choose((False, False, True)) else []
        return [ReplyRecorded(turn.number, turn.attempts, reply), *warned]

    def _rung_ends(self) -> list[WorkRecord]:
        turn, rung = self.turn, self.turn.climbing
        assert rung is not None
        is_silent = not isinstance(self.log[-1].record, PieceSummarised | SummaryRefused)
        if rung in SUMMARIES and is_silent and self._choose((False, False, True)):
            notes = self._notes()
            refused = SummaryRefused(turn.number, "m", "it is empty")
            return [notes if self._choose((False, True)) else refused]
        unchanged, changed = RungResult.UNCHANGED, RungResult.CHANGED
        result = self._choose((unchanged, changed, unchanged, changed, RungResult.INTERRUPTED))
        if self._is_narrow and rung is Rung.ROLL_OVER:
            result = changed
        left = {Rung.FALLBACK_MODEL: turn.models_passed, Rung.NEXT_SUMMARISER: turn.summarisers_passed}
        if left.get(rung, 0) + 1 >= MODELS and result is RungResult.CHANGED:
            result = RungResult.UNCHANGED
        changes = self._changes(rung) if result is RungResult.CHANGED else []
        return [*changes, RungFinished(turn.number, rung, result)]

    def _notes(self) -> PieceSummarised:
        """Return notes that follow on those there are, or on others, or all of them as one."""
        since = self._choose((0, *(piece.until for piece in self.turn.pieces), 3))
        until = since + self._choose((1, 2, 5, 0))
        is_merged = self._choose((False, False, False, True))
        return PieceSummarised(self.turn.number, until, "notes", "m", since=since, is_merged=is_merged)

    def _changes(self, rung: Rung) -> list[WorkRecord]:
        """Return what a rung changes of the view; nothing is also an answer."""
        turn = self.turn
        told = NoticePosted(turn.number, "changed", "Something changed.")
        match rung:
            case Rung.MASK:
                return [OutputMasked(turn.number, self._choose(range(1, len(self.log) + 2))), told]
            case Rung.CLAMP_OUTPUT:
                return [OutputClamped(turn.number, 2_000), told]
            case Rung.DROP_REASONING:
                return [ReasoningDropped(turn.number, len(self.log) + 1)]
            case Rung.CHANGE_EFFORT:
                return [EffortChanged(turn.number, Effort.LOW if turn.effort is None else None)]
            case Rung.DROP_PARAMETER:
                assert turn.fault is not None
                return [ParameterDropped(turn.number, turn.fault.parameter), told]
            case Rung.SHRINK_IMAGE if places := self._places(media_only=True):
                seq, place = self._choose(places)
                image = Media(BlobRef("cd" * 32, 900), "image/jpeg", f"shown @{len(self.log) + 1}")
                return [PartReplaced(turn.number, seq, place, image, "x"), told]
            case Rung.REPLACE_LARGEST if places := self._places():
                seq, place = self._choose(places)
                return [PartReplaced(turn.number, seq, place, Text(f"shown @{len(self.log) + 1}"), "x"), told]
            case Rung.LEAVE_OUT_UNANSWERED | Rung.LEAVE_OUT_NEW if places := self._places():
                seq, place = self._choose(places)
                return [MessageExcluded(seq, self._choose((place, None)), turn=turn.number, why="x"), told]
            case Rung.ROLL_OVER:
                return self._generation()
            case Rung.SUMMARISE | Rung.SUMMARISE_LESS | Rung.SUMMARISE_PIECES | Rung.DIGEST | Rung.KEEP_NEWEST:
                return [applied, told] if (applied := self._compaction(rung)) else []
            case _:
                return []

    def _compaction(self, rung: Rung) -> CompactionApplied | None:
        turn = self.turn
        boundary = self._choose([number for number in self._started() if number >= turn.boundary] or [0])
        if not boundary:
            return None
        replies = [
            logged.seq
            for logged in self.log
            if isinstance(logged.record, ReplyRecorded) and logged.record.turn == boundary == turn.last_turn
        ]
        step = self._choose([0, *(seq for seq in replies[1:] if seq >= turn.first_step)])
        if (boundary, step) < (turn.boundary, turn.first_step):
            return None
        kind = SummaryKind.SUMMARY if rung in SUMMARIES else SummaryKind.DIGEST
        return CompactionApplied(turn.number, boundary, f"summary @{len(self.log) + 1}", 9, 1, kind, step=step)

    def _generation(self) -> list[WorkRecord]:
        turn = self.turn
        admitted = self.log[turn.number - 1].record
        assert isinstance(admitted, InputAdmitted)
        parts = through(lens_of(turn), turn.number, admitted.parts)
        shown = shown_less(turn, parts, self._choose((None, 2_000, 400, 0)))
        return [*shown, generation_after(turn, f"seed @{len(self.log) + 1}", 9)]

    def _started(self) -> list[int]:
        return [logged.record.turn for logged in self.log if isinstance(logged.record, TurnStarted)]

    def _places(self, *, media_only: bool = False) -> list[tuple[int, int]]:
        """Return every part that the view may show."""
        taken = {(one.seq, one.place) for one in self.turn.replaced if media_only or isinstance(one.shown, Text)}
        started = set(self._started())
        held = [(one.seq, one.record.parts) for one in self.log if isinstance(one.record, InputAdmitted)]
        held = [(seq, parts) for seq, parts in held if seq in started]
        held += [(one.seq, one.record.result.parts) for one in self.log if isinstance(one.record, ToolSettled)]
        places = [
            (seq, place)
            for seq, parts in held
            for place, part in enumerate(parts)
            if seq >= self.turn.boundary and (isinstance(part, Media) or not media_only)
        ]
        return [place for place in places if place not in taken]

    # Who asks.

    def _append(self, *records: AnyRecord) -> None:
        """Append records, each behind what people may have sent meanwhile."""
        for record in records:
            while self._is_first_pass and self._asked < _ASKED_MAX and self._choose((False, False, True)):
                self._asked += 1
                self._record(self._asks())
            self._record(record)

    def _asks(self) -> AnyRecord:
        turn = self.turn
        match self._choose(
            ("input", "compact", "cancel", "input", "pin", "undo", "configure", "input", "notes", "exclude")
        ):
            case "notes":
                return self._notes()
            case "compact":
                return CompactionRequested(
                    self._choose(tuple(Trigger)), self._choose(("", "the plan")), self._choose((0, 1, 10, 40))
                )
            case "cancel":
                return CancelRequested(self._choose((turn.number, *turn.waiting, len(self.log), 999)))
            case "pin":
                return MessagePinned(self._choose(range(1, len(self.log) + 2)), self._choose((True, True, False)))
            case "exclude":
                return MessageExcluded(
                    self._choose(range(1, len(self.log) + 2)), is_excluded=self._choose((True, False))
                )
            case "undo":
                undone = self._choose((turn.compaction_seq, 0, 1))
                return CompactionUndone(undone, *self._before.get(undone, (None, 0)))
            case "configure":
                return SessionConfigured("m", "Be brief.")
            case _:
                return InputAdmitted(self._parts("input"), f"m{len(self.log)}")

    def _record(self, record: AnyRecord) -> None:
        logged = Logged(len(self.log) + 1, 0.0, record)
        if isinstance(record, CompactionApplied):
            self._before[logged.seq] = (self.turn.compaction, self.turn.compaction_seq)
        self.turns.append(evolve(self.turn, logged))
        self.log.append(logged)

    # By chance.

    def _parts(self, what: str) -> tuple[ContentPart, ...]:
        """Return parts that can be told apart by the record they stand in, small and large."""
        parts: list[ContentPart] = []
        blob = BlobRef("ab" * 32, 9_000)
        for place in range(self._choose((1, 1, 2))):
            name = f"{what} @{len(self.log) + 1}.{place}"
            padding = self._choose(("", " " + "x" * 700, " " + "x" * 5_000, "media", "large"))
            match padding:
                case "media":
                    parts.append(Media(blob, "image/png", name))
                case "large":
                    parts.append(LargeText(blob, name))
                case _:
                    parts.append(Text(name + padding))
        return tuple(parts)

    def _choose(self, options: Sequence[Chosen]) -> Chosen:
        number = self._script[self._read % len(self._script)]
        self._read += 1
        return options[number % len(options)]


def _begun(action: Action, turn: Turn) -> list[WorkRecord]:
    """Return the records with which the engine begins an action."""
    match action:
        case StartTurn(turn=number):
            return [TurnStarted(number)]
        case CallModel(attempt=attempt):
            return [AttemptStarted(turn.number, attempt, "m")]
        case RunTools(calls=calls):
            return [ToolStarted(turn.number, one.call_id, one.name, one.call_id == "c1") for one in calls]
        case Backoff(kind=kind, seconds=seconds):
            return [RungStarted(turn.number, Rung.BACKOFF, kind, seconds)]
        case Climb(rung=rung, kind=kind):
            return [RungStarted(turn.number, rung, kind)]
        case SettleCompactions(requests=requests, outcome=outcome, why=why):
            return [CompactionSettled(seq, outcome, why) for seq in requests]
        case EndTurn(turn=number, outcome=outcome):
            return [TurnEnded(number, outcome)]
        case Rest():
            return []


def _lived(script: list[int], *, is_narrow: bool = False) -> World:
    world = World(script, is_narrow=is_narrow)
    world.live()
    return world


def _lived_narrowly(script: list[int]) -> World:
    return _lived(script, is_narrow=True)


worlds = numbers.map(_lived)
# Ladders that are long, and mostly end in a roll-over.
narrow_worlds = numbers.map(_lived_narrowly)
