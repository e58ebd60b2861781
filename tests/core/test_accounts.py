"""Accounts of gateway keys: totals by day and model, sliding minutes, and the limits that they reach."""

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.limits.accounts import (
    DAYS_MAX,
    EMPTY,
    MODELS_MAX,
    OTHER_MODELS,
    TOTAL_EVERY_RECORDS,
    Account,
    Exceeded,
    account_from_end,
    add_usage,
    call_totals,
    check_request,
    fold_account,
    is_limited,
    may_use,
    totals_due,
)
from holdfast.types.accounts import KeyLimits, UsageLimits, UsageRow, UsageTotals
from holdfast.types.messages import Usage
from holdfast.types.records import ClientCompacted, Logged, UsageRecorded, UsageTotalled

# 2026-11-18 12:00:00 UTC.
NOON = 1_795_003_200.0
DAY = 86_400.0


def spent(tokens: int, usd: float = 0.0) -> UsageTotals:
    return UsageTotals(requests=1, calls=1, input_tokens=tokens, usd=usd)


def folded(log: Sequence[Logged], account: Account = EMPTY) -> Account:
    for logged in log:
        account = fold_account(account, logged)
    return account


def check(account: Account, limits: KeyLimits, *, model: str = "deep", now: float = NOON) -> Exceeded | None:
    return check_request(account, limits, model, now, {})


def test_a_call_counts_its_tokens_and_its_price() -> None:
    assert call_totals(Usage(100, 20, 60), 0.5) == UsageTotals(0, 0, 1, 100, 60, 20, 0.5)
    assert call_totals(None, None) == UsageTotals(calls=1, unpriced=1)


def test_usage_is_totalled_by_day_and_model() -> None:
    log = [
        Logged(1, NOON, UsageRecorded("deep", spent(10, 0.1))),
        Logged(2, NOON + 1, UsageRecorded("quick", spent(5))),
        Logged(3, NOON + 2, ClientCompacted()),
        Logged(4, NOON + DAY, UsageRecorded("deep", spent(7, 0.2))),
        Logged(5, NOON + DAY, UsageRecorded("deep", spent(1, 0.1))),
    ]
    account = folded(log)
    assert list(account.rows()) == [
        UsageRow("2026-11-19", "deep", UsageTotals(2, 0, 2, 8, usd=0.3)),
        UsageRow("2026-11-18", "deep", spent(10, 0.1)),
        UsageRow("2026-11-18", "quick", spent(5)),
    ]
    assert account.seq == 5


def test_old_days_are_added_to_their_month() -> None:
    account = add_usage(add_usage(EMPTY, "deep", spent(1), NOON), "deep", spent(2), NOON + DAY)
    later = add_usage(account, "deep", spent(4), NOON + (DAYS_MAX + 1.5) * DAY)
    much_later = add_usage(later, "deep", spent(8), NOON + 3 * DAYS_MAX * DAY)
    assert {row.period: row.totals.input_tokens for row in later.rows()} == {"2027-01-21": 4, "2026-11": 3}
    assert {row.period: row.totals.input_tokens for row in much_later.rows()} == {
        "2027-05-23": 8,
        "2027-01": 4,
        "2026-11": 3,
    }


def test_a_client_that_invents_model_names_does_not_grow_the_account() -> None:
    account = EMPTY
    for number in range(MODELS_MAX + 5):
        account = add_usage(account, f"m{number}", spent(1), NOON)
    rows = {row.model: row.totals.input_tokens for row in account.rows()}
    assert len(rows) == MODELS_MAX + 1
    assert rows[OTHER_MODELS] == 5


@given(
    st.lists(st.tuples(st.sampled_from(["deep", "quick"]), st.integers(0, 9), st.floats(0, 90_000)), max_size=40),
    st.integers(0, 40),
    st.integers(0, 5),
    st.integers(1, 40),
)
def test_the_end_of_a_log_gives_the_same_account_as_all_of_it(
    usage: list[tuple[str, int, float]], until: int, late: int, end: int
) -> None:
    at, log = NOON, []
    for seq, (model, tokens, seconds) in enumerate(usage, 1):
        at += seconds
        log.append(Logged(seq, at, UsageRecorded(model, spent(tokens))))
    # Totals of the first records, written by a node that had not seen the next ones.
    until = min(until, len(log))
    stored = UsageTotalled(until, tuple(folded(log[:until]).rows()))
    place = min(until + late, len(log))
    log = [
        *log[:place],
        Logged(place + 1, at, stored),
        *(Logged(one.seq + 1, one.at, one.record) for one in log[place:]),
    ]
    whole = folded(log)

    account = account_from_end(log[-end:])

    if account is None:
        assert stored not in [one.record for one in log[-end:]] or until + 1 < log[-end:][0].seq
    else:
        assert (account.seq, account.periods, account.totalled) == (whole.seq, whole.periods, whole.totalled)


def test_the_end_of_a_log_without_totals_is_not_enough() -> None:
    record = UsageRecorded("deep", spent(1))
    assert account_from_end([]) is None
    assert account_from_end([Logged(5, NOON, record)]) is None
    assert account_from_end([Logged(5, NOON, record), Logged(6, NOON, UsageTotalled(3, ()))]) is None


