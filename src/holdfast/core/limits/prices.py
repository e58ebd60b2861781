"""What calls of a model cost, and what was spent.

Money is in US dollars. A price that nobody declared is not guessed: such a call has a count of tokens and no cost, and
is counted as unpriced, so that no sum pretends to be whole.
"""

import msgspec

from holdfast.types.messages import Usage

_MILLION = 1_000_000
# Sums are kept to a billionth of a dollar: a token of the cheapest model costs fifty of them, and a sum of many
# fractions stays the same on every machine.
_DECIMALS = 9


class Prices(msgspec.Struct, frozen=True, omit_defaults=True):
    """US dollars for a million tokens. None: not known; for cached and kept input that of plain input then counts."""

    input_usd: float | None = None
    cached_input_usd: float | None = None
    output_usd: float | None = None
    # Input that is also kept for later calls.
    cache_write_usd: float | None = None

    def cost(self, usage: Usage | None) -> float | None:
        """Return what a call cost by what was reported of it; None where the price or the count is not known."""
        if usage is None or self.input_usd is None or self.output_usd is None:
            return None
        cached = min(usage.cached_input_tokens, usage.input_tokens)
        kept = min(usage.cache_write_tokens, usage.input_tokens - cached)
        micros = (
            (usage.input_tokens - cached - kept) * self.input_usd
            + cached * (self.input_usd if self.cached_input_usd is None else self.cached_input_usd)
            + kept * (self.input_usd if self.cache_write_usd is None else self.cache_write_usd)
            + usage.output_tokens * self.output_usd
        )
        return round(micros / _MILLION, _DECIMALS)

    def saving(self, tokens: int) -> float | None:
        """Return what each further request costs less if so many tokens of its cached beginning are not sent."""
        usd = self.input_usd if self.cached_input_usd is None else self.cached_input_usd
        return None if usd is None else round(tokens * usd / _MILLION, _DECIMALS)

    @property
    def dearness(self) -> float:
        """By what models are put in order of price for a summary, which reads ten times what it writes."""
        if self.input_usd is None or self.output_usd is None:
            return float("inf")
        return 10 * self.input_usd + self.output_usd


NO_PRICES = Prices()


class Spent(msgspec.Struct, frozen=True, omit_defaults=True):
    """What calls came to."""

    calls: int = 0
    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0
    usd: float = 0.0
    # Calls whose price or count is not known: `usd` has nothing of them.
    unpriced: int = 0

    def plus(self, usage: Usage | None, usd: float | None) -> "Spent":
        """Return what all came to with one more call."""
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
        """What was read and written together."""
        return self.input_tokens + self.output_tokens

    @property
    def known_usd(self) -> float | None:
        """What it cost; None where no call has a price."""
        return None if self.calls == self.unpriced else self.usd


NOTHING_SPENT = Spent()


def spoken_usd(usd: float | None) -> str:
    """Say an amount of money, as short as it may be without being nothing."""
    if usd is None:
        return "at an unknown price"
    # A summary by a small model costs a hundredth of a cent.
    return f"${usd:,.2f}" if usd >= 1 or not usd else f"${usd:.4f}" if usd >= 0.0001 else "less than $0.0001"  # noqa: PLR2004
