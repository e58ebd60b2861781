"""Prices of models and totals of spending, in US dollars.

A missing price is not guessed: such a call adds tokens and no cost, and is counted as unpriced, so that an incomplete
total is visible.
"""

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

    def cost(self, usage: Usage | None) -> float | None:
        """Return the cost of a call by its reported usage; None if price or usage is unknown."""
        if usage is None or self.input_usd is None or self.output_usd is None:
            return None
        cached = min(usage.cached_input_tokens, usage.input_tokens)
        written = min(usage.cache_write_tokens, usage.input_tokens - cached)
        micros = (
            (usage.input_tokens - cached - written) * self.input_usd
            + cached * (self.input_usd if self.cached_input_usd is None else self.cached_input_usd)
            + written * (self.input_usd if self.cache_write_usd is None else self.cache_write_usd)
            + usage.output_tokens * self.output_usd
        )
        return round(micros / _MILLION, _DECIMALS)

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
