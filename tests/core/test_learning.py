"""What refusals and replies teach about a model, and what of it others should know."""

import pytest
from msgspec.structs import replace

from holdfast.core.limits.learning import after_fault, after_guess, after_reply, after_suspicion, effective, is_news
from holdfast.core.limits.sizing import calibrate
from holdfast.types.faults import Confidence, Fault, FaultKind, Unit
from holdfast.types.limits import NOTHING_LEARNED, Calibration, Learned, Limits
from holdfast.types.messages import Usage
from tests.core.lessons import SIZES, refused

# What to go by.


def test_what_is_neither_declared_nor_learned_stays_unknown() -> None:
    assert effective(Limits(), NOTHING_LEARNED) == Limits()


def test_the_smaller_of_declared_and_learned_is_gone_by() -> None:
    declared = Limits(8_000, 1_000, 60_000, 5, None, 3_000)
    learned = Learned(9_000, 50_000, 6, 7_000, 2_000)

    assert effective(declared, learned) == Limits(8_000, 1_000, 50_000, 5, 7_000, 2_000)


def test_what_was_accepted_is_stronger_than_what_is_declared_or_was_learned() -> None:
    learned = Learned(window_tokens=4_000, wire_bytes_max=10_000, accepted_tokens=9_000, accepted_wire_bytes=20_000)

    assert effective(Limits(window_tokens=8_000), learned) == Limits(window_tokens=9_000, wire_bytes_max=20_000)


# What a reply teaches.


def test_a_reply_without_usage_teaches_only_the_bytes() -> None:
    expected = Learned(accepted_wire_bytes=50_000)

    assert after_reply(NOTHING_LEARNED, None, SIZES) == expected
    assert after_reply(NOTHING_LEARNED, Usage(), SIZES) == expected


def test_a_reply_with_usage_teaches_what_was_read_and_how_it_is_counted() -> None:
    learned = after_reply(NOTHING_LEARNED, Usage(input_tokens=11_000), SIZES)

    assert learned == Learned(
        accepted_wire_bytes=50_000,
        accepted_tokens=11_000,
        calibration=calibrate(Calibration(), estimated=10_000, reported=11_000),
    )


def test_a_smaller_reply_takes_nothing_back() -> None:
    learned = after_reply(NOTHING_LEARNED, Usage(input_tokens=11_000), SIZES)

    after = after_reply(learned, Usage(input_tokens=1_050), replace(SIZES, tokens=1_000, wire_bytes=5_000))

    assert (after.accepted_tokens, after.accepted_wire_bytes) == (11_000, 50_000)


def test_usage_that_no_model_could_report_is_not_believed() -> None:
    assert after_reply(NOTHING_LEARNED, Usage(input_tokens=3), SIZES) == Learned(accepted_wire_bytes=50_000)


def test_usage_far_from_what_was_foreseen_is_remembered_as_strange_and_nothing_else() -> None:
    learned = Learned(accepted_tokens=11_000, accepted_wire_bytes=60_000, calibration=Calibration(readings=20))

    after = after_reply(learned, Usage(input_tokens=25_000), SIZES)

    assert after == replace(learned, calibration=Calibration(readings=20, strange=1))


# What a refusal teaches.


def test_a_guess_teaches_nothing() -> None:
    for kind in FaultKind:
        guess = refused(kind, limit=1_000, confidence=Confidence.GUESS)
        assert after_fault(NOTHING_LEARNED, Limits(), guess, SIZES) == NOTHING_LEARNED


@pytest.mark.parametrize("kind", [kind for kind in FaultKind if not kind.value.endswith("_overflow")])
def test_a_fault_that_is_not_about_size_teaches_nothing(kind: FaultKind) -> None:
    fault = refused(kind, limit=1_000, requested=900, unit=Unit.TOKENS)

    assert after_fault(NOTHING_LEARNED, Limits(), fault, SIZES) == NOTHING_LEARNED


def test_a_model_that_is_asked_for_too_long_an_answer_teaches_how_long_they_may_be() -> None:
    fault = refused(FaultKind.BAD_REQUEST, limit=2_048, requested=4_096, unit=Unit.TOKENS)

    learned = after_fault(NOTHING_LEARNED, Limits(), fault, SIZES)

    assert learned == Learned(output_tokens_max=2_048)
    assert is_news(NOTHING_LEARNED, learned)
    assert effective(Limits(output_tokens_max=8_192), learned) == Limits(output_tokens_max=2_048)
    assert effective(Limits(output_tokens_max=1_000), learned) == Limits(output_tokens_max=1_000)
    assert effective(Limits(), learned) == Limits(output_tokens_max=2_048)


