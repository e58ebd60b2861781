"""`holdfast.classify`, for errors of other client libraries."""

import pytest

import holdfast
from holdfast.types.faults import Confidence, FaultKind, Unit


def test_an_overflow_is_told_with_its_numbers() -> None:
    body = b'{"error": {"message": "prompt is too long: 9000 tokens > 8192 maximum"}}'

    assert holdfast.classify(400, {}, body) == holdfast.Classification(
        kind=FaultKind.TOKEN_OVERFLOW,
        certainty=Confidence.CERTAIN,
        limit=8192,
        size=9000,
        unit=Unit.TOKENS,
        sentence="prompt is too long: 9000 tokens > 8192 maximum",
    )


def test_a_delay_in_a_header_is_told() -> None:
    error = holdfast.classify(429, {"Retry-After": "7"}, "Too many requests")

    assert (error.kind, error.retry_after) == (FaultKind.RATE_LIMIT, 7.0)


def test_the_size_of_the_request_counts_where_the_response_says_nothing() -> None:
    small, large = (holdfast.classify(400, tokens=tokens, window_tokens=100_000) for tokens in (1_000, 99_000))

    assert (small.kind, large.kind) == (FaultKind.BAD_REQUEST, FaultKind.TOKEN_OVERFLOW)
    assert {small.certainty, large.certainty} == {Confidence.GUESS}


def test_one_code_means_what_its_provider_means_by_it() -> None:
    body = '{"error": {"code": "insufficient_quota", "message": "You exceeded your current quota."}}'

    kinds = [holdfast.classify(429, {}, body, provider=name).kind for name in ("openai", "dashscope")]

    assert kinds == [FaultKind.QUOTA, FaultKind.RATE_LIMIT]


@pytest.mark.parametrize("body", [b"\xff\xfe", "", "{" * 5_000])
def test_no_body_raises(body: str | bytes) -> None:
    assert holdfast.classify(None, None, body).kind in set(FaultKind)
