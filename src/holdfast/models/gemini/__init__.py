"""Dialect "gemini": Google's generateContent, client and server side.

Pure functions. The model is in the URL, not in the body. The docstring of `encode_request` lists what the dialect
cannot express.
"""

from urllib.parse import quote

from holdfast.models.gemini.request_decoder import decode_request, encode_error
from holdfast.models.gemini.request_encoder import encode_request
from holdfast.models.gemini.response_decoder import StreamDecoder
from holdfast.models.gemini.response_encoder import encode_reply, encode_stream

NAME = "gemini"
# Followed by model and method: "NAME:generateContent" or "NAME:streamGenerateContent?alt=sse".
SERVER_PATH = "/v1beta/models/"
DEFAULT_BASE_URL = "https://generativelanguage.googleapis.com"
# In the order of Google's own client.
KEY_VARIABLES: tuple[str, ...] = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
BASE_URL_VARIABLE = "GOOGLE_GEMINI_BASE_URL"


def request_path(model: str) -> str:
    """Return the request path, relative to the base URL; it never contains the key."""
    return f"{SERVER_PATH}{quote(model.removeprefix('models/'), safe='')}:streamGenerateContent?alt=sse"


def key_headers(key: str) -> dict[str, str]:
    """Return the authentication headers; none without a key."""
    return {"x-goog-api-key": key} if key else {}


__all__ = [
    "BASE_URL_VARIABLE",
    "DEFAULT_BASE_URL",
    "KEY_VARIABLES",
    "NAME",
    "SERVER_PATH",
    "StreamDecoder",
    "decode_request",
    "encode_error",
    "encode_reply",
    "encode_request",
    "encode_stream",
    "key_headers",
    "request_path",
]
