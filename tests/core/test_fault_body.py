"""Unwrapping bodies."""

import pytest

from holdfast.core.faults.body import Evidence, normalise, read
from holdfast.types.faults import Phase, Refusal


def body_of(text: str, status: int | None = None) -> Evidence:
    return read(Refusal("x", Phase.RESPONSE, status, body=text))


def test_json_in_strings_in_json_is_unwrapped_innermost_first() -> None:
    inner = '{\\"error\\": {\\"message\\": \\"no room\\", \\"type\\": \\"Too_Long\\"}}'
    evidence = body_of(f'{{"error": {{"message": "failed: {inner}", "code": 400}}}}')
    assert (evidence.sentences, evidence.codes, evidence.status) == (("no room", "failed:"), ("toolong",), 400)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[{"error": {"message": "no room"}}]', "no room"),
        ('Error code: 400 - {"message": "no room"} (see log)', "no room"),
        ("400 {'error': {'message': 'no room', 'code': 'x'}}", "no room"),
        ("""400 {'error': {'message': "there's\\n no \\'room\\'", 'ok': False, 'param': None}}""", "there's no 'room'"),
        # What was sent is printed the same way, and what is cut off is no dict any more.
        ("bad part {'role': 'user', 'text': 'hi'}", "bad part {'role': 'user', 'text': 'hi'}"),
        ("400 {'error': {'message': 'no room'", "400 {'error': {'message': 'no room'"),
        # Under a name that nobody foresaw, where there is no other sentence.
        ('{"data": "there is no room", "n": "x"}', "there is no room"),
        ('{"data": "there is no room", "message": "full"}', "full"),
        ('{"model": "m", "response": "there is no room", "done": true}', ""),
        ("no room", "no room"),
        ("", ""),
        ("{broken", "{broken"),
        ('{"a": {"b": [true, null, 1.5]}}', ""),
        ('{"error": "", "message": "   "}', ""),
    ],
)
def test_what_was_said_is_found_in_any_wrapping(text: str, said: str) -> None:
    assert body_of(text).said == said


@pytest.mark.parametrize(
    ("text", "status", "expected"),
    [
        ("Error code: 429 - slow", None, 429),
        ("524 <html>", None, 524),
        ("413 status code (no body)", None, 413),
        ('{"status": 503}', None, 503),
        ('{"code": "404"}', 200, 404),
        ('{"code": 404}', 400, 400),
        ("<html><title>502 Bad Gateway</title></html>", None, 502),
        ("<html></html>", None, None),
        ("4096 tokens", None, None),
        ('{"code": 7, "status": 200}', None, None),
        ("could not begin, received status code: 429.", None, 429),
        ("binding failed with 413 Payload Too Large", None, 413),
        ("the prompt failed with 413 tokens", None, None),
        ("a score of status 4.5", None, None),
    ],
)
def test_a_status_in_the_body_counts_where_http_has_none_to_tell(
    text: str, status: int | None, expected: int | None
) -> None:
    assert body_of(text, status).status == expected


def test_what_the_caller_sent_is_not_the_providers_word() -> None:
    echo = '{"detail": [{"msg": "Field required", "input": {"message": "context length exceeded"}}]}'
    assert body_of(echo).text == "field required"


def test_a_printed_dict_and_an_exceptions_name_give_their_codes() -> None:
    evidence = body_of("BadError: {'error': {'code': 'rate_limit_hit'}} ThrottlingException")
    assert evidence.codes == ("ratelimithit", "baderror", "throttlingexception")


def test_prose_in_a_codes_place_is_no_code() -> None:
    assert body_of(f'{{"code": "{"x" * 300}", "type": "short"}}').codes == ("short",)


def test_texts_are_reduced_to_what_the_tables_match() -> None:
    text = "<400> Input validation error: `Inputs`  see https://x.invalid/rate-limits &gt; 'b'"
    assert normalise(text) == "validation error: inputs see > b"
    assert len(normalise("word " * 10_000)) < 5_100


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("at most 32\u202f768 tokens", "at most 32768 tokens"),
        ("at most 1\u00a0048\u00a0576", "at most 1048576"),
        ("at most 1.048.576", "at most 1048576"),
        ("at most 32.768 tokens", "at most 32768 tokens"),
        ("at most 1\u2019048\u2019576", "at most 1048576"),
        ("at most 0.125 of it, as of 1.2.3", "at most 0.125 of it, as of 1.2.3"),
    ],
)
def test_thousands_are_joined_however_they_are_kept_apart(text: str, expected: str) -> None:
    assert body_of(text).text == expected


@pytest.mark.parametrize("text", ["400 too large: 9000", "AiError 400 too large: 9000", "error code 400: too large"])
def test_a_status_in_front_of_a_sentence_is_no_number_of_it(text: str) -> None:
    assert "400" not in normalise(text)


@pytest.mark.parametrize(
    "text", ['{"a":' * 200 + "1" + "}" * 200, "[" + '{"message": "x"},' * 3000 + "0]", "[[" * 9000]
)
def test_deep_and_wide_bodies_end_somewhere(text: str) -> None:
    assert len(body_of(text).sentences) <= 1


def test_strings_within_strings_end_somewhere() -> None:
    text = "bottom"
    for _ in range(9):
        text = '{"message": "' + text.replace("\\", "\\\\").replace('"', '\\"') + '"}'
    assert "bottom" in body_of(text).said


def test_a_stream_is_read_event_by_event() -> None:
    evidence = body_of(
        ': ping\n\ndata: {"x": 1}\n\ndata: oops\n\ndata: {"error": {"message": "no room"}}\n\ndata: [DONE]\n'
    )
    assert (evidence.is_stream, evidence.has_ended, evidence.sentences) == (True, True, ("no room",))


@pytest.mark.parametrize("text", ["", '{"error": {"message": "Bad Request"}}'])
def test_a_body_says_nothing_where_all_of_its_sentences_are_anybodys(text: str) -> None:
    assert body_of(text).says_nothing


def test_a_body_with_a_sentence_of_its_own_says_something() -> None:
    assert not body_of('{"error": {"message": "no room"}}').says_nothing
