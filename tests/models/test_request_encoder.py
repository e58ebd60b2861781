"""Request codecs of the OpenAI chat and Anthropic dialects."""

import json
from itertools import groupby

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.models.anthropic.request_encoder import OUTPUT_TOKENS_DEFAULT
from holdfast.models.dialects import DIALECTS
from holdfast.models.fake import Simulation
from holdfast.models.openai_chat.request_encoder import ATTACHED_ABOVE, ATTACHED_BELOW
from holdfast.models.wire import UniqueCallIds, object_text, outcome_text
from holdfast.types.messages import (
    LargeText,
    Media,
    Message,
    Part,
    Reasoning,
    Request,
    Role,
    Text,
    ToolCall,
    ToolOutcome,
    ToolResult,
)
from tests.models.conversations import (
    IMAGES,
    a_blob,
    an_image,
    answered,
    asking,
    large,
    requests,
    returned,
    said,
)
from tests.models.wires import ANTHROPIC, ISSUER, OPENAI, both, encoded, wire

many = settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])


# --- round trip --------------------------------------------------------------------------------------------------


def as_openai(request: Request) -> Request:
    """The request after a lossy round trip through OpenAI's dialect; see `encode_request`."""
    ids = UniqueCallIds()
    messages: list[Message] = []
    for message in request.messages:
        if message.role is Role.ASSISTANT:
            text = "".join(part.text for part in message.parts if isinstance(part, Text))
            calls = [
                ToolCall(ids.of_call(part.call_id), part.name, object_text(part.arguments))
                for part in message.parts
                if isinstance(part, ToolCall)
            ]
            messages.append(answered(*([Text(text)] if text else []), *calls))
        elif message.role is Role.TOOL:
            results = [part for part in message.parts if isinstance(part, ToolResult)]
            told = [
                ToolResult(
                    ids.of_result(result.call_id),
                    tuple(Text(ATTACHED_BELOW) if isinstance(part, Media) else part for part in result.parts)
                    or (Text(outcome_text(result)),),
                )
                for result in results
            ]
            messages.append(returned(*told))
            media = [part for result in results for part in result.parts if isinstance(part, Media)]
            if media:
                messages.append(Message(Role.USER, (Text(ATTACHED_ABOVE), *media)))
        else:
            messages.append(message)
    return replace(request, messages=tuple(messages))


def as_anthropic(request: Request) -> Request:
    """The request after a lossy round trip through Anthropic's dialect; see `encode_request`."""
    ids = UniqueCallIds()
    messages: list[Message] = []
    for role, group in groupby(request.messages, key=lambda message: message.role):
        parts: list[Part] = []
        for part in (part for message in group for part in message.parts):
            if isinstance(part, ToolCall):
                parts.append(ToolCall(ids.of_call(part.call_id), part.name, object_text(part.arguments)))
            elif isinstance(part, ToolResult):
                inner = part.parts or (Text(outcome_text(part)),)
                parts.append(ToolResult(ids.of_result(part.call_id), inner, part.outcome))
            else:
                parts.append(part)
        messages.append(Message(role, tuple(parts)))
    return replace(
        request, messages=tuple(messages), output_tokens_max=request.output_tokens_max or OUTPUT_TOKENS_DEFAULT
    )


@given(requests())
@many
def test_openai_reads_back_what_it_wrote_up_to_what_the_dialect_cannot_say(request: Request) -> None:
    decoded = DIALECTS[OPENAI].decode_request(encoded(OPENAI, request), ISSUER)
    assert decoded.request == as_openai(request)
    assert (decoded.model, decoded.wants_stream, decoded.wants_usage) == ("m", True, True)


@given(requests().map(lambda request: replace(request, effort=None)))
@many
def test_anthropic_reads_back_what_it_wrote_up_to_what_the_dialect_cannot_say(request: Request) -> None:
    decoded = DIALECTS[ANTHROPIC].decode_request(encoded(ANTHROPIC, request), ISSUER)
    assert decoded.request == as_anthropic(request)
    assert (decoded.model, decoded.wants_stream) == ("m", True)


