"""The account of a gateway key: a fold of its usage, and the decision whether one more request is within its limits.

Usage is known after a call, so a budget stops the request after the one that exhausts it. Windows are sliding minutes;
days and months are those of UTC.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from math import ceil

import msgspec

from holdfast.core.limits.savings import plus_saved
from holdfast.types.accounts import NOTHING_SAVED, KeyLimits, Saved, UsageLimits, UsageRow, UsageTotals
from holdfast.types.messages import Usage
from holdfast.types.records import Logged, UsageRecorded, UsageTotalled

_MINUTE = 60
# Totals are rounded to a billionth of a dollar, as those of sessions are.
_DECIMALS = 9
# Days that are kept apart: this month and the one before. Older days are added to their month.
DAYS_MAX = 62
_MONTH_CHARS = len("2026-11")
# Models of one period that are kept apart: a client may send any name. Further ones are added under this name.
MODELS_MAX = 100
OTHER_MODELS = "(other models)"
# Records after which the totals are written again, and records that a reader starts with: a busy minute has as many.
TOTAL_EVERY_RECORDS = 1_000
READ_RECORDS = 3 * TOTAL_EVERY_RECORDS
# A limit on requests in flight, or of a minute, is worth a new try after this long at least.
_RETRY_SECONDS_MIN = 1


def plus(one: UsageTotals, other: UsageTotals) -> UsageTotals:
    """Return the sum of two totals."""
    return UsageTotals(
        one.requests + other.requests,
        one.limited + other.limited,
        one.calls + other.calls,
        one.input_tokens + other.input_tokens,
        one.cached_input_tokens + other.cached_input_tokens,
        one.output_tokens + other.output_tokens,
        round(one.usd + other.usd, _DECIMALS),
        one.unpriced + other.unpriced,
        plus_saved(one.saved, other.saved),
    )


def call_totals(usage: Usage | None, usd: float | None, saved: Saved = NOTHING_SAVED) -> UsageTotals:
    """Return the totals of one model call."""
    counted = usage or Usage()
    return UsageTotals(
        calls=1,
        input_tokens=counted.input_tokens,
        cached_input_tokens=counted.cached_input_tokens,
        output_tokens=counted.output_tokens,
        usd=usd or 0.0,
        unpriced=int(usd is None),
        saved=saved,
    )


def tokens_of(totals: UsageTotals) -> int:
    """Return input and output tokens together."""
    return totals.input_tokens + totals.output_tokens


def day_of(at: float) -> str:
    """Return the UTC day of a time."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d")


class Account(msgspec.Struct, frozen=True):
    """Usage of a key: totals by period and model, the last minute by second and model, and the last record covered."""

    seq: int = 0
    periods: Mapping[str, Mapping[str, UsageTotals]] = {}
    seconds: Mapping[int, Mapping[str, UsageTotals]] = {}
    # The last record that stored totals cover.
    totalled: int = 0

    def rows(self) -> Iterator[UsageRow]:
        """Yield the totals by period and model, the newest period first."""
        for period in sorted(self.periods, reverse=True):
            for model, totals in sorted(self.periods[period].items()):
                yield UsageRow(period, model, totals)


EMPTY = Account()


def fold_account(account: Account, logged: Logged) -> Account:
    """Return the account after one more record of its log."""
    record = logged.record
    if isinstance(record, UsageRecorded):
        account = add_usage(account, record.model, record.totals, logged.at)
    elif isinstance(record, UsageTotalled):
        account = msgspec.structs.replace(account, totalled=max(account.totalled, record.until))
    return msgspec.structs.replace(account, seq=logged.seq)


