"""The dialect "openai-responses": OpenAI's responses, as a client writes and reads it and as a server does.

Pure: bytes in, values out. Nothing is kept at the provider (`store: false`): the whole conversation goes with each
request, and thinking comes back encrypted. What the dialect cannot say is listed in `request.encode_request`.
"""

from holdfast.models.openai_responses.reasoning import without_reasoning
from holdfast.models.openai_responses.request_decoder import decode_request, encode_error
from holdfast.models.openai_responses.request_encoder import encode_messages, encode_request
from holdfast.models.openai_responses.response_decoder import StreamDecoder
from holdfast.models.openai_responses.response_encoder import ResponsesEncoder, encode_reply, encode_stream

NAME = "openai-responses"
SERVER_PATH = "/v1/responses"
DEFAULT_BASE_URL = "https://api.openai.com/v1"
KEY_VARIABLES: tuple[str, ...] = ("OPENAI_API_KEY",)
BASE_URL_VARIABLE = "OPENAI_BASE_URL"
MESSAGES_FIELD = "input"


def request_path(model: str) -> str:  # noqa: ARG001 - one address for all models
    """Return where requests go, behind a base URL that ends in the version, as OpenAI's own clients have it."""
    return "/responses"


def key_headers(key: str) -> dict[str, str]:
    """Return the headers that carry the key; none where there is none."""
    return {"authorization": f"Bearer {key}"} if key else {}


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
    "ResponsesEncoder",
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
