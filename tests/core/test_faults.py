"""The classifier as a whole, and the failure modes it must not have."""

import msgspec
import pytest

from holdfast.core.faults.classifier import classify, classify_reply
from holdfast.types.faults import Confidence, Fault, FaultKind, Phase, Refusal, Sent, Unit
from holdfast.types.messages import Reply, StopReason, Text, Usage

K = FaultKind


def refused(body: str, status: int | None = 400, **headers: str) -> Refusal:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Refusal("openai-chat", Phase.RESPONSE, status, named, body)


def test_a_fault_tells_everything_the_provider_stated() -> None:
    body = (
        '{"error": {"message": "This model\'s maximum context length is 8192 tokens. However, you requested 9192 '
        'tokens (8000 in the messages, 1192 in the completion).", "code": "context_length_exceeded"}}'
    )
    assert classify(refused(body)) == Fault(
        kind=K.TOKEN_OVERFLOW,
        confidence=Confidence.CERTAIN,
        limit=8192,
        requested=9192,
        unit=Unit.TOKENS,
        said="This model's maximum context length is 8192 tokens. However, you requested 9192 tokens (8000 in the "
        "messages, 1192 in the completion).",
        output_requested=1192,
    )


# --- unexplained refusals ------------------------------------------------------------------------------------------


def test_the_request_shows_that_neither_media_nor_its_size_was_refused() -> None:
    """A short request that is refused as too large, or for images that it has not, was refused for another reason."""
    short, long = Sent(wire_bytes=2_000), Sent(wire_bytes=200_000)
    large = [classify(refused("Payload rejected", 413), sent) for sent in (Sent(), short, long)]
    media = [
        classify(refused("Unsupported image", 415), sent) for sent in (Sent(), short, Sent(wire_bytes=9, media_count=1))
    ]

    assert [one.kind for one in large] == [K.WIRE_OVERFLOW] * 3
    assert [one.confidence is Confidence.GUESS for one in large] == [False, True, False]
    assert [one.kind for one in media] == [K.MEDIA_OVERFLOW, K.BAD_REQUEST, K.MEDIA_OVERFLOW]
    assert media[1].confidence is Confidence.GUESS
    stated = classify(refused("Request of 2000 bytes exceeds the limit of 1000 bytes", 413), short)
    assert (stated.limit, stated.confidence) == (1_000, Confidence.CERTAIN)


@pytest.mark.parametrize("body", ['{"error":{"message":"Forbidden"}}', "<html>Request Rejected</html>", ""])
def test_a_forbidden_request_may_be_refused_for_its_content(body: str) -> None:
    fault = classify(refused(body, 403))
    assert (fault.kind, fault.second_kind) == (K.AUTH, K.CONTENT_POLICY)


@pytest.mark.parametrize("body", ["", "(no body)", '{"error": {"message": "Bad Request"}}', '{"detail": {}}'])
def test_an_unexplained_refusal_near_the_window_is_suspected_of_overflow(body: str) -> None:
    """FM-002: from 80 % of the known window on, and said to be a guess."""
    fault = classify(refused(body), Sent(tokens=80_000, window_tokens=100_000))
    assert (fault.kind, fault.confidence, fault.second_kind) == (K.TOKEN_OVERFLOW, Confidence.GUESS, K.BAD_REQUEST)


def test_an_unexplained_refusal_near_the_byte_cap_is_suspected_of_wire_overflow() -> None:
    """FM-002: a summary by a model would carry the same bytes, so the guess names the wire."""
    fault = classify(refused(""), Sent(wire_bytes=9_000_000, wire_bytes_max=10_000_000))
    assert (fault.kind, fault.confidence, fault.second_kind) == (K.WIRE_OVERFLOW, Confidence.GUESS, K.BAD_REQUEST)


