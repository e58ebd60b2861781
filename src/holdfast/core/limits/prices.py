"""Prices of models, the list prices of providers, and totals of spending, in US dollars.

A missing price is not guessed: such a call adds tokens and no cost, and is counted as unpriced, so that an incomplete
total is visible.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from holdfast.types.messages import Usage

_MILLION = 1_000_000
# Totals are rounded to a billionth of a dollar: a token of the cheapest model costs fifty of them, and sums of many
# fractions are equal on every machine.
_DECIMALS = 9


class Prices(msgspec.Struct, frozen=True, omit_defaults=True):
    """US dollars per million tokens. None: unknown; cached input and cache writes then cost the input price."""

    input_usd: float | None = None
    cached_input_usd: float | None = None
    output_usd: float | None = None
    # Input that is written to the prompt cache.
    cache_write_usd: float | None = None
    # A call with more input than this costs so many times as much: all of its input, cached or not, and its output.
    long_prompt_tokens: int | None = None
    long_input_times: float | None = None
    long_output_times: float | None = None

    def above(self, tokens: int, input_times: float, output_times: float) -> "Prices":
        """Return these prices with a step for prompts of more tokens."""
        return msgspec.structs.replace(
            self, long_prompt_tokens=tokens, long_input_times=input_times, long_output_times=output_times
        )

    def cost(self, usage: Usage | None) -> float | None:
        """Return the cost of a call by its reported usage; None if price or usage is unknown."""
        if usage is None or self.input_usd is None or self.output_usd is None:
            return None
        cached = min(usage.cached_input_tokens, usage.input_tokens)
        written = min(usage.cache_write_tokens, usage.input_tokens - cached)
        input_micros = (
            (usage.input_tokens - cached - written) * self.input_usd
            + cached * (self.input_usd if self.cached_input_usd is None else self.cached_input_usd)
            + written * (self.input_usd if self.cache_write_usd is None else self.cache_write_usd)
        )
        output_micros = usage.output_tokens * self.output_usd
        if self.long_prompt_tokens is not None and usage.input_tokens > self.long_prompt_tokens:
            input_micros *= 1.0 if self.long_input_times is None else self.long_input_times
            output_micros *= 1.0 if self.long_output_times is None else self.long_output_times
        return round((input_micros + output_micros) / _MILLION, _DECIMALS)

    def saving(self, tokens: int) -> float | None:
        """Return the saving per later request if its cached prefix shrinks by so many tokens."""
        usd = self.input_usd if self.cached_input_usd is None else self.cached_input_usd
        return None if usd is None else round(tokens * usd / _MILLION, _DECIMALS)

    @property
    def dearness(self) -> float:
        """Sort key for choosing the cheapest summariser; a summary has ten times as much input as output."""
        if self.input_usd is None or self.output_usd is None:
            return float("inf")
        return 10 * self.input_usd + self.output_usd


NO_PRICES = Prices()
# The field that is a number of tokens.
LONG_PROMPT_TOKENS = "long_prompt_tokens"


def _anthropic_prices(input_usd: float, output_usd: float, read_usd: float | None = None) -> Prices:
    # A cache read costs a tenth of the input price on most models, a five-minute cache write 1.25 times as much.
    read = round(input_usd / 10, 6) if read_usd is None else read_usd
    return Prices(input_usd, read, output_usd, round(input_usd * 1.25, 6))


# The pages that state the prices, and the day on which the rows were last compared with copies of them.
PRICE_SOURCES: Mapping[str, str] = MappingProxyType(
    {
        "openai": "copies of https://developers.openai.com/api/docs/pricing, compared on 2026-11-18",
        "anthropic": "copies of https://platform.claude.com/docs/en/about-claude/pricing, compared on 2026-11-18",
        "gemini": "copies of https://ai.google.dev/gemini-api/docs/pricing, compared on 2026-11-18",
    }
)

# US dollars per million tokens: input, cached input, output, cache writes, without batching. `above` has the step for
# long prompts. Left out are models for which copies of a page differ (gpt-6 other than astra).
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
        "openai:gpt-5.3-codex": Prices(1.75, 0.175, 14.00),
        "openai:gpt-5.4": Prices(2.50, 0.25, 15.00).above(272_000, 2, 1.5),
        "openai:gpt-5.4-mini": Prices(0.75, 0.075, 4.50),
        "openai:gpt-5.4-nano": Prices(0.20, 0.02, 1.25),
        "openai:gpt-5.4-pro": Prices(30.00, None, 180.00).above(272_000, 2, 1.5),
        "openai:gpt-5.5": Prices(5.00, 0.50, 30.00).above(272_000, 2, 1.5),
        "openai:gpt-5.5-pro": Prices(30.00, None, 180.00),
        # The price of sol is an offer that holds until 2026-11-21 at least.
        "openai:gpt-5.6-sol": Prices(4.00, 0.40, 20.00, 5.00),
        "openai:gpt-5.6-terra": Prices(2.00, 0.20, 12.00, 2.50),
        "openai:gpt-5.6-luna": Prices(0.20, 0.02, 1.20, 0.25),
        "openai:gpt-6-astra": Prices(10.00, 1.00, 50.00),
        "openai:codex-mini-latest": Prices(1.50, 0.375, 6.00),
        "openai:o1": Prices(15.00, 7.50, 60.00),
        "openai:o1-mini": Prices(1.10, 0.55, 4.40),
        "openai:o3": Prices(2.00, 0.50, 8.00),
        "openai:o3-mini": Prices(1.10, 0.55, 4.40),
        "openai:o4-mini": Prices(1.10, 0.275, 4.40),
        "anthropic:claude-3-haiku": _anthropic_prices(0.25, 1.25),
        "anthropic:claude-3-opus": _anthropic_prices(15.00, 75.00),
        "anthropic:claude-3-5-haiku": _anthropic_prices(0.80, 4.00),
        "anthropic:claude-3-5-sonnet": _anthropic_prices(3.00, 15.00),
        "anthropic:claude-3-7-sonnet": _anthropic_prices(3.00, 15.00),
        "anthropic:claude-opus-4": _anthropic_prices(15.00, 75.00),
        "anthropic:claude-opus-4-0": _anthropic_prices(15.00, 75.00),
        "anthropic:claude-opus-4-1": _anthropic_prices(15.00, 75.00),
        "anthropic:claude-opus-4-5": _anthropic_prices(5.00, 25.00),
        "anthropic:claude-opus-4-6": _anthropic_prices(5.00, 25.00),
        "anthropic:claude-opus-4-7": _anthropic_prices(5.00, 25.00),
        "anthropic:claude-opus-4-8": _anthropic_prices(5.00, 25.00),
        "anthropic:claude-opus-5": _anthropic_prices(5.00, 25.00),
        "anthropic:claude-opus-5-5": _anthropic_prices(4.00, 20.00, 0.20),
        "anthropic:claude-sonnet-4": _anthropic_prices(3.00, 15.00).above(200_000, 2, 1.5),
        "anthropic:claude-sonnet-4-0": _anthropic_prices(3.00, 15.00).above(200_000, 2, 1.5),
        "anthropic:claude-sonnet-4-5": _anthropic_prices(3.00, 15.00).above(200_000, 2, 1.5),
        "anthropic:claude-sonnet-4-6": _anthropic_prices(3.00, 15.00),
        "anthropic:claude-sonnet-5": _anthropic_prices(2.00, 10.00),
        "anthropic:claude-sonnet-5-5": _anthropic_prices(2.00, 10.00, 0.10),
        "anthropic:claude-haiku-4-5": _anthropic_prices(1.00, 5.00),
        "anthropic:claude-haiku-5-5": _anthropic_prices(0.10, 0.50).above(100_000, 5, 5),
        "anthropic:claude-fable-5": _anthropic_prices(10.00, 50.00),
        "anthropic:claude-fable-5-1": _anthropic_prices(10.00, 50.00, 0.25),
        "gemini:gemini-2.0-flash": Prices(0.10, 0.025, 0.40),
        "gemini:gemini-2.5-pro": Prices(1.25, 0.125, 10.00).above(200_000, 2, 1.5),
        "gemini:gemini-2.5-flash": Prices(0.30, 0.03, 2.50),
        "gemini:gemini-2.5-flash-lite": Prices(0.10, 0.01, 0.40),
        "gemini:gemini-3-flash": Prices(0.50, 0.05, 3.00),
        "gemini:gemini-3.1-pro": Prices(2.00, 0.20, 12.00).above(200_000, 2, 1.5),
        "gemini:gemini-3.1-flash-lite": Prices(0.25, 0.025, 1.50),
        "gemini:gemini-3.5-flash": Prices(1.50, 0.15, 9.00),
        "gemini:gemini-3.5-flash-lite": Prices(0.30, 0.03, 2.50),
        "gemini:gemini-3.6-flash": Prices(1.50, 0.15, 7.50),
    }
)

# Suffixes of the same model: a date or an alias such as `-latest`. Any other suffix, such as `-mini` or `.4`, is
# another model with another price.
_SAME = re.compile(r"-(?:\d{8}|\d{4}-\d{2}-\d{2}|\d{4}|latest|preview|001|002)")


def declared_prices(reference: str) -> Prices:
    """Return the list prices of a provider's model; `NO_PRICES` for an unknown one."""
    return price_in(PRICED, reference) or NO_PRICES


