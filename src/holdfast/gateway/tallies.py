"""Counts of turns, faults and rescues by tenant, from the records that this process writes.

A rescue is a turn that had a fault and was answered nevertheless. Its cause is the first fault of the turn.
"""

from collections import Counter, OrderedDict
from collections.abc import Collection
from time import time

import msgspec

from holdfast.gateway.http.auth import tenant_of
from holdfast.types.faults import FaultKind
from holdfast.types.records import AttemptFailed, AttemptStarted, Logged, Outcome, TurnEnded

# Open turns that are followed. A turn that waits for longer than this many others is not counted as rescued.
_TURNS_MAX = 10_000
# Names of models come from clients; those above this number are counted together.
_MODELS_MAX = 1_000
_OTHER_MODEL = "(others)"


class Tally(msgspec.Struct, frozen=True):
    """Counts of one tenant or of several."""

    turns: Counter[Outcome]
    # By model and kind; by kind.
    faults: Counter[tuple[str, FaultKind]]
    rescues: Counter[FaultKind]


class _Open(msgspec.Struct):
    model: str = ""
    cause: FaultKind | None = None


class Tallies:
    """The counts of all tenants since `since`."""

    def __init__(self) -> None:
        self.since = time()
        self._tallies: dict[str, Tally] = {}
        self._models: set[str] = set()
        self._open: OrderedDict[tuple[str, int], _Open] = OrderedDict()

    def observe(self, session: str, logged: Logged) -> None:
        """Count a record."""
        match logged.record:
            case AttemptStarted(turn=turn, model=model):
                self._turn(session, turn).model = self._named(model)
            case AttemptFailed(turn=turn, fault=fault):
                found = self._turn(session, turn)
                found.cause = found.cause or fault.kind
                self._tally(session).faults[found.model, fault.kind] += 1
            case TurnEnded(turn=turn, outcome=outcome):
                tally, ended = self._tally(session), self._open.pop((session, turn), None)
                tally.turns[outcome] += 1
                if outcome is Outcome.ANSWERED and ended is not None and ended.cause is not None:
                    tally.rescues[ended.cause] += 1
            case _:
                pass

    def of(self, tenants: Collection[str] | None) -> Tally:
        """Return the counts of some tenants, or of all."""
        total = Tally(Counter(), Counter(), Counter())
        for name, tally in self._tallies.items():
            if tenants is None or name in tenants:
                total.turns.update(tally.turns)
                total.faults.update(tally.faults)
                total.rescues.update(tally.rescues)
        return total

    def _tally(self, session: str) -> Tally:
        return self._tallies.setdefault(tenant_of(session), Tally(Counter(), Counter(), Counter()))

    def _turn(self, session: str, turn: int) -> _Open:
        found = self._open.setdefault((session, turn), _Open())
        if len(self._open) > _TURNS_MAX:
            self._open.popitem(last=False)
        return found

    def _named(self, model: str) -> str:
        if model not in self._models and len(self._models) >= _MODELS_MAX:
            return _OTHER_MODEL
        self._models.add(model)
        return model
