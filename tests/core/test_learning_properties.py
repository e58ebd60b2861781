"""Whatever came of whichever calls: what is learned holds together, and nobody runs into the same wall twice."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.core.limits.fit import Sizes, misfit
from holdfast.core.limits.learning import after_fault, after_guess, after_reply, effective, is_news
from holdfast.types.faults import Confidence, Fault, FaultKind, Unit
from holdfast.types.limits import NOTHING_LEARNED, Calibration, Learned, Limits
from holdfast.types.messages import Usage
from tests.core.lessons import BOUNDS, refused

_amounts = st.integers(1, 2_000_000)
_maybe = st.none() | _amounts
_limits = st.builds(Limits, _maybe, _maybe, _maybe, _maybe, _maybe, _maybe)
_learned = st.builds(
    Learned, _maybe, _maybe, _maybe, _maybe, _maybe, accepted_tokens=_amounts, accepted_wire_bytes=_amounts
)
_sizes = st.builds(Sizes, _amounts, _amounts, st.integers(0, 200), _amounts, st.integers(0, 20_000))
_faults = st.builds(
    Fault,
    st.sampled_from(FaultKind),
    st.sampled_from(Confidence),
    limit=_maybe,
    requested=_maybe,
    unit=st.none() | st.sampled_from(Unit),
)
_usages = st.none() | st.builds(Usage, st.integers(0, 3_000_000))
_calls = st.lists(st.tuples(_sizes, _faults | _usages), max_size=12)


def _heed(learned: Learned, sizes: Sizes, came: Fault | Usage | None) -> Learned:
    return after_fault(learned, Limits(), came, sizes) if isinstance(came, Fault) else after_reply(learned, came, sizes)


@settings(max_examples=50)
@given(declared=_limits, calls=_calls)
def test_limits_gone_by_are_within_what_is_declared_and_above_what_was_accepted(
    declared: Limits, calls: list[tuple[Sizes, Fault | Usage | None]]
) -> None:
    learned = NOTHING_LEARNED
    for sizes, came in calls:
        learned = _heed(learned, sizes, came)
    limits = effective(declared, learned)

    pairs = [
        (declared.window_tokens, limits.window_tokens, learned.accepted_tokens),
        (declared.wire_bytes_max, limits.wire_bytes_max, learned.accepted_wire_bytes),
        (declared.media_count_max, limits.media_count_max, 0),
        (declared.media_bytes_max, limits.media_bytes_max, 0),
        (declared.media_pixels_max, limits.media_pixels_max, 0),
        (declared.output_tokens_max, limits.output_tokens_max, 0),
    ]
    for said, used, accepted in pairs:
        assert said is None or (used is not None and used <= max(said, accepted))
        assert used is None or used >= accepted


@settings(max_examples=50)
@given(learned=_learned, sizes=_sizes, came=_faults | _usages)
def test_no_call_lowers_what_was_accepted_or_raises_a_limit(
    learned: Learned, sizes: Sizes, came: Fault | Usage | None
) -> None:
    after = _heed(learned, sizes, came)

    assert after.accepted_tokens >= learned.accepted_tokens
    assert after.accepted_wire_bytes >= learned.accepted_wire_bytes
    limits = ("window_tokens", "wire_bytes_max", "media_count_max", "media_bytes_max", "media_pixels_max")
    for name in (*limits, "output_tokens_max"):
        was, now = getattr(learned, name), getattr(after, name)
        assert was is None or (now is not None and now <= was)


@given(
    raw=st.integers(1_000, 1_000_000),
    counted=st.floats(0.6, 2.0),
    over=st.floats(1.02, 8.0),
    declared=st.none() | st.integers(1_000, 2_000_000),
)
def test_a_request_refused_with_plausible_numbers_is_not_sent_again_as_it_was(
    raw: int, counted: float, over: float, declared: int | None
) -> None:
    requested = int(raw * counted)
    limit = int(requested / over)
    sizes = Sizes(raw, 4 * raw, 0, 0, 0)
    fault = refused(FaultKind.TOKEN_OVERFLOW, limit=limit, requested=requested, unit=Unit.TOKENS)

    learned = after_fault(NOTHING_LEARNED, Limits(), fault, sizes)

    again = misfit(sizes, effective(Limits(window_tokens=declared), learned), learned.calibration, BOUNDS)
    assert again is not None
    assert again.kind is FaultKind.TOKEN_OVERFLOW


@given(sizes=_sizes, kind=st.sampled_from([FaultKind.TOKEN_OVERFLOW, FaultKind.WIRE_OVERFLOW]))
def test_a_request_refused_without_numbers_is_not_sent_again_as_it_was(sizes: Sizes, kind: FaultKind) -> None:
    learned = after_fault(NOTHING_LEARNED, Limits(), refused(kind), sizes)

    again = misfit(sizes, effective(Limits(), learned), learned.calibration, BOUNDS)

    # Of a single byte nothing can be taken away, and no window is smaller than the smallest.
    small = sizes.tokens < 2_500 if kind is FaultKind.TOKEN_OVERFLOW else sizes.wire_bytes <= 1
    assert again is not None or small


@settings(max_examples=100)
@given(
    declared=st.none() | st.integers(1, 2_000_000),
    refusals=st.lists(st.integers(0, 3_000_000), min_size=1, max_size=20),
    answered=st.integers(0, 3_000_000),
)
def test_refusals_without_numbers_never_teach_a_window_that_no_model_has(
    declared: int | None, refusals: list[int], answered: int
) -> None:
    limits, learned = Limits(window_tokens=declared), NOTHING_LEARNED
    learned = after_reply(learned, Usage(answered), Sizes(answered, answered, 0, 0, 0))
    for tokens in refusals:
        learned = after_fault(learned, limits, refused(FaultKind.TOKEN_OVERFLOW), Sizes(tokens, tokens, 0, 0, 0))
    window = effective(limits, learned).window_tokens

    least = 2_048 if declared is None else max(declared // 32, min(2_048, declared // 2))
    assert window is None or window >= max(least, learned.accepted_tokens)
    assert declared is None or window is not None


@pytest.mark.parametrize(
    ("declared", "refused_tokens", "window"),
    [
        # A summary of 400 tokens is refused: whatever that is, the window is not 360.
        (8_000, 400, None),
        (None, 400, None),
        (None, 2_275, None),
        (None, 2_276, 2_048),
        (8_000, 3_000, 2_700),
        (131_072, 4_000, None),
        (131_072, 5_000, 4_500),
        (1_000, 900, 810),
        (1_000, 500, None),
    ],
)
def test_a_small_request_that_is_refused_without_numbers_teaches_no_window(
    declared: int | None, refused_tokens: int, window: int | None
) -> None:
    sizes = Sizes(refused_tokens, 4 * refused_tokens, 0, 0, 0)

    learned = after_fault(NOTHING_LEARNED, Limits(declared), refused(FaultKind.TOKEN_OVERFLOW), sizes)

    assert learned == Learned(window_tokens=window)


def test_a_window_that_a_refusal_states_is_believed_however_small_it_is() -> None:
    sizes = Sizes(900, 4_000, 0, 0, 0)
    fault = refused(FaultKind.TOKEN_OVERFLOW, limit=512, unit=Unit.TOKENS)

    assert after_fault(NOTHING_LEARNED, Limits(), fault, sizes) == Learned(window_tokens=512)


def test_a_small_request_taken_for_too_large_teaches_no_window_that_no_model_has() -> None:
    sizes = Sizes(100, 400, 0, 0, 0)

    assert after_guess(NOTHING_LEARNED, Limits(), 400, sizes) == NOTHING_LEARNED


@settings(max_examples=50)
@given(before=_learned, more=st.integers(0, 10_000_000), readings=st.integers(0, 100), further=st.integers(0, 10_000))
def test_what_is_news_stays_news_when_there_is_still_more_of_it(
    before: Learned, more: int, readings: int, further: int
) -> None:
    after = replace(before, accepted_tokens=before.accepted_tokens + more, calibration=Calibration(readings=readings))
    later = replace(
        after,
        accepted_tokens=after.accepted_tokens + further,
        calibration=Calibration(readings=readings + further),
    )

    assert not is_news(before, before)
    if is_news(before, after):
        assert is_news(before, later)
