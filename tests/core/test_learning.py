"""What refusals and replies teach about a model, and what of it others should know."""

import pytest
from msgspec.structs import replace

from holdfast.core.limits.claims import Call
from holdfast.core.limits.learning import after_fault, after_reply, effective, is_news
from holdfast.core.limits.sizing import calibrate
from holdfast.types.faults import Confidence, Fault, FaultKind, Unit
from holdfast.types.limits import NOTHING_LEARNED, Calibration, Learned, Limits
from holdfast.types.messages import Usage
from tests.core.lessons import CALL, SIZES, refused, values

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
    expected = Learned(accepted_wire_bytes=100_000)

    assert after_reply(NOTHING_LEARNED, None, CALL) == expected
    assert after_reply(NOTHING_LEARNED, Usage(), CALL) == expected


def test_a_reply_with_usage_teaches_what_was_read_and_how_it_is_counted() -> None:
    learned = after_reply(NOTHING_LEARNED, Usage(input_tokens=11_000), CALL)

    assert learned == Learned(
        accepted_wire_bytes=100_000,
        accepted_tokens=11_000,
        calibration=calibrate(Calibration(), estimated=10_000, reported=11_000),
    )


def test_a_smaller_reply_takes_nothing_back() -> None:
    learned = after_reply(NOTHING_LEARNED, Usage(input_tokens=11_000), CALL)

    after = after_reply(learned, Usage(input_tokens=1_050), Call(replace(SIZES, tokens=1_000, wire_bytes=5_000)))

    assert (after.accepted_tokens, after.accepted_wire_bytes) == (11_000, 100_000)


def test_usage_that_no_model_could_report_is_not_believed() -> None:
    assert after_reply(NOTHING_LEARNED, Usage(input_tokens=3), CALL) == Learned(accepted_wire_bytes=100_000)


def test_usage_far_from_what_was_foreseen_is_remembered_as_strange_and_nothing_else() -> None:
    learned = Learned(accepted_tokens=11_000, accepted_wire_bytes=120_000, calibration=Calibration(readings=20))

    after = after_reply(learned, Usage(input_tokens=25_000), CALL)

    assert after == replace(learned, calibration=Calibration(readings=20, strange=1))


# What a refusal teaches.


def test_a_guess_teaches_nothing() -> None:
    for kind in FaultKind:
        guess = refused(kind, limit=1_000, confidence=Confidence.GUESS)
        assert after_fault(NOTHING_LEARNED, Limits(), guess, CALL) == NOTHING_LEARNED


@pytest.mark.parametrize("kind", [kind for kind in FaultKind if not kind.value.endswith("_overflow")])
def test_a_fault_that_is_not_about_size_teaches_nothing(kind: FaultKind) -> None:
    fault = refused(kind, limit=1_000, requested=900, unit=Unit.TOKENS)

    assert values(after_fault(NOTHING_LEARNED, Limits(), fault, CALL)) == NOTHING_LEARNED


def test_a_model_that_is_asked_for_too_long_an_answer_teaches_how_long_they_may_be() -> None:
    fault = refused(FaultKind.BAD_REQUEST, limit=2_048, requested=4_096, unit=Unit.TOKENS)

    learned = after_fault(NOTHING_LEARNED, Limits(), fault, CALL)

    assert values(learned) == Learned(output_tokens_max=2_048)
    assert is_news(NOTHING_LEARNED, learned)
    assert effective(Limits(output_tokens_max=8_192), learned) == Limits(output_tokens_max=2_048)
    assert effective(Limits(output_tokens_max=1_000), learned) == Limits(output_tokens_max=1_000)
    assert effective(Limits(), learned) == Limits(output_tokens_max=2_048)


