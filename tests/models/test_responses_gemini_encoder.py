"""Request codecs of the responses and Gemini dialects."""

import json
from itertools import groupby
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.models.dialects import DIALECTS
from holdfast.models.fake import Simulation
from holdfast.models.fake.tokens import seal
from holdfast.models.gemini.request_encoder import NO_SIGNATURE
from holdfast.models.openai_chat.request_encoder import ATTACHED_ABOVE, ATTACHED_BELOW
from holdfast.models.openai_responses.request_encoder import encrypted_reasoning
from holdfast.models.wire import MalformedRequestError, UniqueCallIds, object_text, outcome_text
from holdfast.types.messages import (
    Effort,
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
    ECHO,
    IMAGES,
    a_blob,
    answered,
    asking,
    large,
    requests,
    returned,
    said,
)

RESPONSES, GEMINI = "openai-responses", "gemini"
FIELDS = {RESPONSES: "input", GEMINI: "contents"}
PATH = "/v1beta/models/m:streamGenerateContent?alt=sse"
ISSUER = "dialect:example.com:m"
each = pytest.mark.parametrize("dialect", [RESPONSES, GEMINI])
many = settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])


def encoded(dialect: str, request: Request, model: str = "m", blobs: dict[str, bytes] | None = None) -> bytes:
    return DIALECTS[dialect].encode_request(request, model, {**IMAGES, **(blobs or {})}, ISSUER)


def wire(dialect: str, request: Request, model: str = "m", blobs: dict[str, bytes] | None = None) -> Any:
    return json.loads(encoded(dialect, request, model, blobs))


# --- round trip --------------------------------------------------------------------------------------------------


def as_responses(request: Request) -> Request:
    """The request after a lossy round trip through the responses dialect; see `encode_request`."""
    ids = UniqueCallIds()
    messages: list[Message] = []
    for message in request.messages:
        parts: list[Part] = []
        for part in message.parts:
            if isinstance(part, ToolCall):
                parts.append(ToolCall(ids.of_call(part.call_id), part.name, object_text(part.arguments)))
            elif isinstance(part, ToolResult):
                parts.append(ToolResult(ids.of_result(part.call_id), part.parts or (Text(outcome_text(part)),)))
            else:
                parts.append(part)
        if messages and messages[-1].role is message.role is Role.ASSISTANT:
            parts = [*messages.pop().parts, *parts]
        messages.append(Message(message.role, tuple(parts)))
    return replace(request, messages=tuple(messages))


def as_gemini(request: Request) -> Request:
    """The request after a lossy round trip through the Gemini dialect; see `encode_request`."""
    ids = UniqueCallIds()
    turns: list[Message] = []
    for message in request.messages:
        parts: list[Part] = []
        attached: list[Part] = []
        for part in message.parts:
            if isinstance(part, ToolCall):
                parts.append(ToolCall(ids.of_call(part.call_id), part.name, object_text(part.arguments)))
            elif isinstance(part, ToolResult):
                inner = tuple(Text(ATTACHED_BELOW) if isinstance(one, Media) else one for one in part.parts)
                parts.append(
                    ToolResult(ids.of_result(part.call_id), inner or (Text(outcome_text(part)),), part.outcome)
                )
                attached += [one for one in part.parts if isinstance(one, Media)]
            else:
                parts.append(part)
        turns.append(Message(message.role, tuple(parts)))
        if attached:
            turns.append(Message(Role.USER, (Text(ATTACHED_ABOVE), *attached)))
    merged = [
        Message(role, tuple(part for message in group for part in message.parts))
        for role, group in groupby(turns, key=lambda message: message.role)
    ]
    return replace(request, messages=tuple(merged))


@given(requests())
@many
def test_responses_read_back_what_they_wrote_up_to_what_the_dialect_cannot_say(request: Request) -> None:
    decoded = DIALECTS[RESPONSES].decode_request(encoded(RESPONSES, request), ISSUER)
    assert decoded.request == as_responses(request)
    assert (decoded.model, decoded.wants_stream) == ("m", True)


@given(requests().map(lambda request: replace(request, effort=None)))
@many
def test_gemini_reads_back_what_it_wrote_up_to_what_the_dialect_cannot_say(request: Request) -> None:
    decoded = DIALECTS[GEMINI].decode_request(encoded(GEMINI, request), ISSUER, PATH)
    assert decoded.request == as_gemini(request)
    assert (decoded.model, decoded.wants_stream) == ("m", True)


@given(st.sampled_from([RESPONSES, GEMINI]), requests())
@many
def test_every_request_that_is_encoded_is_taken_by_the_rules_of_the_real_api(dialect: str, request: Request) -> None:
    simulation = Simulation(replace(Simulation().limits, window_tokens=None, output_tokens_max=None))
    assert simulation.respond(dialect, encoded(dialect, request), PATH).status == 200


