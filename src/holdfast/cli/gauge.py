"""How full the fullest of the three budgets is, as a bar and as a sentence."""

import msgspec

from holdfast.runtime.sessions import View

# As wide as a bar needs to be to tell a tenth from the next.
_CELLS = 10


class Filling(msgspec.Struct, frozen=True):
    """What the view takes of the budget that it takes most of; nothing is known of a limit where `most` is None."""

    used: int
    most: int | None
    unit: str

    @property
    def percent(self) -> int | None:
        """How full it is."""
        return None if self.most is None else 100 * self.used // max(self.most, 1)

    @property
    def sentence(self) -> str:
        """The same for a person to read."""
        if self.percent is None:
            return f"About {self.used:,} {self.unit}; the model's limit is not known yet."
        return f"About {self.used:,} of {self.most:,} {self.unit} ({self.percent} %)."

    @property
    def line(self) -> str:
        """The same with a bar, for a status line."""
        if self.percent is None:
            return f"{self.used:,} {self.unit}"
        return f"{bar(self.percent)} {self.percent}% of {self.most:,} {self.unit}"


def filling(seen: View) -> Filling:
    """Return the budget of which a view takes most; tokens where nothing is known."""
    limits = seen.limits
    budgets = [
        Filling(seen.tokens_estimated, seen.window_tokens, "tokens"),
        Filling(seen.wire_bytes_estimated, limits.wire_bytes_max, "bytes"),
        Filling(seen.sizes.media_count, limits.media_count_max, "images"),
    ]
    return max(budgets, key=lambda budget: -1 if budget.percent is None else budget.percent)


def bar(percent: int) -> str:
    """Return a bar that is so full. Of plain characters: it has to come out right everywhere."""
    full = min(max(percent, 0), 100) * _CELLS // 100
    return f"[{'#' * full}{'-' * (_CELLS - full)}]"
