"""Use of tokens, bytes and media by a request against the model's limits, for gauges and charts.

100 % agrees with `misfit`: the next token, byte or image exceeds the limit.
"""

from holdfast.core.limits.bounds import Bounds
from holdfast.core.limits.fit import Sizes, output_reserved
from holdfast.types.limits import Calibration, Limits
from holdfast.types.usage import Budgets


def budgets_of(sizes: Sizes, limits: Limits, calibration: Calibration, bounds: Bounds) -> Budgets:
    """Return use and limits for a request. Tokens reserved for the output are not part of the limit."""
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
    """Return the use after a change of the view: only tokens are known until the next request."""
    return Budgets(tokens, before.tokens_max if before is not None else None)
