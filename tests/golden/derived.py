"""Public values of a session after each record. A refactoring of the fold adapts this module and no golden file."""

from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.core.compaction.plan import warning, wish
from holdfast.core.fold.recovery_state import in_vain_today, spent_today
from holdfast.core.fold.session_state import InFlight, Turn
from holdfast.core.integrity.segments import Sealing, sealable_until
from holdfast.core.limits.bounds import Bounds
from holdfast.core.limits.prices import Spent
from holdfast.core.turn.decide import Action, decide, interruptions
from holdfast.core.turn.transitions import evolve
from holdfast.core.view import messages_in_view
from holdfast.types.limits import Budgets, Limits
from holdfast.types.messages import Message
from holdfast.types.records import Abandonment, Logged, encode_record
from tests.golden.shapes import expanded

USUAL = Bounds()
# A second set of bounds, for the branches that the usual ones do not reach.
STRICT = Bounds(
    on_overflow="ask",
    on_oversize="stop",
    steps_max=1,
    interruptions_max=0,
    tool_starts_max=1,
    tool_calls_parallel_max=1,
    back_off_seconds_max=5.0,
)
_LIMITS = Limits(window_tokens=8_192)
_SEALING = Sealing(margin_records=2)

Values = dict[str, Any]


def values_after_each(records: Sequence[Logged]) -> tuple[list[str], list[Values]]:
    """Return all messages that are ever in the view, and for each record the values that differ from those before it.

    A view is a list of places among the messages.
    """
    messages: list[str] = []
    lines: list[Values] = []
    turn, before = Turn(), Values()
    for count, logged in enumerate(records, start=1):
        turn = evolve(turn, logged)
        values = values_of(turn, logged.at)
        view = [_encoded(message) for message in messages_in_view(records[:count], turn)]
        messages += [message for message in dict.fromkeys(view) if message not in messages]
        values["view"] = [messages.index(message) for message in view]
        changed = {name: value for name, value in values.items() if name not in before or before[name] != value}
        lines.append({"after": logged.seq} | changed)
        before = values
    return messages, lines


def values_of(turn: Turn, now: float) -> Values:
    """Return the public values where a session stands."""
    return {
        "next": _next(turn, USUAL),
        "next_strict": _next(turn, STRICT),
        "interrupted": _closed(turn, Abandonment.INTERRUPTED, USUAL),
        "interrupted_strict": _closed(turn, Abandonment.INTERRUPTED, STRICT),
        "cancelled": _closed(turn, Abandonment.CANCELLED, USUAL),
        "store_full": _closed(turn, Abandonment.STORE_FULL, USUAL),
        "owed": turn.owed,
        "waiting": list(turn.waiting),
        "budgets": _budgets(turn.budgets),
        "spent": _spent(turn.spent),
        "spent_on_turn": _spent(turn.spent_on_turn),
        "spent_on_notes": _spent(turn.spent_on_notes),
        "spent_on_this_compaction": _spent(turn.spent_on_this),
        "spent_on_notes_today": _spent(spent_today(turn, now)),
        "notes_in_vain_today": in_vain_today(turn, now),
        "boundary": [turn.boundary, turn.first_step],
        "generation": [turn.generation, turn.generations],
        "pins": list(turn.pins),
        "sealable_until": sealable_until(turn, _SEALING),
        "warned_at_90": None if (told := warning(turn, 90, _LIMITS)) is None else told.percent,
        "wish_at_90": None if (asked := wish(turn, 90, USUAL)) is None else asked.trigger.value,
        "wish_at_10": None if (asked := wish(turn, 10, USUAL)) is None else asked.trigger.value,
        "asked_with": {
            "model": turn.model,
            "system": turn.system,
            "tools": expanded(turn.tools),
            "effort": turn.effort,
            "models_passed": turn.models_passed,
            "summarisers_passed": turn.summarisers_passed,
            "output_clamp": turn.output_clamp,
        },
        "notes": [[piece.until, piece.notes, piece.focus] for piece in (*turn.pieces, *filter(None, [turn.merged]))],
        "learnt_from": [expanded(turn.suspected), turn.tokens_guessed, turn.answered.reported],
    }


def _next(turn: Turn, bounds: Bounds) -> object:
    """Return the next action by its name and arguments; None while something is in flight."""
    if turn.in_flight not in {InFlight.REST, InFlight.READY}:
        return None
    action: Action = decide(turn, bounds)
    return [type(action).__name__, expanded(action)]


def _closed(turn: Turn, reason: Abandonment, bounds: Bounds) -> list[str]:
    return [encode_record(record).decode() for record in interruptions(turn, reason, bounds)]


def _budgets(budgets: Budgets | None) -> list[int | None] | None:
    if budgets is None:
        return None
    return [
        budgets.tokens,
        budgets.tokens_max,
        budgets.wire_bytes,
        budgets.wire_bytes_max,
        budgets.media,
        budgets.media_max,
    ]


def _spent(spent: Spent) -> list[float]:
    return [
        spent.calls,
        spent.input_tokens,
        spent.cached_input_tokens,
        spent.output_tokens,
        spent.usd,
        spent.unpriced,
    ]


def _encoded(message: Message) -> str:
    return msgspec.json.encode(message).decode()
