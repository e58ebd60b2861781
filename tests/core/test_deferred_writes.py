"""Which records may wait for a store that fails: those of one replacement, and of the one request behind it."""

from collections.abc import Sequence

import pytest

from holdfast.core.turn.decide import may_wait, told_of_failure
from holdfast.testing.builders import a_reply
from holdfast.types.faults import FaultKind, Rung
from holdfast.types.messages import Text
from holdfast.types.records import (
    AttemptStarted,
    NoticePosted,
    PartReplaced,
    RungFinished,
    RungResult,
    RungStarted,
    TurnStarted,
    WorkRecord,
)

CLIMBS = RungStarted(1, Rung.REPLACE_LARGEST, FaultKind.MEDIA_OVERFLOW)
FINISHED = RungFinished(1, Rung.REPLACE_LARGEST, RungResult.CHANGED)
REPLACES = (PartReplaced(1, 1, 0, Text("[a photo]"), "x"), NoticePosted(1, "x", "It was left out."), FINISHED)
ASKS = AttemptStarted(1, 2, "m")
TOLD = told_of_failure(1, "store_full")


@pytest.mark.parametrize(
    ("unwritten", "records"),
    [
        ((), (CLIMBS,)),
        ((), REPLACES),
        ((), (FINISHED,)),
        ((CLIMBS, TOLD), REPLACES),
        ((CLIMBS, TOLD, FINISHED), (CLIMBS,)),
        ((*REPLACES, TOLD), (ASKS,)),
    ],
)
def test_a_replacement_and_the_request_behind_it_may_wait(
    unwritten: Sequence[WorkRecord], records: Sequence[WorkRecord]
) -> None:
    assert may_wait(unwritten, records)


@pytest.mark.parametrize(
    ("unwritten", "records"),
    [
        ((), (TurnStarted(1),)),
        ((), (ASKS,)),
        ((), (RungStarted(1, Rung.DIGEST, FaultKind.MEDIA_OVERFLOW),)),
        ((), (RungFinished(1, Rung.DIGEST, RungResult.CHANGED),)),
        ((CLIMBS, TOLD, FINISHED), (ASKS,)),
        # What a model answered is kept before anybody sees it.
        ((*REPLACES, TOLD, ASKS), (a_reply(),)),
        ((*REPLACES, TOLD, ASKS), REPLACES),
    ],
)
def test_nothing_else_waits(unwritten: Sequence[WorkRecord], records: Sequence[WorkRecord]) -> None:
    assert not may_wait(unwritten, records)


def test_the_person_is_told() -> None:
    assert (TOLD.turn, TOLD.code) == (1, "store_failed")
    assert "store_full" in TOLD.sentence
