"""Where to cut, and whether it pays: pure planning of a compaction."""

from collections.abc import Sequence

import msgspec

from holdfast.core.limits import Bounds, Limits
from holdfast.core.messages import Role
from holdfast.core.records import Logged, ToolSettled
from holdfast.core.sizing import tokens_of_message
from holdfast.core.view import Said

# The window of most models that do not say what theirs is.
_WINDOW_USUAL = 128_000


class Cut(msgspec.Struct, frozen=True):
    """A new boundary: what lies before it is represented, the rest stays verbatim."""

    boundary: int
    tokens_before: int
    tokens_kept: int
    # Where the newest turn alone is too long: the record from which on its work stays verbatim.
    step: int = 0


def plan_cut(tail: Sequence[Said], *, newest: int, keep_tokens: int) -> Cut | None:
    """Keep whole turns from the newest backwards while they fit.

    The newest input always stays. Where the work done on it is too long by itself, the newest steps of that work stay,
    one at least, each with its tool results. Returns None where all that would leave everything as it is.
    """
    sizes: dict[int, int] = {}
    for said in tail:
        sizes[said.turn] = sizes.get(said.turn, 0) + tokens_of_message(said.message)
    boundary, kept, step = newest, sizes.get(newest, 0), 0
    if kept > keep_tokens:
        step, kept = _newest_steps([said for said in tail if said.turn == newest], keep_tokens)
    else:
        for turn in sorted((turn for turn in sizes if turn < newest), reverse=True):
            if kept + sizes[turn] > keep_tokens:
                break
            kept += sizes[turn]
            boundary = turn
    if boundary <= min(sizes, default=newest) and not step:
        return None
    return Cut(boundary, sum(sizes.values()), kept, step)


def _newest_steps(work: Sequence[Said], keep_tokens: int) -> tuple[int, int]:
    """Return the record at which the newest steps that fit begin, 0 where all stay, and the tokens of what stays."""
    steps: list[list[Said]] = [[]]
    for said in work:
        if said.message.role is Role.ASSISTANT:
            steps.append([])
        steps[-1].append(said)
    sizes = [sum(tokens_of_message(said.message) for said in step) for step in steps]
    # Before the first step stands the input.
    kept, first = sizes[0], len(steps)
    while first > 1 and (first == len(steps) or kept + sizes[first - 1] <= keep_tokens):
        first -= 1
        kept += sizes[first]
    return (steps[first][0].place, kept) if first > 1 and first < len(steps) else (0, sum(sizes))


def plan_mask(tail: Sequence[Logged], *, masked_before: int, keep: int) -> int | None:
    """Return the seq before which tool output is to be masked, so that this many outputs stay; None: nothing to do."""
    settled = [logged.seq for logged in tail if isinstance(logged.record, ToolSettled)]
    if len(settled) <= keep:
        return None
    before = settled[-keep] if keep else settled[-1] + 1
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