@pytest.mark.parametrize(
    ("fault", "learned"),
    [
        # Limits that are stated, each in its unit.
        (refused(FaultKind.TOKEN_OVERFLOW, limit=8_000, unit=Unit.TOKENS), Learned(window_tokens=8_000)),
        (refused(FaultKind.WIRE_OVERFLOW, limit=40_000, unit=Unit.BYTES), Learned(wire_bytes_max=40_000)),
        (refused(FaultKind.MEDIA_OVERFLOW, limit=3, unit=Unit.COUNT), Learned(media_count_max=3)),
        (refused(FaultKind.MEDIA_OVERFLOW, limit=5_000, unit=Unit.BYTES), Learned(media_bytes_max=5_000)),
        (refused(FaultKind.MEDIA_OVERFLOW, limit=1_568, unit=Unit.PIXELS), Learned(media_pixels_max=1_568)),
        # Without a number, or with one of another unit: a tenth below what was refused.
        (refused(FaultKind.TOKEN_OVERFLOW), Learned(window_tokens=9_000)),
        (refused(FaultKind.TOKEN_OVERFLOW, limit=7_000, unit=Unit.CHARS), Learned(window_tokens=9_000)),
        (refused(FaultKind.WIRE_OVERFLOW), Learned(wire_bytes_max=45_000)),
        (refused(FaultKind.WIRE_OVERFLOW, limit=7_000, unit=Unit.TOKENS), Learned(wire_bytes_max=45_000)),
        (refused(FaultKind.MEDIA_OVERFLOW, unit=Unit.COUNT), Learned(media_count_max=3)),
        (refused(FaultKind.MEDIA_OVERFLOW, unit=Unit.BYTES), Learned(media_bytes_max=8_100)),
        (refused(FaultKind.MEDIA_OVERFLOW, unit=Unit.PIXELS), Learned(media_pixels_max=1_800)),
        # Media of which nobody says what is too much.
        (refused(FaultKind.MEDIA_OVERFLOW), NOTHING_LEARNED),
        # A limit that the request did not reach is about something else.
        (
            refused(FaultKind.TOKEN_OVERFLOW, limit=20_000, requested=12_000, unit=Unit.TOKENS),
            Learned(window_tokens=9_000),
        ),
    ],
)
def test_a_refusal_teaches_the_limit_it_states_else_that_less_than_this_is_accepted(
    fault: Fault, learned: Learned
) -> None:
    assert after_fault(NOTHING_LEARNED, Limits(), fault, SIZES) == learned


def test_a_refusal_that_states_both_numbers_teaches_how_tokens_are_counted_too() -> None:
    fault = refused(FaultKind.TOKEN_OVERFLOW, limit=8_000, requested=12_000, unit=Unit.TOKENS)

    assert after_fault(NOTHING_LEARNED, Limits(), fault, SIZES) == Learned(
        window_tokens=8_000, calibration=calibrate(Calibration(), estimated=10_000, reported=12_000)
    )


def test_output_that_was_asked_for_is_not_counted_as_read() -> None:
    fault = Fault(
        FaultKind.TOKEN_OVERFLOW,
        Confidence.CERTAIN,
        limit=12_000,
        requested=15_000,
        unit=Unit.TOKENS,
        output_requested=4_000,
    )

    assert after_fault(NOTHING_LEARNED, Limits(), fault, SIZES) == Learned(
        window_tokens=12_000,
        counts_output=True,
        calibration=calibrate(Calibration(), estimated=10_000, reported=11_000),
    )


def test_a_limit_once_learned_is_not_raised_by_a_refusal() -> None:
    learned = Learned(window_tokens=6_000)

    assert (
        after_fault(learned, Limits(), refused(FaultKind.TOKEN_OVERFLOW, limit=8_000, unit=Unit.TOKENS), SIZES)
        == learned
    )


def test_a_refusal_does_not_contradict_what_was_accepted() -> None:
    learned = Learned(accepted_tokens=9_500, accepted_wire_bytes=48_000)

    below = refused(FaultKind.TOKEN_OVERFLOW, limit=8_000, unit=Unit.TOKENS)
    assert after_fault(learned, Limits(), below, SIZES) == learned
    assert after_fault(learned, Limits(), refused(FaultKind.WIRE_OVERFLOW), SIZES) == learned


# What others should know at once.


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (Learned(), False),
        (Learned(window_tokens=8_000), True),
        (Learned(wire_bytes_max=8_000), True),
        (Learned(media_count_max=8), True),
        (Learned(media_bytes_max=8_000), True),
        (Learned(media_pixels_max=8_000), True),
        (Learned(accepted_tokens=1), True),
        (Learned(calibration=Calibration(scale=1.2, readings=1)), False),
        (Learned(calibration=Calibration(scale=1.2, readings=2)), True),
    ],
)
def test_limits_are_news_at_once_and_readings_when_they_have_doubled(after: Learned, *, expected: bool) -> None:
    assert is_news(NOTHING_LEARNED, after) is expected