@given(st.sampled_from([RESPONSES, GEMINI]), requests(), st.text(min_size=1, max_size=5))
@many
def test_a_longer_conversation_starts_with_the_bytes_of_the_shorter_one(
    dialect: str, request: Request, more: str
) -> None:
    request = replace(request, output_tokens_max=9)
    shorter = encoded(dialect, request)
    grown = (*request.messages, answered(Text("a")), said(more + "."))
    longer = encoded(dialect, replace(request, messages=grown, output_tokens_max=7))
    keys = list(json.loads(shorter))
    first_setting = keys[keys.index(FIELDS[dialect]) + 1]
    end_of_messages = shorter.rindex(f'],"{first_setting}":'.encode())
    assert longer.startswith(shorter[:end_of_messages])
    assert encoded(dialect, request) == shorter


# --- parts -------------------------------------------------------------------------------------------------------


@each
def test_large_text_is_sent_whole_and_surrogates_do_not_stop_it(dialect: str) -> None:
    whole = "word " * 10_000
    request = asking(Message(Role.USER, (Text("a\ud800b"), large(whole))))
    body = encoded(dialect, request, blobs={a_blob(whole.encode()).sha256: whole.encode()}).decode()
    assert whole in body
    assert "a\N{REPLACEMENT CHARACTER}b" in body


@each
def test_media_that_the_dialect_cannot_carry_are_named_in_a_line(dialect: str) -> None:
    media = Media(a_blob(b"1234"), "audio/wav", "a.wav")
    request = asking(Message(Role.USER, (media,)), answered(media), said("go"))
    assert encoded(dialect, request).count(b"[attached: a.wav (audio/wav, 4 bytes); not shown]") == 2


def test_a_pdf_is_a_file_for_responses_and_inline_for_gemini() -> None:
    pdf = Media(a_blob(b"%PDF-1.7"), "application/pdf", "a.pdf")
    request, blobs = asking(Message(Role.USER, (pdf,))), {pdf.blob.sha256: b"%PDF-1.7"}
    assert wire(RESPONSES, request, blobs=blobs)["input"][0]["content"] == [
        {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0xLjc="}
    ]
    assert wire(GEMINI, request, blobs=blobs)["contents"][0]["parts"] == [
        {"inlineData": {"mimeType": "application/pdf", "data": "JVBERi0xLjc="}}
    ]


@each
def test_nothing_to_say_is_said_as_an_empty_message(dialect: str) -> None:
    for request in (asking(), asking(said("")), asking(answered(Text("")))):
        assert b"(empty message)" in encoded(dialect, request)


@each
@pytest.mark.parametrize("broken", ["", "{", "[1, 2]", "not json"])
def test_arguments_that_are_no_object_are_wrapped_in_one(dialect: str, broken: str) -> None:
    request = asking(said("a"), answered(ToolCall("c", "echo", broken)), returned(ToolResult("c", (Text("r"),))))
    if dialect == RESPONSES:
        sent = json.loads(wire(dialect, request)["input"][1]["arguments"])
    else:
        sent = wire(dialect, request)["contents"][1]["parts"][0]["functionCall"]["args"]
    assert sent == ({"invalid_json_arguments": broken} if broken else {})


# --- settings ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "asks"),
    [
        ("gpt-5.4", True),
        ("o3-mini", True),
        ("openai/gpt-oss-120b", True),
        ("codex-mini-latest", True),
        ("gpt-4o", False),
        ("gpt-5-chat-latest", False),
    ],
)
def test_encrypted_thinking_is_asked_of_models_that_think_alone(model: str, *, asks: bool) -> None:
    body = wire(RESPONSES, asking(said("a")), model)
    assert ("include" in body, body["store"]) == (asks, False)


def test_the_settings_of_a_response_go_by_their_names() -> None:
    request = asking(said("a"), system="be brief", tools=(ECHO,), output_tokens_max=5, effort=Effort.HIGH)
    body = wire(RESPONSES, request)
    assert body["instructions"] == "be brief"
    assert body["max_output_tokens"] == 5
    assert body["reasoning"] == {"effort": "high"}
    assert body["tools"] == [
        {
            "type": "function",
            "name": "echo",
            "description": "Says it again.",
            "parameters": json.loads(ECHO.parameters),
            "strict": False,
        }
    ]


