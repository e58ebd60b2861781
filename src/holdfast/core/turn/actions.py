"""What can be done next, as values: `decide` names one, the runner performs it."""

from typing import TypeAlias

import msgspec

from holdfast.core.turn.failure_messages import Ending
from holdfast.types.faults import FaultKind, Rung
from holdfast.types.messages import ToolCall
from holdfast.types.records import CompactionOutcome, Outcome


class StartTurn(msgspec.Struct, frozen=True):
    """Let the oldest waiting input into the view."""

    turn: int


class CallModel(msgspec.Struct, frozen=True):
    """Ask the model for the next step."""

    attempt: int
    # Whether a request that by our estimate does not fit is refused unsent.
    heeds_estimate: bool = True


class RunTools(msgspec.Struct, frozen=True):
    """Run the calls that the model asked for, side by side."""

    calls: tuple[ToolCall, ...]


class Backoff(msgspec.Struct, frozen=True):
    """Wait, then try again."""

    kind: FaultKind
    seconds: float


class Climb(msgspec.Struct, frozen=True):
    """Try one way of recovering; without a kind, of meeting a request for compaction."""

    rung: Rung
    kind: FaultKind | None = None


class SettleCompactions(msgspec.Struct, frozen=True):
    """Give requests for compaction their one outcome."""

    requests: tuple[int, ...]
    outcome: CompactionOutcome
    why: str = ""


class EndTurn(msgspec.Struct, frozen=True):
    """Give the input its one outcome."""

    turn: int
    outcome: Outcome
    ending: Ending | None = None


class Rest(msgspec.Struct, frozen=True):
    """There is nothing to do."""


Action: TypeAlias = StartTurn | CallModel | RunTools | Backoff | Climb | SettleCompactions | EndTurn | Rest
