"""Where to cut, and whether it pays: pure planning of a compaction."""

from collections.abc import Sequence

import msgspec

from holdfast.core.limits import Bounds, Limits
from holdfast.core.records import Logged, ToolSettled
from holdfast.core.sizing import tokens_of_message
from holdfast.core.view import Said

# The window of most models that do not say what theirs is.
_WINDOW_USUAL = 128_000


class Cut(msgspec.Struct, frozen=True):
    """A new boundary: turns before it are represented, the rest stays verbatim."""

    boundary: int
    tokens_before: int
    tokens_kept: int


def plan_cut(tail: Sequence[Said], *, newest: int, keep_tokens: int) -> Cut | None:
    """Keep whole turns from the newest backwards while they fit, the newest always.

    Returns None where that would leave everything as it is.
    """
    sizes: dict[int, int] = {}
    for said in tail:
        sizes[said.turn] = sizes.get(said.turn, 0) + tokens_of_message(said.message)
    kept = sizes.get(newest, 0)
    boundary = newest
    for turn in sorted((turn for turn in sizes if turn < newest), reverse=True):
        if kept + sizes[turn] > keep_tokens:
            break
        kept += sizes[turn]
        boundary = turn
    if boundary <= min(sizes, default=newest):
        return None
    return Cut(boundary, sum(sizes.values()), kept)


def plan_mask(tail: Sequence[Logged], *, masked_before: int, keep: int) -> int | None:
    """Return the seq before which tool output is to be masked, so that this many outputs stay; None: nothing to do."""
    settled = [logged.seq for logged in tail if isinstance(logged.record, ToolSettled)]
    if len(settled) <= keep:
        return None
    before = settled[-keep]
    return before if before > masked_before else None


def tail_tokens_max(limits: Limits, bounds: Bounds, refused_tokens: int) -> int:
    """Return how many tokens the tail may have after a compaction.

    Where the window is not known, the size of the request that was refused stands in for it.
    """
    window = min(limits.window_tokens or refused_tokens, refused_tokens)
    return int(window * bounds.tail_window_share)


def asked_tail_tokens_max(limits: Limits, bounds: Bounds) -> int:
    """Return how many tokens the tail may have after a compaction that someone asked for.

    It does not depend on how large the view is now, so asking again changes nothing.
    """
    return int((limits.window_tokens or _WINDOW_USUAL) * bounds.asked_tail_window_share)


def summary_tokens_max(limits: Limits, refused_tokens: int) -> int:
    """Return how many tokens may stand for everything before the boundary.

    An eighth of the window leaves the tail and the answer their room; beyond 3,000 tokens a digest adds little.
    """
    window = min(limits.window_tokens or refused_tokens, refused_tokens)
    return max(200, min(3_000, window // 8))
