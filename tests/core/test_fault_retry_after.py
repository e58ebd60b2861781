"""How long a provider asks us to wait."""

import pytest

from holdfast.core.faults.classifier import classify
from holdfast.core.faults.retry_after import wait_seconds
from holdfast.types.faults import Phase, Refusal

SENT_AT = {"Date": "Wed, 01 Jan 2025 00:00:00 GMT"}


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"Retry-After": "7"}, 7.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"x-ms-retry-after-ms": "1000"}, 1.0),
        ({"retry-after": "soon"}, None),
        # A date alone cannot be turned into a wait without a clock.
        ({"retry-after": "Wed, 01 Jan 2025 00:01:00 GMT"}, None),
        ({**SENT_AT, "retry-after": "Wed, 01 Jan 2025 00:01:00 GMT"}, 60.0),
        ({**SENT_AT, "retry-after": "Wed, 01 Jan 2025 00:01:00 -0000"}, 60.0),
        ({**SENT_AT, "retry-after": "soon"}, None),
        # The past, and what no provider can mean.
        ({**SENT_AT, "retry-after": "Tue, 31 Dec 2024 00:00:00 GMT"}, None),
        ({"retry-after": "99999999"}, None),
        ({"x-ratelimit-reset-tokens": "6m0s"}, 360.0),
        ({"x-ratelimit-reset-requests": "20ms"}, 0.02),
        ({"x-ratelimit-reset-requests": "1s", "x-ratelimit-reset-tokens": "1m30s"}, 90.0),
        (
            {
                "x-ratelimit-reset-requests": "1s",
                "x-ratelimit-remaining-requests": "0",
                "x-ratelimit-reset-tokens": "1m30s",
                "x-ratelimit-remaining-tokens": "500",
            },
            1.0,
        ),
        ({"x-ratelimit-reset": "1735689630"}, None),
        ({**SENT_AT, "x-ratelimit-reset": "1735689630"}, 30.0),
        ({**SENT_AT, "x-ratelimit-reset": "1735689630000"}, 30.0),
        ({**SENT_AT, "anthropic-ratelimit-tokens-reset": "2025-01-01T00:00:45Z"}, 45.0),
    ],
)
def test_headers_tell_the_wait(headers: dict[str, str], seconds: float | None) -> None:
    assert wait_seconds(headers, "", {}) == seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("please try again in 20s.", 20.0),
        ("please try again in 1m30s", 90.0),
        ("try again in 5.978s. visit us", 5.978),
        ("try again in 7m12.5s", 432.5),
        ("please retry after 6 seconds", 6.0),
        ("please wait 12 seconds before retrying", 12.0),
        ("retry after 30", 30.0),
        ("try again in 2 hours and 5 minutes", 7500.0),
        ("try again in 3 days 4 hours", 273_600.0),
        ("try again in 500 milliseconds", 0.5),
        ("请等待 30 秒", 30.0),
        ("请等待 2 分钟", 120.0),
        ("请等待 1 小时", 3600.0),
        ("try again in 90 days", None),
        ("try again later", None),
        ("wait for 3 apples", None),
        ("", None),
    ],
)
def test_sentences_tell_the_wait(text: str, seconds: float | None) -> None:
    assert wait_seconds({}, text, {}) == seconds


@pytest.mark.parametrize(
    ("fields", "seconds"),
    [
        ({"retryafter": 4}, 4.0),
        ({"resetsinseconds": 77_000}, 77_000.0),
        ({"retryafterms": 1500}, 1.5),
        ({"n": 3}, None),
    ],
)
def test_fields_tell_the_wait(fields: dict[str, int], seconds: float | None) -> None:
    assert wait_seconds({}, "", fields) == seconds


def test_a_delay_inside_a_body_is_found() -> None:
    body = '{"error": {"code": 429, "message": "Slow down", "details": [{"@type": "RetryInfo", "retryDelay": "13s"}]}}'
    assert classify(Refusal("gemini", Phase.RESPONSE, 429, body=body)).retry_after_seconds == 13.0


def test_a_wait_is_only_read_where_waiting_helps() -> None:
    refusal = Refusal("x", Phase.RESPONSE, 400, {"retry-after": "9"}, "prompt is too long")
    assert classify(refusal).retry_after_seconds is None
