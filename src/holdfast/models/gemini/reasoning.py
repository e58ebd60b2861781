"""How effort and signatures of thinking are said in the Gemini dialect, in both directions.

A signature stands on the part that came after the thinking, a call or a text, and must go back on that part. Here it is
a `Reasoning` without text right before the part; one with text is a thought that was shown, with its own signature.
"""

import re
from collections.abc import Mapping

from holdfast.models.wire import WireNode
from holdfast.types.messages import Effort, Reasoning

# What the API takes in place of a signature on calls that another model made, or that lost theirs.
# https://ai.google.dev/gemini-api/docs/thought-signatures
NO_SIGNATURE = "skip_thought_signature_validator"

# Four times more from step to step, within what every model of the 2.5 series takes.
_BUDGETS: Mapping[Effort, int] = {Effort.LOW: 1_024, Effort.MEDIUM: 4_096, Effort.HIGH: 16_384}
# The least that 2.5 Pro takes: it cannot be told not to think.
_PRO_BUDGET_MIN = 128

_VERSION = re.compile(r"gemini-(\d+)")
# From here on a model takes a level in place of a budget, and demands signatures on its calls.
_LEVELS_SINCE_SERIES = 3


def thinking_config(effort: Effort, model: str) -> WireNode:
    """Return the setting that asks for this much thinking."""
    if series(model) >= _LEVELS_SINCE_SERIES:
        # The lowest level that every model of the series takes; none of them can be told not to think.
        levels = {Effort.NONE: "low", Effort.MEDIUM: "high" if "pro" in model else "medium"}
        return {"thinkingLevel": levels.get(effort, str(effort)), "includeThoughts": effort is not Effort.NONE}
    if effort is Effort.NONE:
        return {"thinkingBudget": _PRO_BUDGET_MIN if "pro" in model else 0}
    return {"thinkingBudget": _BUDGETS[effort], "includeThoughts": True}


def series(model: str) -> int:
    """Return the number of a model's series, 0 where its name has none."""
    found = _VERSION.search(model)
    return int(found[1]) if found else 0


def requires_signatures(model: str) -> bool:
    """Whether a model refuses calls without a signature."""
    return series(model) >= _LEVELS_SINCE_SERIES


def effort_of(level: str | None, budget: int | None) -> Effort | None:
    """Name the effort that a request asked for."""
    if level:
        return {"minimal": Effort.LOW, "low": Effort.LOW, "medium": Effort.MEDIUM}.get(level.lower(), Effort.HIGH)
    if budget is None or budget < 0:
        return None
    if budget <= _PRO_BUDGET_MIN:
        return Effort.NONE
    if budget < _BUDGETS[Effort.MEDIUM]:
        return Effort.LOW
    return Effort.MEDIUM if budget < _BUDGETS[Effort.HIGH] else Effort.HIGH


def is_signature(part: Reasoning) -> bool:
    """Whether a part is nothing but the signature of the part behind it."""
    return bool(part.opaque) and not part.text