@pytest.mark.parametrize(
    ("fault", "learned"),
    [
        # Limits that are stated, each in its unit.
        (refused(FaultKind.TOKEN_OVERFLOW, limit=8_000, unit=Unit.TOKENS), Learned(window_tokens=8_000)),
        (refused(FaultKind.WIRE_OVERFLOW, limit=80_000, unit=Unit.BYTES), Learned(wire_bytes_max=80_000)),
        (refused(FaultKind.MEDIA_OVERFLOW, limit=3, unit=Unit.COUNT), Learned(media_count_max=3)),
        (refused(FaultKind.MEDIA_OVERFLOW, limit=5_000, unit=Unit.BYTES), Learned(media_bytes_max=5_000)),
        (refused(FaultKind.MEDIA_OVERFLOW, limit=1_568, unit=Unit.PIXELS), Learned(media_pixels_max=1_568)),
        # Without a number: a tenth below what was refused.
        (refused(FaultKind.TOKEN_OVERFLOW), Learned(window_tokens=9_000)),
        (refused(FaultKind.WIRE_OVERFLOW), Learned(wire_bytes_max=90_000)),
        # In another unit: nothing.
        (refused(FaultKind.TOKEN_OVERFLOW, limit=7_000, unit=Unit.CHARS), NOTHING_LEARNED),
        (refused(FaultKind.WIRE_OVERFLOW, limit=7_000, unit=Unit.TOKENS), NOTHING_LEARNED),
        (refused(FaultKind.WIRE_OVERFLOW, limit=0, unit=Unit.COUNT), NOTHING_LEARNED),
        (refused(FaultKind.MEDIA_OVERFLOW, limit=7_000, unit=Unit.TOKENS), NOTHING_LEARNED),
        (refused(FaultKind.MEDIA_OVERFLOW, unit=Unit.COUNT), Learned(media_count_max=3)),
        (refused(FaultKind.MEDIA_OVERFLOW, unit=Unit.BYTES), Learned(media_bytes_max=8_100)),
        (refused(FaultKind.MEDIA_OVERFLOW, unit=Unit.PIXELS), Learned(media_pixels_max=1_800)),
        # Media of which nobody says what is too much.
        (refused(FaultKind.MEDIA_OVERFLOW), NOTHING_LEARNED),
        # A limit that the request did not reach is about something else.
        (
            refused(FaultKind.TOKEN_OVERFLOW, limit=20_000, requested=12_000, unit=Unit.TOKENS),
            NOTHING_LEARNED,
        ),
    ],
)
def test_a_refusal_teaches_the_limit_it_states_else_that_less_than_this_is_accepted(
    fault: Fault, learned: Learned
) -> None:
    assert values(after_fault(NOTHING_LEARNED, Limits(), fault, CALL)) == learned


def test_a_refusal_that_states_both_numbers_teaches_how_tokens_are_counted_too() -> None:
    fault = refused(FaultKind.TOKEN_OVERFLOW, limit=8_000, requested=12_000, unit=Unit.TOKENS)

    assert values(after_fault(NOTHING_LEARNED, Limits(), fault, CALL)) == Learned(
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

    assert values(after_fault(NOTHING_LEARNED, Limits(), fault, CALL)) == Learned(
        window_tokens=12_000,
        counts_output=True,
        calibration=calibrate(Calibration(), estimated=10_000, reported=11_000),
    )


def test_a_number_that_the_provider_states_replaces_one_that_was_derived_or_kept_without_evidence() -> None:
    fault = refused(FaultKind.TOKEN_OVERFLOW, limit=8_000, unit=Unit.TOKENS)

    assert after_fault(Learned(window_tokens=6_000), Limits(), fault, CALL).window_tokens == 8_000


def test_a_refusal_does_not_contradict_what_was_accepted() -> None:
    learned = Learned(accepted_tokens=9_500, accepted_wire_bytes=95_000)

    below = refused(FaultKind.TOKEN_OVERFLOW, limit=8_000, unit=Unit.TOKENS)
    assert after_fault(learned, Limits(), below, CALL) == learned
    assert after_fault(learned, Limits(), refused(FaultKind.WIRE_OVERFLOW), CALL) == learned


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
