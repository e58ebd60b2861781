"""Dialect rules of the simulated provider: keep-alives, ids, stream errors, reasoning and validation."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import msgspec

from holdfast.models import anthropic, gemini, openai_chat, openai_responses
from holdfast.models.anthropic import request_decoder as anthropic_shapes
from holdfast.models.anthropic.reasoning import redacted_reasoning
from holdfast.models.fake.replies import Thought
from holdfast.models.fake.rules import (
    PlacedImage,
    anthropic_error,
    anthropic_images,
    gemini_error,
    gemini_images,
    openai_error,
    openai_images,
    responses_error,
    responses_images,
)
from holdfast.models.fake.tokens import seal, sign
from holdfast.models.gemini import request_decoder as gemini_shapes
from holdfast.models.openai_chat import request_decoder as openai_shapes
from holdfast.models.openai_responses import request_decoder as responses_shapes
from holdfast.models.openai_responses.request_encoder import encrypted_reasoning
from holdfast.models.sse import encode_event
from holdfast.models.wire import to_bytes
from holdfast.types.messages import Reasoning

_ERROR = "The server had an error while answering."
_COMMENT = b": keep-alive\n\n"

Inspection = tuple[str | None, list[PlacedImage]]


class DialectRules(msgspec.Struct, frozen=True):
    """Rules of one provider API. `inspect` validates a body and finds its images."""

    reply_prefix: str
    request_id_header: str
    keep_alive: bytes
    # Marks delta events; the first event of a stream does not count.
    delta_mark: bytes
    error_event: bytes
    inspect: Callable[[bytes, str], Inspection]
    thinking: Callable[[Thought, str, str], list[Reasoning]]


def _openai_inspect(body: bytes, model: str) -> Inspection:  # noqa: ARG001 - reasoning is never sent back
    read = openai_shapes.read_body(body)
    return openai_error(read), list(openai_images(read))


def _anthropic_inspect(body: bytes, model: str) -> Inspection:  # noqa: ARG001 - the body names it
    read = anthropic_shapes.read_body(body)
    return anthropic_error(read), list(anthropic_images(read))


def _responses_inspect(body: bytes, model: str) -> Inspection:  # noqa: ARG001 - the body names it
    read = responses_shapes.read_body(body)
    return responses_error(read), list(responses_images(read))


def _gemini_inspect(body: bytes, model: str) -> Inspection:
    read = gemini_shapes.read_body(body)
    return gemini_error(read, model), list(gemini_images(read))


def _openai_thinking(thought: Thought, model: str, reply_id: str) -> list[Reasoning]:  # noqa: ARG001 - unsigned
    return [] if thought.is_quiet else [Reasoning(thought.text)]


def _anthropic_thinking(thought: Thought, model: str, reply_id: str) -> list[Reasoning]:  # noqa: ARG001 - no ids
    if thought.is_quiet:
        return [redacted_reasoning("", seal(model, thought.text))]
    return [Reasoning(thought.text, "", sign(model, thought.text))]


def _responses_thinking(thought: Thought, model: str, reply_id: str) -> list[Reasoning]:
    shown = "" if thought.is_quiet else thought.text
    return [Reasoning(shown, "", encrypted_reasoning(f"rs_{reply_id}", shown, seal(model, thought.text)))]


def _gemini_thinking(thought: Thought, model: str, reply_id: str) -> list[Reasoning]:  # noqa: ARG001 - no ids
    signature = Reasoning("", "", seal(model, thought.text))
    return [signature] if thought.is_quiet else [Reasoning(thought.text), signature]


DIALECT_RULES: Mapping[str, DialectRules] = MappingProxyType(
    {
        openai_chat.NAME: DialectRules(
            "chatcmpl",
            "x-request-id",
            _COMMENT,
            b'"finish_reason":null',
            encode_event(openai_chat.encode_error("server_error", _ERROR)),
            _openai_inspect,
            _openai_thinking,
        ),
        anthropic.NAME: DialectRules(
            "msg",
            "request-id",
            encode_event(b'{"type":"ping"}', "ping"),
            b"event: content_block_delta",
            encode_event(anthropic.encode_error("overloaded_error", "Overloaded"), "error"),
            _anthropic_inspect,
            _anthropic_thinking,
        ),
        openai_responses.NAME: DialectRules(
            "resp",
            "x-request-id",
            _COMMENT,
            b'.delta","sequence_number"',
            encode_event(
                to_bytes(
                    {"type": "error", "sequence_number": 9, "code": "server_error", "message": _ERROR, "param": None}
                ),
                "error",
            ),
            _responses_inspect,
            _responses_thinking,
        ),
        gemini.NAME: DialectRules(
            "sim",
            "x-request-id",
            _COMMENT,
            b'"index":0}],"modelVersion"',
            encode_event(gemini.encode_error(503, "UNAVAILABLE", "The model is overloaded. Please try again later.")),
            _gemini_inspect,
            _gemini_thinking,
        ),
    }
)