def listed_name(reference: str) -> str:
    """Return the name of a model in tables: OpenAI's models have two prefixes in references, one per dialect."""
    prefix, _, name = reference.partition(":")
    return f"openai:{name}" if prefix == "responses" else reference


def price_in(table: Mapping[str, Prices], reference: str) -> Prices | None:
    """Return the prices of a model in a table, by its name or by that without a date or alias."""
    full = listed_name(reference)
    if full in table:
        return table[full]
    same = (one for one in table if full.startswith(one) and _SAME.fullmatch(full.removeprefix(one)))
    return next((table[one] for one in same), None)


class Spent(msgspec.Struct, frozen=True, omit_defaults=True):
    """Totals of calls."""

    calls: int = 0
    # Tokens that were read, those of them from a prompt cache, and tokens that were written.
    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0
    # US dollars.
    usd: float = 0.0
    # Calls whose price or usage is unknown; `usd` excludes them.
    unpriced: int = 0

    def plus(self, usage: Usage | None, usd: float | None) -> "Spent":
        """Return the totals with one more call."""
        counted = usage or Usage()
        return Spent(
            self.calls + 1,
            self.input_tokens + counted.input_tokens,
            self.cached_input_tokens + counted.cached_input_tokens,
            self.output_tokens + counted.output_tokens,
            round(self.usd + (usd or 0.0), _DECIMALS),
            self.unpriced + (usd is None),
        )

    @property
    def tokens(self) -> int:
        """Input and output tokens."""
        return self.input_tokens + self.output_tokens

    @property
    def known_usd(self) -> float | None:
        """Total cost; None if no call has a price."""
        return None if self.calls == self.unpriced else self.usd


NOTHING_SPENT = Spent()


def spoken_usd(usd: float | None) -> str:
    """Format an amount of money; small positive amounts are not rounded to zero."""
    if usd is None:
        return "at an unknown price"
    # A summary by a small model costs a hundredth of a cent.
    return f"${usd:,.2f}" if usd >= 1 or not usd else f"${usd:.4f}" if usd >= 0.0001 else "less than $0.0001"  # noqa: PLR2004
