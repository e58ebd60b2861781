"""Estimate the size of a request: tokens, bytes on the wire, and media.

Tokens are estimated from byte classes, without a tokenizer vocabulary and without network. A raw estimate assumes a
typical vocabulary of today; the calibration of one model is learned from its reported usage (`calibrate`). Pass raw
estimates to `calibrate`: a calibrated one would be corrected twice.
"""

from collections.abc import Iterable, Sequence
from math import sqrt
from typing import assert_never

import msgspec

from holdfast.types.limits import UNCALIBRATED, Calibration
from holdfast.types.messages import (
    LargeText,
    Media,
    Message,
    Part,
    Reasoning,
    Request,
    Text,
    ToolCall,
    ToolResult,
    ToolSpec,
)

# --- Tokens of text ---

# Every byte maps to one letter for its class; UTF-8 continuation bytes are dropped, so one letter is one character. The
# lead byte gives the script: E0 and E1 Indic and South-East Asian, E2 symbols, E3 to E9 Chinese and Japanese, EA to ED
# Korean, F0 and above emoji and the rest.
_CONTINUATION_BYTES = bytes(range(0x80, 0xC0))


def _class_of(byte: int) -> str:
    char = chr(byte)
    if byte >= 0x80:  # noqa: PLR2004 - the end of ASCII
        firsts = ((0xE0, "2"), (0xE2, "i"), (0xE3, "s"), (0xEA, "c"), (0xEE, "k"), (0xF0, "c"))
        return next((name for end, name in firsts if byte < end), "4")
    if char.isalpha():
        return "A" if char.isupper() else "a"
    if char.isdigit():
        return "0"
    return {" ": " ", "\t": "t", "\n": "n", "\r": "n"}.get(char, ".")


def _mask_of(classes: str) -> bytes:
    return bytes(ord("x" if chr(byte) in classes else " ") for byte in range(256))


_CLASSES = "".join(_class_of(byte) for byte in range(256)).encode()
_LETTERS, _SMALL, _DIGITS, _MARKS = _mask_of("aA"), _mask_of("a"), _mask_of("0"), _mask_of(".")
_LONG = b"x" * 20

# Thousandths of a token per occurrence. Fitted to eight public vocabularies (GPT-4 and 4o, Llama 3, DeepSeek 3, Qwen 3,
# Mistral 3, GLM 4, Kimi 2) on dialogue, code, tool output and ten languages: 4 to 9 % mean error per message. Then
# raised by 15 %, two thirds of the way to the usage that Claude models report, so that no model starts far too low.
_LETTER, _WORD, _CAPITAL = 164, 424, 366
# A camelCase segment, as in `toggleThinkingBlock`, starts a token like a separate word and costs less than one. Long
# runs of lowercase letters are not words, and alternating case is base64: both break into many tokens. These three
# were fitted to two of the vocabularies; without them, compound names were estimated 40 % too high.
_CAMEL_SEGMENT, _RUN_OF_20, _ALTERNATING = -318, 7_400, 3_700
_DIGIT, _NUMBER = 541, 1_314
_MARK, _RUN_OF_MARKS = 35, 827
_TWO_SPACES, _TAB, _LINE = 148, 81, 233
_SCRIPTS = ((b"2", 420), (b"i", 760), (b"s", 1_120), (b"c", 800), (b"k", 850), (b"4", 2_700))

# Up to this size the whole text is counted (some 10 ms). Longer texts are sampled in evenly spaced windows, half of
# this size in total: windows of real transcripts differ by about 20 %, so the mean of 64 of them is good to about 3 %.
_TEXT_CHARS_EXACT = 512 * 2**10
_WINDOWS, _WINDOW_CHARS = 64, 4 * 2**10

# Most texts of a view are in the next one too, and a compaction measures a view several times. A cache hit costs a
# tenth of counting a sentence again. The cache has hashes instead of texts, so that it can have more than a view has: a
# cache that is smaller than what is read in turn never hits. So many take about 10 MB.
_COUNTED_MAX = 65_536