@given(st.sampled_from([OPENAI, ANTHROPIC]), requests())
@many
def test_every_request_that_is_encoded_is_taken_by_the_rules_of_the_real_api(dialect: str, request: Request) -> None:
    simulation = Simulation(replace(Simulation().limits, window_tokens=None, output_tokens_max=None))
    assert simulation.respond(dialect, encoded(dialect, request)).status == 200


@given(st.sampled_from([OPENAI, ANTHROPIC]), requests(), st.text(min_size=1, max_size=5))
@many
def test_a_longer_conversation_starts_with_the_bytes_of_the_shorter_one(
    dialect: str, request: Request, more: str
) -> None:
    shorter = encoded(dialect, request)
    grown = (*request.messages, answered(Text("a")), said(more + "."))
    longer = encoded(dialect, replace(request, messages=grown, output_tokens_max=7))
    keys = list(json.loads(shorter))
    first_setting = keys[keys.index("messages") + 1]
    end_of_messages = shorter.rindex(f'],"{first_setting}":'.encode())
    assert longer.startswith(shorter[:end_of_messages])
    assert encoded(dialect, request) == shorter


# --- parts -------------------------------------------------------------------------------------------------------


@both
def test_large_text_is_sent_whole(dialect: str) -> None:
    whole = "word " * 10_000
    request = asking(Message(Role.USER, (Text("look:"), large(whole))))
    content = wire(dialect, request, blobs={a_blob(whole.encode()).sha256: whole.encode()})["messages"][0]["content"]
    assert [part["text"] for part in content] == ["look:", whole]


@both
def test_large_text_whose_blob_is_missing_says_so(dialect: str) -> None:
    part = LargeText(a_blob(b"x" * 5_000), "xxx")
    body = encoded(dialect, asking(Message(Role.USER, (part,)))).decode()
    assert "xxx\\n[the rest of this text, 5,000 bytes in all, is missing]" in body


@both
@pytest.mark.parametrize("media_type", ["image/tiff", "audio/wav", "application/zip"])
def test_media_that_the_dialect_cannot_carry_are_named_in_a_line(dialect: str, media_type: str) -> None:
    media = Media(a_blob(b"1234"), media_type, "a.bin")
    content = wire(dialect, asking(Message(Role.USER, (Text("see"), media))))["messages"][0]["content"]
    assert content[1] == {"type": "text", "text": f"[attached: a.bin ({media_type}, 4 bytes); not shown]"}


def test_a_pdf_is_a_file_for_openai_and_a_document_for_anthropic() -> None:
    pdf = Media(a_blob(b"%PDF-1.7"), "application/pdf", "a.pdf")
    request, blobs = asking(Message(Role.USER, (pdf,))), {pdf.blob.sha256: b"%PDF-1.7"}
    openai = wire(OPENAI, request, blobs=blobs)["messages"][0]["content"][0]
    anthropic = wire(ANTHROPIC, request, blobs=blobs)["messages"][0]["content"][0]
    assert openai == {
        "type": "file",
        "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0xLjc="},
    }
    assert anthropic == {
        "type": "document",
        "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0xLjc="},
    }


@both
def test_lone_surrogates_do_not_stop_a_request(dialect: str) -> None:
    body = encoded(dialect, asking(said("a\ud800b"), system="s\udfff"))
    assert "a\N{REPLACEMENT CHARACTER}b" in body.decode()


@both
def test_empty_messages_of_a_person_are_filled_and_those_of_the_assistant_are_left_out(dialect: str) -> None:
    request = asking(said(""), answered(Text("")), answered(Reasoning("hm")), said("go on"))
    assert "assistant" not in [message["role"] for message in wire(dialect, request)["messages"]]
    assert "(empty message)" in encoded(dialect, request).decode()


def test_anthropic_leaves_out_text_of_nothing_but_white_space() -> None:
    request = asking(Message(Role.USER, (Text(" \n"), Text("hi"), Text("\t"))))
    assert wire(ANTHROPIC, request)["messages"] == [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]


