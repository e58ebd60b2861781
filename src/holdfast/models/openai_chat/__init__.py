"""Dialect "openai-chat": OpenAI chat completions, client and server side.

Pure functions. The docstring of `encode_request` lists what the dialect cannot express.
"""

from holdfast.models.openai_chat.request_decoder import decode_request, encode_error
from holdfast.models.openai_chat.request_encoder import encode_messages, encode_request, encode_tool
from holdfast.models.openai_chat.response_decoder import StreamDecoder
from holdfast.models.openai_chat.response_encoder import ChatEncoder, encode_reply, encode_stream

NAME = "openai-chat"
SERVER_PATH = "/v1/chat/completions"
DEFAULT_BASE_URL = "https://api.openai.com/v1"
KEY_VARIABLES: tuple[str, ...] = ("OPENAI_API_KEY",)
BASE_URL_VARIABLE = "OPENAI_BASE_URL"
MESSAGES_FIELD = "messages"


def request_path(model: str) -> str:  # noqa: ARG001 - one path for all models
    """Return the request path, relative to a base URL that ends in the version, as in OpenAI's clients."""
    return "/chat/completions"


def key_headers(key: str) -> dict[str, str]:
    """Return the authentication headers; none without a key."""
    return {"authorization": f"Bearer {key}"} if key else {}


def without_reasoning(element: bytes) -> bytes:
    """Return the message unchanged: this dialect has no signed reasoning."""
    return element


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
    "ChatEncoder",
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