@pytest.mark.parametrize(
    ("sent", "second"),
    [
        (Sent(), None),
        (Sent(tokens=79_999, window_tokens=100_000), None),
        (Sent(tokens=90_000), None),
        (Sent(tokens=90_000, window_tokens=0), None),
        (Sent(had_reasoning=True, had_tools=True), K.BAD_REQUEST_REASONING),
        (Sent(had_tools=True, media_count=1), K.TOOL_PAIRING),
        (Sent(media_count=1), K.MEDIA_OVERFLOW),
    ],
)
def test_an_unexplained_refusal_of_a_small_request_stays_a_bad_request(sent: Sent, second: FaultKind | None) -> None:
    assert classify(refused(""), sent) == Fault(K.BAD_REQUEST, Confidence.GUESS, second_kind=second)


def test_an_unclear_error_near_the_window_is_suspected_of_overflow() -> None:
    """The request is looked at where the words do not decide; the result is a guess, from which nothing is learned."""
    odd = refused("Sorry, the desk said no to the list")
    near = Sent(tokens=99, window_tokens=100)
    small, large = classify(odd), classify(odd, near)
    assert (small.kind, small.confidence) == (K.BAD_REQUEST, Confidence.GUESS)
    assert (large.kind, large.confidence) == (K.TOKEN_OVERFLOW, Confidence.GUESS)


def test_a_redirect_is_no_matter_of_size() -> None:
    near = Sent(tokens=90_000, window_tokens=100_000)
    assert classify(refused("", 301), near) == Fault(K.BAD_REQUEST, Confidence.GUESS)


@pytest.mark.parametrize(
    ("sent", "second"),
    [
        (Sent(), None),
        (Sent(media_count=2), K.MEDIA_OVERFLOW),
        (Sent(tokens=95, window_tokens=100, media_count=2), K.TOKEN_OVERFLOW),
    ],
)
def test_a_bare_413_is_about_bytes_and_names_the_next_suspect(sent: Sent, second: FaultKind | None) -> None:
    assert classify(refused("", 413), sent) == Fault(
        K.WIRE_OVERFLOW, Confidence.LIKELY, second_kind=second, unit=Unit.BYTES
    )


@pytest.mark.parametrize(("status", "second"), [(400, K.BAD_REQUEST), (413, K.WIRE_OVERFLOW)])
def test_a_provider_known_to_say_nothing_means_tokens(status: int, second: FaultKind) -> None:
    assert classify(refused("", status), Sent(provider="Cerebras")) == Fault(
        K.TOKEN_OVERFLOW, Confidence.LIKELY, second_kind=second, unit=Unit.TOKENS
    )


def test_one_code_means_what_its_provider_means_by_it() -> None:
    body = '{"error": {"code": "insufficient_quota", "message": "You exceeded your current quota."}}'
    kinds = [classify(refused(body, 429), Sent(provider=name)).kind for name in ("openai", "dashscope-intl", "")]
    assert kinds == [K.QUOTA, K.RATE_LIMIT, K.QUOTA]


# --- what only sounds like an overflow -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        (429, "Daily token limit of your plan reached", K.QUOTA),
        (402, "Prompt tokens limit exceeded: 7000 > 6000", K.QUOTA),
        (400, "Unknown parameter: context_length", K.BAD_REQUEST),
        (400, "num_ctx must be a positive integer, context length unchanged", K.BAD_REQUEST),
        (500, "model needs more system memory (9 GiB) than is available for this context size", K.TRANSIENT),
        (400, "temperature must be between 0 and 1", K.BAD_REQUEST),
        (None, "context deadline exceeded", K.TRANSIENT),
    ],
)
def test_quotas_plans_and_settings_are_no_overflow(status: int | None, message: str, kind: FaultKind) -> None:
    """FM-003: a healthy session is not compacted because a sentence mentions tokens, limits or context."""
    assert classify(refused(message, status), Sent(tokens=99, window_tokens=100)).kind is kind


def test_too_many_tokens_please_wait_is_a_rate_limit() -> None:
    """FM-004: whatever the status and even where the request was large."""
    near = Sent(tokens=99_000, window_tokens=100_000)
    kinds = {classify(refused("Too many tokens, please wait.", status), near).kind for status in (400, 429, 503)}
    assert kinds == {K.RATE_LIMIT}


