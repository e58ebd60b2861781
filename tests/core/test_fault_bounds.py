"""Whatever a provider sends is classified, soon, and with numbers that can be believed."""

import time

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.faults.classifier import classify
from holdfast.types.faults import FaultKind, Phase, Refusal, Sent
from tests.core.test_faults import refused

K = FaultKind

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["error", "message", "code", "type", "detail", "choices", "usage", "status"]) | st.text(),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)
words = st.lists(
    st.sampled_from(
        [
            "prompt",
            "image",
            "token",
            "tokens",
            "context",
            "window",
            "limit",
            "of",
            "exceeds",
            "too",
            "long",
            "maximum",
            "128k",
            "9,000",
            "12.5MB",
            ">",
            "+",
            "(",
            ")",
            "[1,",
            "7]",
            "tool_use",
            "thinking",
            "retry",
            "after",
            "20s",
            "1m30s",
            "requested",
            "got",
            "rate",
            "http://",
            "<",
            "{",
            "}",
            '"',
            "'",
            "\\",
            "�",
            "最大",
            "-1",
            "1e9",
            "٣",
        ]
    ),
    max_size=60,
).map(" ".join)
bodies = st.text() | words | json_values.map(lambda value: msgspec.json.encode(value).decode())
dates = st.sampled_from(["Wed, 01 Jan 2025 00:00:00 GMT", "Wed, 01 Jan 99999 00:00:00 +999999", "2025-01-01T00:00:00Z"])
headers = st.dictionaries(
    st.sampled_from(["retry-after", "Date", "retry-after-ms", "x-ratelimit-reset-tokens", "x-amzn-errortype"]),
    st.text() | dates | st.integers().map(str),
)


@given(
    body=bodies | st.binary().map(lambda raw: raw.decode("utf-8", "surrogateescape")),
    status=st.none() | st.integers(0, 999) | st.integers(),
    phase=st.sampled_from(Phase),
    headers=headers,
    cause=words,
    sent=st.builds(Sent, tokens=st.none() | st.integers(0), window_tokens=st.none() | st.integers(0)),
)
def test_whatever_comes_is_classified_and_bounded(
    body: str, status: int | None, phase: Phase, headers: dict[str, str], cause: str, sent: Sent
) -> None:
    fault = classify(Refusal("x", phase, status, headers, body, cause), sent)
    assert len(fault.said) <= 300
    assert fault.retry_after_seconds is None or 0 <= fault.retry_after_seconds <= 7 * 86_400
    assert fault.limit is None or abs(fault.limit) < 1_000_000_000_000


@pytest.mark.parametrize(
    ("body", "limit", "requested"),
    [
        (
            '{"error": {"message": "context exceeded", "n_ctx": 1e308, "n_prompt_tokens": 12345678901234567890}}',
            None,
            None,
        ),
        ('{"error": {"message": "context exceeded", "n_ctx": -1, "n_prompt_tokens": 0}}', None, None),
        ('{"error": {"message": "context exceeded", "n_ctx": 8192.0, "n_prompt_tokens": "9000"}}', 8192, 9000),
        ('{"error": {"message": "context exceeded", "n_ctx": [8192], "n_prompt_tokens": {"n": 9000}}}', 8192, None),
        ("context window exceeded: NaN tokens > Infinity maximum", None, None),
        ("context window exceeded: 99999999999999999999999999 tokens > 8192 maximum", 8192, None),
        ("context window of 128K tokens exceeded: 1M tokens were given", 128_000, 1_000_000),
        ("context window exceeded: got 40Ki tokens, at most 32Ki", 32_768, 40_960),
        ("context window exceeded: got 200 000 tokens, at most 128 000".replace(" 000", "\u202f000"), 128_000, 200_000),
        ("context window exceeded: got 1.048.577 tokens, at most 1.048.576", 1_048_576, 1_048_577),
        ("context window exceeded: got 1_048_577 tokens, at most 1,048,576", 1_048_576, 1_048_577),
    ],
)
def test_numbers_that_no_window_has_are_not_stated(body: str, limit: int | None, requested: int | None) -> None:
    fault = classify(refused(body))
    assert (fault.kind, fault.limit, fault.requested) == (K.TOKEN_OVERFLOW, limit, requested)


@pytest.mark.parametrize("status", [-1, 0, 1, 99, 600, 10**30])
def test_a_status_that_does_not_exist_leaves_the_words(status: int) -> None:
    assert classify(refused("prompt is too long: 9000 tokens > 8192 maximum", status)).kind in {
        K.TOKEN_OVERFLOW,
        K.TRANSIENT,
    }


@pytest.mark.parametrize(
    "body",
    [
        "prompt is too long: 9000 tokens > 8192 maximum " + "x" * 10_000_000,
        '{"error": {"message": "prompt is too long: 9000 tokens > 8192 maximum"}, "echo": "' + "x" * 15_000 + '"}',
        "prompt is too long: 9000 tokens > 8192 maximum " + "токен превышен トークン " * 500_000,
    ],
    ids=["plain", "json", "foreign"],
)
def test_a_huge_body_is_read_by_its_beginning_and_at_once(body: str) -> None:
    started = time.process_time()
    fault = classify(refused(body))
    assert (fault.kind, fault.limit, fault.requested) == (K.TOKEN_OVERFLOW, 8192, 9000)
    # A few milliseconds, plus what compiling the patterns takes the first time.
    assert time.process_time() - started < 3


@pytest.mark.parametrize(
    "piece",
    [
        "token ",
        "12 exceeds ",
        "request body message ",
        "{",
        '{"a":',
        "((",
        "<html",
        "1,",
        "a.b.",
        "http://",
        "токен ",
        "1.234",
        "429 ",
        "a_b",
        "{'error': \\'",
        "[{'error': (",
    ],
)
def test_no_body_takes_long_to_read(piece: str) -> None:
    started = time.process_time()
    classify(refused(piece * (40_000 // len(piece))))
    # It takes a few hundredths of a second; a pattern that backtracks without bound takes minutes.
    assert time.process_time() - started < 5
