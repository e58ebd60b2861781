"""Learned limits are claims: what makes, confirms, contradicts and tests them, and how they are told."""

import pytest
from msgspec.structs import replace

from holdfast.core.limits.claims import (
    REFUSED,
    REQUIRED,
    Call,
    after_cut,
    all_claims,
    claim_of,
    in_words,
    is_due,
    parameters,
    with_claim,
    without_claim,
)
from holdfast.core.limits.fit import Before, Sizes
from holdfast.core.limits.learning import (
    after_effort,
    after_fault,
    after_guess,
    after_reply,
    after_suspicion,
    effective,
    is_news,
    suspected_tokens,
)
from holdfast.core.limits.parameters import EFFORT
from holdfast.types.faults import Confidence, Fault, FaultKind, Unit
from holdfast.types.limits import NOTHING_LEARNED, Calibration, Claim, Evidence, Learned, Limits, Support
from holdfast.types.messages import Usage
from tests.core.lessons import CALL, SIZES, of_size, refused, values

DAY = 86_400.0
NOW = 1_800_000_000.0
OVERFLOW = refused(FaultKind.TOKEN_OVERFLOW, limit=8_000, requested=12_000, unit=Unit.TOKENS)


def _call(tokens: int, *, seq: int = 0, asked: int = 0, at: float = NOW) -> Call:
    return replace(of_size(tokens), asked=asked, at=at, record=Support("chat", seq))


# Refusals.


@pytest.mark.parametrize(
    ("fault", "call"),
    [
        # "max tokens must be <= 4096, the maximum output length": less than what was asked for.
        (refused(FaultKind.TOKEN_OVERFLOW, limit=4_096, unit=Unit.TOKENS), _call(10_000, asked=8_192)),
        (refused(FaultKind.TOKEN_OVERFLOW, limit=4_096, requested=8_192, unit=Unit.TOKENS), _call(9_000, asked=8_192)),
        # A window that a small request cannot have exceeded.
        (refused(FaultKind.TOKEN_OVERFLOW, limit=60_000, unit=Unit.TOKENS), _call(500)),
        # Numbers of another request.
        (refused(FaultKind.TOKEN_OVERFLOW, limit=8_000, requested=900_000, unit=Unit.TOKENS), _call(10_000)),
        (refused(FaultKind.TOKEN_OVERFLOW, limit=100, requested=500, unit=Unit.TOKENS), _call(10_000)),
        # "array too long, maximum length 0"; "at most 128 tools".
        (refused(FaultKind.WIRE_OVERFLOW, limit=0, requested=3, unit=Unit.COUNT), CALL),
        (refused(FaultKind.WIRE_OVERFLOW, limit=128, requested=140, unit=Unit.COUNT), CALL),
        (refused(FaultKind.WIRE_OVERFLOW, limit=0, unit=Unit.BYTES), CALL),
        # "min_pixels 100 > max_pixels 50"; a range that is not about the image that was sent.
        (refused(FaultKind.MEDIA_OVERFLOW, limit=50, requested=100, unit=Unit.PIXELS), CALL),
        (refused(FaultKind.MEDIA_OVERFLOW, limit=50, unit=Unit.PIXELS), CALL),
        (refused(FaultKind.MEDIA_OVERFLOW, limit=300, requested=400, unit=Unit.PIXELS), CALL),
        # More images than were sent.
        (refused(FaultKind.MEDIA_OVERFLOW, limit=6, unit=Unit.COUNT), CALL),
        (refused(FaultKind.MEDIA_OVERFLOW, limit=2, requested=6, unit=Unit.COUNT), CALL),
        # An output limit that was not exceeded.
        (refused(FaultKind.BAD_REQUEST, limit=8_192, unit=Unit.TOKENS), _call(500, asked=4_096)),
        (refused(FaultKind.BAD_REQUEST, limit=64, requested=100, unit=Unit.TOKENS), CALL),
        (refused(FaultKind.BAD_REQUEST, unit=Unit.TOKENS), CALL),
        # Too large without a number, by a reading that is not certain.
        (refused(FaultKind.TOKEN_OVERFLOW, confidence=Confidence.LIKELY), CALL),
    ],
)
def test_a_number_that_disagrees_with_what_was_sent_teaches_nothing(fault: Fault, call: Call) -> None:
    assert after_fault(NOTHING_LEARNED, Limits(128_000), fault, call) == NOTHING_LEARNED


