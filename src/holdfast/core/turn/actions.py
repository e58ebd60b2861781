"""Actions of a turn as values: `decide` returns one, the runner performs it."""

from typing import TypeAlias

import msgspec

from holdfast.core.turn.failure_messages import Ending
from holdfast.types.faults import FaultKind, Rung
from holdfast.types.messages import ToolCall
from holdfast.types.records import CompactionOutcome, Outcome


class StartTurn(msgspec.Struct, frozen=True):
    """Start the turn of the oldest waiting input."""

    turn: int


class CallModel(msgspec.Struct, frozen=True):
    """Ask the model for the next step."""

    attempt: int
    # Reject the request unsent if the token estimate exceeds the window.
    heeds_estimate: bool = True


class RunTools(msgspec.Struct, frozen=True):
    """Run tool calls of the last reply in parallel."""

    calls: tuple[ToolCall, ...]


class Backoff(msgspec.Struct, frozen=True):
    """Wait, then retry."""

    kind: FaultKind
    seconds: float


class Climb(msgspec.Struct, frozen=True):
    """Climb one rung: for a fault of this kind, or (None) for a compaction request."""

    rung: Rung
    kind: FaultKind | None = None


class SettleCompactions(msgspec.Struct, frozen=True):
    """Record the outcome of compaction requests."""

    requests: tuple[int, ...]
    outcome: CompactionOutcome
    why: str = ""


class EndTurn(msgspec.Struct, frozen=True):
    """Record the outcome of an input."""

    turn: int
    outcome: Outcome
    ending: Ending | None = None


class Rest(msgspec.Struct, frozen=True):
    """Do nothing."""


Action: TypeAlias = StartTurn | CallModel | RunTools | Backoff | Climb | SettleCompactions | EndTurn | Rest
