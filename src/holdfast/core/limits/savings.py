"""Savings of the proxy: usage and cost of a client's own request, in place of which a changed one was sent.

The client's request was not sent, so its usage is an estimate. Its size is scaled by the size of the request that was
sent, for which the provider reported the tokens. What of it the prompt cache would have had follows from the cache
reports of the session.
"""

import msgspec

from holdfast.core.limits.prices import Prices, Spent
from holdfast.types.accounts import NOTHING_SAVED, OwnRequest, Saved, UsageTotals
from holdfast.types.messages import Usage

# Providers keep an unused prompt cache for at least this long.
CACHE_SECONDS = 300.0
# Providers cache no shorter request, so the report of one says nothing about a longer one.
CACHE_TOKENS_MIN = 1_024
# As totals of cost.
_DECIMALS = 9


class PromptCache(msgspec.Struct, frozen=True, omit_defaults=True):
    """The provider's prompt cache of a session, by its last answered request."""

    # Input tokens of that request, and of the client's own in its place.
    sent_tokens: int = 0
    own_tokens: int = 0
    # Tokens read from the cache as a share of the request before, where its beginning was the same; None: not measured.
    read_share: float | None = None
    at: float = 0.0
    # The changes of the view at that time: while they are the same, the beginning of requests is.
    view: tuple[int, ...] = ()


NO_CACHE = PromptCache()


class Compared(msgspec.Struct, frozen=True):
    """A client's own request beside the one that was sent: both sizes by the same estimate."""

    own_tokens: int
    sent_tokens: int
    is_refused: bool = False
    is_added: bool = False


def is_warm(cache: PromptCache, now: float) -> bool:
    """Return whether the provider still has the last request in its cache."""
    return cache.sent_tokens > 0 and now - cache.at <= CACHE_SECONDS


def expected_share(cache: PromptCache, prices: Prices) -> float:
    """Return the share of a request that the next one reads from the cache. A provider with a price for it has one."""
    if cache.read_share is not None:
        return cache.read_share
    return 1.0 if prices.cached_input_usd is not None else 0.0


def own_request(
    compared: Compared, usage: Usage, prices: Prices, cache: PromptCache, view: tuple[int, ...], now: float
) -> OwnRequest:
    """Return the usage of a client's own request by that of the request that was sent at the time `now`."""
    if compared.is_refused or compared.is_added:
        return OwnRequest(usd=0.0, is_refused=compared.is_refused, is_added=compared.is_added)
    tokens = round(usage.input_tokens * compared.own_tokens / max(compared.sent_tokens, 1))
    reported = min(usage.cached_input_tokens, usage.input_tokens)
    if cache.view == view and cache.sent_tokens >= CACHE_TOKENS_MIN:
        # The beginning is the same as before, so both requests find the same share of the one before in the cache.
        cached = round(reported * cache.own_tokens / cache.sent_tokens)
    else:
        # The change made the cache useless, or the request too short for it; the client's own would have been read.
        cached = round(expected_share(cache, prices) * cache.own_tokens) if is_warm(cache, now) else 0
    cached = min(tokens, max(cached, reported))
    uncached = usage.input_tokens - reported
    written = round((tokens - cached) * usage.cache_write_tokens / uncached) if uncached else 0
    own = Usage(tokens, usage.output_tokens, cached, cache_write_tokens=written)
    return OwnRequest(tokens, cached, usage.output_tokens, prices.cost(own))


def after_reply(
    cache: PromptCache, usage: Usage, own: OwnRequest | None, view: tuple[int, ...], at: float
) -> PromptCache:
    """Return the cache after one more answer. Without `own`, the request was the client's."""
    share = cache.read_share
    if cache.view == view and cache.sent_tokens >= CACHE_TOKENS_MIN and is_warm(cache, at):
        share = min(usage.cached_input_tokens / cache.sent_tokens, 1.0)
    own_tokens = usage.input_tokens if own is None else own.input_tokens
    if own is not None and own.is_added:
        own_tokens = cache.own_tokens
    return PromptCache(usage.input_tokens, own_tokens, share, at, view)


def saved_by_reply(usage: Usage | None, usd: float | None, own: OwnRequest | None) -> Saved:
    """Return what one answer saved. A call without a price saves tokens and no dollars."""
    if own is None:
        return NOTHING_SAVED
    counted, requests = usage or Usage(), int(not own.is_added)
    is_priced = usd is not None and own.usd is not None
    return Saved(
        changed=requests,
        refused=requests * own.is_refused,
        input_tokens=own.input_tokens - counted.input_tokens,
        cached_input_tokens=own.cached_input_tokens - counted.cached_input_tokens,
        output_tokens=own.output_tokens - counted.output_tokens,
        usd=round((own.usd or 0.0) - (usd or 0.0), _DECIMALS) if is_priced else 0.0,
        rescue_usd=(usd or 0.0) if own.is_refused else 0.0,
    )


def saved_by_summary(usage: Usage | None, usd: float | None) -> Saved:
    """Return the loss by a call for a summary, which the client would not have made."""
    counted = usage or Usage()
    return Saved(
        input_tokens=-counted.input_tokens,
        cached_input_tokens=-counted.cached_input_tokens,
        output_tokens=-counted.output_tokens,
        usd=-(usd or 0.0),
        rescue_usd=usd or 0.0,
    )


def plus_saved(one: Saved, other: Saved) -> Saved:
    """Return the sum of two savings. Nothing stays nothing, so that records do without it."""
    if one is NOTHING_SAVED or other is NOTHING_SAVED:
        return other if one is NOTHING_SAVED else one
    return Saved(
        one.changed + other.changed,
        one.refused + other.refused,
        one.input_tokens + other.input_tokens,
        one.cached_input_tokens + other.cached_input_tokens,
        one.output_tokens + other.output_tokens,
        round(one.usd + other.usd, _DECIMALS),
        round(one.rescue_usd + other.rescue_usd, _DECIMALS),
    )


def session_saved(saved: Saved, on_summaries: Spent) -> Saved:
    """Return the savings of a session: those of its answers less the cost of its summaries."""
    usage = Usage(on_summaries.input_tokens, on_summaries.output_tokens, on_summaries.cached_input_tokens)
    return plus_saved(saved, saved_by_summary(usage, on_summaries.usd))


class OwnTotals(msgspec.Struct, frozen=True):
    """Totals without the changes of the proxy: of the requests as their clients sent them."""

    input_tokens: int
    cached_input_tokens: int
    output_tokens: int
    usd: float
    # Requests that would have been rejected; they count no tokens and no cost.
    refused: int


def own_totals(sent: UsageTotals | Spent, saved: Saved) -> OwnTotals:
    """Return the totals without the changes, by those of the calls that were made."""
    return OwnTotals(
        sent.input_tokens + saved.input_tokens,
        sent.cached_input_tokens + saved.cached_input_tokens,
        sent.output_tokens + saved.output_tokens,
        round(sent.usd + saved.usd, _DECIMALS),
        saved.refused,
    )


def balance_usd(saved: Saved) -> float:
    """Return the dollars saved on requests that the provider would have answered unchanged; negative: lost."""
    return round(saved.usd + saved.rescue_usd, _DECIMALS)