def test_a_restart_remembers_the_last_minute() -> None:
    log = [Logged(1, NOON, UsageRecorded("deep", spent(5))), Logged(2, NOON, UsageTotalled(1, ()))]
    account = account_from_end(log)
    assert account is not None
    assert account.seconds == {int(NOON): {"deep": spent(5)}}


def test_totals_are_due_after_many_records() -> None:
    account = msgspec.structs.replace(add_usage(EMPTY, "deep", spent(3), NOON), seq=TOTAL_EVERY_RECORDS - 1)
    assert totals_due(account) is None
    due = totals_due(msgspec.structs.replace(account, seq=TOTAL_EVERY_RECORDS))
    assert due == UsageTotalled(TOTAL_EVERY_RECORDS, (UsageRow("2026-11-18", "deep", spent(3)),))


def test_a_key_may_use_the_models_it_names() -> None:
    limits = KeyLimits(models=("gpt-5*", "deep"))
    assert [may_use(limits, model) for model in ("gpt-5-mini", "deep", "deeper", "o9")] == [True, True, False, False]
    assert may_use(KeyLimits(), "anything")
    assert not is_limited(limits)
    assert is_limited(KeyLimits(models=("deep",), usd_per_day=1.0))


def test_a_key_without_limits_is_never_stopped() -> None:
    account = add_usage(EMPTY, "deep", spent(10**12, 10.0**9), NOON)
    assert check_request(account, KeyLimits(), "deep", NOON, {"deep": 10**6}) is None


def test_requests_of_the_last_minute_are_counted_and_leave_it_one_by_one() -> None:
    limits, account = KeyLimits(requests_per_minute=2), EMPTY
    for at in (NOON, NOON + 10):
        assert check(account, limits, now=at) is None
        account = add_usage(account, "deep", UsageTotals(requests=1), at)
    assert check(account, limits, now=NOON + 20) == Exceeded(
        "requests_per_minute", "this key had 2 requests in the last minute, its limit is 2; retry in 40 s", 40
    )
    assert check(account, limits, now=NOON + 60) is None


def test_tokens_of_the_last_minute_are_waited_for_until_enough_have_left_it() -> None:
    limits, account = KeyLimits(tokens_per_minute=100), EMPTY
    for at, tokens in ((NOON, 50), (NOON + 5, 40), (NOON + 10, 60)):
        account = add_usage(account, "deep", spent(tokens), at)
    exceeded = check(account, limits, now=NOON + 20)
    assert exceeded is not None
    assert (exceeded.limit, exceeded.retry_seconds) == ("tokens_per_minute", 45)
    assert check(account, limits, now=NOON + 20 + 45) is None


@pytest.mark.parametrize(
    ("limits", "field", "seconds"),
    [
        (KeyLimits(tokens_per_day=100), "tokens_per_day", 43_200),
        (KeyLimits(usd_per_day=2.5), "usd_per_day", 43_200),
        (KeyLimits(tokens_per_month=100), "tokens_per_month", 43_200 + 12 * 86_400),
        (KeyLimits(usd_per_month=2.5), "usd_per_month", 43_200 + 12 * 86_400),
    ],
)
def test_a_budget_stops_a_key_until_it_renews(limits: KeyLimits, field: str, seconds: int) -> None:
    short = add_usage(EMPTY, "deep", spent(99, 2.49), NOON)
    reached = add_usage(short, "deep", spent(1, 0.01), NOON)
    assert check(short, limits) is None
    exceeded = check(reached, limits)
    assert exceeded is not None
    assert (exceeded.limit, exceeded.retry_seconds) == (field, seconds)
    assert check(reached, limits, now=NOON + seconds) is None


def test_a_monthly_budget_counts_every_day_of_the_month() -> None:
    account = add_usage(add_usage(EMPTY, "deep", spent(60), NOON), "deep", spent(60), NOON + DAY)
    limits = KeyLimits(tokens_per_month=100, tokens_per_day=100)
    exceeded = check(account, limits, now=NOON + DAY)
    assert exceeded is not None
    assert exceeded.sentence == (
        "this key has used 120 of 100 tokens for this month; its budget renews at 2026-12-01 00:00 UTC, "
        "and the operator can raise it"
    )


def test_a_limit_of_some_models_leaves_the_others_alone() -> None:
    limits = KeyLimits(per_model={"gpt-5*": UsageLimits(usd_per_day=1.0)})
    account = add_usage(add_usage(EMPTY, "gpt-5-mini", spent(1, 0.6), NOON), "gpt-5", spent(1, 0.6), NOON)
    account = add_usage(account, "deep", spent(1, 7.0), NOON)
    exceeded = check(account, limits, model="gpt-5-pro")
    assert exceeded is not None
    assert "$1.2000 of $1.0000 for this day for gpt-5*" in exceeded.sentence
    assert check(account, limits, model="deep") is None


def test_requests_in_flight_are_limited_by_model_and_together() -> None:
    limits = KeyLimits(concurrent_requests=3, per_model={"deep": UsageLimits(concurrent_requests=1)})
    assert check_request(EMPTY, limits, "quick", NOON, {"deep": 1, "quick": 1}) is None
    assert check_request(EMPTY, limits, "deep", NOON, {"deep": 1}) == Exceeded(
        "concurrent_requests", "this key has 1 requests in flight for deep, its limit is 1; retry when one has ended", 1
    )
    assert check_request(EMPTY, limits, "quick", NOON, {"deep": 1, "quick": 2}) is not None
