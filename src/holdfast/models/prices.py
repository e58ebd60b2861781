"""List prices of models for standard calls; uncertain prices are left out.

Prices change more often than limits. The overrides file takes precedence, and each call records its cost at the time.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType

from holdfast.core.limits.prices import NO_PRICES, Prices


def _anthropic(input_usd: float, output_usd: float) -> Prices:
    # A cache read costs a tenth of the input price, a five-minute cache write 1.25 times as much.
    return Prices(input_usd, round(input_usd / 10, 6), output_usd, round(input_usd * 1.25, 6))


# US dollars per million tokens: input, cached input, output.
# https://platform.openai.com/docs/pricing, https://platform.claude.com/docs/en/about-claude/pricing and
# https://ai.google.dev/gemini-api/docs/pricing, for prompts of standard length, without batching.
PRICED: Mapping[str, Prices] = MappingProxyType(
    {
        "openai:gpt-3.5-turbo": Prices(0.50, None, 1.50),
        "openai:gpt-4": Prices(30.00, None, 60.00),
        "openai:gpt-4-turbo": Prices(10.00, None, 30.00),
        "openai:gpt-4o": Prices(2.50, 1.25, 10.00),
        "openai:gpt-4o-mini": Prices(0.15, 0.075, 0.60),
        "openai:gpt-4.1": Prices(2.00, 0.50, 8.00),
        "openai:gpt-4.1-mini": Prices(0.40, 0.10, 1.60),
        "openai:gpt-4.1-nano": Prices(0.10, 0.025, 0.40),
        "openai:gpt-5": Prices(1.25, 0.125, 10.00),
        "openai:gpt-5-mini": Prices(0.25, 0.025, 2.00),
        "openai:gpt-5-nano": Prices(0.05, 0.005, 0.40),
        "openai:gpt-5-codex": Prices(1.25, 0.125, 10.00),
        "openai:gpt-5-pro": Prices(15.00, None, 120.00),
        "openai:gpt-5.1": Prices(1.25, 0.125, 10.00),
        "openai:gpt-5.2": Prices(1.75, 0.175, 14.00),
        "openai:codex-mini-latest": Prices(1.50, 0.375, 6.00),
        "openai:o1": Prices(15.00, 7.50, 60.00),
        "openai:o1-mini": Prices(1.10, 0.55, 4.40),
        "openai:o3": Prices(2.00, 0.50, 8.00),
        "openai:o3-mini": Prices(1.10, 0.55, 4.40),
        "openai:o4-mini": Prices(1.10, 0.275, 4.40),
        "anthropic:claude-3-haiku": _anthropic(0.25, 1.25),
        "anthropic:claude-3-opus": _anthropic(15.00, 75.00),
        "anthropic:claude-3-5-haiku": _anthropic(0.80, 4.00),
        "anthropic:claude-3-5-sonnet": _anthropic(3.00, 15.00),
        "anthropic:claude-3-7-sonnet": _anthropic(3.00, 15.00),
        "anthropic:claude-opus-4": _anthropic(15.00, 75.00),
        "anthropic:claude-opus-4-0": _anthropic(15.00, 75.00),
        "anthropic:claude-opus-4-1": _anthropic(15.00, 75.00),
        "anthropic:claude-opus-4-5": _anthropic(5.00, 25.00),
        "anthropic:claude-opus-4-6": _anthropic(5.00, 25.00),
        "anthropic:claude-opus-4-7": _anthropic(5.00, 25.00),
        "anthropic:claude-sonnet-4": _anthropic(3.00, 15.00),
        "anthropic:claude-sonnet-4-0": _anthropic(3.00, 15.00),
        "anthropic:claude-sonnet-4-5": _anthropic(3.00, 15.00),
        "anthropic:claude-sonnet-4-6": _anthropic(3.00, 15.00),
        "anthropic:claude-haiku-4-5": _anthropic(1.00, 5.00),
        "gemini:gemini-2.0-flash": Prices(0.10, 0.025, 0.40),
        "gemini:gemini-2.5-pro": Prices(1.25, 0.125, 10.00),
        "gemini:gemini-2.5-flash": Prices(0.30, 0.03, 2.50),
        "gemini:gemini-2.5-flash-lite": Prices(0.10, 0.01, 0.40),
    }
)

# OpenAI's models are reachable in two dialects, under two prefixes.
_SAME_MODELS = {"responses": "openai"}
# Suffixes of the same model: a date or an alias such as `-latest`. Any other suffix, such as `-mini` or `.4`, is
# another model with another price.
_SAME = re.compile(r"-(?:\d{8}|\d{4}-\d{2}-\d{2}|\d{4}|latest|preview|001|002)")


def declared_prices(reference: str) -> Prices:
    """Return the list prices of a provider's model; `NO_PRICES` for an unknown one."""
    prefix, _, name = reference.partition(":")
    full = f"{_SAME_MODELS.get(prefix, prefix)}:{name}"
    for listed, prices in PRICED.items():
        if full == listed or (full.startswith(listed) and _SAME.fullmatch(full.removeprefix(listed))):
            return prices
    return NO_PRICES