def _millitokens(text: str) -> int:
    classes = text.encode("utf-8", "replace").translate(_CLASSES, _CONTINUATION_BYTES)
    letters, digits, marks = classes.translate(_LETTERS), classes.translate(_DIGITS), classes.translate(_MARKS)
    count = classes.count
    total = (
        _LETTER * letters.count(b"x")
        + _WORD * (letters.count(b" x") + letters.startswith(b"x"))
        + _RUN_OF_20 * classes.translate(_SMALL).count(_LONG)
        + _CAPITAL * count(b"A")
        + _CAMEL_SEGMENT * count(b"aAa")
        + _ALTERNATING * count(b"AaA")
        + _DIGIT * count(b"0")
        + _NUMBER * (digits.count(b" x") + digits.startswith(b"x"))
        + _MARK * count(b".")
        + _RUN_OF_MARKS * (marks.count(b" x") + marks.startswith(b"x"))
        + _TWO_SPACES * count(b"  ")
        + _TAB * count(b"t")
        + _LINE * count(b"n")
    )
    if not text.isascii():
        total += sum(weight * count(lead) for lead, weight in _SCRIPTS)
    return total


_counted: dict[tuple[int, int], int] = {}


def tokens_of_text(text: str) -> int:
    """Estimate the tokens of a text, 0 only if it is empty. Long texts are sampled at fixed positions."""
    if not text:
        return 0
    key = (hash(text), len(text))
    tokens = _counted.get(key)
    if tokens is None:
        if len(_counted) >= _COUNTED_MAX:
            _counted.clear()
        tokens = _counted[key] = _count_tokens(text)
    return tokens


