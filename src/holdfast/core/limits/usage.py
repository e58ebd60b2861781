"""What a request takes of the three budgets, and what its model gives: what a gauge shows, and a chart over time.

Full means what it means to `misfit`: at 100 % the next token, byte or image is one too many.
"""

from holdfast.core.limits.bounds import Bounds
from holdfast.core.limits.fit import Sizes, output_reserved
from holdfast.types.limits import Calibration, Limits
from holdfast.types.usage import Budgets


def budgets_of(sizes: Sizes, limits: Limits, calibration: Calibration, bounds: Bounds) -> Budgets:
    """Return what a request takes. Of the window, the room that is kept free for the answer is not there to be used."""
    window = limits.window_tokens
    return Budgets(
        tokens=calibration.upper(sizes.tokens),
        tokens_max=None if window is None else max(window - output_reserved(limits, bounds), 1),
        wire_bytes=sizes.wire_bytes,
        wire_bytes_max=limits.wire_bytes_max or bounds.wire_bytes_max,
        media=sizes.media_count,
        media_max=limits.media_count_max,
    )


def after_change(before: Budgets | None, tokens: int) -> Budgets:
    """Return what is known when the view has become another one: its tokens. The next request tells the rest."""
    return Budgets(tokens, before.tokens_max if before is not None else None)
