"""Whether a person is asked before room is made."""

import pytest
from msgspec.structs import replace

from holdfast.core.fold.session_state import InFlight, Turn
from holdfast.core.limits.bounds import Bounds
from holdfast.core.turn.decide import Climb, EndTurn, decide
from holdfast.core.turn.failure_messages import CHOICE
from holdfast.core.turn.transitions import evolve
from holdfast.types.faults import Confidence, Fault, FaultKind, Rung
from holdfast.types.messages import BlobRef, Text
from holdfast.types.records import CompactionApplied, InputAdmitted, Logged, Outcome, RungStarted, TurnEnded, refs_of

ASK = Bounds(on_overflow="ask")
TOO_LONG = Fault(FaultKind.TOKEN_OVERFLOW, Confidence.CERTAIN)
FULL = Turn(seq=9, in_flight=InFlight.READY, number=1, last_turn=1, fault=TOO_LONG, climbed=(Rung.CLAMP_OUTPUT,))


def test_who_wants_to_be_asked_is_asked_before_anything_leaves_the_view() -> None:
    """FM-026."""
    assert decide(replace(FULL, climbed=()), ASK) == Climb(Rung.CLAMP_OUTPUT, FaultKind.TOKEN_OVERFLOW)
    assert decide(FULL, ASK) == EndTurn(1, Outcome.FAILED, CHOICE)
    assert decide(FULL, Bounds()) == Climb(Rung.MASK, FaultKind.TOKEN_OVERFLOW)


@pytest.mark.parametrize("kind", [FaultKind.WIRE_OVERFLOW, FaultKind.MEDIA_OVERFLOW, FaultKind.TOOL_PAIRING])
def test_only_a_conversation_that_is_too_long_is_asked_about(kind: FaultKind) -> None:
    assert isinstance(decide(replace(FULL, fault=Fault(kind, Confidence.CERTAIN)), ASK), Climb)


def test_a_person_is_asked_once_until_room_was_made() -> None:
    """FM-026: whoever goes on without an answer is answered."""
    ended = evolve(FULL, Logged(10, 0.0, TurnEnded(1, Outcome.FAILED, CHOICE.code, CHOICE.sentence)))
    again = replace(FULL, seq=10, is_choice_offered=ended.is_choice_offered)

    assert decide(again, ASK) == Climb(Rung.MASK, FaultKind.TOKEN_OVERFLOW)

    climbing = evolve(again, Logged(11, 0.0, RungStarted(1, Rung.DIGEST, FaultKind.TOKEN_OVERFLOW)))
    compacted = evolve(climbing, Logged(12, 0.0, CompactionApplied(1, 1, "s", 9, 1)))
    assert not compacted.is_choice_offered


def test_what_is_left_out_of_a_message_is_named_by_it() -> None:
    """FM-018: so it is kept, copied and deleted with the session."""
    whole = BlobRef("ab" * 32, 600_000)

    assert list(refs_of(InputAdmitted((Text("left out"),), originals=(whole,)))) == [whole]
