"""Response decoders of all dialects, streamed in any chunks or as one body."""

import json
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.core.faults.classifier import classify
from holdfast.core.limits.bounds import Bounds
from holdfast.models import stream_decoder
from holdfast.models.dialects import DIALECTS
from holdfast.models.openai_responses.request_encoder import encrypted_reasoning
from holdfast.models.sse import encode_event
from holdfast.ports import Delta, ReasoningDelta, TextDelta, ToolCallDelta
from holdfast.types.faults import FaultKind, Phase, Refusal
from holdfast.types.messages import Reasoning, Reply, StopReason, Text, ToolCall, Usage

OPENAI, ANTHROPIC, RESPONSES, GEMINI = "openai-chat", "anthropic", "openai-responses", "gemini"
ALL = [OPENAI, ANTHROPIC, RESPONSES, GEMINI]
ISSUER = "dialect:host:m"
every = pytest.mark.parametrize("dialect", ALL)
# The decoder's own error texts are classified like provider texts; none may blame the request.
RETRIED = (FaultKind.TRANSIENT, FaultKind.STREAM_STALL)


def decoded(dialect: str, chunks: Iterable[bytes]) -> tuple[list[Delta], Reply | Refusal]:
    decoder = DIALECTS[dialect].StreamDecoder(ISSUER, "n")
    deltas = [delta for chunk in chunks for delta in decoder.feed(chunk)]
    return deltas, decoder.finish()


def openai_stream(*chunks: object, done: bool = True) -> list[bytes]:
    events = [encode_event(json.dumps(chunk).encode()) for chunk in chunks]
    return [*events, encode_event(b"[DONE]")] if done else events


def words(finish_reason: str | None = None, /, **delta: object) -> dict[str, object]:
    return {"model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]}


def a_call(
    index: int | None, arguments: object, name: str | None = None, call_id: str | None = None
) -> dict[str, object]:
    return words(tool_calls=[{"index": index, "id": call_id, "function": {"name": name, "arguments": arguments}}])


def anthropic_stream(*events: Mapping[str, object]) -> list[bytes]:
    return [encode_event(json.dumps(event).encode(), str(event["type"])) for event in events]


STARTED = {"type": "message_start", "message": {"model": "m", "usage": {"input_tokens": 3, "output_tokens": 1}}}
STOPPED = (
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 7}},
    {"type": "message_stop"},
)


def a_text(dialect: str, text: str) -> list[bytes]:
    """An event with a piece of text, in any dialect."""
    delta: dict[str, Mapping[str, object]] = {
        OPENAI: words(content=text),
        ANTHROPIC: {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}},
        RESPONSES: {"type": "response.output_text.delta", "output_index": 0, "delta": text},
        GEMINI: {"candidates": [{"content": {"parts": [{"text": text}]}}]},
    }
    return [encode_event(json.dumps(delta[dialect]).encode())]


# --- round trip --------------------------------------------------------------------------------------------------

texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=70)
calls = st.lists(
    st.tuples(
        st.from_regex(r"[a-z]{1,8}", fullmatch=True), st.dictionaries(texts, st.integers(), max_size=3).map(json.dumps)
    ),
    max_size=3,
)


@st.composite
def replies(draw: st.DrawFn, dialect: str) -> Reply:
    parts: list[Text | ToolCall | Reasoning] = []
    if draw(st.booleans()):
        thought = draw(texts)
        signatures = {ANTHROPIC: "c2ln", RESPONSES: encrypted_reasoning("rs_1", thought, "c2ln"), GEMINI: "c2ln"}
        parts.append(Reasoning(thought, ISSUER, signatures.get(dialect, "")))
    if draw(st.booleans()):
        parts.append(Text(draw(texts)))
    parts += [ToolCall(f"call_{at}", name, text) for at, (name, text) in enumerate(draw(calls))]
    has_calls = any(isinstance(part, ToolCall) for part in parts)
    ends = [StopReason.TOOL_CALLS if has_calls else StopReason.END, StopReason.LENGTH, StopReason.CONTENT_FILTER]
    usage = Usage(draw(st.integers(10, 99)), draw(st.integers(0, 99)), draw(st.integers(0, 10)))
    return Reply(tuple(parts), draw(st.sampled_from(ends)), usage, "m")


