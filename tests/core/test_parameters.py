"""Refused parameters: what an error response names, what a request is sent with, and what is learned from it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.limits.claims import REFUSED, Call, claim_of, in_words, is_due, parameters
from holdfast.core.limits.fit import Sizes
from holdfast.core.limits.learning import after_parameters, is_news
from holdfast.core.limits.parameters import (
    DROPPABLE,
    EFFORT,
    OTHER_NAMES,
    native_names,
    refused_parameter,
    sent_names,
    sentence_of,
    wire_name,
    with_parameter,
)
from holdfast.types.faults import Confidence, Fault, FaultKind, Phase, Refusal
from holdfast.types.limits import NOTHING_LEARNED, Evidence, Support


def openai(message: str, code: str | None = None, param: str | None = None) -> str:
    error = {"message": message, "type": "invalid_request_error", "param": param, "code": code}
    return json.dumps({"error": error})


def anthropic(message: str) -> str:
    return json.dumps({"type": "error", "error": {"type": "invalid_request_error", "message": message}})


def gemini(message: str) -> str:
    return json.dumps({"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}})


# ruff: noqa: E501 - error bodies as they come

# The fields decide: the words of these are of no help, or mislead.
BY_FIELD = [
    ("openai-chat", openai("Unsupported parameter.", "unsupported_parameter", "max_tokens"), "max_tokens"),
    ("openai-chat", openai("Only the default (1).", "unsupported_value", "temperature"), "temperature"),
    ("openai-chat", openai("Use 'top_p' instead", "unsupported_parameter", "seed"), "seed"),
    ("openai-chat", openai("Unknown parameter", "unknown_parameter", "stream_options.include_usage"), "stream_options"),
    ("openai-responses", openai("No", "unsupported_parameter", "text.verbosity"), "verbosity"),
    ("openai-responses", openai("No", "unsupported_parameter", "reasoning.effort"), EFFORT),
    # A part of a message, and parameters that a request cannot do without.
    ("openai-chat", openai("'temperature' is not supported", "unsupported_value", "messages[0].role"), ""),
    ("openai-chat", openai("'seed' is not supported", "unsupported_parameter", "tools"), ""),
    ("openai-chat", openai("No", "unsupported_parameter", "response_format"), ""),
    # Validators name a path.
    ("openai-chat", json.dumps({"detail": [{"type": "extra_forbidden", "loc": ["body", "seed"], "msg": "No"}]}), "seed"),
    ("openai-chat", json.dumps({"detail": [{"type": "extra_forbidden", "loc": ["body", "messages", 0, "seed"]}]}), ""),
    # A gateway puts the provider's body into a string.
    (
        "openai-chat",
        json.dumps({"error": {"message": "Provider returned error", "metadata": {"raw": openai("No", "unsupported_value", "top_p")}}}),
        "top_p",
    ),
]  # fmt: skip
BY_SENTENCE = [
    ("openai-chat", openai("Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."), "max_tokens"),
    ("openai-chat", openai("Unrecognized request argument supplied: parallel_tool_calls"), "parallel_tool_calls"),
    ("openai-chat", openai("Argument not supported on this model: presencePenalty"), "presence_penalty"),
    ("openai-chat", openai("Argument not supported on this model: stop"), "stop"),
    ("openai-chat", openai("property 'service_tier' is unsupported"), "service_tier"),
    ("openai-chat", "create() got an unexpected keyword argument 'verbosity'", "verbosity"),
    ("openai-chat", openai("Additional properties are not allowed ('seed' was unexpected)"), "seed"),
    ("openai-chat", openai("litellm.UnsupportedParamsError: x does not support parameters: ['top_k'], for model=m"), "top_k"),
    ("anthropic", anthropic("`temperature` is deprecated for this model."), "temperature"),
    ("anthropic", anthropic("temperature: Extra inputs are not permitted"), "temperature"),
    ("anthropic", anthropic("`temperature` may only be set to 1 when thinking is enabled."), "temperature"),
    ("anthropic", anthropic("`top_p` must be greater than or equal to 0.95 or unset when thinking is enabled."), "top_p"),
    ("anthropic", anthropic("`temperature` and `top_p` cannot both be specified for this model. Please use only one."), "top_p"),
    ("anthropic", anthropic("stop_sequences: Extra inputs are not permitted"), "stop_sequences"),
    ("anthropic", anthropic("output_config.effort: Extra inputs are not permitted"), EFFORT),
    ("gemini", gemini("Invalid JSON payload received. Unknown name \"topK\" at 'generation_config': Cannot find field."), "topK"),
    ("gemini", gemini("generation_config.presence_penalty is not supported for this model"), "presencePenalty"),
    ("gemini", gemini("Thinking is on. max_output_tokens is not enabled for this model"), "maxOutputTokens"),
    # About something else.
    ("openai-chat", openai("max_tokens is too large: 9000. This model supports at most 4096 completion tokens", None, "max_tokens"), ""),
    ("openai-chat", openai("max_tokens above 4096 is not supported by this model"), ""),
    ("openai-chat", openai("User location is not supported for the API use."), ""),
    ("openai-chat", openai("This model does not support images; stop sending them"), ""),
    ("openai-chat", openai("temperature must be between 0 and 2"), ""),
    ("openai-chat", openai("Unsupported parameter: 'tool_choice'"), ""),
    # The API requires an output limit, so that it can only be changed.
    ("anthropic", anthropic("max_tokens: Extra inputs are not permitted"), ""),
    ("openai-chat", "", ""),
    ("openai-chat", "{", ""),
    ("openai-chat", "<html>400</html>", ""),
    ("unknown-dialect", openai("Unsupported parameter: 'temperature'"), ""),
]  # fmt: skip


@pytest.mark.parametrize(("dialect", "body", "name"), BY_FIELD)
def test_the_fields_of_an_error_name_the_refused_parameter(dialect: str, body: str, name: str) -> None:
    assert refused_parameter(dialect, body) == name


@pytest.mark.parametrize(("dialect", "body", "name"), BY_SENTENCE)
def test_the_sentence_of_an_error_names_the_refused_parameter(dialect: str, body: str, name: str) -> None:
    assert refused_parameter(dialect, body) == name


@given(st.text(max_size=300), st.sampled_from(sorted(DROPPABLE)))
def test_any_body_is_read_to_a_parameter_of_its_dialect_or_to_none(body: str, dialect: str) -> None:
    for text in (
        body,
        json.dumps({"error": body}),
        json.dumps([{"error": {"code": "unsupported_value", "param": body}}]),
    ):
        assert refused_parameter(dialect, text) in {*DROPPABLE[dialect], EFFORT, ""}


def test_a_deep_or_long_body_is_read_within_bounds() -> None:
    deep = "[" * 5_000 + "]" * 5_000
    wide = json.dumps([{"error": "no"}] * 4_000)
    nested = json.dumps({"errors": [[[[[[[[{"code": "unsupported_value", "param": "top_p"}]]]]]]]]})
    assert [refused_parameter("openai-chat", body) for body in (deep, wide, nested)] == ["", "", ""]


FAULT = Fault(FaultKind.BAD_REQUEST, Confidence.LIKELY)
BODY = openai("No", "unsupported_parameter", "temperature")


def refusal(status: int | None = 400, phase: Phase = Phase.RESPONSE, body: str = BODY) -> Refusal:
    return Refusal("openai-chat", phase, status, body=body)


@pytest.mark.parametrize("status", [400, 422, 500, None])
def test_a_fault_gets_the_name_of_the_parameter(status: int | None) -> None:
    assert with_parameter(FAULT, refusal(status)).parameter == "temperature"


@pytest.mark.parametrize(
    ("fault", "refused"),
    [
        (FAULT, refusal(401)),
        (FAULT, refusal(429)),
        (FAULT, refusal(phase=Phase.STALL)),
        (FAULT, refusal(body="")),
        (Fault(FaultKind.QUOTA, Confidence.LIKELY), refusal()),
        # Reasoning has rungs of its own.
        (
            Fault(FaultKind.BAD_REQUEST_REASONING, Confidence.LIKELY),
            refusal(body=openai("No", "unsupported_value", "reasoning_effort")),
        ),
    ],
)
def test_a_fault_with_another_cause_names_no_parameter(fault: Fault, refused: Refusal) -> None:
    assert with_parameter(fault, refused) == fault


def test_an_output_limit_is_renamed_first_and_left_out_at_last() -> None:
    assert sent_names({"max_tokens", "seed"}, ()) == {"max_tokens", "seed"}
    assert sent_names({"max_tokens", "seed"}, {"max_tokens"}) == {"max_completion_tokens", "seed"}
    assert sent_names({"max_tokens"}, set(OTHER_NAMES)) == frozenset()
    # The request has both.
    assert sent_names(set(OTHER_NAMES), {"max_tokens"}) == {"max_completion_tokens"}
    assert wire_name("seed", {"seed"}, {"seed"}) == ""


def test_a_native_request_has_its_output_limit_and_effort_only_if_they_are_set() -> None:
    limit = {"max_tokens", "max_completion_tokens"}
    assert native_names("openai-chat", has_effort=False, has_output_limit=True) == {*limit, "stream_options"}
    assert native_names("openai-chat", has_effort=True, has_output_limit=False) == {"stream_options", EFFORT}
    assert native_names("scripted", has_effort=False, has_output_limit=True) == frozenset()


def test_a_sentence_says_what_is_sent_instead() -> None:
    assert "it is sent as max_completion_tokens" in sentence_of("max_tokens", (), ())
    assert "it is left out" in sentence_of("max_tokens", (), ("max_completion_tokens",))
    assert "it is left out" in sentence_of("temperature", ("temperature",), ())


# --- Claims ---

RECORD = Support("chat", 9)
AT = 1_000_000.0
SIZES = Sizes(100, 400, 0, 0, 0)


def answered(at: float = AT, **facts: object) -> Call:
    return Call(SIZES, at=at, record=RECORD, **facts)  # type: ignore[arg-type]


def test_a_parameter_that_was_left_out_before_an_answer_is_claimed_with_its_evidence() -> None:
    learned = after_parameters(NOTHING_LEARNED, answered(left_out=(("temperature", "only 1 is supported"),)))

    claim = claim_of(learned, "temperature")
    assert claim is not None
    assert (claim.value, claim.evidence, claim.records, claim.said) == (
        REFUSED,
        Evidence.LEFT_OUT,
        (RECORD,),
        "only 1 is supported",
    )
    assert in_words(claim).words == (
        "refuses the parameter temperature: the provider refused a request, and answered it when only this was changed "
        "('only 1 is supported'); see chat record 9"
    )
    assert is_news(NOTHING_LEARNED, learned)
    assert parameters(learned, AT, REFUSED) == {"temperature"}


def test_a_claim_about_a_parameter_is_tested_after_a_month_and_then_confirmed_or_dropped() -> None:
    learned = after_parameters(NOTHING_LEARNED, answered(left_out=(("seed", ""), ("top_p", ""))))
    later = AT + 31 * 86_400
    assert parameters(learned, later, REFUSED) == frozenset()
    assert parameters(learned, later, REFUSED, due=True) == {"seed", "top_p"}

    # One is refused again and left out, the other is accepted.
    tested = after_parameters(learned, answered(later, left_out=(("seed", ""),), tested=frozenset({"top_p"})))

    claim = claim_of(tested, "seed")
    assert claim is not None
    assert (claim.confirmed, claim.confirmed_at, is_due(claim, later)) == (1, later, False)
    assert claim_of(tested, "top_p") is None


def test_an_answer_without_a_claim_changes_nothing() -> None:
    assert after_parameters(NOTHING_LEARNED, answered(tested=frozenset({"seed"}))) == NOTHING_LEARNED
