"""The dialect "anthropic": Anthropic's messages, as a client writes and reads it and as a server does.

Pure: bytes in, values out. What the dialect cannot say is listed where it is dropped, in `request.encode_request`.
"""

from holdfast.models.anthropic_messages.answer import StreamDecoder
from holdfast.models.anthropic_messages.request import encode_request
from holdfast.models.anthropic_messages.server import decode_request, encode_error, encode_reply, encode_stream

NAME = "anthropic"
PATH = "/v1/messages"
SERVER_PATH = "/v1/messages"
DEFAULT_BASE_URL = "https://api.anthropic.com"
KEY_VARIABLE = "ANTHROPIC_API_KEY"
BASE_URL_VARIABLE = "ANTHROPIC_BASE_URL"

# The version that every endpoint speaks, Anthropic's own and the compatible ones; what it means never changes.
_VERSION = "2023-06-01"


def key_headers(key: str) -> dict[str, str]:
    """Return the version, and the header that carries the key where there is one."""
    version = {"anthropic-version": _VERSION}
    return {**version, "x-api-key": key} if key else version


__all__ = [
    "BASE_URL_VARIABLE",
    "DEFAULT_BASE_URL",
    "KEY_VARIABLE",
    "NAME",
    "PATH",
    "SERVER_PATH",
    "StreamDecoder",
    "decode_request",
    "encode_error",
    "encode_reply",
    "encode_request",
    "encode_stream",
    "key_headers",
]
