"""What every format shares: a session of another agent as read from its store, tolerant JSON lines, and parts.

Nothing is dropped in silence: an entry that is no message is counted by its kind in `foreign`, and damage is a sentence
in `faults`. A reader never changes a file.
"""

import base64
import binascii
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from holdfast.rescue.neutral import NeutralMessage, NeutralRole
from holdfast.types.messages import (
    BlobRef,
    ContentPart,
    Media,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolOutcome,
    ToolResult,
)

# The result that closes a call whose own never came.
INTERRUPTED = "Interrupted: the result of this call was never recorded, and its effect is unknown."
# Anthropic's limit for one image, the lowest of the large providers.
MEDIA_BYTES_MAX = 5 * 2**20
# Lines of one object that raw line breaks have split.
_SPLIT_LINES_MAX = 50
_scanner = json.JSONDecoder()


class SessionRef(msgspec.Struct, frozen=True):
    """A stored session: its agent, id, file, folder of work, time and size."""

    agent: str
    id: str
    path: Path
    cwd: str
    updated_at: float
    size_bytes: int


class ForeignSession(msgspec.Struct, frozen=True):
    """A session as its agent would load it. `context` is what the agent sends; `messages` is everything before too."""

    ref: SessionRef
    model: str
    messages: tuple[NeutralMessage, ...]
    context: tuple[NeutralMessage, ...]
    foreign: dict[str, int]
    # Sentences about damage that the reader worked around; the agent may not.
    faults: tuple[str, ...] = ()
    # Sentences about compactions that were begun and not finished.
    failed_compactions: tuple[str, ...] = ()


class Compaction(msgspec.Struct, frozen=True):
    """A compaction to write: the summary of the past, and the messages that follow it verbatim."""

    summary: str
    tail: tuple[NeutralMessage, ...] = ()

    def as_text(self) -> str:
        """Return it as one text, for formats whose compactions are a text."""
        told = [f"{one.role.value}: {text}" for one in self.tail if (text := _shown_text(one))]
        return "\n\n".join([self.summary, *(["The newest messages, verbatim:"] if told else []), *told])


class Line(msgspec.Struct):
    """One JSON object of a file, with its bytes as they are written. `fault` says how it was damaged."""

    raw: bytes
    value: dict[str, Any]
    fault: str = ""


class Lines(msgspec.Struct, frozen=True):
    """The objects of a file, and a sentence per damage."""

    lines: list[Line]
    faults: tuple[str, ...]


def read_lines(content: bytes) -> Lines:
    """Read JSON lines as written by programs that crash: glued, torn or split objects, NUL bytes, torn ends."""
    pieces = content.replace(b"\0", b"").split(b"\n")
    lines: list[Line] = []
    faults: list[str] = []
    if b"\0" in content:
        faults.append("it contains NUL bytes, which a power loss leaves")
    at = 0
    while at < len(pieces):
        piece, number = pieces[at], at + 1
        at += 1
        if not piece.strip():
            continue
        if (value := _object(piece)) is not None:
            lines.append(Line(piece, value))
            continue
        found = list(_objects_in(piece, is_torn=at == len(pieces)))
        if found:
            lines += found
            faults.append(f"line {number} has {len(found)} objects, or a broken beginning")
            continue
        joined, taken = _joined(pieces, at - 1)
        if joined is not None:
            lines.append(joined)
            at += taken
            faults.append(f"line {number} is split by raw line breaks")
            continue
        is_last = not any(rest.strip() for rest in pieces[at:])
        faults.append(f"line {number} {'is torn: its end was never written' if is_last else 'cannot be read'}")
    return Lines(lines, tuple(faults))