def account_from_end(end: Sequence[Logged]) -> Account | None:
    """Return the account by the last records of its log alone; None if no stored totals among them reach back enough.

    Records between the totals and the ones they cover may have been appended by other nodes, so folding continues after
    the record that the totals name and not after the totals.
    """
    stored = [one.record for one in end if isinstance(one.record, UsageTotalled)]
    newest = max(stored, key=lambda one: one.until, default=None)
    if newest is None or newest.until + 1 < end[0].seq:
        return None
    account = EMPTY
    for logged in end:
        if logged.seq <= newest.until:
            account = fold_account(account, logged)
    periods: dict[str, dict[str, UsageTotals]] = {}
    for row in newest.rows:
        periods.setdefault(row.period, {})[row.model] = row.totals
    # Of the records that the totals cover, only the last minute is taken from the log.
    account = Account(newest.until, periods, account.seconds, newest.until)
    for logged in end:
        if logged.seq > newest.until:
            account = fold_account(account, logged)
    return account


def add_usage(account: Account, model: str, totals: UsageTotals, at: float) -> Account:
    """Return the account with usage at a time."""
    second = int(at)
    recent = {one: held for one, held in account.seconds.items() if one > second - _MINUTE}
    recent[second] = _added(recent.get(second, {}), model, totals)
    day = day_of(at)
    periods: Mapping[str, Mapping[str, UsageTotals]]
    periods = {**account.periods, day: _added(account.periods.get(day, {}), model, totals)}
    if day not in account.periods:
        periods = _with_old_days_merged(periods, at)
    return msgspec.structs.replace(account, periods=periods, seconds=recent)


def _added(held: Mapping[str, UsageTotals], model: str, totals: UsageTotals) -> Mapping[str, UsageTotals]:
    name = model if model in held or len(held) < MODELS_MAX else OTHER_MODELS
    return {**held, name: plus(held.get(name, UsageTotals()), totals)}


def _with_old_days_merged(
    periods: Mapping[str, Mapping[str, UsageTotals]], at: float
) -> Mapping[str, Mapping[str, UsageTotals]]:
    oldest = day_of(at - timedelta(days=DAYS_MAX).total_seconds())
    kept = {period: held for period, held in periods.items() if len(period) == _MONTH_CHARS or period > oldest}
    for period in sorted(periods.keys() - kept.keys()):
        month = period[:_MONTH_CHARS]
        for model, totals in periods[period].items():
            kept[month] = _added(kept.get(month, {}), model, totals)
    return kept


def totals_due(account: Account) -> UsageTotalled | None:
    """Return totals to store, if many records came since the last ones."""
    if account.seq - account.totalled < TOTAL_EVERY_RECORDS:
        return None
    return UsageTotalled(account.seq, tuple(account.rows()))


# --- Limits ---


class Exceeded(msgspec.Struct, frozen=True):
    """A limit that one more request would exceed: its field, a sentence, and the time until a retry is worth it."""

    limit: str
    sentence: str
    retry_seconds: int


def is_named(model: str, names: tuple[str, ...]) -> bool:
    """Return whether a list of names has a model: exactly, or by its beginning and a star."""
    return any(model.startswith(one[:-1]) if one.endswith("*") else model == one for one in names)


def may_use(limits: KeyLimits, model: str) -> bool:
    """Return whether a key may use a model."""
    return not limits.models or is_named(model, limits.models)


def is_limited(limits: KeyLimits) -> bool:
    """Return whether usage of a key is limited at all."""
    return limits != KeyLimits(models=limits.models)


def check_request(
    account: Account, limits: KeyLimits, model: str, now: float, running: Mapping[str, int]
) -> Exceeded | None:
    """Return the first limit that one more request to a model exceeds. `running` counts requests in flight by model."""
    for names, each in (("*", limits), *limits.per_model.items()):
        if is_named(model, (names,)):
            counted = _Counted(account, names, now, sum(n for one, n in running.items() if is_named(one, (names,))))
            exceeded = _first_exceeded(counted, each)
            if exceeded is not None:
                return exceeded
    return None


