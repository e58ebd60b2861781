"""The dialect "openai-chat": OpenAI's chat completions, as a client writes and reads it and as a server does.

Pure: bytes in, values out. What the dialect cannot say is listed where it is dropped, in `request.encode_request`.
"""

from holdfast.models.openai_chat.request_decoder import decode_request, encode_error
from holdfast.models.openai_chat.request_encoder import encode_messages, encode_request
from holdfast.models.openai_chat.response_decoder import StreamDecoder
from holdfast.models.openai_chat.response_encoder import ChatEncoder, encode_reply, encode_stream

NAME = "openai-chat"
SERVER_PATH = "/v1/chat/completions"
DEFAULT_BASE_URL = "https://api.openai.com/v1"
KEY_VARIABLES: tuple[str, ...] = ("OPENAI_API_KEY",)
BASE_URL_VARIABLE = "OPENAI_BASE_URL"
MESSAGES_FIELD = "messages"


def request_path(model: str) -> str:  # noqa: ARG001 - one address for all models
    """Return where requests go, behind a base URL that ends in the version, as OpenAI's own clients have it."""
    return "/chat/completions"


def key_headers(key: str) -> dict[str, str]:
    """Return the headers that carry the key; none where there is none."""
    return {"authorization": f"Bearer {key}"} if key else {}


def without_reasoning(element: bytes) -> bytes:
    """Return a message as it is: nothing in this dialect is signed."""
    return element


def settled(body: bytes) -> bytes:
    """Return a request as it is: no setting of this dialect depends on what was thought."""
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
    "key_headers",
    "request_path",
    "settled",
    "without_reasoning",
]
