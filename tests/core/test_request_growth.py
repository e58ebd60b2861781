"""A request that is refused without a word, and was far larger than the last one that was answered."""

import pytest
from msgspec.structs import replace

from holdfast.core.faults.classifier import classify
from holdfast.core.limits.fit import Before, Sizes, sent
from holdfast.types.faults import Confidence, Fault, FaultKind, Phase, Refusal, Unit
from holdfast.types.limits import UNCALIBRATED, Calibration, Limits

WELL_KNOWN = Calibration(error=0.02, readings=10)
GUESSED = Fault(FaultKind.TOKEN_OVERFLOW, Confidence.GUESS, FaultKind.BAD_REQUEST, unit=Unit.TOKENS)


def sizes(tokens: int) -> Sizes:
    return Sizes(tokens, 4 * tokens, 0, 0, 0)


@pytest.mark.parametrize(
    ("answered", "tokens", "has_grown"),
    [
        (6_000, 9_000, True),
        (6_000, 8_999, False),
        # Half as large again is little where there is little.
        (1_000, 2_999, False),
        (1_000, 3_000, True),
        # Nothing was answered yet, so nothing has grown.
        (0, 90_000, False),
    ],
)
def test_a_request_has_grown_where_it_is_half_as_large_again_and_by_a_long_message(
    answered: int,
    tokens: int,
    has_grown: bool,  # noqa: FBT001 - a column of the table above
) -> None:
    before = Before(answered_tokens=answered)

    assert sent(sizes(tokens), Limits(), UNCALIBRATED, before).has_grown is has_grown


@pytest.mark.parametrize("body", ["", '{"error": {"message": "Bad Request"}}', '{"error": "Provider returned error"}'])
def test_a_refusal_without_a_word_of_a_request_that_has_grown_is_taken_for_an_overflow(body: str) -> None:
    """FM-002: and recorded as a guess."""
    grown = sent(sizes(9_000), Limits(), UNCALIBRATED, Before(answered_tokens=3_000))
    refusal = Refusal("openai-chat", Phase.RESPONSE, 400, body=body)

    fault = classify(refusal, grown)

    assert (fault.kind, fault.confidence, fault.second_kind) == (GUESSED.kind, GUESSED.confidence, GUESSED.second_kind)


def test_a_refusal_that_explains_itself_is_what_it_says_however_much_the_request_has_grown() -> None:
    grown = sent(sizes(9_000), Limits(), UNCALIBRATED, Before(answered_tokens=3_000))
    refusal = Refusal("openai-chat", Phase.RESPONSE, 400, body='{"error": {"message": "unknown field: temprature"}}')

    assert classify(refusal, grown).kind is FaultKind.BAD_REQUEST


@pytest.mark.parametrize(
    ("calibration", "accepted", "least"),
    [
        (UNCALIBRATED, 0, None),
        (Calibration(error=0.02, readings=4), 0, None),
        (WELL_KNOWN, 0, 9_000),
        (Calibration(error=0.05, readings=10), 0, 8_000),
        # What was read whole before is not cut.
        (WELL_KNOWN, 9_000, None),
    ],
)
def test_what_a_model_hardly_reports_less_than_is_known_once_its_count_is(
    calibration: Calibration, accepted: int, least: int | None
) -> None:
    """FM-007."""
    before = Before(accepted_tokens=accepted, is_plain=True)

    assert sent(sizes(10_000), Limits(), calibration, before).tokens_least == least


@pytest.mark.parametrize(
    ("raw", "reported", "least"),
    [
        # 1,000 more were sent, so at least half of that must show.
        (9_000, 8_800, 9_300),
        # Too little was added to say, or nothing, or nothing was reported.
        (9_701, 9_000, None),
        (12_000, 9_000, None),
        (9_000, 0, None),
    ],
)
def test_what_was_added_to_a_request_must_be_seen_in_the_count(raw: int, reported: int, least: int | None) -> None:
    """FM-007: so a window that is passed in small steps is noticed at the first."""
    before = Before(answered_raw=raw, answered_reported=reported, is_plain=True)

    assert sent(sizes(10_000), Limits(), UNCALIBRATED, before).tokens_least == least
    assert sent(sizes(10_000), Limits(), UNCALIBRATED, replace(before, is_plain=False)).tokens_least is None
