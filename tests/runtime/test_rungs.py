"""Recovery steps of the engine."""

from holdfast.core.turn.ladder import SUMMARIES
from holdfast.runtime.engine.rungs import CHECKS, STEPS
from holdfast.types.faults import Rung


def test_every_rung_has_exactly_one_step() -> None:
    assert sorted([*SUMMARIES, *CHECKS, *STEPS]) == sorted(Rung)