def _count_tokens(text: str) -> int:
    if len(text) <= _TEXT_CHARS_EXACT:
        return max(1, -(-_millitokens(text) // 1_000))
    stride = (len(text) - _WINDOW_CHARS) // (_WINDOWS - 1)
    seen = sum(_millitokens(text[start : start + _WINDOW_CHARS]) for start in range(0, stride * _WINDOWS, stride))
    return seen * len(text) // (_WINDOWS * _WINDOW_CHARS * 1_000)


# --- Tokens of parts, messages and tools ---

# By the usage that Claude models report, a call with its result costs 74 to 98 tokens beyond their text.
_CALL_TOKENS, _RESULT_TOKENS = 65, 15
# Overhead per message and per tool schema in the chat templates of open models.
_MESSAGE_TOKENS, _TOOL_TOKENS = 4, 12
# Images: one token per 750 pixels, at most 1,600 because they are downscaled first (Anthropic). OpenAI's tiles amount
# to at most 1,445. The maximum is assumed for an unknown size.
_PIXELS_PER_TOKEN, _IMAGE_TOKENS_MAX = 750, 1_600
# Documents: up to 3,000 tokens per page (Anthropic, text plus picture of the page), some 60 KB per page, 100 pages.
_DOCUMENT_BYTES_PER_TOKEN, _DOCUMENT_TOKENS_MIN, _DOCUMENT_TOKENS_MAX = 20, 3_000, 300_000
# Sound at 128 kbit/s and 32 tokens per second (Gemini); video comes out about the same.
_SOUND_BYTES_PER_TOKEN = 500
# Bytes per token of text in a blob without a `head`.
_TEXT_BYTES_PER_TOKEN = 3


def _tokens_of_media(media: Media) -> int:
    kind, size = media.media_type.partition("/")[0], media.blob.size_bytes
    if kind == "image":
        if not (media.width_pixels and media.height_pixels):
            return _IMAGE_TOKENS_MAX
        return min(_IMAGE_TOKENS_MAX, 1 + media.width_pixels * media.height_pixels // _PIXELS_PER_TOKEN)
    if kind in ("audio", "video"):
        return 1 + size // _SOUND_BYTES_PER_TOKEN
    if kind == "text":
        return 1 + size // _TEXT_BYTES_PER_TOKEN
    return min(_DOCUMENT_TOKENS_MAX, max(_DOCUMENT_TOKENS_MIN, size // _DOCUMENT_BYTES_PER_TOKEN))


def _tokens_of_large_text(part: LargeText) -> int:
    head_bytes = len(part.head.encode("utf-8", "replace"))
    if not head_bytes:
        return 1 + part.blob.size_bytes // _TEXT_BYTES_PER_TOKEN
    return tokens_of_text(part.name) + 1 + tokens_of_text(part.head) * part.blob.size_bytes // head_bytes


def _tokens_of_arguments(arguments: str) -> int:
    # Counted without JSON escapes: within 4 % of reported usage. With them the estimate was up to twice too high.
    return tokens_of_text(arguments.replace("\\n", "\n").replace("\\t", "\t").replace('\\"', '"'))


def _tokens_of_part(part: Part) -> int:
    match part:
        case Text():
            return tokens_of_text(part.text)
        case LargeText():
            return _tokens_of_large_text(part)
        case Media():
            return _tokens_of_media(part)
        case ToolCall():
            return _CALL_TOKENS + tokens_of_text(part.name) + _tokens_of_arguments(part.arguments)
        case ToolResult():
            return _RESULT_TOKENS + tokens_of_parts(part.parts)
        case Reasoning():
            # Hidden thinking is billed by its length before encryption; base64 has 4 characters for 3 bytes.
            return tokens_of_text(part.text) or len(part.opaque) * 3 // 4 // _TEXT_BYTES_PER_TOKEN
        case _:
            assert_never(part)


def tokens_of_parts(parts: Iterable[Part]) -> int:
    """Estimate the tokens of some parts of a message."""
    return sum(_tokens_of_part(part) for part in parts)


def tokens_of_message(message: Message) -> int:
    """Estimate the tokens of a message, overhead included."""
    return _MESSAGE_TOKENS + tokens_of_parts(message.parts)


def tokens_of_tools(specs: Iterable[ToolSpec]) -> int:
    """Estimate the tokens of tool definitions."""
    return sum(
        _TOOL_TOKENS + tokens_of_text(spec.name) + tokens_of_text(spec.description) + tokens_of_text(spec.parameters)
        for spec in specs
    )


# --- Calibration ---

# Models count between 0.5 and 2.5 times a typical vocabulary: the eight above differ by up to 1.6 on plain text, and by
# 2.2 on languages that a vocabulary covers badly.
_SCALE_MIN, _SCALE_MAX = 0.5, 2.5
# Hidden tokens that a provider adds. The largest hidden preamble measured has 28,000 tokens, tools included.
_OVERHEAD_MAX = 40_000.0
# Weight of the prior (scale 1, no overhead), in readings. An overhead of _OVERHEAD_USUAL is as unlikely as a scale that
# is off by 100 %.
_PRIOR_SCALE, _PRIOR_OVERHEAD, _OVERHEAD_USUAL = 0.1, 0.007, 10_000.0
# Decay of a reading per later one: about the last ten count. Counts differ more between sessions (a tenth and more)
# than between calls, so older readings mislead: with 30, 92.7 % of the visible parts of recorded requests were within
# 10 %, with ten 96.8 %, and no worse if four sessions alternate.
_DECAY = 0.9
# Lower bound of the assumed error.
_ERROR_MIN = 0.01
_ERROR_WEIGHT = 0.1
# Largest ratio between a reading and its estimate. Beyond it the reading is corrupt or counts something else ...
_RATIO_MAX = 2.0
# ... unless it repeats this often: then the model under this name changed, and the calibration is reset.
_OUTLIERS_MAX = 5
# Readings needed before outliers can be detected.
_READINGS_MIN = 3


def calibrate(calibration: Calibration, *, estimated: int, reported: int) -> Calibration:
    """Update a calibration with one call: the raw estimate of the request and the reported input tokens.

    Impossible readings are dropped. Outliers are dropped too, but if they repeat, the calibration restarts from them.
    """
    if estimated <= 0 or not _SCALE_MIN * estimated <= reported <= _SCALE_MAX * estimated + _OVERHEAD_MAX:
        return calibration
    expected = calibration.overhead + calibration.scale * estimated
    is_outlier = not expected / _RATIO_MAX <= reported <= expected * _RATIO_MAX
    if is_outlier and calibration.readings >= _READINGS_MIN:
        if calibration.strange + 1 < _OUTLIERS_MAX:
            return msgspec.structs.replace(calibration, strange=calibration.strange + 1)
        calibration = UNCALIBRATED
    weight = 1.0 / reported**2
    terms = (1.0, estimated, reported, estimated * estimated, estimated * reported)
    w, wx, wy, wxx, wxy = (_DECAY * old + weight * term for old, term in zip(calibration.sums, terms, strict=True))
    # The 2x2 normal equations of the fit, with the prior as a weak extra reading. Both bounds are then applied in turn:
    # with one parameter at its bound the other is fitted alone.
    trust = _PRIOR_OVERHEAD / _OVERHEAD_USUAL**2
    a, b, c = w + trust, wx, wxx + _PRIOR_SCALE
    overhead = (wy * c - b * (wxy + _PRIOR_SCALE)) / (a * c - b * b)
    overhead = min(max(overhead, 0.0), _OVERHEAD_MAX)
    scale = min(max((wxy + _PRIOR_SCALE - b * overhead) / c, _SCALE_MIN), _SCALE_MAX)
    deviation = min(abs(expected / reported - 1.0), 1.0)
    rate = max(_ERROR_WEIGHT, 1.0 / (calibration.readings + 2))
    error = sqrt((1.0 - rate) * calibration.error**2 + rate * deviation**2)
    return Calibration(
        scale=scale,
        overhead=overhead,
        error=max(error, _ERROR_MIN),
        readings=calibration.readings + 1,
        sums=(w, wx, wy, wxx, wxy),
    )


# The largest share of a window that a provider's hidden tokens take: 28,000 of 128,000 are less.
_OVERHEAD_SHARE_MAX = 4


def within_window(calibration: Calibration, window_tokens: int | None) -> Calibration:
    """Return a calibration whose overhead is possible in this window.

    Reported usage may be corrupt, or a sum over calls. Believed without bound, it would leave no room for any request.
    """
    if window_tokens is None or calibration.overhead <= window_tokens / _OVERHEAD_SHARE_MAX:
        return calibration
    return msgspec.structs.replace(calibration, overhead=window_tokens / _OVERHEAD_SHARE_MAX)


# --- Size of requests ---


def tokens_of_request(request: Request, calibration: Calibration = UNCALIBRATED) -> int:
    """Estimate the input tokens of a request; the raw estimate without a calibration."""
    raw = tokens_of_text(request.system) + tokens_of_tools(request.tools)
    return calibration.estimate(raw + sum(tokens_of_message(message) for message in request.messages))


# JSON field names, quotes and brackets per part or tool, per message and per request, in the most verbose dialect.
_PART_BYTES, _MESSAGE_BYTES, _REQUEST_BYTES = 96, 64, 512
# Bytes that JSON escapes with six characters ("\u0001"), and with two.
_SIX_BYTES = bytes(byte for byte in range(0x20) if byte not in b"\b\t\n\f\r")
_TWO_BYTES = b'\b\t\n\f\r"\\'


def _json_bytes(text: str) -> int:
    plain = text.encode("utf-8", "replace")
    size = len(plain)
    return size + 5 * (size - len(plain.translate(None, _SIX_BYTES))) + size - len(plain.translate(None, _TWO_BYTES))


def _bytes_of_part(part: Part) -> int:
    match part:
        case Text():
            body = _json_bytes(part.text)
        case LargeText():
            # Assumes the same share of escapes as in `head`.
            head_bytes = len(part.head.encode("utf-8", "replace"))
            body = part.blob.size_bytes * (_json_bytes(part.head) if head_bytes else 1) // (head_bytes or 1)
        case Media():
            body = (part.blob.size_bytes + 2) // 3 * 4 + _json_bytes(part.media_type)
        case ToolCall():
            body = _json_bytes(part.call_id) + _json_bytes(part.name) + _json_bytes(part.arguments)
        case ToolResult():
            body = _json_bytes(part.call_id) + sum(_bytes_of_part(inner) for inner in part.parts)
        case Reasoning():
            body = _json_bytes(part.text) + _json_bytes(part.opaque)
        case _:
            assert_never(part)
    return _PART_BYTES + body


def bytes_of_message(message: Message) -> int:
    """Estimate the bytes of a message in a request body, escapes and base64 included."""
    return _MESSAGE_BYTES + sum(_bytes_of_part(part) for part in message.parts)


def bytes_of_request(request: Request) -> int:
    """Estimate the bytes of the serialised request body, rounded up."""
    tools = sum(
        _PART_BYTES + _json_bytes(spec.name) + _json_bytes(spec.description) + len(spec.parameters.encode())
        for spec in request.tools
    )
    messages = sum(bytes_of_message(message) for message in request.messages)
    return _REQUEST_BYTES + _json_bytes(request.system) + tools + messages


class MediaSize(msgspec.Struct, frozen=True):
    """Media of a request: count, largest in bytes, longest side in pixels, and total bytes."""

    count: int = 0
    bytes_largest: int = 0
    pixels_largest: int = 0
    bytes_total: int = 0


def media_of_parts(parts: Iterable[Part]) -> list[Media]:
    """Return the media parts, those in tool results included, in order."""
    found: list[Media] = []
    for part in parts:
        if isinstance(part, Media):
            found.append(part)
        elif isinstance(part, ToolResult):
            found.extend(media_of_parts(part.parts))
    return found


def media_of_request(request: Request) -> MediaSize:
    """Measure the media of a request, before base64."""
    media: Sequence[Media] = [found for message in request.messages for found in media_of_parts(message.parts)]
    return MediaSize(
        count=len(media),
        bytes_largest=max((part.blob.size_bytes for part in media), default=0),
        pixels_largest=max((max(part.width_pixels, part.height_pixels) for part in media), default=0),
        bytes_total=sum(part.blob.size_bytes for part in media),
    )
