"""Effort settings and thinking blocks of the Anthropic dialect."""

import re
from collections.abc import Mapping

from holdfast.models.wire import WireNode
from holdfast.types.messages import Effort, Reasoning

# Block types with thinking.
THINKING_TYPES = ("thinking", "redacted_thinking")

# Minimum of the API.
BUDGET_TOKENS_MIN = 1_024
# Each level is four times the one before: a few steps of reasoning, a page, enough for code.
_BUDGETS: Mapping[Effort, int] = {Effort.LOW: BUDGET_TOKENS_MIN, Effort.MEDIUM: 4_096, Effort.HIGH: 16_384}

# Models since 4.6 accept an effort and choose their own budget; since 4.7 they reject a budget.
_ADAPTIVE_SINCE = (4, 6)
_VERSION = re.compile(r"(?:^|[-.])(\d{1,2})(?:[-.](\d{1,2}))?(?=$|[-.@:])")

# Signatures are base64 without a colon, so this prefix cannot occur in one.
_REDACTED = "redacted_thinking:"


def thinking_settings(effort: Effort, model: str, output_tokens_max: int) -> dict[str, WireNode]:
    """Return the thinking settings for an effort; none if the budget does not fit into the output."""
    if effort is Effort.NONE:
        return {"thinking": {"type": "disabled"}}
    if is_adaptive(model):
        return {"thinking": {"type": "adaptive"}, "output_config": {"effort": str(effort)}}
    # Thinking counts as output: reserve at least half of it for the reply.
    budget = min(_BUDGETS[effort], output_tokens_max // 2)
    if budget < BUDGET_TOKENS_MIN:
        return {}
    return {"thinking": {"type": "enabled", "budget_tokens": budget}}


def is_adaptive(model: str) -> bool:
    """Return whether a model accepts an effort instead of a budget. Names without a version use a budget."""
    found = _VERSION.search(model) if "claude" in model else None
    return found is not None and (int(found[1]), int(found[2] or 0)) >= _ADAPTIVE_SINCE


def effort_of_budget(budget_tokens: int) -> Effort:
    """Return the effort closest to a budget."""
    if budget_tokens < _BUDGETS[Effort.MEDIUM]:
        return Effort.LOW
    return Effort.MEDIUM if budget_tokens < _BUDGETS[Effort.HIGH] else Effort.HIGH


def redacted_reasoning(issuer: str, data: str) -> Reasoning:
    """Return a reasoning part for a `redacted_thinking` block."""
    return Reasoning("", issuer, _REDACTED + data)


def redacted_text(opaque: str) -> str | None:
    """Return the data of a `redacted_thinking` block, or None if `opaque` is a signature."""
    return opaque.removeprefix(_REDACTED) if opaque.startswith(_REDACTED) else None


def thinking_block(part: Reasoning) -> dict[str, WireNode]:
    """Return the original block of a part, byte for byte."""
    data = redacted_text(part.opaque)
    if data is not None:
        return {"type": "redacted_thinking", "data": data}
    return {"type": "thinking", "thinking": part.text, "signature": part.opaque}