def test_a_rejection_below_the_configured_window_teaches_the_real_one() -> None:
    """FM-006, FM-007: the stated limit is reported whatever window we believed in, or none."""
    body = "prompt is too long: 40000 tokens > 32768 maximum"
    limits = {classify(refused(body), Sent(40_000, window_tokens=window)).limit for window in (None, 250_000)}
    assert limits == {32768}


def test_a_request_above_what_a_minute_allows_will_never_fit() -> None:
    """FM-008: it stays a rate limit, with the overflow as the second reading."""
    never = classify(refused("tokens per min (TPM): Limit 30000, Requested 132819.", 429))
    later = classify(refused("tokens per min (TPM): Limit 30000, Used 29000, Requested 4028.", 429))
    used = classify(refused("request reached TPD rate limit, current: 1506556, limit: 1500000", 429))
    assert [(one.kind, one.second_kind) for one in (never, later, used)] == [
        (K.RATE_LIMIT, K.TOKEN_OVERFLOW),
        (K.RATE_LIMIT, None),
        (K.RATE_LIMIT, None),
    ]


def test_a_refused_thinking_parameter_is_told_from_thinking_that_cannot_be_replayed() -> None:
    """FM-010, FM-011: neither ever goes to compaction; only the latter is cured by repairing the history."""
    near = Sent(tokens=99, window_tokens=100)
    parameter = classify(refused("Reasoning is required for this endpoint and cannot be turned off."), near)
    replayed = classify(refused('{"error": {"code": "invalid_encrypted_content", "message": "x"}}'), near)
    signature = classify(refused("messages.1.content.0: Invalid `signature` in `thinking` block"), near)
    assert [(one.kind, one.second_kind) for one in (parameter, replayed, signature)] == [
        (K.BAD_REQUEST_REASONING, None),
        (K.BAD_REQUEST_REASONING, None),
        (K.BAD_REQUEST_REASONING, K.TOOL_PAIRING),
    ]


def test_words_that_nobody_foresaw_are_read_by_their_numbers() -> None:
    fault = classify(refused("Tokens counted: you sent 9000, we take no more than 8192"))
    assert (fault.kind, fault.limit, fault.requested) == (K.TOKEN_OVERFLOW, 8192, 9000)


@pytest.mark.parametrize(
    "message", ["Token odd: you sent 12, accepts 8", "Token 9000 is odd", "You sent 9000, up to 8192"]
)
def test_numbers_alone_are_no_overflow(message: str) -> None:
    assert classify(refused(message)).kind is K.BAD_REQUEST


# --- phases, pages, streams ----------------------------------------------------------------------------------------


def test_silence_is_a_stall_whatever_came_before() -> None:
    stalled = Refusal("anthropic", Phase.STALL, 200, body='data: {"type": "message_start"}\n\n')
    assert classify(stalled) == Fault(K.STREAM_STALL, Confidence.CERTAIN)


@pytest.mark.parametrize(
    ("phase", "cause", "kind"),
    [
        (Phase.CONNECT, "connection refused", K.TRANSIENT),
        (Phase.CONNECT, "", K.TRANSIENT),
        (Phase.CONNECT, "something odd", K.TRANSIENT),
        (Phase.STREAM, "the stream ended before the answer was complete", K.STREAM_STALL),
        (Phase.STREAM, "", K.STREAM_STALL),
        (Phase.STREAM, "an event could not be read", K.TRANSIENT),
        (Phase.RESPONSE, "something odd", K.TRANSIENT),
        (Phase.RESPONSE, '{"error": "something odd"}', K.BAD_REQUEST),
        (Phase.RESPONSE, "", K.TRANSIENT),
    ],
)
def test_what_a_client_says_counts_where_nothing_came(phase: Phase, cause: str, kind: FaultKind) -> None:
    assert classify(Refusal("other", phase, cause=cause)).kind is kind