def test_a_claim_names_its_evidence_and_is_confirmed_by_another_refusal() -> None:
    fault = replace(OVERFLOW, said="too long")
    first = after_fault(NOTHING_LEARNED, Limits(), fault, _call(11_000, seq=7))
    later = _call(11_000, seq=9, at=NOW + 5)
    again = after_fault(first, Limits(), fault, later)

    expected = Claim("window_tokens", 8_000, Evidence.STATED, NOW, NOW, records=(Support("chat", 7),), said="too long")
    assert all_claims(first) == (expected,)
    assert all_claims(again) == (
        replace(expected, confirmed=1, confirmed_at=NOW + 5, records=(Support("chat", 7), Support("chat", 9))),
    )


def test_the_newer_of_two_stated_numbers_counts() -> None:
    first = after_fault(NOTHING_LEARNED, Limits(), OVERFLOW, _call(11_000, seq=1))
    more = refused(FaultKind.TOKEN_OVERFLOW, limit=10_000, requested=12_000, unit=Unit.TOKENS)
    second = after_fault(first, Limits(), more, _call(11_000, seq=2))

    assert second.window_tokens == 10_000
    assert all_claims(second)[0].contradicted == 1
    assert after_fault(second, Limits(), OVERFLOW, _call(11_000, seq=3)).window_tokens == 8_000


# Replies.


def test_an_accepted_size_raises_a_derived_claim_up_to_the_rejected_size_and_removes_any_other() -> None:
    derived = after_fault(NOTHING_LEARNED, Limits(), refused(FaultKind.TOKEN_OVERFLOW), _call(10_000))
    assert derived.window_tokens == 9_000
    raised = after_reply(derived, Usage(9_500), of_size(9_500))
    assert (raised.window_tokens, all_claims(raised)[0].contradicted) == (9_500, 1)
    assert all_claims(after_reply(derived, Usage(10_500), of_size(10_500))) == ()

    stated = after_fault(NOTHING_LEARNED, Limits(), OVERFLOW, _call(11_000))
    contradicted = after_reply(stated, Usage(9_000), of_size(8_000))
    assert (all_claims(contradicted), contradicted.window_tokens) == ((), None)


@pytest.mark.parametrize(
    ("kept", "sizes"),
    [
        (Learned(wire_bytes_max=90_000), SIZES),
        (Learned(media_count_max=3), SIZES),
        (Learned(media_bytes_max=8_000), SIZES),
        (Learned(media_pixels_max=50), SIZES),
    ],
)
def test_every_limit_is_contradicted_by_what_was_accepted(kept: Learned, sizes: Sizes) -> None:
    assert all_claims(kept)
    assert all_claims(after_reply(kept, None, Call(sizes))) == ()


# Tests of old and costly claims.


@pytest.mark.parametrize(
    ("evidence", "confirmed", "cuts", "days", "expected"),
    [
        (Evidence.STATED, 0, 0, 29.0, False),
        (Evidence.STATED, 0, 0, 31.0, True),
        (Evidence.STATED, 0, 63, 1.0, False),
        (Evidence.STATED, 0, 64, 1.0, True),
        (Evidence.REFUSED, 0, 0, 0.9, False),
        (Evidence.REFUSED, 0, 0, 1.1, True),
        (Evidence.REFUSED, 0, 8, 0.1, True),
        (Evidence.REFUSED, 1, 8, 0.1, False),
        (Evidence.REFUSED, 1, 0, 1.1, False),
        (Evidence.REFUSED, 9, 0, 31.0, False),
        (Evidence.REFUSED, 9, 0, 33.0, True),
        (Evidence.OBSERVED, 0, 8, 0.1, True),
        (Evidence.INHERITED, 0, 0, 0.1, True),
        (Evidence.LEFT_OUT, 0, 99, 1.0, False),
        (Evidence.LEFT_OUT, 0, 0, 31.0, True),
    ],
)
def test_a_claim_is_tested_when_it_is_old_or_costly_and_less_often_once_confirmed(
    evidence: Evidence, confirmed: int, cuts: int, days: float, *, expected: bool
) -> None:
    claim = Claim("window_tokens", 8_000, evidence, NOW, NOW, confirmed, cuts=cuts)

    assert is_due(claim, NOW + days * DAY) is expected


