"""Savings for clients of the proxy (`savings = "safe"`): fold repeated lines of new tool output, mask old output early.

Both are decided from the folded state, the prices and the request, so that every gateway decides alike. Output that a
model has read as it is stays so until it is masked: the beginning of requests changes only then.
"""

from collections.abc import Mapping, Sequence

import msgspec

from holdfast.core.fold.session_state import Turn
from holdfast.core.limits.prices import Prices
from holdfast.core.limits.savings import balance_usd, expected_share, is_warm
from holdfast.core.limits.sizing import tokens_of_message, tokens_of_parts, tokens_of_text
from holdfast.core.proxy.folding import fold_repeats
from holdfast.core.proxy.plan import OVERSIZE, RequestFacts
from holdfast.core.text.truncation import well_formed
from holdfast.core.view import MASKED_BYTES_MIN
from holdfast.types.faults import Fault, FaultKind
from holdfast.types.messages import Message, Text, ToolResult

# Requests within which a changed beginning must have paid. Half of the turns of agents make more.
PAYBACK_REQUESTS_MAX = 5.0
# Faults of the request itself, which the provider would find again.
_LASTING = OVERSIZE | {
    FaultKind.BAD_REQUEST,
    FaultKind.BAD_REQUEST_REASONING,
    FaultKind.CONTENT_POLICY,
    FaultKind.TOOL_PAIRING,
}
# Masking less is not worth a changed request.
_FREED_TOKENS_MIN = 2_000
# The line that takes the place of an output.
_MASK_TOKENS = tokens_of_text("[1,234,567 bytes of output, no longer shown; recall(seq=12345) reads them]")


class MaskSizes(msgspec.Struct, frozen=True):
    """Effect of a mask in tokens: those it frees, and those after the first masked output that stay."""

    freed: int
    rewritten: int


def may_save(facts: RequestFacts, state: Turn) -> bool:
    """Return whether a request may be changed to save money: never while the changes of its session cost more."""
    return not facts.is_held and not facts.is_compaction and balance_usd(state.saved) >= 0


def is_lasting(fault: Fault | None) -> bool:
    """Return whether a provider would find a fault of a client's own request again."""
    return fault is not None and fault.kind in _LASTING


def is_repaired(state: Turn) -> bool:
    """Return whether requests of a session differ from the client's own because a provider rejected those.

    Parts are replaced or left out, calls paired and the effort changed for no other reason.
    """
    is_changed = state.has_repaired_pairs or state.is_effort_changed or bool(state.replaced)
    return is_changed or any(one.turn for one in state.excluded)


def folds(messages: Sequence[Message], *, first: int, bytes_max: int) -> Mapping[str, tuple[str, ...]]:
    """Return tool output with repeated lines folded, by call: of the messages from number `first` on.

    Larger output than `bytes_max` is shown truncated, so it is not folded.
    """
    found: dict[str, tuple[str, ...]] = {}
    for message in messages[first:]:
        for part in message.parts:
            if isinstance(part, ToolResult) and (folded := _folded(part, bytes_max)):
                found[part.call_id] = folded
    return found


def _folded(result: ToolResult, bytes_max: int) -> tuple[str, ...]:
    texts = [well_formed(part.text) for part in result.parts if isinstance(part, Text)]
    if len(texts) < len(result.parts):
        return ()
    short = [fold_repeats(text) for text in texts]
    shown = tuple(text if one is None else one for text, one in zip(texts, short, strict=True))
    is_short = sum(len(text.encode()) for text in shown) <= bytes_max
    return shown if is_short and any(one is not None for one in short) else ()


def mask_sizes(messages: Sequence[Message], *, keep: int) -> MaskSizes:
    """Return the effect of masking all tool output but the newest `keep`."""
    old = sum(isinstance(part, ToolResult) for message in messages for part in message.parts) - keep
    freed = after = 0
    for message in messages:
        results = [part for part in message.parts if isinstance(part, ToolResult)]
        masked = [part for part in results[: max(old, 0)] if _is_maskable(part)]
        old -= len(results)
        if masked or after:
            after += tokens_of_message(message)
        freed += sum(tokens_of_parts((part,)) - _MASK_TOKENS for part in masked)
    return MaskSizes(freed, max(after - freed, 0))


def _is_maskable(result: ToolResult) -> bool:
    return sum(len(part.text) for part in result.parts if isinstance(part, Text)) >= MASKED_BYTES_MIN


def payback_requests(prices: Prices, sizes: MaskSizes, read_share: float, *, is_cached: bool) -> float | None:
    """Return the requests after which a mask has paid for the cache that it breaks; None: never, or no price is known.

    `read_share` of each request is read from the cache. If the provider has none of it any more (`is_cached`), the
    whole request is written again in any case.
    """
    if prices.input_usd is None or sizes.freed < _FREED_TOKENS_MIN:
        return None
    read = prices.input_usd if prices.cached_input_usd is None else prices.cached_input_usd
    written = prices.input_usd if prices.cache_write_usd is None else prices.cache_write_usd
    lost = sizes.rewritten * read_share * max(written - read, 0.0) if is_cached else 0.0
    gained = sizes.freed * (read_share * read + (1.0 - read_share) * prices.input_usd)
    return lost / gained if gained > 0 else None


def plan_early_mask(state: Turn, prices: Prices, sizes: MaskSizes, whole_tokens: int, now: float) -> float | None:
    """Return after how many requests masking pays, if those are few; None: do not mask.

    The first mask adds the tool `recall`, which stands before all messages, so the whole request is written again.
    """
    if not state.hides_parts:
        sizes = MaskSizes(sizes.freed, max(whole_tokens - sizes.freed, sizes.rewritten))
    share = expected_share(state.cache, prices)
    requests = payback_requests(prices, sizes, share, is_cached=is_warm(state.cache, now))
    return requests if requests is not None and requests <= PAYBACK_REQUESTS_MAX else None
