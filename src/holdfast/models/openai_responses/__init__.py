"""Dialect "openai-responses": OpenAI responses, client and server side.

Pure functions. Nothing is stored at the provider (`store: false`): each request has the full conversation, and
reasoning is returned encrypted. The docstring of `encode_request` lists what the dialect cannot express.
"""

from holdfast.models.openai_responses.request_decoder import decode_request, encode_error
from holdfast.models.openai_responses.request_encoder import (
    encode_messages,
    encode_request,
    encode_tool,
    without_reasoning,
)
from holdfast.models.openai_responses.response_decoder import StreamDecoder
from holdfast.models.openai_responses.response_encoder import ResponsesEncoder, encode_reply, encode_stream

NAME = "openai-responses"
SERVER_PATH = "/v1/responses"
DEFAULT_BASE_URL = "https://api.openai.com/v1"
KEY_VARIABLES: tuple[str, ...] = ("OPENAI_API_KEY",)
BASE_URL_VARIABLE = "OPENAI_BASE_URL"
MESSAGES_FIELD = "input"


def request_path(model: str) -> str:  # noqa: ARG001 - one path for all models
    """Return the request path, relative to a base URL that ends in the version, as in OpenAI's clients."""
    return "/responses"


def key_headers(key: str) -> dict[str, str]:
    """Return the authentication headers; none without a key."""
    return {"authorization": f"Bearer {key}"} if key else {}


def settled(body: bytes, model: str = "") -> bytes:  # noqa: ARG001 - the same for all models
    """Return the request unchanged: no setting of this dialect depends on earlier reasoning."""
    return body


__all__ = [
    "BASE_URL_VARIABLE",
    "DEFAULT_BASE_URL",
    "KEY_VARIABLES",
    "MESSAGES_FIELD",
    "NAME",
    "SERVER_PATH",
    "ResponsesEncoder",
    "StreamDecoder",
    "decode_request",
    "encode_error",
    "encode_messages",
    "encode_reply",
    "encode_request",
    "encode_stream",
    "encode_tool",
    "key_headers",
    "request_path",
    "settled",
    "without_reasoning",
]