def _object(piece: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(piece)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _objects_in(piece: bytes, *, is_torn: bool) -> Iterator[Line]:
    """Yield whole objects of a line with several, or with a broken beginning.

    The end of a file without a line break is torn: an object in its last one is a part of that, not a line of its own.
    """
    text = piece.decode(errors="replace")
    at = 0
    while 0 <= (at := text.find("{", at)) < len(text):
        try:
            found, end = _scanner.raw_decode(text, at)
        except ValueError:
            at = -1 if is_torn else text.find('{"', at + 1)
            if at < 0:
                return
            continue
        rest = text[end:].strip()
        # An object inside a torn one is no line of its own.
        if isinstance(found, dict) and (not rest or rest.startswith("{")):
            yield Line(text[at:end].encode(), found, "glued")
        at = end


def _joined(pieces: list[bytes], first: int) -> tuple[Line | None, int]:
    together = pieces[first]
    for taken, piece in enumerate(pieces[first + 1 : first + _SPLIT_LINES_MAX], start=1):
        if _object(piece) is not None:
            break
        together += b"\\n" + piece
        if (value := _object(together)) is not None:
            return Line(together, value, "split"), taken
    return None, 0


def encode_line(value: Mapping[str, Any]) -> bytes:
    """Return an object as one line. U+2028 and U+2029 end lines for some readers, so they are escaped."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029").encode(errors="replace")


def joined_lines(lines: Iterable[bytes]) -> bytes:
    """Return lines as a file, each with its line break."""
    return b"".join(line + b"\n" for line in lines)


# --- Messages ---


class Conversation:
    """Builds neutral messages in order, and counts what is none."""

    def __init__(self, session_id: str) -> None:
        self._session_id = session_id
        self.messages: list[NeutralMessage] = []
        self.foreign: Counter[str] = Counter()

    def add(
        self, role: NeutralRole, parts: Iterable[Part], blobs: Mapping[str, bytes], ts: object = "", entry: str = ""
    ) -> None:
        """Append a message; one without parts is counted as foreign."""
        found = tuple(parts)
        if not found:
            self.foreign[f"empty {role.value} message"] += 1
            return
        number = len(self.messages) + 1
        self.messages.append(
            NeutralMessage(self._session_id, number, role, found, str(ts or ""), {"entry": entry}, dict(blobs))
        )


def text_of(value: object) -> str:
    """Return a value as text: a string as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def media_of(encoded: str, media_type: str, blobs: dict[str, bytes]) -> Part:
    """Return media from base64, or a text that says that it cannot be decoded."""
    try:
        body = base64.b64decode(encoded, validate=False)
    except (ValueError, binascii.Error):
        return Text(f"[{media_type}: not valid base64]")
    ref = BlobRef(sha256=sha256(body).hexdigest(), size_bytes=len(body))
    blobs[ref.sha256] = body
    return Media(ref, media_type or "application/octet-stream")


def media_of_url(url: str, blobs: dict[str, bytes]) -> Part:
    """Return media from a data URL; another URL stays a text."""
    head, mark, encoded = url.partition(";base64,")
    if not mark:
        return Text(f"[media at {url[:500]}]")
    return media_of(encoded, head.removeprefix("data:"), blobs)


def result_of(call_id: str, parts: Iterable[Part], *, is_error: bool) -> ToolResult:
    """Return a tool result with the parts that one can have."""
    content: tuple[ContentPart, ...] = tuple(part for part in parts if isinstance(part, Text | Media)) or (Text(""),)
    return ToolResult(call_id, content, ToolOutcome.FAILED if is_error else ToolOutcome.DONE)


def blocks_of(content: object, blobs: dict[str, bytes], foreign: Counter[str]) -> list[Part]:
    """Return the parts of a content in Anthropic's form, which several agents share."""
    if isinstance(content, str):
        return [Text(content)] if content else []
    found: list[Part] = []
    for block in content if isinstance(content, list) else []:
        if not isinstance(block, dict):
            foreign["content that is no block"] += 1
            continue
        reader = _BLOCKS.get(str(block.get("type", "")))
        if reader is None:
            foreign[f"block {block.get('type')}"] += 1
            continue
        found += reader(block, blobs, foreign)
    return found


_Reader = Callable[[dict[str, Any], dict[str, bytes], "Counter[str]"], list[Part]]


def _text(block: dict[str, Any], _blobs: dict[str, bytes], foreign: Counter[str]) -> list[Part]:
    text = block.get("text")
    if isinstance(text, str) and text:
        return [Text(text)]
    foreign["empty text block"] += 1
    return []


def _thinking(block: dict[str, Any], _blobs: dict[str, bytes], foreign: Counter[str]) -> list[Part]:
    text = block.get("thinking") or block.get("text")
    if isinstance(text, str) and text:
        return [Reasoning(text)]
    foreign["empty thinking block"] += 1
    return []


def _call(block: dict[str, Any], _blobs: dict[str, bytes], _foreign: Counter[str]) -> list[Part]:
    arguments = block.get("input", block.get("arguments", {}))
    return [ToolCall(str(block.get("id", "")), str(block.get("name", "")), text_of(arguments))]


def _result(block: dict[str, Any], blobs: dict[str, bytes], foreign: Counter[str]) -> list[Part]:
    inner = blocks_of(block.get("content"), blobs, foreign)
    return [result_of(str(block.get("tool_use_id", "")), inner, is_error=bool(block.get("is_error")))]


def _image(block: dict[str, Any], blobs: dict[str, bytes], _foreign: Counter[str]) -> list[Part]:
    source = block.get("source") if isinstance(block.get("source"), dict) else block
    assert isinstance(source, dict), "one of the two is an object"
    encoded = source.get("data")
    kind = source.get("media_type") or source.get("mimeType") or ""
    if isinstance(encoded, str):
        return [media_of(encoded, str(kind), blobs)]
    return [Text(f"[image at {text_of(source.get('url', ''))[:500]}]")]


_BLOCKS: dict[str, _Reader] = {
    "text": _text,
    "thinking": _thinking,
    "tool_use": _call,
    "toolCall": _call,
    "tool_result": _result,
    "image": _image,
    "document": _image,
}


def now_text() -> str:
    """Return the time as agents write it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def open_calls(context: Iterable[NeutralMessage]) -> list[str]:
    """Return the ids of calls without a result."""
    calls: dict[str, None] = {}
    for message in context:
        for part in message.parts:
            if isinstance(part, ToolCall):
                calls[part.call_id] = None
            elif isinstance(part, ToolResult):
                calls.pop(part.call_id, None)
    return list(calls)


def without_large_media(value: Any) -> tuple[Any, bool]:  # noqa: ANN401 - any JSON
    """Return a JSON value whose media above the limit are texts, and whether there were any."""
    if isinstance(value, dict):
        if (size := _media_bytes(value)) > MEDIA_BYTES_MAX:
            return {"type": "text", "text": removed_note("image", size)}, True
        pairs = {name: without_large_media(below) for name, below in value.items()}
        return {name: below for name, (below, _) in pairs.items()}, any(found for _, found in pairs.values())
    if isinstance(value, list):
        below = [without_large_media(one) for one in value]
        return [one for one, _ in below], any(found for _, found in below)
    return value, False


def _media_bytes(block: dict[str, Any]) -> int:
    """Return the size of a media block in one of the common forms; 0 for another block."""
    if block.get("type") in {"image", "document"}:
        source = block.get("source") if isinstance(block.get("source"), dict) else block
        encoded = source.get("data") if isinstance(source, dict) else None
        return len(encoded) * 3 // 4 if isinstance(encoded, str) else 0
    if block.get("type") == "input_image" and isinstance(block.get("image_url"), str):
        return len(block["image_url"]) * 3 // 4
    return 0


def removed_note(kind: str, size_bytes: int) -> str:
    """Return the text that replaces media."""
    return f"[{kind} removed: {size_bytes / 1e6:.1f} MB; the original is in the copy of this file beside it]"


# --- Messages in the forms of agents ---


def arguments_of(call: ToolCall) -> dict[str, Any]:
    """Return the arguments of a call as an object; those that are none are kept as a text."""
    try:
        found = json.loads(call.arguments)
    except ValueError:
        found = call.arguments
    return found if isinstance(found, dict) else {"arguments": found}


def encoded_media(part: Media, message: NeutralMessage) -> str:
    """Return the bytes of media in base64."""
    return base64.b64encode(message.blobs[part.blob.sha256]).decode()


def shown_result(result: ToolResult) -> str:
    """Return a tool result as text."""
    return "\n".join(part.text if isinstance(part, Text) else "[media]" for part in result.parts)


def _shown_text(message: NeutralMessage) -> str:
    shown: list[str] = []
    for part in message.parts:
        match part:
            case Text(text=text):
                shown.append(text)
            case ToolCall(name=name, arguments=arguments):
                shown.append(f"[called {name} with {arguments}]")
            case ToolResult():
                shown.append(f"[returned: {shown_result(part)}]")
            case Media(media_type=kind):
                shown.append(f"[{kind}]")
            case _:
                pass
    return "\n".join(shown)