def test_a_claim_that_is_tested_lets_more_pass_within_the_declared_limit() -> None:
    learned = after_fault(NOTHING_LEARNED, Limits(), refused(FaultKind.TOKEN_OVERFLOW), _call(10_000))

    assert effective(Limits(), learned, NOW).window_tokens == 9_000
    assert effective(Limits(), learned, NOW + 2 * DAY).window_tokens == 22_501
    assert effective(Limits(10_000), learned, NOW + 2 * DAY).window_tokens == 10_000


def test_a_limit_of_an_earlier_version_is_tested_by_the_next_large_request_and_goes() -> None:
    """1,666 tokens, learned wrongly for a model of 200,000."""
    kept = Learned(window_tokens=1_666)
    assert all_claims(kept) == (Claim("window_tokens", 1_666, Evidence.INHERITED),)
    assert effective(Limits(200_000), kept, NOW).window_tokens == 4_166

    learned = after_reply(kept, Usage(3_400), of_size(3_400))

    assert effective(Limits(200_000), learned, NOW).window_tokens == 200_000


def test_requests_that_a_claim_makes_smaller_are_counted_and_those_for_a_declared_limit_are_not() -> None:
    learned = after_fault(NOTHING_LEARNED, Limits(), OVERFLOW, _call(11_000))
    fault = refused(FaultKind.TOKEN_OVERFLOW, limit=8_000, requested=9_000, unit=Unit.TOKENS)

    assert all_claims(after_cut(learned, Limits(), fault))[0].cuts == 1
    assert all_claims(after_cut(learned, Limits(100_000), fault))[0].cuts == 1
    assert after_cut(learned, Limits(8_000), fault) == learned
    assert after_cut(learned, Limits(), refused(FaultKind.WIRE_OVERFLOW, unit=Unit.BYTES)) == learned
    assert after_cut(learned, Limits(), refused(FaultKind.RATE_LIMIT)) == learned


def test_counts_of_smaller_requests_are_news_when_they_have_doubled() -> None:
    learned = after_fault(NOTHING_LEARNED, Limits(), OVERFLOW, _call(11_000))
    claim = all_claims(learned)[0]
    cut = [with_claim(learned, replace(claim, cuts=cuts)) for cuts in range(5)]

    assert [is_news(cut[0], one) for one in cut] == [False, False, True, True, True]
    assert [is_news(cut[2], one) for one in cut] == [False, False, False, False, True]
    assert is_news(cut[0], without_claim(cut[0], "window_tokens"))


# Suspicions.

PLAIN = Before(is_plain=True)
GROWN = Before(answered_raw=4_000, answered_reported=4_000, is_plain=True)


@pytest.mark.parametrize(
    ("usage", "before", "declared", "expected"),
    [
        # The count stays while the request grows.
        (Usage(4_000), GROWN, Limits(), 4_000),
        (Usage(4_020), GROWN, Limits(6_000), 4_020),
        # It grew: by less than estimated, as one repeated letter does, or by as much.
        (Usage(4_150), GROWN, Limits(), 0),
        (Usage(5_000), GROWN, Limits(), 0),
        # Cached tokens are left out of it: it fell, or cached tokens are reported beside it.
        (Usage(1_050), GROWN, Limits(), 0),
        (Usage(4_000, cached_input_tokens=1_000), GROWN, Limits(), 0),
        (Usage(2_400), Before(answered_raw=4_000, answered_reported=2_400, is_plain=True), Limits(), 0),
        # Less than half of a declared window, or than was read before.
        (Usage(4_000), GROWN, Limits(8_001), 0),
        (Usage(4_000), replace(GROWN, accepted_tokens=6_000), Limits(), 0),
        # Not comparable.
        (None, GROWN, Limits(), 0),
        (Usage(4_000), replace(GROWN, is_plain=False), Limits(), 0),
        (Usage(4_000), replace(GROWN, reports_all_read=False), Limits(), 0),
        (Usage(4_000), replace(GROWN, answered_raw=4_800), Limits(), 0),
        (Usage(4_000), PLAIN, Limits(), 0),
        (Usage(900), replace(GROWN, answered_reported=900), Limits(), 0),
        # Another model has read far more of the same messages.
        (Usage(1_900), replace(PLAIN, other_reported=5_000), Limits(), 1_900),
        (Usage(2_100), replace(PLAIN, other_reported=5_000), Limits(), 0),
    ],
)
def test_a_cut_is_suspected_only_if_readings_of_one_session_show_it(
    usage: Usage | None, before: Before, declared: Limits, expected: int
) -> None:
    sizes = Sizes(5_000, 20_000, 0, 0, 0)

    assert suspected_tokens(usage, sizes, Calibration(), before, declared) == expected