cases = st.sampled_from(ALL).flatmap(lambda name: st.tuples(st.just(name), replies(name)))


def split(whole: bytes, cuts: list[int]) -> list[bytes]:
    places = [0, *sorted(cut % (len(whole) + 1) for cut in cuts), len(whole)]
    return [whole[start:end] for start, end in pairwise(places)]


@given(
    cases,
    st.lists(st.integers(0), max_size=20),
)
@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
def test_any_split_of_a_stream_gives_the_answer_that_was_encoded(case: tuple[str, Reply], cuts: list[int]) -> None:
    dialect, reply = case
    whole = b"".join(DIALECTS[dialect].encode_stream(reply, "id"))
    at_once = decoded(dialect, [whole])
    assert at_once[1] == reply
    assert decoded(dialect, split(whole, cuts)) == at_once
    assert decoded(dialect, split(whole.replace(b"\n", b"\r\n"), cuts)) == at_once
    assert "".join(delta.text for delta in at_once[0] if isinstance(delta, TextDelta)) == "".join(
        part.text for part in reply.parts if isinstance(part, Text)
    )


@given(
    cases,
    st.lists(st.integers(0), max_size=5),
)
def test_a_server_that_ignores_the_wish_for_a_stream_is_understood(case: tuple[str, Reply], cuts: list[int]) -> None:
    dialect, reply = case
    body = DIALECTS[dialect].encode_reply(reply, "id")
    assert decoded(dialect, split(b"\n " + body, cuts)) == ([], reply)


@given(
    cases,
    st.data(),
)
def test_a_stream_that_is_cut_before_its_end_is_never_taken_for_an_answer(
    case: tuple[str, Reply], data: st.DataObject
) -> None:
    dialect, reply = case
    events = list(DIALECTS[dialect].encode_stream(reply, "id"))
    # The event that tells why the model stopped is the second or third from the end.
    without_end = b"".join(events[:-3] if dialect == OPENAI else events[:-2])
    cut = without_end[: data.draw(st.integers(0, len(without_end)))]
    _, last = decoded(dialect, [cut])
    assert isinstance(last, Refusal)
    assert (last.phase, last.dialect) == (Phase.STREAM, dialect)


# --- OpenAI's dialect, as servers speak it -----------------------------------------------------------------------


def test_parallel_calls_with_gaps_in_their_numbers_stay_apart() -> None:
    stream = openai_stream(
        a_call(0, "", "f", "a"),
        a_call(2, "", "g", "b"),
        a_call(0, '{"x"'),
        a_call(2, "{}"),
        a_call(0, ":1}"),
        words("tool_calls"),
    )
    deltas, reply = decoded(OPENAI, stream)
    assert reply == Reply((ToolCall("a", "f", '{"x":1}'), ToolCall("b", "g", "{}")), StopReason.TOOL_CALLS, None, "m")
    assert deltas[2:] == [
        ToolCallDelta(0, "f", '{"x"', "a"),
        ToolCallDelta(1, "g", "{}", "b"),
        ToolCallDelta(0, "f", ":1}", "a"),
    ]


@pytest.mark.parametrize("index", [0, None])
def test_whole_calls_that_all_have_the_same_number_stay_apart_by_their_ids(index: int | None) -> None:
    stream = openai_stream(a_call(index, '{"x":1}', "f", "a"), a_call(index, '{"x":2}', "f", "b"), words("stop"))
    assert decoded(OPENAI, stream)[1] == Reply(
        (ToolCall("a", "f", '{"x":1}'), ToolCall("b", "f", '{"x":2}')), StopReason.TOOL_CALLS, None, "m"
    )


