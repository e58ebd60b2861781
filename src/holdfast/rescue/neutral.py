"""Reader of the neutral transcript format: one message per line, `.jsonl` or `.jsonl.gz`.

Real files have lines with two objects; both are read. A malformed line raises an error with its number: skipping it
would lose data.
"""

import base64
import binascii
import gzip
import json
import zlib
from collections.abc import Iterator
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, Literal, TypeAlias, cast

import msgspec

from holdfast.errors import BadInputError
from holdfast.types.messages import (
    BlobRef,
    ContentPart,
    Media,
    Message,
    Part,
    Reasoning,
    Role,
    Text,
    ToolCall,
    ToolOutcome,
    ToolResult,
)

# One message with its images. The longest line observed has 3 MB; an endless line must not fill memory.
LINE_BYTES_MAX = 256 * 2**20


class NeutralRole(StrEnum):
    """Role of a message. Foreign transcripts have system texts between the messages."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    SYSTEM = "system"


class NeutralMessage(msgspec.Struct, frozen=True):
    """One message of a foreign session. `blobs` has the bytes of its media by SHA-256; `meta` is unchanged."""

    session_id: str
    seq: int
    role: NeutralRole
    parts: tuple[Part, ...]
    ts: str = ""
    meta: dict[str, object] = msgspec.field(default_factory=dict)
    blobs: dict[str, bytes] = msgspec.field(default_factory=dict)

    @property
    def message(self) -> Message | None:
        """The converted message, or None for a system text."""
        if self.role is NeutralRole.SYSTEM:
            return None
        return Message(Role(self.role.value), self.parts)


# --- Line format (unknown fields are ignored) ---


class _TextPart(msgspec.Struct, tag_field="type", tag="text"):
    text: str
    kind: str | None = None


class _CallPart(msgspec.Struct, tag_field="type", tag="tool_call"):
    # None if the agent has no call ids; the next message has the result.
    id: str | None
    name: str
    args: msgspec.Raw


class _ResultPart(msgspec.Struct, tag_field="type", tag="tool_result"):
    id: str | None
    text: str
    is_error: bool | None = None


class _ImagePart(msgspec.Struct, tag_field="type", tag="image"):
    media_type: str
    data_b64: str


_LinePart: TypeAlias = _TextPart | _CallPart | _ResultPart | _ImagePart


class _Line(msgspec.Struct):
    session_id: str
    seq: int
    role: Literal["user", "assistant", "tool", "system"]
    parts: list[_LinePart]
    ts: str | float | None = None
    meta: dict[str, object] | None = None


_decoder = msgspec.json.Decoder(_Line)
_scanner = json.JSONDecoder()


def _image(part: _ImagePart, blobs: dict[str, bytes]) -> Media:
    body = base64.b64decode(part.data_b64, validate=True)
    ref = BlobRef(sha256=sha256(body).hexdigest(), size_bytes=len(body))
    blobs[ref.sha256] = body
    return Media(ref, part.media_type)


def _part(part: _LinePart, blobs: dict[str, bytes]) -> Part:
    match part:
        case _TextPart(kind="thinking"):
            return Reasoning(part.text)
        case _TextPart():
            return Text(part.text)
        case _CallPart():
            return ToolCall(part.id or "", part.name, bytes(part.args).decode())
        case _ResultPart():
            outcome = ToolOutcome.FAILED if part.is_error else ToolOutcome.DONE
            content: tuple[ContentPart, ...] = (Text(part.text),)
            return ToolResult(part.id or "", content, outcome)
        case _ImagePart():
            return _image(part, blobs)


def _message(line: _Line) -> NeutralMessage:
    blobs: dict[str, bytes] = {}
    return NeutralMessage(
        session_id=line.session_id,
        seq=line.seq,
        role=NeutralRole(line.role),
        parts=tuple(_part(part, blobs) for part in line.parts),
        ts="" if line.ts is None else str(line.ts),
        meta=line.meta or {},
        blobs=blobs,
    )


def _objects(text: str) -> Iterator[bytes]:
    """Yield each JSON object of a line, with lone surrogates replaced."""
    at = 0
    while at < len(text):
        found, at = _scanner.raw_decode(text, at)
        # A lone surrogate cannot be stored or sent; U+FFFD replaces it.
        yield (
            json.dumps(found, ensure_ascii=False).encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()
        )
        at += len(text) - at - len(text[at:].lstrip())


def _messages(body: bytes) -> list[NeutralMessage]:
    try:
        return [_message(_decoder.decode(body))]
    except msgspec.DecodeError:
        # Rare: several objects on a line, or lone surrogate escapes.
        return [_message(_decoder.decode(found)) for found in _objects(body.decode().strip())]


def _lines(stream: BinaryIO, path: Path) -> Iterator[tuple[int, bytes]]:
    number = 0
    try:
        while body := stream.readline(LINE_BYTES_MAX + 1):
            number += 1
            if len(body) > LINE_BYTES_MAX:
                raise BadInputError(f"{path}, line {number}: longer than {LINE_BYTES_MAX:,} bytes; split the file")
            yield number, body
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise BadInputError(f"{path}, after line {number}: the compressed file is damaged ({error})") from error


def read_neutral(path: Path, session: str | None = None) -> Iterator[NeutralMessage]:
    """Yield the messages of a file in order, optionally of one session, with one line in memory at a time.

    Raises `BadInputError` with file and line for a malformed line.
    """
    with cast("BinaryIO", gzip.open(path, "rb")) if path.suffix == ".gz" else path.open("rb") as stream:
        for number, body in _lines(stream, path):
            if body.isspace():
                continue
            try:
                found = _messages(body)
            except (ValueError, msgspec.DecodeError, binascii.Error) as error:
                raise BadInputError(
                    f"{path}, line {number}: not a message of the neutral format ({error}); "
                    "`holdfast import --help` shows one"
                ) from error
            yield from (message for message in found if session is None or message.session_id == session)
