"""Effort settings and thought signatures of the Gemini dialect.

A signature is attached to the call or text after the thinking and must be sent back on that part. It is represented as
a `Reasoning` without text before that part; a `Reasoning` with text is a visible thought with its own signature.
"""

import re
from collections.abc import Mapping

from holdfast.models.wire import WireNode
from holdfast.types.messages import Effort, Reasoning

# Accepted by the API instead of a signature, for calls by another model or with a lost signature.
# https://ai.google.dev/gemini-api/docs/thought-signatures
NO_SIGNATURE = "skip_thought_signature_validator"

# Each level is four times the one before, within the range of all 2.5 models.
_BUDGETS: Mapping[Effort, int] = {Effort.LOW: 1_024, Effort.MEDIUM: 4_096, Effort.HIGH: 16_384}
# Minimum of 2.5 Pro, which cannot disable thinking.
_PRO_BUDGET_MIN = 128

_VERSION = re.compile(r"gemini-(\d+)")
# Models since this series accept a level instead of a budget, and require signatures on calls.
_LEVELS_SINCE_SERIES = 3


def thinking_config(effort: Effort, model: str) -> WireNode:
    """Return the thinking settings for an effort."""
    if series(model) >= _LEVELS_SINCE_SERIES:
        # "low" is the lowest level of all models in the series; none can disable thinking.
        levels = {Effort.NONE: "low", Effort.MEDIUM: "high" if "pro" in model else "medium"}
        return {"thinkingLevel": levels.get(effort, str(effort)), "includeThoughts": effort is not Effort.NONE}
    if effort is Effort.NONE:
        return {"thinkingBudget": _PRO_BUDGET_MIN if "pro" in model else 0}
    return {"thinkingBudget": _BUDGETS[effort], "includeThoughts": True}


def series(model: str) -> int:
    """Return the series number of a model name, or 0."""
    found = _VERSION.search(model)
    return int(found[1]) if found else 0


def requires_signatures(model: str) -> bool:
    """Return whether a model rejects calls without a signature."""
    return series(model) >= _LEVELS_SINCE_SERIES


def effort_of(level: str | None, budget: int | None) -> Effort | None:
    """Return the effort of a level or budget."""
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
    """Return whether a part is only the signature of the next part."""
    return bool(part.opaque) and not part.text
