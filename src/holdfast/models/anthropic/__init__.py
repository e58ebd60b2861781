"""Dialect "anthropic": Anthropic messages, client and server side.

Pure functions. The docstring of `encode_request` lists what the dialect cannot express.
"""

from holdfast.models.anthropic.request_decoder import decode_request, encode_error
from holdfast.models.anthropic.request_encoder import (
    encode_messages,
    encode_request,
    encode_tool,
    settled,
    without_reasoning,
)
from holdfast.models.anthropic.response_decoder import StreamDecoder
from holdfast.models.anthropic.response_encoder import MessagesEncoder, encode_reply, encode_stream

NAME = "anthropic"
SERVER_PATH = "/v1/messages"
DEFAULT_BASE_URL = "https://api.anthropic.com"
KEY_VARIABLES: tuple[str, ...] = ("ANTHROPIC_API_KEY",)
BASE_URL_VARIABLE = "ANTHROPIC_BASE_URL"
MESSAGES_FIELD = "messages"

# The API version that all endpoints support; its meaning is frozen.
_VERSION = "2023-06-01"


def request_path(model: str) -> str:  # noqa: ARG001 - one path for all models
    """Return the request path, relative to the base URL."""
    return "/v1/messages"


def key_headers(key: str) -> dict[str, str]:
    """Return the version header, and the authentication header if there is a key."""
    version = {"anthropic-version": _VERSION}
    return {**version, "x-api-key": key} if key else version


__all__ = [
    "BASE_URL_VARIABLE",
    "DEFAULT_BASE_URL",
    "KEY_VARIABLES",
    "MESSAGES_FIELD",
    "NAME",
    "SERVER_PATH",
    "MessagesEncoder",
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