@pytest.mark.parametrize(
    ("model", "effort", "config"),
    [
        ("gemini-2.5-flash", Effort.NONE, {"thinkingBudget": 0}),
        ("gemini-2.5-pro", Effort.NONE, {"thinkingBudget": 128}),
        ("gemini-2.5-pro", Effort.MEDIUM, {"thinkingBudget": 4_096, "includeThoughts": True}),
        ("gemini-3-flash", Effort.NONE, {"thinkingLevel": "low", "includeThoughts": False}),
        ("gemini-3-flash", Effort.MEDIUM, {"thinkingLevel": "medium", "includeThoughts": True}),
        ("gemini-3.1-pro", Effort.MEDIUM, {"thinkingLevel": "high", "includeThoughts": True}),
    ],
)
def test_gemini_is_asked_to_think_as_its_series_takes_it(model: str, effort: Effort, config: dict[str, object]) -> None:
    body = wire(GEMINI, asking(said("a"), effort=effort, output_tokens_max=5), model)
    assert body["generationConfig"] == {"maxOutputTokens": 5, "thinkingConfig": config}


@pytest.mark.parametrize(
    ("config", "effort"),
    [
        ({"thinkingLevel": "MINIMAL"}, Effort.LOW),
        ({"thinkingLevel": "medium"}, Effort.MEDIUM),
        ({"thinkingLevel": "high"}, Effort.HIGH),
        ({"thinkingBudget": -1}, None),
        ({"thinkingBudget": 0}, Effort.NONE),
        ({"thinkingBudget": 1_000}, Effort.LOW),
        ({"thinkingBudget": 5_000}, Effort.MEDIUM),
        ({"thinkingBudget": 20_000}, Effort.HIGH),
    ],
)
def test_gemini_reads_how_much_to_think(config: dict[str, object], effort: Effort | None) -> None:
    body = {"contents": [], "generationConfig": {"thinkingConfig": config}}
    assert DIALECTS[GEMINI].decode_request(json.dumps(body).encode()).request.effort == effort


# --- thinking ----------------------------------------------------------------------------------------------------


def test_encrypted_thinking_goes_back_to_the_byte_and_to_its_issuer_alone() -> None:
    opaque = '{"type": "reasoning",  "id":"rs_1","summary":[],"encrypted_content":"gAAA","new_field":1.50}'
    request = asking(said("a"), answered(Reasoning("", ISSUER, opaque), Text("b")), said("c"))
    assert opaque.encode() in encoded(RESPONSES, request)
    assert b"gAAA" not in DIALECTS[RESPONSES].encode_request(request, "m", {}, "dialect:other.example:m")


def test_thinking_with_nothing_behind_it_is_left_out() -> None:
    thought = Reasoning("", ISSUER, encrypted_reasoning("rs_1", "", "gAAA"))
    request = asking(said("a"), answered(Text("b"), thought), said("c"))
    assert [element["type"] for element in wire(RESPONSES, request)["input"]] == ["message", "message", "message"]


def test_a_signature_of_gemini_stands_on_the_part_it_came_on() -> None:
    message = answered(
        Reasoning("hm", ISSUER, "s0"),
        Reasoning("", ISSUER, "s1"),
        ToolCall("c", "echo", "{}"),
        ToolCall("d", "echo", "{}"),
    )
    results = returned(ToolResult("c", (Text("r"),)), ToolResult("d", (Text("r"),)))
    last = answered(Text("done"), Reasoning("", ISSUER, "s2"), Reasoning("", ISSUER, "s3"))
    contents = wire(GEMINI, asking(said("a"), message, results, last, said("b")))["contents"]
    assert [part.get("thoughtSignature") for part in contents[1]["parts"]] == ["s0", "s1", None]
    assert contents[3]["parts"] == [
        {"text": "done"},
        {"text": "", "thoughtSignature": "s2"},
        {"text": "", "thoughtSignature": "s3"},
    ]
    decoded = DIALECTS[GEMINI].decode_request(
        encoded(GEMINI, asking(said("a"), message, results, last, said("b"))), ISSUER
    )
    assert decoded.request.messages[1] == message
    assert decoded.request.messages[3] == last


def test_a_call_of_another_model_says_to_gemini_that_it_has_no_signature() -> None:
    message = answered(Reasoning("", "other:x:y", "foreign"), ToolCall("c", "echo", "{}"), ToolCall("d", "echo", "{}"))
    results = returned(ToolResult("c", (Text("r"),)), ToolResult("d", (Text("r"),)))
    request = asking(said("a"), message, results)
    for model, signatures in {"gemini-3-pro": [NO_SIGNATURE, None], "gemini-2.5-pro": [None, None]}.items():
        parts = wire(GEMINI, request, model)["contents"][1]["parts"]
        assert [part.get("thoughtSignature") for part in parts] == signatures


@each
def test_altered_thinking_is_refused_as_the_provider_would(dialect: str) -> None:
    good = seal("m", "deep")
    for sealed, status in ((good, 200), (good[:-4] + "AAAA", 400)):
        opaque = encrypted_reasoning("rs_1", "", sealed) if dialect == RESPONSES else sealed
        request = asking(said("a"), answered(Reasoning("", ISSUER, opaque), Text("b")), said("c"))
        assert Simulation().respond(dialect, encoded(dialect, request), PATH).status == status