def test_a_clients_words_do_not_count_beside_the_providers() -> None:
    refusal = Refusal("other", Phase.STREAM, body='{"error": {"message": "Overloaded"}}', cause="connection reset")
    assert (classify(refusal).kind, classify(refusal).said) == (K.OVERLOADED, "Overloaded")


@pytest.mark.parametrize(
    ("status", "kind", "second"),
    [
        (503, K.TRANSIENT, K.OVERLOADED),
        (413, K.WIRE_OVERFLOW, None),
        (403, K.AUTH, K.CONTENT_POLICY),
        (418, K.BAD_REQUEST, None),
        (None, K.RATE_LIMIT, None),
    ],
)
def test_a_page_is_read_by_its_status_not_by_its_words(
    status: int | None, kind: FaultKind, second: FaultKind | None
) -> None:
    page = "<html><style>p {}</style><body><h1>Sorry</h1><p>Rate limit exceeded.</p></body></html>"
    fault = classify(refused(page, status))
    assert (fault.kind, fault.second_kind, fault.said) == (kind, second, "Sorry Rate limit exceeded.")


def test_a_failure_inside_a_good_stream_is_found() -> None:
    body = (
        'event: message_start\ndata: {"type": "message_start"}\n\n'
        'event: error\ndata: {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}\n\n'
    )
    assert classify(Refusal("anthropic", Phase.STREAM, 200, body=body)).kind is K.OVERLOADED


def test_a_stream_that_came_to_its_end_with_nothing_in_it_is_an_empty_response() -> None:
    body = 'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'
    assert classify(Refusal("openai-chat", Phase.STREAM, 200, body=body)).kind is K.EMPTY_RESPONSE


def test_a_header_can_hold_the_code() -> None:
    fault = classify(refused('{"message": "No."}', 400, X_Amzn_ErrorType="ThrottlingException:http://x"))
    assert (fault.kind, fault.confidence) == (K.RATE_LIMIT, Confidence.CERTAIN)


def test_a_code_that_gateways_also_use_counts_where_no_sentence_says_more() -> None:
    wrapped = '{"error": {"type": "ServiceUnavailable", "message": "%s"}}'
    said, unsaid = (classify(refused(wrapped % message, 400)) for message in ("prompt is too long", "No."))
    assert (said.kind, unsaid.kind, unsaid.confidence) == (K.TOKEN_OVERFLOW, K.OVERLOADED, Confidence.LIKELY)


@pytest.mark.parametrize(("status", "kind"), [(404, K.MODEL_NOT_FOUND), (500, K.TRANSIENT), (529, K.OVERLOADED)])
def test_without_words_the_status_decides(status: int, kind: FaultKind) -> None:
    assert classify(refused("", status)).kind is kind


# --- lengths: the request's, or a setting's ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        (
            "Invalid 'messages[1].content': string too long. Expected maximum length 2000000, got 2100000.",
            K.WIRE_OVERFLOW,
        ),
        ("Input text exceeds 5000 characters", K.WIRE_OVERFLOW),
        ("Text is too long: characters exceed the limit", K.WIRE_OVERFLOW),
        ("Tool name must be at most 64 characters", K.BAD_REQUEST),
        ("label: at most 99 characters", K.BAD_REQUEST),
        ("signal: string too long, at most 99", K.BAD_REQUEST),
        ("Invalid 'tools': array too long. Expected maximum length 128, got 130.", K.WIRE_OVERFLOW),
        ("Invalid 'logit_bias': array too long. Expected maximum length 300, got 301.", K.BAD_REQUEST),
    ],
)
def test_the_unit_and_the_field_tell_a_large_request_from_a_wrong_setting(message: str, kind: FaultKind) -> None:
    assert classify(refused(message)).kind is kind