def test_calls_without_ids_and_numbers_get_ids_of_this_answer() -> None:
    stream = openai_stream(a_call(None, '{"x":1}', "f"), a_call(None, {"x": 2}, "g"), words("stop"))
    assert decoded(OPENAI, stream)[1] == Reply(
        (ToolCall("call_n_0", "f", '{"x":1}'), ToolCall("call_n_1", "g", '{"x":2}')), StopReason.TOOL_CALLS, None, "m"
    )


def test_two_calls_under_one_id_get_two() -> None:
    stream = openai_stream(a_call(0, "{}", "f", "a"), a_call(1, "{}", "f", "a"), words("stop"))
    _, reply = decoded(OPENAI, stream)
    assert isinstance(reply, Reply)
    assert [part.call_id for part in reply.parts if isinstance(part, ToolCall)] == ["a", "call_n_1"]


def test_a_name_that_is_repeated_in_every_piece_is_not_doubled() -> None:
    stream = openai_stream(a_call(0, "{", "f", "a"), a_call(0, "}", "f", "a"), words("stop"))
    assert decoded(OPENAI, stream)[1] == Reply((ToolCall("a", "f", "{}"),), StopReason.TOOL_CALLS, None, "m")


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_thinking_is_read_under_either_name(field: str) -> None:
    deltas, reply = decoded(OPENAI, openai_stream(words(**{field: "hm"}), words("stop", content="yes")))
    assert deltas == [ReasoningDelta("hm"), TextDelta("yes")]
    assert reply == Reply((Reasoning("hm", ISSUER), Text("yes")), StopReason.END, None, "m")


@pytest.mark.parametrize(
    "form", [{"content": [{"type": "text", "text": "no"}, {"type": "thinking"}]}, {"refusal": "no"}, {"content": "no"}]
)
def test_text_is_read_in_every_form(form: dict[str, object]) -> None:
    assert decoded(OPENAI, openai_stream(words("stop", **form)))[1] == Reply((Text("no"),), StopReason.END, None, "m")


@pytest.mark.parametrize(
    ("told", "meant"),
    [
        ("stop", StopReason.END),
        ("tool_calls", StopReason.END),  # without any call
        ("length", StopReason.LENGTH),
        ("content_filter", StopReason.CONTENT_FILTER),
        ("model_context_window_exceeded", StopReason.LENGTH),
        ("insufficient_system_resource", StopReason.OTHER),
    ],
)
def test_openais_reasons_to_stop_are_understood(told: str, meant: StopReason) -> None:
    assert decoded(OPENAI, openai_stream(words(told, content="x")))[1] == Reply((Text("x"),), meant, None, "m")


def test_usage_is_the_last_that_was_told() -> None:
    usage = {
        "prompt_tokens": 9,
        "completion_tokens": 5,
        "prompt_tokens_details": {"cached_tokens": 4},
        "completion_tokens_details": {"reasoning_tokens": 2},
    }
    early = {**words(content="x"), "usage": {"prompt_tokens": 9, "completion_tokens": 1}}
    stream = openai_stream(early, words("stop"), {"choices": [], "usage": usage})
    assert decoded(OPENAI, stream)[1] == Reply((Text("x"),), StopReason.END, Usage(9, 5, 4, 2), "m")


@pytest.mark.parametrize(
    "stream", [openai_stream(words(content="x")), openai_stream(words("stop", content="x"), done=False)]
)
def test_either_sign_of_the_end_is_enough(stream: list[bytes]) -> None:
    assert decoded(OPENAI, stream)[1] == Reply((Text("x"),), StopReason.END, None, "m")


def test_an_answer_without_anything_is_an_empty_reply() -> None:
    assert decoded(OPENAI, openai_stream(words("stop")))[1] == Reply((), StopReason.END, None, "m")