# --- what a server reads -----------------------------------------------------------------------------------------


def test_responses_read_what_clients_may_send() -> None:
    body = {
        "model": "m",
        "instructions": "one",
        "temperature": 0.5,
        "tools": [{"type": "web_search"}, {"type": "function", "name": "f", "parameters": None}],
        "input": [
            {"role": "developer", "content": "two"},
            {"role": "user", "content": [{"type": "input_image", "image_url": "https://example.com/a.png"}]},
            {"type": "custom_tool_call", "call_id": "c", "name": "patch", "input": "*** Begin"},
            {"type": "custom_tool_call_output", "call_id": "c", "output": "ok"},
            {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]},
            {"role": "user", "content": [{"type": "input_file", "file_url": "https://example.com/a.pdf"}]},
        ],
    }
    decoded = DIALECTS[RESPONSES].decode_request(json.dumps(body).encode())
    assert decoded.request.system == "one\n\ntwo"
    assert [tool.name for tool in decoded.request.tools] == ["f"]
    assert decoded.request.messages == (
        said("[image at https://example.com/a.png]"),
        answered(ToolCall("c", "patch", "*** Begin")),
        returned(ToolResult("c", (Text("ok"),))),
        answered(Text("no")),
        said("[file at https://example.com/a.pdf]"),
    )
    assert decoded.wants_stream is False
    plain = DIALECTS[RESPONSES].decode_request(b'{"model":"m","input":"hello"}')
    assert plain.request.messages == (said("hello"),)


@pytest.mark.parametrize(
    ("element", "complaint"),
    [
        ({"role": "king", "content": "x"}, "role 'king'"),
        ({"type": "function_call_output", "output": "x"}, "no call_id"),
        ({"type": "item_reference", "id": "x"}, "item_reference"),
        ({"role": "user", "content": [{"type": "input_audio"}]}, "input_audio"),
        ({"role": 5}, r"input\[0\] is malformed"),
    ],
)
def test_what_cannot_be_read_in_a_response_is_named(element: dict[str, object], complaint: str) -> None:
    body = json.dumps({"model": "m", "input": [element]}).encode()
    with pytest.raises(MalformedRequestError, match=complaint):
        DIALECTS[RESPONSES].decode_request(body)


def test_a_response_that_is_kept_elsewhere_is_refused_unless_the_reader_is_tolerant() -> None:
    body = b'{"model":"m","input":"go on","previous_response_id":"resp_1","reasoning":{"effort":"vast"}}'
    with pytest.raises(MalformedRequestError, match="send the full conversation"):
        DIALECTS[RESPONSES].decode_request(body)
    assert DIALECTS[RESPONSES].decode_request(body, is_tolerant=True).request.effort is None
    with pytest.raises(MalformedRequestError, match="vast"):
        DIALECTS[RESPONSES].decode_request(body.replace(b'"previous_response_id":"resp_1",', b""))


def test_gemini_pairs_calls_and_results_without_ids_by_name_and_order() -> None:
    call = {"functionCall": {"name": "echo", "args": {"n": 1}}}
    other = {"functionCall": {"name": "look", "args": {}}}
    body = {
        "contents": [
            {"parts": [{"text": "go"}]},
            {"role": "model", "parts": [call, other, call]},
            {
                "role": "function",
                "parts": [
                    {"functionResponse": {"name": "look", "response": {"seen": 1}}},
                    {"functionResponse": {"name": "echo", "response": {"output": {"n": 1}}}},
                    {"functionResponse": {"name": "echo", "response": {"error": "no"}}},
                ],
            },
            {"role": "user", "parts": [{"fileData": {"fileUri": "https://example.com/a"}}]},
        ]
    }
    decoded = DIALECTS[GEMINI].decode_request(json.dumps(body).encode(), path="/v1beta/models/g:generateContent")
    assert (decoded.model, decoded.wants_stream) == ("g", False)
    assert decoded.request.messages[2] == returned(
        ToolResult("call_1_1", (Text('{"seen":1}'),)),
        ToolResult("call_1_0", (Text('{"n":1}'),)),
        ToolResult("call_1_2", (Text("no"),), ToolOutcome.FAILED),
    )
    assert decoded.request.messages[3] == said("[file at https://example.com/a]")


@pytest.mark.parametrize(
    "body",
    [b"", b"{}", b'{"contents":[{"role":"king","parts":[]}]}', b'{"contents":[{"parts":[{"executableCode":{}}]}]}'],
)
def test_what_is_no_request_of_gemini_is_refused(body: bytes) -> None:
    with pytest.raises(MalformedRequestError):
        DIALECTS[GEMINI].decode_request(body)