def _suspicions(*seen: tuple[int, int], declared: Limits | None = None, learned: Learned = NOTHING_LEARNED) -> Learned:
    for seq, (value, added) in enumerate(seen):
        call = replace(_call(9_000, seq=seq), added=added, suspected=value, reported_before=value)
        learned = after_suspicion(learned, declared or Limits(), call)
    return learned


@pytest.mark.parametrize(
    ("seen", "declared", "window"),
    [
        (((4_000, 500), (4_010, 900), (3_990, 700)), None, 4_010),
        # Two are not enough; a third must agree; and a cache explains equal numbers of equal growth.
        (((4_000, 500), (4_010, 900)), None, None),
        (((4_000, 500), (4_010, 900), (5_000, 700)), None, None),
        (((4_000, 500), (4_010, 510), (3_990, 505)), None, None),
        # Below half of a declared window, or of a request that hardly grew.
        (((4_000, 500), (4_010, 900), (3_990, 700)), Limits(8_100), None),
        (((4_000, 500), (4_010, 900), (3_990, 700)), Limits(7_900), 4_010),
        (((4_000, 100), (4_010, 100), (3_990, 200)), None, None),
    ],
)
def test_several_suspicions_that_agree_become_a_claim(
    seen: tuple[tuple[int, int], ...], declared: Limits | None, window: int | None
) -> None:
    learned = _suspicions(*seen, declared=declared)

    assert learned.window_tokens == window
    assert [claim.evidence for claim in all_claims(learned)] == ([Evidence.OBSERVED] if window else [])
    if window:
        assert all_claims(learned)[0].records == tuple(Support("chat", seq) for seq in range(3))


def test_a_suspicion_confirms_a_claim_that_it_agrees_with_and_changes_no_other() -> None:
    learned = _suspicions((4_000, 500), (4_010, 900), (3_990, 700))

    confirmed = _suspicions((4_005, 400), learned=learned)
    assert (confirmed.window_tokens, all_claims(confirmed)[0].confirmed) == (4_010, 1)
    assert _suspicions((9_000, 400), learned=learned) == learned
    assert _suspicions((3_000, 400), learned=learned).window_tokens == 4_010


def test_a_suspicion_about_less_than_was_read_is_dropped() -> None:
    learned = after_reply(_suspicions((4_000, 500)), Usage(6_000), of_size(6_000))

    assert learned.observations == ()
    assert _suspicions((4_000, 500), learned=learned) == learned


