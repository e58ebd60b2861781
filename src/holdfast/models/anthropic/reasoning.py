"""How effort and hidden thinking are said in the Anthropic dialect, in both directions."""

import re
from collections.abc import Mapping

from holdfast.models.wire import WireNode
from holdfast.types.messages import Effort, Reasoning

# The types of blocks that hold thinking.
THINKING_TYPES = ("thinking", "redacted_thinking")

# The API's own floor.
BUDGET_TOKENS_MIN = 1_024
# Four times more from step to step: a few steps of reasoning, a page, and as much as helps with code.
_BUDGETS: Mapping[Effort, int] = {Effort.LOW: BUDGET_TOKENS_MIN, Effort.MEDIUM: 4_096, Effort.HIGH: 16_384}

# Models from 4.6 on decide themselves how long to think and take an effort; from 4.7 on they refuse a budget.
_ADAPTIVE_SINCE = (4, 6)
_VERSION = re.compile(r"(?:^|[-.])(\d{1,2})(?:[-.](\d{1,2}))?(?=$|[-.@:])")

# A signature is base64 and has no colon, so hidden thinking cannot be taken for a signature.
_REDACTED = "redacted_thinking:"


def thinking_settings(effort: Effort, model: str, output_tokens_max: int) -> dict[str, WireNode]:
    """Return the settings that ask for this much thinking; none where it would not fit into the output."""
    if effort is Effort.NONE:
        return {"thinking": {"type": "disabled"}}
    if is_adaptive(model):
        return {"thinking": {"type": "adaptive"}, "output_config": {"effort": str(effort)}}
    # Thinking counts as output: at least half of what is allowed stays for the answer.
    budget = min(_BUDGETS[effort], output_tokens_max // 2)
    if budget < BUDGET_TOKENS_MIN:
        return {}
    return {"thinking": {"type": "enabled", "budget_tokens": budget}}


def is_adaptive(model: str) -> bool:
    """Whether a model takes an effort in place of a budget. A name without a version takes a budget."""
    found = _VERSION.search(model) if "claude" in model else None
    return found is not None and (int(found[1]), int(found[2] or 0)) >= _ADAPTIVE_SINCE


def effort_of_budget(budget_tokens: int) -> Effort:
    """Name the effort that asks for about this budget."""
    if budget_tokens < _BUDGETS[Effort.MEDIUM]:
        return Effort.LOW
    return Effort.MEDIUM if budget_tokens < _BUDGETS[Effort.HIGH] else Effort.HIGH


def redacted_reasoning(issuer: str, data: str) -> Reasoning:
    """Return thinking that the provider keeps to itself."""
    return Reasoning("", issuer, _REDACTED + data)


def redacted_data(opaque: str) -> str | None:
    """Return what the provider keeps to itself, or None where the thinking is open and this is its signature."""
    return opaque.removeprefix(_REDACTED) if opaque.startswith(_REDACTED) else None


def thinking_block(part: Reasoning) -> dict[str, WireNode]:
    """Return the block that a part came from, to the byte."""
    data = redacted_data(part.opaque)
    if data is not None:
        return {"type": "redacted_thinking", "data": data}
    return {"type": "thinking", "thinking": part.text, "signature": part.opaque}
