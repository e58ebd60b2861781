"""The proxy endpoints in the OpenAPI document: the fields that the proxy reads, and an example of each call.

A provider's API has more fields than these. The proxy forwards what it does not know, so every body is open.
"""

from typing import Any

_TEXT = "remember harbour = Kiel"
_MODEL = {"type": "string", "description": 'A model of the upstream; "sim": the simulated model, without a key.'}
_STREAM = {"type": "boolean", "default": False, "description": "Answer as server-sent events."}
_CONTENT = {"description": "A text, or a list of parts as the provider's API has them."}
_CHAT: dict[str, Any] = {
    "type": "object",
    "required": ["model", "messages"],
    "properties": {
        "model": _MODEL,
        "messages": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["role"],
                "properties": {
                    "role": {"enum": ["system", "developer", "user", "assistant", "tool"]},
                    "content": _CONTENT,
                },
            },
        },
        "stream": _STREAM,
        "max_completion_tokens": {"type": "integer", "minimum": 1},
        "tools": {"type": "array", "items": {"type": "object"}},
    },
}
_RESPONSES: dict[str, Any] = {
    "type": "object",
    "required": ["model", "input"],
    "properties": {
        "model": _MODEL,
        "input": {"description": "A text, or a list of items."},
        "instructions": {"type": "string"},
        "previous_response_id": {"type": "string", "description": "An answer that the same gateway key got."},
        "stream": _STREAM,
        "max_output_tokens": {"type": "integer", "minimum": 1},
        "tools": {"type": "array", "items": {"type": "object"}},
    },
}
_MESSAGES: dict[str, Any] = {
    "type": "object",
    "required": ["model", "messages", "max_tokens"],
    "properties": {
        "model": _MODEL,
        "max_tokens": {"type": "integer", "minimum": 1},
        "system": _CONTENT,
        "messages": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["role", "content"],
                "properties": {"role": {"enum": ["user", "assistant"]}, "content": _CONTENT},
            },
        },
        "stream": _STREAM,
        "tools": {"type": "array", "items": {"type": "object"}},
    },
}
_GENERATE: dict[str, Any] = {
    "type": "object",
    "required": ["contents"],
    "properties": {
        "contents": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["parts"],
                "properties": {"role": {"enum": ["user", "model"]}, "parts": {"type": "array", "minItems": 1}},
            },
        },
        "systemInstruction": {"type": "object"},
        "tools": {"type": "array", "items": {"type": "object"}},
        "toolConfig": {"type": "object"},
        "generationConfig": {"type": "object"},
    },
}
_CONTENTS = {"contents": [{"role": "user", "parts": [{"text": _TEXT}]}]}
_GENERATED = {
    "candidates": [
        {
            "content": {"role": "model", "parts": [{"text": "I will remember that harbour = Kiel."}]},
            "index": 0,
            "finishReason": "STOP",
        }
    ],
    "usageMetadata": {"promptTokenCount": 12, "candidatesTokenCount": 9, "totalTokenCount": 21},
    "modelVersion": "sim",
    "responseId": "1",
}
_COUNT: dict[str, Any] = {**_MESSAGES, "required": ["model", "messages"]}
_SAID = [{"role": "user", "content": _TEXT}]
# Path, name, summary, body and its example, and an example of the response.
_CALLS: tuple[tuple[str, str, str, dict[str, Any], dict[str, Any], Any], ...] = (
    (
        "/v1/chat/completions",
        "proxy_chat_completions",
        "OpenAI chat completions, compacted when they overflow",
        _CHAT,
        {"model": "sim", "messages": _SAID},
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1_800_000_000,
            "model": "sim",
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": "I will remember that harbour = Kiel."},
                    "finish_reason": "stop",
                }
            ],
            "usage": {"prompt_tokens": 12, "completion_tokens": 9, "total_tokens": 21},
        },
    ),
    (
        "/v1/responses",
        "proxy_responses",
        "OpenAI responses, compacted when they overflow",
        _RESPONSES,
        {"model": "sim", "input": _TEXT},
        {"id": "resp_1", "object": "response", "status": "completed", "model": "sim", "output": []},
    ),
    (
        "/v1/messages",
        "proxy_messages",
        "Anthropic messages, compacted when they overflow",
        _MESSAGES,
        {"model": "sim", "max_tokens": 1_000, "messages": _SAID},
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "sim",
            "content": [{"type": "text", "text": "I will remember that harbour = Kiel."}],
            "stop_reason": "end_turn",
            "usage": {"input_tokens": 12, "output_tokens": 9},
        },
    ),
    (
        "/v1/messages/count_tokens",
        "proxy_count_tokens",
        "Anthropic token count, by estimate if the upstream has none",
        _COUNT,
        {"model": "sim", "messages": _SAID},
        {"input_tokens": 12},
    ),
    (
        "/v1beta/models/{model}:generateContent",
        "proxy_generate_content",
        "Gemini's generateContent, compacted when it overflows; also below /v1",
        _GENERATE,
        _CONTENTS,
        _GENERATED,
    ),
    (
        "/v1beta/models/{model}:streamGenerateContent",
        "proxy_stream_generate_content",
        "The same as a stream: one JSON list, or server-sent events with alt=sse",
        _GENERATE,
        _CONTENTS,
        [_GENERATED],
    ),
    (
        "/v1beta/models/{model}:countTokens",
        "proxy_gemini_count_tokens",
        "Gemini's token count, by estimate if the upstream has none",
        _GENERATE,
        _CONTENTS,
        {"totalTokens": 12},
    ),
)
_HEADERS = (
    ("X-Holdfast-Key", "The gateway key of a client that sends its own provider key in the usual header."),
    ("X-Holdfast-Session", "A key of the session; without it the conversation itself is matched."),
)
_MODEL_IN_PATH = {"name": "model", "in": "path", "required": True, "schema": {"type": "string"}, "example": "sim"}
_ALT = {"name": "alt", "in": "query", "required": False, "schema": {"enum": ["sse", "json"]}}
_ERRORS = {
    "401": "No key, or no provider key.",
    "403": "The key may not use this model.",
    "429": "Over a limit of the key, or of the provider; `Retry-After` says when to retry.",
    "502": "The upstream did not answer; the message names the setting.",
}
_ERROR_SCHEMA = {"type": "object", "description": "An error in the format of the provider's API.", "properties": {}}