@pytest.mark.parametrize(
    ("message", "unit"),
    [
        ("image dimensions exceed 8000", Unit.PIXELS),
        ("image too large", Unit.BYTES),
        ("image exceeds 5 MB", Unit.BYTES),
        ("too many images", Unit.COUNT),
        ("at most 3 images", Unit.COUNT),
        ("use fewer than 20 images", Unit.COUNT),
        ("no more than 5 images per prompt", Unit.COUNT),
        ("25 images were sent; reduce the number of images to 20", Unit.COUNT),
        ("could not decode image", None),
    ],
)
def test_the_unit_of_media_comes_from_the_words(message: str, unit: Unit | None) -> None:
    fault = classify(refused(message))
    assert (fault.kind, fault.unit) == (K.MEDIA_OVERFLOW, unit)


@pytest.mark.parametrize(
    "body",
    [
        '{"detail": [{"loc": ["body", "n"], "msg": "Input should be greater than or equal to 1"}]}',
        '{"detail": [{"loc": ["body", "max_tokens"], "msg": "Input should be less than or equal to 4096"}]}',
        "Prompt template variables exceed the maximum of 20",
        "The number of stop tokens exceeds the limit",
        "user id exceeds maximum length",
        "function name is too long",
        "logit_bias: invalid token id 128999, vocab size is 128256",
        "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, but got 10 instead.",
        "Cached content is too small. total_token_count=500, min_total_token_count=1024",
        "input must contain at least 1 token",
        "The prompt must be a string or array of tokens",
        "Schema has too many properties: 120 exceeds the limit of 100",
        "prompt_cache_key: string too long. maximum length 64",
        "too many widgets",
    ],
)
def test_a_setting_that_is_wrong_by_itself_is_no_overflow(body: str) -> None:
    """Compacting would cost a summary, and the request would be refused all the same."""
    assert classify(refused(body)).kind is K.BAD_REQUEST


# --- said ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "secret",
    [
        "sk-proj-abcdef0123456789abcd",
        "Bearer abcdef0123456789",
        "?key=AIzaSyabcdef0123456789",
        "gsk_abcdefghij0123456789",
    ],
)
def test_keys_never_stand_in_what_was_said(secret: str) -> None:
    said = classify(refused(f'{{"error": {{"message": "Rejected {secret} today"}}}}')).said
    assert "abcdef" not in said
    assert said.startswith("Rejected ")
    assert said.endswith(" today")


def test_what_was_said_is_bounded() -> None:
    said = classify(refused("far too much " * 100)).said
    assert len(said) == 300
    assert said.endswith("…")


def test_the_innermost_sentence_is_the_one_that_was_said() -> None:
    body = (
        '{"error": {"message": "Provider returned error", "metadata": {"raw": "{\\"detail\\": \\"No room left\\"}"}}}'
    )
    assert classify(refused(body)).said == "No room left"
    assert classify(refused('{"error": {"message": "Bad Request"}}')).said == "Bad Request"


# --- replies -------------------------------------------------------------------------------------------------------


def test_a_reply_with_text_is_fine() -> None:
    reply = Reply((Text("hello"),), StopReason.END, Usage(10, 2), "m")
    assert classify_reply(reply, Sent(tokens=11, window_tokens=100)) is None


def _of_message(text: str, code: str = "") -> Fault:
    body = msgspec.json.encode({"error": {"message": text, **({"code": code} if code else {})}}).decode()
    return classify(Refusal("openai-chat", Phase.RESPONSE, 400, body=body))


def test_a_limit_of_a_few_tokens_is_that_of_a_parameter_and_no_window() -> None:
    fault = _of_message("suffix too long: 900 tokens, limit 128")
    assert (fault.kind, fault.unit) == (K.BAD_REQUEST, Unit.COUNT)


def test_a_negative_remainder_is_not_taken_for_the_size_of_the_request() -> None:
    fault = _of_message("max_tokens must be at least 1, got -812", "context_length_exceeded")
    assert (fault.kind, fault.limit, fault.requested) == (K.TOKEN_OVERFLOW, None, None)