def test_anthropic_merges_messages_of_one_role_and_puts_results_first() -> None:
    call = ToolCall("call_1", "echo", "{}")
    result = ToolResult("call_1", (Text("done"),))
    request = asking(said("a"), answered(call), said("wait"), returned(result), said("b"))
    messages = wire(ANTHROPIC, request)["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "user"]
    assert [block["type"] for block in messages[2]["content"]] == ["tool_result", "text", "text"]


def test_anthropic_gets_an_empty_first_message_where_the_assistant_speaks_first() -> None:
    messages = wire(ANTHROPIC, asking(answered(Text("hello")), said("hi")))["messages"]
    assert messages[0] == {"role": "user", "content": [{"type": "text", "text": "(empty message)"}]}


# --- calls -------------------------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("broken", ["", "{", "[1, 2]", '"text"', "not json", '{"a": NaN}', '{"a":"\\ud800"}'])
def test_arguments_that_are_no_object_are_wrapped_in_one(dialect: str, broken: str) -> None:
    request = asking(said("a"), answered(ToolCall("c", "echo", broken)), returned(ToolResult("c", (Text("r"),))))
    message = wire(dialect, request)["messages"][1]
    if dialect == OPENAI:
        sent = json.loads(message["tool_calls"][0]["function"]["arguments"])
    else:
        sent = message["content"][0]["input"]
    assert sent == ({"invalid_json_arguments": broken} if broken else {})


@both
def test_ids_are_made_fit_alike_for_a_call_and_its_result(dialect: str) -> None:
    long_id = "functions.echo:0 " * 10
    request = asking(said("a"), answered(ToolCall(long_id, "echo", "{}")), returned(ToolResult(long_id, (Text("r"),))))
    messages = wire(dialect, request)["messages"]
    if dialect == OPENAI:
        call_id, result_id = messages[1]["tool_calls"][0]["id"], messages[2]["tool_call_id"]
    else:
        call_id, result_id = messages[1]["content"][0]["id"], messages[2]["content"][0]["tool_use_id"]
    assert call_id == result_id
    assert len(call_id) <= 40
    assert call_id.replace("_", "").isalnum()


@both
def test_a_server_that_counts_its_calls_from_zero_in_every_answer_is_told_apart(dialect: str) -> None:
    once = (answered(ToolCall("0", "echo", "{}")), returned(ToolResult("0", (Text("r"),))))
    request = asking(said("a"), *once, *once, said("b"))
    assert Simulation().respond(dialect, encoded(dialect, request)).status == 200


def test_openai_gets_the_media_of_results_behind_all_results_of_the_answer() -> None:
    image = an_image(*_first_image())
    calls = answered(ToolCall("a", "echo", "{}"), ToolCall("b", "echo", "{}"))
    results = (returned(ToolResult("a", (image,))), returned(ToolResult("b", (Text("ok"),))))
    messages = wire(OPENAI, asking(said("go"), calls, *results))["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "tool", "user"]
    assert [part["type"] for part in messages[-1]["content"]] == ["text", "image_url"]


def test_anthropic_gets_the_media_of_results_inside_of_them() -> None:
    request = asking(
        said("go"), answered(ToolCall("a", "echo", "{}")), returned(ToolResult("a", (an_image(*_first_image()),)))
    )
    result = wire(ANTHROPIC, request)["messages"][2]["content"][0]
    assert [block["type"] for block in result["content"]] == ["image"]


@pytest.mark.parametrize("outcome", list(ToolOutcome))
def test_anthropic_tells_a_failed_call_from_a_good_one(outcome: ToolOutcome) -> None:
    request = asking(said("go"), answered(ToolCall("a", "echo", "{}")), returned(ToolResult("a", (), outcome)))
    result = wire(ANTHROPIC, request)["messages"][2]["content"][0]
    assert result.get("is_error", False) is (outcome is not ToolOutcome.DONE)
    assert result["content"][0]["text"] == outcome_text(ToolResult("a", (), outcome))


def _first_image() -> tuple[bytes, int, int]:
    return next(iter(IMAGES.values())), 10, 20