@pytest.mark.parametrize(
    "error",
    [
        {"error": {"message": "boom", "code": 502}},
        {"object": "error", "message": "boom"},
        {"error": {"message": "boom"}, "choices": [{"delta": {"content": ""}, "finish_reason": "error"}]},
    ],
)
def test_an_error_inside_openais_stream_is_kept_as_it_came(error: dict[str, object]) -> None:
    stream = openai_stream(words(content="x"), error, words("stop", content="y"))
    deltas, refusal = decoded(OPENAI, stream)
    assert deltas == [TextDelta("x")]
    assert refusal == Refusal(
        OPENAI,
        Phase.STREAM,
        body=json.dumps(error),
        cause="the provider returned an error instead of a response",
    )


# --- Anthropic's dialect -----------------------------------------------------------------------------------------


def test_an_error_inside_anthropics_stream_is_kept_as_it_came() -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    _, refusal = decoded(ANTHROPIC, anthropic_stream(STARTED, error))
    assert refusal == Refusal(
        ANTHROPIC, Phase.STREAM, body=json.dumps(error), cause="the provider reported an error inside the stream"
    )


def test_pings_and_events_that_nobody_knows_are_passed_over() -> None:
    block = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hi"}}
    odd = {"type": "content_block_start", "index": 1, "content_block": {"type": "novelty", "text": ""}}
    stream = anthropic_stream({"type": "ping"}, STARTED, {"type": "news"}, block, delta, odd, *STOPPED)
    assert decoded(ANTHROPIC, stream) == ([TextDelta("hi")], Reply((Text("hi"),), StopReason.END, Usage(3, 7), "m"))


def test_a_call_that_comes_whole_in_its_first_event_is_read() -> None:
    block = {"type": "tool_use", "id": "", "name": "f", "input": {"x": 1}}
    stream = anthropic_stream(STARTED, {"type": "content_block_start", "index": 0, "content_block": block}, *STOPPED)
    assert decoded(ANTHROPIC, stream)[1] == Reply(
        (ToolCall("call_n_0", "f", '{"x": 1}'),), StopReason.TOOL_CALLS, Usage(3, 7), "m"
    )


def test_words_without_the_start_of_their_block_are_read() -> None:
    thought = {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}}
    word = {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "hi"}}
    deltas, reply = decoded(ANTHROPIC, anthropic_stream(STARTED, thought, word, *STOPPED))
    assert deltas == [ReasoningDelta("hm"), TextDelta("hi")]
    assert reply == Reply((Reasoning("hm", ISSUER), Text("hi")), StopReason.END, Usage(3, 7), "m")


def test_what_was_read_from_and_written_to_the_cache_counts_as_input() -> None:
    usage = {"input_tokens": 1, "cache_read_input_tokens": 20, "cache_creation_input_tokens": 300, "output_tokens": 0}
    started = {"type": "message_start", "message": {"model": "m", "usage": usage}}
    assert decoded(ANTHROPIC, anthropic_stream(started, *STOPPED))[1] == Reply(
        (), StopReason.END, Usage(321, 7, 20, cache_write_tokens=300), "m"
    )


@pytest.mark.parametrize(
    ("told", "meant"),
    [
        ("end_turn", StopReason.END),
        ("stop_sequence", StopReason.END),
        ("max_tokens", StopReason.LENGTH),
        ("refusal", StopReason.CONTENT_FILTER),
        ("model_context_window_exceeded", StopReason.LENGTH),
        ("pause_turn", StopReason.OTHER),
    ],
)
def test_anthropics_reasons_to_stop_are_understood(told: str, meant: StopReason) -> None:
    stopped = {"type": "message_delta", "delta": {"stop_reason": told}}
    # Without `message_stop`: the reason is enough.
    assert decoded(ANTHROPIC, anthropic_stream(STARTED, stopped))[1] == Reply((), meant, Usage(3, 1), "m")


def test_a_body_that_is_no_message_is_refused_with_what_came() -> None:
    _, refusal = decoded(ANTHROPIC, [b'{"type":"error","error":{}}'])
    assert isinstance(refusal, Refusal)
    assert refusal.body == '{"type":"error","error":{}}'


