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


class UsageRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """Totals of one model in one period: a day "2026-11-18" or a month "2026-11"."""

    period: str
    model: str
    totals: UsageTotals
