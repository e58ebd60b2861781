"""How much output is asked for after a refusal: strictly less, and enough for an answer, or nothing is changed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.faults.classifier import classify
from holdfast.core.limits.bounds import Bounds
from holdfast.core.limits.fit import cap_stated, clamped
from holdfast.types.faults import Confidence, Fault, FaultKind, Phase, Refusal, Unit

BOUNDS = Bounds(output_tokens_least=1_000)


def refused(
    kind: FaultKind, *, limit: int | None, requested: int | None, output: int | None = None, unit: Unit = Unit.TOKENS
) -> Fault:
    return Fault(kind, Confidence.CERTAIN, limit=limit, requested=requested, unit=unit, output_requested=output)


@pytest.mark.parametrize(
    ("body", "cap"),
    [
        ("max_tokens is too large: 8000. This model supports at most 4096 completion tokens.", 4_096),
        ("max_tokens: 4096 > 2048, which is the maximum allowed number of output tokens for small-1", 2_048),
        ('{"error": "Input validation error: `max_new_tokens` must be <= 192. Given: 200"}', 192),
        ('{"error": {"message": "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]"}}', 8_192),
        ('{"error": {"message": "max_tokens must be at least 1, got 0.", "param": "max_tokens"}}', None),
        ("Could not finish the message because max_tokens or model output limit was reached.", None),
    ],
)  # fmt: skip
def test_the_most_that_a_model_writes_is_read_from_its_refusal(body: str, cap: int | None) -> None:
    fault = classify(Refusal("openai-chat", Phase.RESPONSE, 400, {}, body))

    assert (fault.kind, cap_stated(fault)) == (FaultKind.BAD_REQUEST, cap)


@pytest.mark.parametrize(
    "fault",
    [
        refused(FaultKind.TOKEN_OVERFLOW, limit=4_096, requested=8_000),
        refused(FaultKind.BAD_REQUEST, limit=4_096, requested=8_000, unit=Unit.CHARS),
        refused(FaultKind.BAD_REQUEST, limit=16, requested=None),
        refused(FaultKind.BAD_REQUEST, limit=None, requested=8_000),
    ],
)
def test_a_refusal_about_something_else_states_no_cap(fault: Fault) -> None:
    assert cap_stated(fault) is None


def test_an_answer_gets_what_the_window_has_left_beside_the_prompt() -> None:
    fault = refused(FaultKind.TOKEN_OVERFLOW, limit=8_000, requested=9_096, output=4_096)

    assert clamped(fault, asked=4_096, prompt_tokens=1, bounds=BOUNDS) == 8_000 - 5_000 - 32


def test_a_prompt_that_the_refusal_does_not_count_is_estimated() -> None:
    fault = refused(FaultKind.TOKEN_OVERFLOW, limit=32_768, requested=None, output=32_000)

    assert clamped(fault, asked=32_000, prompt_tokens=20_000, bounds=BOUNDS) == 12_768 - 32


@pytest.mark.parametrize(
    "fault",
    [
        # The prompt alone is too long, or leaves too little to answer in; or nobody says what was asked for.
        refused(FaultKind.TOKEN_OVERFLOW, limit=8_000, requested=13_000, output=4_000),
        refused(FaultKind.TOKEN_OVERFLOW, limit=8_000, requested=11_100, output=4_096),
        refused(FaultKind.TOKEN_OVERFLOW, limit=8_000, requested=9_000),
        refused(FaultKind.TOKEN_OVERFLOW, limit=None, requested=9_000, output=4_000),
        # More is offered than was asked for.
        refused(FaultKind.TOKEN_OVERFLOW, limit=8_000, requested=5_000, output=4_000),
        refused(FaultKind.RATE_LIMIT, limit=8_000, requested=9_000, output=4_000),
    ],
)
def test_where_less_output_does_not_help_nothing_is_changed(fault: Fault) -> None:
    assert clamped(fault, asked=4_096, prompt_tokens=100, bounds=BOUNDS) is None


def test_a_cap_that_was_kept_already_changes_nothing() -> None:
    fault = refused(FaultKind.BAD_REQUEST, limit=4_096, requested=None)

    assert clamped(fault, asked=8_000, prompt_tokens=0, bounds=BOUNDS) == 4_096
    assert clamped(fault, asked=4_096, prompt_tokens=0, bounds=BOUNDS) is None


_maybe = st.none() | st.integers(-10, 200_000)


@given(
    fault=st.builds(
        Fault,
        st.sampled_from((FaultKind.TOKEN_OVERFLOW, FaultKind.BAD_REQUEST)),
        st.sampled_from(Confidence),
        limit=_maybe,
        requested=_maybe,
        unit=st.sampled_from(Unit),
        output_requested=_maybe,
    ),
    asked=st.integers(1, 200_000),
    prompt_tokens=st.integers(0, 200_000),
)
def test_what_is_asked_for_is_always_strictly_less(fault: Fault, asked: int, prompt_tokens: int) -> None:
    most = clamped(fault, asked=asked, prompt_tokens=prompt_tokens, bounds=BOUNDS)

    refused_output = fault.output_requested if fault.kind is FaultKind.TOKEN_OVERFLOW else fault.requested or asked
    assert most is None or (refused_output is not None and 0 < most < refused_output)
