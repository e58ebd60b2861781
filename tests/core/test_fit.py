"""Whether a request fits, before it is sent."""

import pytest

from holdfast.core.limits.bounds import Bounds
from holdfast.core.limits.fit import (
    Sizes,
    as_estimated,
    exceeds_alone,
    measure,
    misfit,
    output_reserved,
    output_tokens_max,
    sent,
)
from holdfast.types.faults import Confidence, Fault, FaultKind, Sent, Unit
from holdfast.types.limits import Calibration, Limits
from holdfast.types.messages import BlobRef, Media, Message, Request, Role, Text

# A model that counts exactly as we estimate.
SURE = Calibration(error=0.0)
BOUNDS = Bounds(output_tokens_reserved=1_000)
SIZES = Sizes(tokens=5_000, wire_bytes=20_000, media_count=3, media_bytes_largest=4_000, media_pixels_largest=900)


def test_a_request_is_measured_in_all_three_budgets() -> None:
    image = Media(BlobRef("a" * 64, 4_000), "image/png", width_pixels=900, height_pixels=300)
    request = Request((Message(Role.USER, (Text("look"), image)),))

    sizes = measure(request)

    assert (sizes.media_count, sizes.media_bytes_largest, sizes.media_pixels_largest) == (1, 4_000, 900)
    assert sizes.tokens > 100
    assert sizes.wire_bytes > 4_000 * 4 // 3


def test_nothing_is_refused_where_nothing_is_known() -> None:
    assert misfit(SIZES, Limits(), SURE, BOUNDS) is None


@pytest.mark.parametrize(
    ("limits", "fault"),
    [
        # The window has to hold the answer as well.
        (Limits(window_tokens=5_900), (FaultKind.TOKEN_OVERFLOW, Unit.TOKENS, 4_917, 5_000)),
        (Limits(wire_bytes_max=19_999), (FaultKind.WIRE_OVERFLOW, Unit.BYTES, 19_999, 20_000)),
        (Limits(media_count_max=2), (FaultKind.MEDIA_OVERFLOW, Unit.COUNT, 2, 3)),
        (Limits(media_bytes_max=3_999), (FaultKind.MEDIA_OVERFLOW, Unit.BYTES, 3_999, 4_000)),
        (Limits(media_pixels_max=899), (FaultKind.MEDIA_OVERFLOW, Unit.PIXELS, 899, 900)),
    ],
)
def test_each_budget_that_is_exceeded_is_named_with_its_numbers(
    limits: Limits, fault: tuple[FaultKind, Unit, int, int]
) -> None:
    kind, unit, limit, requested = fault

    assert misfit(SIZES, limits, SURE, BOUNDS) == Fault(
        kind, Confidence.LIKELY, limit=limit, requested=requested, unit=unit
    )


def test_a_client_of_the_proxy_fills_the_window_up_to_a_short_answer() -> None:
    unsure = Calibration(error=0.2)
    limits = Limits(window_tokens=5_217)

    assert misfit(SIZES, limits, unsure, BOUNDS) is not None
    assert misfit(SIZES, limits, unsure, BOUNDS, is_lenient=True) is None
    fault = misfit(SIZES, Limits(window_tokens=5_216), unsure, BOUNDS, is_lenient=True)
    assert fault is not None
    assert (fault.limit, fault.requested) == (4_999, 5_000)


def test_what_is_exactly_at_the_limit_fits() -> None:
    limits = Limits(6_000, 2_000, 20_000, 3, 4_000, 900)

    assert misfit(SIZES, limits, SURE, BOUNDS) is None


def test_the_room_for_an_answer_is_never_more_than_a_sixth_of_the_window() -> None:
    assert output_reserved(Limits(), BOUNDS) == 1_000
    assert output_reserved(Limits(output_tokens_max=300), BOUNDS) == 300
    assert output_reserved(Limits(window_tokens=3_000), BOUNDS) == 500
    assert output_reserved(Limits(window_tokens=100_000), BOUNDS) == 1_000


def test_the_output_asked_for_is_clamped_to_what_is_left() -> None:
    assert output_tokens_max(SIZES, Limits(), SURE) is None
    assert output_tokens_max(SIZES, Limits(output_tokens_max=4_000), SURE) == 4_000
    assert output_tokens_max(SIZES, Limits(window_tokens=100_000, output_tokens_max=4_000), SURE) == 4_000
    assert output_tokens_max(SIZES, Limits(window_tokens=6_000, output_tokens_max=4_000), SURE) == 1_000
    assert output_tokens_max(SIZES, Limits(window_tokens=100, output_tokens_max=4_000), SURE) == 1
    # A dialect that must name a number would name more than the window has left.
    assert output_tokens_max(SIZES, Limits(window_tokens=6_000), SURE) == 1_000
    assert output_tokens_max(SIZES, Limits(window_tokens=100_000), SURE) is None


def test_the_classifier_is_told_what_was_sent_and_what_was_known() -> None:
    assert sent(SIZES, Limits(window_tokens=8_000, wire_bytes_max=9_000), SURE) == Sent(
        tokens=5_000, wire_bytes=20_000, media_count=3, window_tokens=8_000, wire_bytes_max=9_000
    )


@pytest.mark.parametrize(
    ("limits", "exceeds"),
    [
        (Limits(), False),
        (Limits(window_tokens=5_001), False),
        (Limits(window_tokens=5_000), True),
        (Limits(wire_bytes_max=20_000), False),
        (Limits(wire_bytes_max=19_999), True),
    ],
)
def test_a_request_without_messages_exceeds_a_model_by_its_likeliest_size(limits: Limits, *, exceeds: bool) -> None:
    """Not by the worst: what only a margin refuses may still be answered."""
    unsure = Calibration(error=0.5)

    assert exceeds_alone(SIZES, limits, unsure, BOUNDS) is exceeds


def test_a_plan_in_estimated_tokens_uses_the_window_as_the_model_counts_it() -> None:
    calibration = Calibration(scale=1.25, overhead=400.0)

    assert as_estimated(Limits(window_tokens=10_000, output_tokens_max=9), calibration) == Limits(8_000, 9)
    assert as_estimated(Limits(), calibration) == Limits()


def test_the_largest_estimate_that_surely_fits_is_known() -> None:
    calibration = Calibration(scale=1.25, overhead=400.0, error=0.1)

    raw = calibration.raw_within(6_000)
    assert calibration.upper(raw) <= 6_000 < calibration.upper(raw + 2)
    assert calibration.raw_within(100) == 0