def proxy_paths() -> dict[str, Any]:
    """Return the paths of the proxy endpoints."""
    paths: dict[str, Any] = {
        path: {"post": _call(path, name, summary, body, example, response)}
        for path, name, summary, body, example, response in _CALLS
    }
    listed = {"object": "list", "data": [{"id": "sim", "object": "model", "created": 0, "owned_by": "holdfast"}]}
    paths["/v1/models"] = {
        "get": {
            "operationId": "proxy_models",
            "summary": "Models of the upstream; without any provider key the simulated one",
            "tags": ["proxy"],
            "parameters": [],
            "responses": {"200": _json("The models.", {"type": "object"}, listed), **_errors()},
        }
    }
    google = {"models": [{"name": "models/sim", "displayName": "sim", "supportedGenerationMethods": []}]}
    paths["/v1beta/models"] = {
        "get": {
            "operationId": "proxy_gemini_models",
            "summary": "Gemini's models; without any provider key the simulated one",
            "tags": ["proxy"],
            "parameters": [],
            "responses": {"200": _json("The models.", {"type": "object"}, google), **_errors()},
        }
    }
    return paths


def _call(
    path: str, name: str, summary: str, body: dict[str, Any], example: dict[str, Any], response: object
) -> dict[str, Any]:
    schema = {"type": "array" if isinstance(response, list) else "object"}
    answer = _json("The answer of the model, in the format of the provider's API.", schema, response)
    is_stream = "stream" in body["properties"] or isinstance(response, list)
    if is_stream and not path.endswith("count_tokens"):
        answer["content"]["text/event-stream"] = {"schema": {"type": "string", "description": "The provider's events."}}
    return {
        "operationId": name,
        "summary": summary,
        "tags": ["proxy"],
        "parameters": [
            *([_MODEL_IN_PATH] if "{model}" in path else []),
            *([_ALT] if isinstance(response, list) else []),
            *(
                {"name": header, "in": "header", "required": False, "description": told, "schema": {"type": "string"}}
                for header, told in _HEADERS
            ),
        ],
        "requestBody": {"required": True, "content": {"application/json": {"schema": body, "example": example}}},
        "responses": {"200": answer, **_errors()},
    }


def _json(description: str, schema: dict[str, Any], example: object) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": schema, "example": example}}}


def _errors() -> dict[str, Any]:
    return {
        status: {"description": told, "content": {"application/json": {"schema": _ERROR_SCHEMA}}}
        for status, told in _ERRORS.items()
    }


# --- Examples of the native API ---

_DEPTH = {
    "name": "depth",
    "description": "Return how deep the water is at a place.",
    "parameters": {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]},
}
# The body of a call by the name of its schema.
EXAMPLES: dict[str, Any] = {
    "ConfigureSession": {"system": "Answer in one sentence.", "tools": [_DEPTH], "settings": {"temperature": 0.2}},
    "SendMessage": {"text": _TEXT, "client_id": "message-1"},
    "SubmitResult": {"reply": 4, "call_id": "call_1", "output": "12 fathoms"},
    "Compact": {"focus": "the harbour"},
    "PreviewCompact": {"focus": "the harbour", "with_model": False},
    "Fork": {"into": "telegram:42-again", "at": 12},
    "Undo": {"compaction": 17},
    "AppendMessages": {
        "messages": [{"role": "user", "parts": [{"type": "text", "text": _TEXT}]}],
        "client_id": "append-1",
    },
    "RetractMessages": {"after": 12},
    "AnswerApproval": {"request": 9, "approve": False, "note": "ask the harbour master first"},
    "LabelSession": {"title": "Harbour", "tags": ["survey"], "metadata": {"customer": "42"}},
    "SwitchBranch": {"head": 12},
    "Regenerate": {"expect": 14},
    "NoteText": {"text": "Prefers metres.", "client_id": "note-1"},
    "Nothing": {},
}
