"""Dialect "gemini": Google's generateContent, client and server side.

Pure functions. The model is in the URL, not in the body. The docstring of `encode_request` lists what the dialect
cannot express.
"""

import re
from functools import lru_cache
from urllib.parse import quote

from holdfast.models.gemini.client_request import MESSAGES_FIELD, merge_user_contents, settled, without_reasoning
from holdfast.models.gemini.json_list import ListEncoder
from holdfast.models.gemini.request_decoder import decode_request, encode_error, model_in
from holdfast.models.gemini.request_encoder import encode_messages, encode_request, encode_tool
from holdfast.models.gemini.response_decoder import StreamDecoder
from holdfast.models.gemini.response_encoder import GenerateEncoder, encode_reply, encode_stream

NAME = "gemini"
# Followed by model and method: "NAME:generateContent" or "NAME:streamGenerateContent?alt=sse".
SERVER_PATH = "/v1beta/models/"
DEFAULT_BASE_URL = "https://generativelanguage.googleapis.com"
# In the order of Google's own client.
KEY_VARIABLES: tuple[str, ...] = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
BASE_URL_VARIABLE = "GOOGLE_GEMINI_BASE_URL"

# The name has no character that a server could read as another path or method.
_CALL = re.compile(r"/v1(?:beta)?/models/[A-Za-z0-9._@~-]+:(?:generateContent|streamGenerateContent|countTokens)")
_MODEL = re.compile(r"(/models/)[^/:?]+(:)")
COUNT_METHOD = ":countTokens"
# Cached paths: clients use a few.
_PATHS_MAX = 64


@lru_cache(maxsize=_PATHS_MAX)
def is_model_call(path: str) -> bool:
    """Return whether a path without its query is that of a model call or a token count."""
    return _CALL.fullmatch(path) is not None


def is_generation(path: str) -> bool:
    """Return whether a path without its query asks a model for an answer."""
    return is_model_call(path) and not path.endswith(COUNT_METHOD)


def with_model(address: str, model: str) -> str:
    """Return the address of a model call with another model."""
    return _MODEL.sub(rf"\g<1>{quote(model, safe='')}\g<2>", address, count=1)


def request_path(model: str) -> str:
    """Return the request path, relative to the base URL; it never contains the key."""
    return f"{SERVER_PATH}{quote(model.removeprefix('models/'), safe='')}:streamGenerateContent?alt=sse"


def key_headers(key: str) -> dict[str, str]:
    """Return the authentication headers; none without a key."""
    return {"x-goog-api-key": key} if key else {}


__all__ = [
    "BASE_URL_VARIABLE",
    "COUNT_METHOD",
    "DEFAULT_BASE_URL",
    "KEY_VARIABLES",
    "MESSAGES_FIELD",
    "NAME",
    "SERVER_PATH",
    "GenerateEncoder",
    "ListEncoder",
    "StreamDecoder",
    "decode_request",
    "encode_error",
    "encode_messages",
    "encode_reply",
    "encode_request",
    "encode_stream",
    "encode_tool",
    "is_generation",
    "is_model_call",
    "key_headers",
    "merge_user_contents",
    "model_in",
    "request_path",
    "settled",
    "with_model",
    "without_reasoning",
]