def test_more_that_was_accepted_is_news_once_it_is_a_quarter_more() -> None:
    before = Learned(accepted_tokens=8_000, accepted_wire_bytes=4_000)

    assert not is_news(before, replace(before, accepted_tokens=10_000, accepted_wire_bytes=5_000))
    assert is_news(before, replace(before, accepted_tokens=10_001))
    assert is_news(before, replace(before, accepted_wire_bytes=5_001))


def test_a_count_that_starts_again_is_news() -> None:
    """The model behind the name has changed: whoever goes by the old count would be refused."""
    before = Learned(calibration=Calibration(scale=1.0, readings=1_000))

    assert is_news(before, Learned(calibration=Calibration(scale=2.0, readings=1)))


WELL_KNOWN = Calibration(error=0.02, readings=10)
CUT = Fault(FaultKind.TOKEN_OVERFLOW, Confidence.GUESS, limit=4_000, requested=10_000, unit=Unit.TOKENS)


# Suspicions.


@pytest.mark.parametrize(
    ("known", "usage", "after"),
    [
        # Less was sent, and all of it was read: what was read before is the window.
        (NOTHING_LEARNED, Usage(3_000), Learned(window_tokens=4_000)),
        (Learned(window_tokens=3_500), Usage(3_000), Learned(window_tokens=3_500)),
        # Again only a part was: it is the count that is wrong.
        (NOTHING_LEARNED, Usage(1_500), Learned(reports_all_read=False)),
        # More was read by now, or earlier: it is no window.
        (NOTHING_LEARNED, Usage(4_001), NOTHING_LEARNED),
        (Learned(accepted_tokens=5_000), Usage(3_000), Learned(accepted_tokens=5_000)),
        (NOTHING_LEARNED, None, NOTHING_LEARNED),
        # A message more was read of another request: that much fits.
        (Learned(accepted_tokens=4_900), Usage(3_000), Learned(accepted_tokens=4_900, window_tokens=4_900)),
        # A little less than all, by a count that is known well: wrong as well.
        (Learned(calibration=WELL_KNOWN), Usage(2_700), Learned(calibration=WELL_KNOWN, reports_all_read=False)),
        (Learned(calibration=WELL_KNOWN), Usage(2_900), Learned(calibration=WELL_KNOWN, window_tokens=4_000)),
    ],
)
def test_a_suspicion_is_settled_by_the_reply_to_a_smaller_request(
    known: Learned, usage: Usage | None, after: Learned
) -> None:
    """FM-007: a server that cuts in silence teaches its window; one that counts wrongly is not suspected again."""
    sizes = replace(SIZES, tokens=3_100)

    assert after_suspicion(known, CUT, usage, sizes) == after
    assert after_suspicion(known, replace(CUT, limit=None), usage, sizes) == known


def test_an_answer_that_is_cut_although_less_was_sent_teaches_no_window() -> None:
    sizes = replace(SIZES, tokens=3_100)

    assert after_suspicion(NOTHING_LEARNED, CUT, Usage(3_000), sizes, is_cut=True) == NOTHING_LEARNED
    # That it counts wrongly is seen all the same.
    counted = after_suspicion(NOTHING_LEARNED, CUT, Usage(1_500), sizes, is_cut=True)
    assert counted == Learned(reports_all_read=False)


# Guesses.


@pytest.mark.parametrize(
    ("known", "declared", "sent_tokens", "window"),
    [
        # Less was sent, and it was answered: what was refused is taken for too much.
        (NOTHING_LEARNED, Limits(), 3_000, 9_000),
        (NOTHING_LEARNED, Limits(window_tokens=12_000), 3_000, 9_000),
        (Learned(window_tokens=8_000), Limits(), 3_000, 8_000),
        # Far from a window that is known something else may have been the reason.
        (NOTHING_LEARNED, Limits(window_tokens=100_000), 3_000, None),
        # As much was taken before, or is now.
        (Learned(accepted_tokens=9_500), Limits(), 3_000, None),
        (NOTHING_LEARNED, Limits(), 9_500, None),
    ],
)
def test_a_guess_is_learned_only_from_the_reply_to_a_smaller_request(
    known: Learned, declared: Limits, sent_tokens: int, window: int | None
) -> None:
    """FM-002: a refusal without a word teaches nothing by itself."""
    learned = after_guess(known, declared, 10_000, replace(SIZES, tokens=sent_tokens))

    assert learned == replace(known, window_tokens=window)