class _Counted(msgspec.Struct, frozen=True):
    account: Account
    names: str
    now: float
    running: int

    @property
    def of_models(self) -> str:
        return "" if self.names == "*" else f" for {self.names}"

    def recent(self) -> list[tuple[int, UsageTotals]]:
        """Return the totals of each second of the last minute, oldest first."""
        oldest = self.now - _MINUTE
        held = self.account.seconds
        return [(second, self._sum(held[second])) for second in sorted(held) if second > oldest]

    def in_periods(self, beginning: str) -> UsageTotals:
        """Return the totals of all periods that begin with a day or month."""
        total = UsageTotals()
        for period, held in self.account.periods.items():
            if period.startswith(beginning):
                total = plus(total, self._sum(held))
        return total

    def _sum(self, held: Mapping[str, UsageTotals]) -> UsageTotals:
        total = UsageTotals()
        for model, totals in held.items():
            if is_named(model, (self.names,)):
                total = plus(total, totals)
        return total


def _first_exceeded(counted: _Counted, limits: UsageLimits) -> Exceeded | None:
    if limits.concurrent_requests and counted.running >= limits.concurrent_requests:
        sentence = (
            f"this key has {counted.running:,} requests in flight{counted.of_models}, "
            f"its limit is {limits.concurrent_requests:,}"
        )
        return Exceeded("concurrent_requests", f"{sentence}; retry when one has ended", _RETRY_SECONDS_MIN)
    return _minute_exceeded(counted, limits) or _budget_exceeded(counted, limits)


def _minute_exceeded(counted: _Counted, limits: UsageLimits) -> Exceeded | None:
    if not limits.requests_per_minute and not limits.tokens_per_minute:
        return None
    recent = counted.recent()
    rates = (
        ("requests_per_minute", "requests", limits.requests_per_minute, [(at, one.requests) for at, one in recent]),
        ("tokens_per_minute", "tokens", limits.tokens_per_minute, [(at, tokens_of(one)) for at, one in recent]),
    )
    for field, unit, allowed, used in rates:
        total = sum(number for _, number in used)
        if allowed and total >= allowed:
            seconds = _seconds_until_below(used, total - allowed, counted.now)
            sentence = f"this key had {total:,} {unit} in the last minute{counted.of_models}, its limit is {allowed:,}"
            return Exceeded(field, f"{sentence}; retry in {seconds} s", seconds)
    return None


def _seconds_until_below(used: list[tuple[int, int]], excess: int, now: float) -> int:
    """Return the time until so much of the oldest usage is older than a minute that the total is below its limit."""
    gone, leaves_at = 0, now
    for second, number in used:
        if gone > excess:
            break
        gone, leaves_at = gone + number, second + _MINUTE
    return max(_RETRY_SECONDS_MIN, ceil(leaves_at - now))


def _budget_exceeded(counted: _Counted, limits: UsageLimits) -> Exceeded | None:
    day = day_of(counted.now)
    for field, allowed in (
        ("tokens_per_day", limits.tokens_per_day),
        ("usd_per_day", limits.usd_per_day),
        ("tokens_per_month", limits.tokens_per_month),
        ("usd_per_month", limits.usd_per_month),
    ):
        if not allowed:
            continue
        span = field.rpartition("_")[2]
        totals = counted.in_periods(day if span == "day" else day[:_MONTH_CHARS])
        is_money = field.startswith("usd")
        used = totals.usd if is_money else tokens_of(totals)
        if used >= allowed:
            amounts = f"${used:,.4f} of ${allowed:,.4f}" if is_money else f"{used:,} of {allowed:,} tokens"
            renews = _next_period(counted.now, span)
            sentence = (
                f"this key has used {amounts} for this {span}{counted.of_models}; its budget renews at "
                f"{renews:%Y-%m-%d %H:%M} UTC, and the operator can raise it"
            )
            return Exceeded(field, sentence, max(1, ceil(renews.timestamp() - counted.now)))
    return None


def _next_period(now: float, span: str) -> datetime:
    today = datetime.fromtimestamp(now, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    if span == "day":
        return today + timedelta(days=1)
    # Any day of the next month, then its first.
    return (today.replace(day=28) + timedelta(days=4)).replace(day=1)
