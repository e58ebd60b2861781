"""Whatever came of whichever calls: what is learned holds together, and nobody runs into the same wall twice."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.core.limits.claims import LIMIT_FIELDS, Call
from holdfast.core.limits.fit import Before, Sizes, misfit
from holdfast.core.limits.learning import (
    after_fault,
    after_guess,
    after_reply,
    after_suspicion,
    effective,
    is_news,
    suspected_tokens,
)
from holdfast.types.faults import Confidence, Fault, FaultKind, Unit
from holdfast.types.limits import NOTHING_LEARNED, Calibration, Learned, Limits, Support
from holdfast.types.messages import Usage
from tests.core.lessons import BOUNDS, of_size, refused, values

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
    call = Call(sizes)
    return after_fault(learned, Limits(), came, call) if isinstance(came, Fault) else after_reply(learned, came, call)


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
def test_no_call_lowers_what_was_accepted_and_no_reply_lowers_a_limit(
    learned: Learned, sizes: Sizes, came: Fault | Usage | None
) -> None:
    after = _heed(learned, sizes, came)

    assert after.accepted_tokens >= learned.accepted_tokens
    assert after.accepted_wire_bytes >= learned.accepted_wire_bytes
    if not isinstance(came, Fault):
        for name in LIMIT_FIELDS:
            was, now = getattr(learned, name), getattr(after, name)
            assert now is None or (was is not None and now >= was)


@given(
    raw=st.integers(2_000, 1_000_000),
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

    learned = after_fault(NOTHING_LEARNED, Limits(), fault, Call(sizes))

    again = misfit(sizes, effective(Limits(window_tokens=declared), learned), learned.calibration, BOUNDS)
    assert again is not None
    assert again.kind is FaultKind.TOKEN_OVERFLOW


@given(sizes=_sizes, kind=st.sampled_from([FaultKind.TOKEN_OVERFLOW, FaultKind.WIRE_OVERFLOW]))
def test_a_request_refused_without_numbers_is_not_sent_again_as_it_was(sizes: Sizes, kind: FaultKind) -> None:
    learned = after_fault(NOTHING_LEARNED, Limits(), refused(kind), Call(sizes))

    again = misfit(sizes, effective(Limits(), learned), learned.calibration, BOUNDS)

    # No window and no limit on bytes is smaller than the smallest.
    small = sizes.tokens < 2_500 if kind is FaultKind.TOKEN_OVERFLOW else sizes.wire_bytes < 75_000
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
    learned = after_reply(learned, Usage(answered), Call(Sizes(answered, answered, 0, 0, 0)))
    for tokens in refusals:
        learned = after_fault(learned, limits, refused(FaultKind.TOKEN_OVERFLOW), of_size(tokens))
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
    learned = after_fault(NOTHING_LEARNED, Limits(declared), refused(FaultKind.TOKEN_OVERFLOW), of_size(refused_tokens))

    assert values(learned) == Learned(window_tokens=window)


def test_a_window_that_a_refusal_states_is_believed_however_small_it_is() -> None:
    fault = refused(FaultKind.TOKEN_OVERFLOW, limit=512, unit=Unit.TOKENS)

    assert values(after_fault(NOTHING_LEARNED, Limits(), fault, of_size(900))) == Learned(window_tokens=512)


def test_a_small_request_taken_for_too_large_teaches_no_window_that_no_model_has() -> None:
    call = replace(of_size(100), guessed=400)

    assert after_guess(NOTHING_LEARNED, Limits(), call) == NOTHING_LEARNED


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


# Providers.


class _Provider:
    """Reads growing requests: counts with its own vocabulary, caches a prefix, and may cut in silence."""

    def __init__(self, *, counted: float, window: int | None, is_cached: bool, is_stated: bool) -> None:
        self._counted = counted
        self._window = window
        # Usage leaves out what was cached.
        self._is_cached = is_cached
        self._is_stated = is_stated
        self._read_before = 0

    def answer(self, raw: int) -> Usage | Fault:
        tokens = int(raw * self._counted)
        if self._window is not None and tokens > self._window and self._is_stated:
            return refused(FaultKind.TOKEN_OVERFLOW, limit=self._window, requested=tokens, unit=Unit.TOKENS)
        read = min(tokens, self._window or tokens)
        is_grown, before = read > self._read_before, self._read_before
        self._read_before = tokens
        return Usage(read - before if self._is_cached and is_grown and before else read)


def _sessions(provider: _Provider, declared: Limits, added: list[list[int]]) -> list[Learned]:
    """Return what is known after each call of some sessions, which obey it as the engine does."""
    learned, after_each, seq = NOTHING_LEARNED, [], 0
    for messages in added:
        raw, raw_before, reported_before, suspected = 200, 0, 0, 0
        for more in messages:
            raw += more
            limits = effective(declared, learned)
            window = min(limits.window_tokens or 10**9, suspected or 10**9)
            if learned.calibration.upper(raw) > window:
                # A compaction: the cache is cold and nothing can be compared.
                raw, raw_before, reported_before = min(500, window // 4), 0, 0
            seq += 1
            outcome = provider.answer(raw)
            scale = learned.calibration.scale
            before = Before(
                reports_all_read=learned.reports_all_read,
                accepted_tokens=learned.accepted_tokens,
                answered_raw=raw_before,
                answered_reported=reported_before,
                is_plain=True,
            )
            grown = round(scale * (raw - raw_before)) if reported_before else 0
            call = replace(
                of_size(raw), added=max(grown, 0), reported_before=reported_before, record=Support("chat", seq)
            )
            if isinstance(outcome, Fault):
                learned = after_fault(learned, declared, outcome, call)
            else:
                suspected = suspected_tokens(outcome, call.sizes, learned.calibration, before, declared)
                call = replace(call, suspected=suspected)
                learned = after_suspicion(after_reply(learned, outcome, call), declared, call)
                raw_before, reported_before = raw, outcome.input_tokens
            after_each.append(learned)
    return after_each


_talks = st.lists(st.lists(st.integers(50, 6_000), min_size=1, max_size=25), min_size=1, max_size=4)


@settings(max_examples=150)
@given(counted=st.floats(0.6, 2.0), talks=_talks, declared=st.none() | st.integers(4_000, 200_000))
def test_of_usage_without_cached_tokens_no_limit_is_learned(
    counted: float, talks: list[list[int]], declared: int | None
) -> None:
    provider = _Provider(counted=counted, window=None, is_cached=True, is_stated=False)

    for learned in _sessions(provider, Limits(declared), talks):
        assert (learned.window_tokens, learned.claims) == (None, ())


@settings(max_examples=150)
@given(
    counted=st.floats(0.6, 2.0),
    talks=_talks,
    declared=st.none() | st.integers(4_000, 200_000),
    window=st.integers(3_000, 60_000),
    is_cached=st.booleans(),
)
def test_a_window_that_is_cut_to_in_silence_is_claimed_within_a_few_percent_or_not_at_all(
    counted: float, talks: list[list[int]], declared: int | None, window: int, *, is_cached: bool
) -> None:
    provider = _Provider(counted=counted, window=window, is_cached=is_cached, is_stated=False)

    for learned in _sessions(provider, Limits(declared), talks):
        if learned.window_tokens is not None:
            assert 0.95 * window <= learned.window_tokens <= 1.05 * window
            assert learned.window_tokens >= (declared or 0) / 2


@settings(max_examples=150)
@given(
    counted=st.floats(0.6, 2.0),
    talks=_talks,
    declared=st.none() | st.integers(4_000, 200_000),
    window=st.integers(3_000, 60_000),
    is_cached=st.booleans(),
)
def test_a_window_that_refusals_state_is_learned_exactly_and_exceeded_once(
    counted: float, talks: list[list[int]], declared: int | None, window: int, *, is_cached: bool
) -> None:
    provider = _Provider(counted=counted, window=window, is_cached=is_cached, is_stated=True)

    for learned in _sessions(provider, Limits(declared), talks):
        assert learned.window_tokens in (None, window)
