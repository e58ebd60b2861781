"""Token counter of the simulated provider: word pieces, roughly as real tokenizers do.

Deterministic, and deliberately not proportional to the length: an estimate tuned to that would be wrong elsewhere.
"""

import base64
import binascii
import hashlib
import re
from collections.abc import Iterable
from functools import lru_cache

from holdfast.types.messages import LargeText, Media, Part, Reasoning, Request, Text, ToolCall, ToolResult

# Six letters, three digits, a run of spaces or line ends, or any other single character make one token.
_PIECE = re.compile(r"[A-Za-z]{1,6}|\d{1,3}|[ \t]{2,16}|\n+|[^\sA-Za-z0-9]")

# Overhead per message and tool.
_MESSAGE_TOKENS = 4
_TOOL_TOKENS = 8
# An image costs a token per 750 pixels, between the minimum and maximum of real providers.
_PIXELS_PER_TOKEN = 750
_IMAGE_TOKENS_MIN, _IMAGE_TOKENS_MAX = 85, 1_600
_DOCUMENT_BYTES_PER_TOKEN = 20
# Size of the count cache and of its texts: some megabytes.
_CACHED_TEXTS, _CACHED_CHARS_MAX = 2_048, 2_000


def count_text(text: str) -> int:
    """Count the tokens of a text."""
    return _count_cached(text) if len(text) <= _CACHED_CHARS_MAX else _count(text)


def _count(text: str) -> int:
    return len(_PIECE.findall(text))


# Requests repeat the texts of earlier ones.
_count_cached = lru_cache(maxsize=_CACHED_TEXTS)(_count)


def truncate_to_tokens(text: str, tokens_max: int) -> str:
    """Truncate a text to a number of tokens."""
    for number, piece in enumerate(_PIECE.finditer(text)):
        if number == tokens_max:
            return text[: piece.start()].rstrip(" ")
    return text


def count_request(request: Request) -> int:
    """Count the tokens of a request."""
    return count_opening(request) + sum(count_parts(message.parts) for message in request.messages)


def count_opening(request: Request) -> int:
    """Count the tokens before the messages: system text and tools."""
    total = count_text(request.system) + (_MESSAGE_TOKENS if request.system else 0)
    for tool in request.tools:
        total += _TOOL_TOKENS + count_text(tool.name) + count_text(tool.description) + count_text(tool.parameters)
    return total


def count_parts(parts: Iterable[Part], *, is_first: bool = True) -> int:
    """Count the tokens of message parts; the first ones include the message overhead."""
    return (_MESSAGE_TOKENS if is_first else 0) + sum(_count_part(part) for part in parts)


def _count_part(part: Part) -> int:
    match part:
        case Text() | Reasoning():
            return count_text(part.text)
        case LargeText():
            return count_text(part.head)
        case ToolCall():
            return _TOOL_TOKENS + count_text(part.name) + count_text(part.arguments)
        case ToolResult():
            return _TOOL_TOKENS + sum(_count_part(inner) for inner in part.parts)
        case Media():
            return _count_media(part)


def _count_media(media: Media) -> int:
    if not media.media_type.startswith("image/"):
        return media.blob.size_bytes // _DOCUMENT_BYTES_PER_TOKEN
    tokens = media.width_pixels * media.height_pixels // _PIXELS_PER_TOKEN
    return min(max(tokens, _IMAGE_TOKENS_MIN), _IMAGE_TOKENS_MAX)


# --- Reasoning signatures: bound to model and text, so that altered or foreign ones are detected ---

_DIGEST_BYTES = 32


def sign(model: str, thought: str) -> str:
    """Return the signature of reasoning text."""
    return base64.b64encode(_digest(model, thought.encode())).decode()


def seal(model: str, thought: str) -> str:
    """Return signed, opaque reasoning."""
    raw = thought.encode()
    return base64.b64encode(_digest(model, raw) + raw).decode()


def is_signed(model: str, thought: str, signature: str) -> bool:
    """Return whether a signature matches model and text."""
    return signature == sign(model, thought)


def is_sealed(model: str, sealed: str) -> bool:
    """Return whether opaque reasoning is unaltered and from this model."""
    try:
        raw = base64.b64decode(sealed, validate=True)
    except binascii.Error:
        return False
    return raw[:_DIGEST_BYTES] == _digest(model, raw[_DIGEST_BYTES:])


def _digest(model: str, thought: bytes) -> bytes:
    return hashlib.sha256(b"simulated thinking\0" + model.encode() + b"\0" + thought).digest()
