"""Text that a summariser reads: every message as a whole, without noise, split into portions that fit one request.

Nothing in the text can be mistaken for a tool call, a signature or an image, and its size is known before it is sent.
Only noise is left out, and a line says so. A message that is too long for one portion continues in the next one.
"""

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import assert_never

import msgspec

from holdfast.core.limits.sizing import tokens_of_text
from holdfast.core.text.truncation import without_base64, without_tags
from holdfast.core.view import ViewMessage
from holdfast.types.messages import LargeText, Media, Message, Part, Reasoning, Text, ToolCall, ToolResult

# Shorter base64 is a hash or a key. A summary needs less of it than a model that works with it.
_BASE64_CHARS_MIN = 512
# Fewer repetitions of a line cost less than the line that counts them.
_REPETITIONS_MIN = 3
# A message that does not fit is split if at least this share of a portion is left for it; else it starts the next one.
_ROOM_SHARE_MIN = 0.25
# A split looks for the end of a line, a sentence or a word in this share of the text before the limit.
_SPLIT_SHARE = 0.2
_SPLITS = ("\n", ". ", " ")

# The content of blobs by SHA-256.
Texts = Mapping[str, str]
_NO_TEXTS: Texts = {}


class Position(msgspec.Struct, frozen=True, order=True):
    """A position in the conversation: the message at `place`, and characters of its rendered text before it."""

    place: int = 0
    offset: int = 0


class Portion(msgspec.Struct, frozen=True):
    """A part of a conversation that fits one request: its text, the records in it, and the position after it."""

    text: str
    seqs: tuple[int, ...]
    end: Position


class Rendered(msgspec.Struct, frozen=True):
    """A message as text, escaped so that it cannot close the frame around it; "" if a summary does not cover it."""

    place: int
    seq: int
    text: str


def render(said: ViewMessage, texts: Texts = _NO_TEXTS) -> Rendered:
    """Render a message with the number of its record, a line per part."""
    lines = [f"[#{said.seq}] {line}" for line in _lines(said.message, texts)]
    return Rendered(said.place, said.seq, without_tags("\n".join(lines)))


def _lines(message: Message, texts: Texts) -> list[str]:
    return [f"{message.role}: {line}" for part in message.parts if (line := _line(part, texts))]


def _line(part: Part, texts: Texts) -> str:
    match part:
        case Text(text=text):
            return without_noise(text)
        case LargeText(blob=blob):
            return _large_text(part, texts.get(blob.sha256))
        case Media():
            return f"({part.media_type} {part.name or 'unnamed'}, {part.blob.size_bytes:,} bytes)"
        case ToolCall():
            return f"calls {part.name}({without_noise(part.arguments)})"
        case ToolResult():
            return f"{part.outcome}: {' '.join(_line(inner, texts) for inner in part.parts)}"
        case Reasoning():
            # A summary covers messages and actions, not the reasoning that led to them.
            return ""
        case _:
            assert_never(part)


def _large_text(part: LargeText, text: str | None) -> str:
    if text is None:
        return f"(a text of {part.blob.size_bytes:,} bytes, {part.name or 'unnamed'}, beginning:) {part.head}"
    return f"({part.name}:) {without_noise(text)}" if part.name else without_noise(text)


def without_noise(text: str) -> str:
    """Replace base64 and repetitions of a line by lines that say so. Everything else stays."""
    stripped = without_base64(text, chars_min=_BASE64_CHARS_MIN).text
    lines = stripped.split("\n")
    if len(lines) <= _REPETITIONS_MIN:
        return stripped
    kept: list[str] = []
    for line, repeated in groupby(lines):
        count = sum(1 for _ in repeated)
        if count > _REPETITIONS_MIN and line.strip():
            kept += [line, f"[the line above {count - 1:,} more times]"]
        else:
            kept += [line] * count
    return "\n".join(kept)


def next_portion(messages: Iterable[Rendered], start: Position, *, tokens_max: int) -> Portion:
    """Return the text from a position on that fits into so many tokens, and the position after it.

    `messages` begin with the message at `start` or a later one. The portion covers at least a part of one of them.
    """
    lines: list[str] = []
    seqs: list[int] = []
    end, room = start, tokens_max
    for said in messages:
        offset = start.offset if said.place == start.place else 0
        text = _continued(said, offset)
        tokens = tokens_of_text(text)
        if tokens > room and lines and (tokens <= tokens_max or room < _ROOM_SHARE_MIN * tokens_max):
            break
        if text:
            seqs.append(said.seq)
        if tokens > room:
            added = len(text) - len(said.text) + offset
            taken = max(_chars_within(text, tokens, max(room, 1)), added + 1)
            lines.append(text[:taken])
            end = Position(said.place, offset + taken - added)
            break
        if text:
            lines.append(text)
        end, room = Position(said.place + 1), room - tokens
    return Portion("\n".join(lines), tuple(seqs), end)


def _continued(said: Rendered, offset: int) -> str:
    """Return the rest of a rendered message, with its number before it."""
    rest = said.text[offset:]
    return f"[#{said.seq}] (continued:) {rest}" if offset and rest else rest


def _chars_within(text: str, tokens: int, room: int) -> int:
    """Return how many characters of a text fit, up to the end of a line, a sentence or a word if one is near."""
    chars = len(text) * room // tokens
    # Parts of a text differ in tokens per character.
    while chars > 1 and (found := tokens_of_text(text[:chars])) > room:
        chars = min(chars - 1, chars * room // found)
    earliest = int(chars * (1 - _SPLIT_SHARE))
    for end in _SPLITS:
        at = text.rfind(end, earliest, chars)
        if at > 0:
            return at + len(end)
    return chars