# --- what makes no sense -----------------------------------------------------------------------------------------


@every
@pytest.mark.parametrize("page", [b"<html>Sign in to the Wi-Fi</html>", b"[1]", b"{", b"{}x", b""])
def test_something_else_in_place_of_an_answer_is_kept(dialect: str, page: bytes) -> None:
    _, refusal = decoded(dialect, [page])
    assert isinstance(refusal, Refusal)
    assert (refusal.phase, refusal.body) == (Phase.STREAM, page.decode())


@every
@pytest.mark.parametrize("payload", [b"{", b"[]", b'{"choices": 5, "type": 7}', b"\xff"])
def test_an_event_that_cannot_be_read_ends_the_stream(dialect: str, payload: bytes) -> None:
    _, refusal = decoded(dialect, [encode_event(payload), encode_event(b"[DONE]")])
    assert isinstance(refusal, Refusal)
    assert refusal.cause == "the response has a malformed event"
    assert classify(refusal).kind in RETRIED


@every
def test_the_words_of_half_an_answer_are_not_taken_for_the_providers(dialect: str) -> None:
    _, refusal = decoded(dialect, a_text(dialect, "prompt is too long"))
    assert refusal == Refusal(dialect, Phase.STREAM, cause="the stream ended before the response was complete")
    assert classify(refusal).kind in RETRIED


@every
def test_what_is_kept_of_a_page_is_bounded_and_ends_with_a_whole_character(dialect: str) -> None:
    _, refusal = decoded(dialect, ["<p>ü".encode() * 10_000])
    assert isinstance(refusal, Refusal)
    size = len(refusal.body.encode())
    assert Bounds().refusal_body_bytes_max - 4 < size <= Bounds().refusal_body_bytes_max
    assert "\N{REPLACEMENT CHARACTER}" not in refusal.body


@every
def test_an_answer_without_end_is_refused(dialect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_decoder, "ANSWER_BYTES_MAX", 1_000)
    _, refusal = decoded(dialect, a_text(dialect, "x" * 100) * 20)
    assert isinstance(refusal, Refusal)
    assert refusal.cause == "the response has more than 1,000 characters"
    assert classify(refusal).kind in RETRIED


@every
def test_a_body_without_end_is_refused(dialect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_decoder, "ANSWER_BYTES_MAX", 1_000)
    _, refusal = decoded(dialect, [b"{", *[b" " * 100] * 20])
    assert isinstance(refusal, Refusal)
    assert refusal.cause == "the response has more than 1,000 bytes"
    assert classify(refusal).kind in RETRIED


@every
def test_calls_without_end_are_refused_however_small(dialect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_decoder, "ANSWER_BYTES_MAX", 10_000)
    block = {"type": "tool_use", "id": "", "name": "f", "input": {}}
    item = {"type": "function_call", "name": "f", "call_id": ""}
    one: dict[str, Callable[[int], Mapping[str, object]]] = {
        OPENAI: lambda at: a_call(at, "", "f", str(at)),
        ANTHROPIC: lambda at: {"type": "content_block_start", "index": at, "content_block": block},
        RESPONSES: lambda at: {"type": "response.output_item.added", "output_index": at, "item": item},
        GEMINI: lambda at: {"candidates": [{"content": {"parts": [{"functionCall": {"name": f"f{at}"}}]}}]},
    }
    stream = [encode_event(json.dumps(one[dialect](at)).encode()) for at in range(200)]
    _, refusal = decoded(dialect, stream)
    assert isinstance(refusal, Refusal)
    assert refusal.cause == "the response has more than 10,000 characters"


def test_a_line_without_end_is_refused() -> None:
    _, refusal = decoded(OPENAI, [b"data: "] + [b"x" * 2**20] * 20)
    assert isinstance(refusal, Refusal)
    assert refusal.cause == "an event of the stream has more than 16,777,216 bytes"