@pytest.mark.parametrize(
    ("known", "declared", "sent_tokens", "window"),
    [
        # Less was sent, and it was answered, three times: what was refused is taken for too much.
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
def test_refusals_without_a_reason_are_learned_from_the_replies_to_smaller_requests_when_three_agree(
    known: Learned, declared: Limits, sent_tokens: int, window: int | None
) -> None:
    """FM-002: a refusal without a word teaches nothing by itself."""
    learned, windows = known, []
    for seq in range(3):
        learned = after_guess(learned, declared, replace(_call(sent_tokens, seq=seq), guessed=10_000))
        windows.append(learned.window_tokens)

    assert values(learned) == replace(known, window_tokens=window)
    assert windows[:2] == [known.window_tokens] * 2


# Usage without cached tokens.


def _uncached(learned: Learned = NOTHING_LEARNED) -> Learned:
    learned = after_reply(learned, Usage(5_000), of_size(5_000))
    return after_reply(learned, Usage(1_600), replace(of_size(6_600), added=1_600, reported_before=5_000))


def test_usage_that_falls_while_the_request_grows_leaves_out_cached_tokens_and_teaches_nothing() -> None:
    learned = _uncached()

    assert (learned.reports_all_read, learned.accepted_tokens, learned.window_tokens) == (False, 5_000, None)
    assert learned.calibration.readings == 1
    # Half of the request may be new: that is no reading of the whole either.
    later = after_reply(learned, Usage(3_500), replace(of_size(7_000), added=3_500, reported_before=1_600))
    assert later.calibration.readings == 1


def test_usage_that_grows_with_the_request_is_believed_again() -> None:
    learned = _uncached()

    whole = after_reply(learned, Usage(8_000), replace(of_size(8_000), added=1_400, reported_before=6_600))

    assert (whole.reports_all_read, whole.accepted_tokens) == (True, 8_000)


def test_a_reading_below_that_of_a_smaller_request_teaches_no_calibration() -> None:
    learned = after_reply(NOTHING_LEARNED, Usage(5_000), of_size(5_000))

    after = after_reply(learned, Usage(4_000), replace(of_size(5_200), added=200, reported_before=5_000))

    assert (after.calibration, after.reports_all_read) == (learned.calibration, True)
    suspected = replace(of_size(5_200), suspected=4_900)
    assert after_reply(learned, Usage(4_900), suspected).calibration == learned.calibration


# Parameters.


def test_a_parameter_that_was_left_out_is_remembered_until_a_request_with_it_is_answered() -> None:
    call = replace(CALL, at=NOW, record=Support("chat", 4), effort="left_out")
    learned = after_effort(NOTHING_LEARNED, call)
    assert parameters(learned, NOW, REFUSED) == {EFFORT}
    assert parameters(learned, NOW, REQUIRED) == frozenset()
    assert parameters(learned, NOW + 31 * DAY, REFUSED) == frozenset(), "tested again after a month"
    assert all_claims(after_effort(learned, call))[0].confirmed == 1
    assert after_effort(learned, replace(call, effort="sent")) == NOTHING_LEARNED
    assert after_effort(learned, replace(call, effort="")) == learned
    assert claim_of(learned, "temperature") is None


def test_a_parameter_that_had_to_be_added_is_remembered() -> None:
    call = replace(CALL, at=NOW, effort="added")
    learned = after_effort(NOTHING_LEARNED, call)

    assert parameters(learned, NOW, REQUIRED) == {EFFORT}
    assert after_effort(learned, replace(call, effort="sent")) == learned
    assert after_effort(NOTHING_LEARNED, replace(call, effort="sent")) == NOTHING_LEARNED
    assert parameters(after_effort(learned, replace(call, effort="left_out")), NOW, REFUSED) == {EFFORT}


# Words.


@pytest.mark.parametrize(
    ("claim", "words", "unit"),
    [
        (
            Claim(
                "window_tokens", 8_000, Evidence.STATED, confirmed=2, cuts=3, records=(Support("chat", 7),), said="no"
            ),
            (
                "takes at most 8,000 tokens: the provider stated this number when it refused a larger request ('no'); "
                "confirmed 2 times; made 3 requests smaller since; see chat record 7"
            ),
            "tokens",
        ),
        (
            Claim("media_pixels_max", 1_568, Evidence.REFUSED, contradicted=1),
            (
                "takes images of at most 1,568 pixels a side: the provider refused a request as too large without a "
                "number; this is a tenth below its size; contradicted 1 times"
            ),
            "pixels",
        ),
        (
            Claim(EFFORT, 0, Evidence.LEFT_OUT),
            (
                "refuses the parameter reasoning_effort: the provider refused a request, and answered it when only "
                "this was changed"
            ),
            "parameter",
        ),
    ],
)
def test_a_claim_is_told_with_its_evidence_in_words(claim: Claim, words: str, unit: str) -> None:
    told = in_words(claim)

    assert (told.words, told.unit, told.value) == (words, unit, claim.value)
