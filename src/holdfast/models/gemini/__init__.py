"""The dialect "gemini": Google's generateContent, as a client writes and reads it and as a server does.

Pure: bytes in, values out. The model stands in the address, not in the body. What the dialect cannot say is listed
where it is dropped, in `request.encode_request`.
"""

from urllib.parse import quote

from holdfast.models.gemini.request_decoder import decode_request, encode_error
from holdfast.models.gemini.request_encoder import encode_request
from holdfast.models.gemini.response_decoder import StreamDecoder
from holdfast.models.gemini.response_encoder import encode_reply, encode_stream

NAME = "gemini"
# What stands behind it is the model and what to do: "NAME:generateContent" or "NAME:streamGenerateContent?alt=sse".
SERVER_PATH = "/v1beta/models/"
DEFAULT_BASE_URL = "https://generativelanguage.googleapis.com"
# In the order in which Google's own client looks for them.
KEY_VARIABLES: tuple[str, ...] = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
BASE_URL_VARIABLE = "GOOGLE_GEMINI_BASE_URL"


def request_path(model: str) -> str:
    """Return where requests go, behind the base URL; the key never stands in it."""
    return f"{SERVER_PATH}{quote(model.removeprefix('models/'), safe='')}:streamGenerateContent?alt=sse"


def key_headers(key: str) -> dict[str, str]:
    """Return the headers that carry the key; none where there is none."""
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
