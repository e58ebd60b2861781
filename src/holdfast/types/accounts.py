"""Limits of a gateway key and totals of its usage, as they are stored in key files and account logs."""

from typing import Annotated

import msgspec

_Count = Annotated[int, msgspec.Meta(ge=0)]
_Dollars = Annotated[float, msgspec.Meta(ge=0)]


class UsageLimits(msgspec.Struct, frozen=True, omit_defaults=True):
    """Limits of usage; 0 means no limit. Days and months are those of UTC."""

    requests_per_minute: _Count = 0
    tokens_per_minute: _Count = 0
    # Requests in flight, counted by each gateway process.
    concurrent_requests: _Count = 0
    tokens_per_day: _Count = 0
    tokens_per_month: _Count = 0
    usd_per_day: _Dollars = 0.0
    usd_per_month: _Dollars = 0.0


class KeyLimits(UsageLimits, frozen=True, omit_defaults=True):
    """Limits of a key: over all models, per model, and the models that it may use.

    A model is named exactly, or by its beginning and a star: "gpt-5*". No names: every model.
    """

    models: tuple[str, ...] = ()
    per_model: dict[str, UsageLimits] = {}


class OwnRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """Estimated usage of a client's own request, in place of which the proxy sent a changed one."""

    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0
    # US dollars; None: no price known.
    usd: float | None = None
    # The provider would have rejected it, so it has neither usage nor cost.
    is_refused: bool = False
    # The proxy sent a request of its own, such as after a recall; the client would have sent none.
    is_added: bool = False


class Saved(msgspec.Struct, frozen=True, omit_defaults=True):
    """Usage of clients' own requests less that of the requests sent instead. Negative: the changes cost more."""

    # Requests that were sent changed, and those of them that would have been rejected unchanged.
    changed: int = 0
    refused: int = 0
    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0
    usd: float = 0.0
    # Cost of requests that would have been rejected, and of summaries: the part of `usd` that bought an answer.
    rescue_usd: float = 0.0


NOTHING_SAVED = Saved()


class UsageTotals(msgspec.Struct, frozen=True, omit_defaults=True):
    """Totals of requests and model calls."""

    requests: int = 0
    # Requests that a limit rejected; `requests` excludes them.
    limited: int = 0
    calls: int = 0
    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0
    usd: float = 0.0
    # Calls whose price or usage is unknown; `usd` excludes them.
    unpriced: int = 0
    # Usage without the proxy's changes is this in addition to the figures above.
    saved: Saved = NOTHING_SAVED


class UsageRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """Totals of one model in one period: a day "2026-11-18" or a month "2026-11"."""

    period: str
    model: str
    totals: UsageTotals
