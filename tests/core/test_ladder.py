"""The ladder: complete, in order, and with an end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.limits.bounds import Bounds
from holdfast.core.turn.failure_messages import Ending, Shares, after_fault, with_sizes
from holdfast.core.turn.ladder import (
    DESTRUCTIVE,
    LADDER,
    Evidence,
    backoff_seconds,
    guessed_row,
    next_rung,
    rungs_for,
)
from holdfast.types.faults import Confidence, Fault, FaultKind, Rung

BOUNDS = Bounds()


def a_fault(kind: FaultKind, *, retry_after_seconds: float | None = None, said: str = "") -> Fault:
    return Fault(kind, Confidence.CERTAIN, retry_after_seconds=retry_after_seconds, said=said)


def test_every_kind_of_fault_has_a_row_and_advice() -> None:
    assert set(LADDER) == set(FaultKind)
    for kind in FaultKind:
        assert after_fault(a_fault(kind)).code == kind.value
        assert after_fault(a_fault(kind)).sentence.endswith(".")


def test_every_rung_is_reached_by_some_fault() -> None:
    assert {rung for row in LADDER.values() for rung in row} == set(Rung)


@given(kind=st.sampled_from(FaultKind), climbed=st.lists(st.sampled_from(Rung), max_size=12))
def test_no_rung_is_offered_more_often_than_it_stands_in_the_row(kind: FaultKind, climbed: list[Rung]) -> None:
    rung = next_rung(a_fault(kind), climbed, BOUNDS)

    if rung is None:
        assert all(climbed.count(other) >= LADDER[kind].count(other) for other in LADDER[kind])
    else:
        assert climbed.count(rung) < LADDER[kind].count(rung)


def test_a_provider_that_asks_for_a_longer_wait_than_we_take_is_left_at_once() -> None:
    fault = a_fault(FaultKind.RATE_LIMIT, retry_after_seconds=3_600)

    assert next_rung(fault, (), BOUNDS) is Rung.FALLBACK_MODEL


def test_an_empty_answer_near_the_window_is_tried_again_and_then_taken_for_an_overflow() -> None:
    fault = Fault(FaultKind.EMPTY_RESPONSE, Confidence.LIKELY, second_kind=FaultKind.TOKEN_OVERFLOW)

    assert next_rung(fault, (), BOUNDS) is Rung.RETRY
    assert next_rung(fault, (Rung.RETRY,), BOUNDS) is LADDER[FaultKind.TOKEN_OVERFLOW][0]


def test_an_empty_answer_from_a_full_window_is_tried_again_and_then_taken_for_an_overflow() -> None:
    plain = Fault(FaultKind.EMPTY_RESPONSE, Confidence.LIKELY)
    full = Fault(FaultKind.EMPTY_RESPONSE, Confidence.LIKELY, second_kind=FaultKind.TOKEN_OVERFLOW)

    assert [next_rung(fault, (), BOUNDS) for fault in (plain, full)] == [Rung.RETRY, Rung.RETRY]
    after = [next_rung(fault, (Rung.RETRY,), BOUNDS) for fault in (plain, full)]
    assert after == [LADDER[FaultKind.EMPTY_RESPONSE][1], LADDER[FaultKind.TOKEN_OVERFLOW][0]]
    assert next_rung(full, (Rung.RETRY, *LADDER[FaultKind.TOKEN_OVERFLOW]), BOUNDS) is None


def test_content_is_suspected_of_an_empty_answer_where_nothing_else_is_likelier() -> None:
    plain = Fault(FaultKind.EMPTY_RESPONSE, Confidence.LIKELY)
    full = Fault(FaultKind.EMPTY_RESPONSE, Confidence.LIKELY, second_kind=FaultKind.TOKEN_OVERFLOW)

    def is_suspect(fault: Fault, evidence: Evidence) -> bool:
        return Rung.LEAVE_OUT_NEW in rungs_for(fault, BOUNDS, evidence)

    of_calls, again = Evidence(is_past_suspect=True), Evidence(is_past_suspect=True, refused_turns=1)
    assert [is_suspect(plain, one) for one in (Evidence(), of_calls, again)] == [True, False, True]
    assert [is_suspect(full, one) for one in (Evidence(), of_calls, again)] == [False, False, True]


def test_a_forbidden_request_is_suspected_for_its_content_after_the_other_models() -> None:
    fault = Fault(FaultKind.AUTH, Confidence.LIKELY, FaultKind.CONTENT_POLICY)

    row = rungs_for(fault, BOUNDS)
    assert (row[0], row[-1]) == (Rung.FALLBACK_MODEL, Rung.TAKE_BACK)
    assert {Rung.LEAVE_OUT_UNANSWERED, Rung.LEAVE_OUT_NEW} <= set(row)
    assert not DESTRUCTIVE.intersection(row)
    assert "firewall" in after_fault(fault).sentence
    assert rungs_for(Fault(FaultKind.AUTH, Confidence.LIKELY), BOUNDS) == (Rung.FALLBACK_MODEL,)


@pytest.mark.parametrize(
    ("retry_after_seconds", "waits_before", "expected"),
    [(None, 0, 1.0), (None, 1, 4.0), (None, 2, 16.0), (None, 9, 60.0), (7.0, 2, 7.0), (0.01, 0, 1.0), (60.0, 0, 60.0)],
)
def test_waits_follow_the_provider_else_grow_within_bounds(
    retry_after_seconds: float | None, waits_before: int, expected: float
) -> None:
    fault = a_fault(FaultKind.RATE_LIMIT, retry_after_seconds=retry_after_seconds)

    assert backoff_seconds(fault, [Rung.BACKOFF] * waits_before, BOUNDS) == expected


def test_what_the_provider_said_is_passed_on() -> None:
    assert after_fault(a_fault(FaultKind.AUTH, said="bad key")).sentence.endswith('The provider said: "bad key"')


@pytest.mark.parametrize(
    ("shares", "told"),
    [
        (
            Shares(9_000, 1_000, 500, 7_000, 6_000, 40_000),
            "about 9,000 tokens (the window has 6,000) and 40,000 bytes: system text 1,000 tokens, tools 500, messages",
        ),
        (Shares(9_000, 1_000, 500, 7_000, None, 40_000), "about 9,000 tokens (the window is not known)"),
    ],
)
def test_a_turn_that_was_too_large_ends_with_its_sizes(shares: Shares, told: str) -> None:
    ended = with_sizes(Ending("token_overflow", "It does not fit."), shares)

    assert (ended.code, ended.sentence[:16], told in ended.sentence) == ("token_overflow", "It does not fit.", True)
    assert "alone exceed" not in ended.sentence


def test_where_system_and_tools_alone_exceed_the_window_the_remedy_is_another() -> None:
    ended = with_sizes(Ending("token_overflow", "It does not fit."), Shares(9_000, 7_000, 1_500, 100, 6_000, 40_000))

    assert ended.sentence.endswith(
        "System text and tools alone exceed the window: shorten the system text, offer fewer tools, or use a model "
        "with a larger window."
    )


def test_instructions_of_a_client_that_exceed_the_window_are_named() -> None:
    shares = Shares(9_000, 500, 500, 100, 6_000, 40_000, instructions_tokens=7_900)
    ended = with_sizes(Ending("token_overflow", "It does not fit."), shares)

    assert "instructions in its first message take 7,900 more" in ended.sentence
    assert ended.sentence.endswith(
        "System text, tools and instructions alone exceed the window: shorten the instructions, offer fewer tools, or "
        "use a model with a larger window."
    )


def test_a_roll_over_is_the_last_rung_wherever_it_stands() -> None:
    rows = [row for row in LADDER.values() if Rung.ROLL_OVER in row]

    assert len(rows) == 6
    for row in rows:
        after = row[row.index(Rung.ROLL_OVER) :]
        assert set(after) <= {Rung.ROLL_OVER, Rung.TAKE_BACK}
        assert Rung.FALLBACK_MODEL in row[: -len(after)], "every model is tried first"


def test_an_address_without_such_a_path_is_told_apart_from_a_model_that_is_not_known() -> None:
    said = ("The model `gpt-9` does not exist", "Not Found", "")
    told = [after_fault(Fault(FaultKind.MODEL_NOT_FOUND, Confidence.LIKELY, said=one)).sentence for one in said]

    assert ["base_url" in sentence for sentence in told] == [False, True, True]


# --- Faults that are only guessed ---

COSTLY = [
    kind
    for kind in FaultKind
    if Rung.RETRY in rungs_for(Fault(kind, Confidence.GUESS), BOUNDS, Evidence(is_refused=True))
    and kind is not FaultKind.EMPTY_RESPONSE
    and kind is not FaultKind.STREAM_STALL
]


def test_a_guess_that_would_change_the_view_is_tried_out_first() -> None:
    assert {kind for kind, row in LADDER.items() if DESTRUCTIVE & set(row)} == set(COSTLY)


@given(kind=st.sampled_from(COSTLY), second=st.none() | st.sampled_from(FaultKind))
def test_a_guess_gets_a_retry_then_what_can_be_taken_back_and_at_last_what_cannot(
    kind: FaultKind, second: FaultKind | None
) -> None:
    row = guessed_row(kind, second)

    first = next((place for place, rung in enumerate(row) if rung in DESTRUCTIVE), len(row))
    before_retry = set(row[: row.index(Rung.RETRY)])
    assert before_retry <= {Rung.DROP_PARAMETER}, "a parameter that the response names is left out without a retry"
    assert row[-1] is Rung.TAKE_BACK
    assert row.index(Rung.FALLBACK_MODEL) == first - 1, "every model is tried before a part of the view is given up"
    assert set(row[first:]) <= DESTRUCTIVE | {Rung.TAKE_BACK}
    assert {rung for rung in LADDER[kind] if rung is not Rung.SEND_ANYWAY} <= set(row), "no cure of the kind is lost"
    assert len(row) <= 30


@pytest.mark.parametrize("confidence", [Confidence.CERTAIN, Confidence.LIKELY])
@pytest.mark.parametrize("kind", COSTLY)
def test_a_fault_that_is_sure_enough_has_the_row_of_its_kind(kind: FaultKind, confidence: Confidence) -> None:
    rungs = rungs_for(Fault(kind, confidence), BOUNDS, Evidence(is_refused=True, refused_turns=1))

    assert tuple(rungs) == tuple(rung for rung in LADDER[kind] if rung is not Rung.DROP_PARAMETER)


def test_a_suspicion_about_an_answer_is_not_tried_out() -> None:
    """The same request would be read as little as before; the suspicion has a number of its own."""
    guess = Fault(FaultKind.TOKEN_OVERFLOW, Confidence.GUESS, limit=4_096)

    assert tuple(rungs_for(guess, BOUNDS)) == LADDER[FaultKind.TOKEN_OVERFLOW]
