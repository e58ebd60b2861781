"""Validation of messages: turn text and attachments into parts, or reject them before anything is stored.

A path is read with the rights of this process: pass only paths that the user of this machine chose to `admit_parts`,
never one from the network. All attachments are checked completely before the first blob is stored.
"""

import asyncio
import stat
import unicodedata
from collections.abc import AsyncIterator, Generator, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import msgspec

from holdfast.core.limits.bounds import RESERVED_KEYS, Bounds
from holdfast.core.text.media_type import (
    ACCEPTED,
    HEAD_BYTES,
    PDF,
    TEXT,
    Utf8Check,
    claimed_by_name,
    is_honest,
    pixels,
    safe_name,
    sniff,
    spoken,
)
from holdfast.core.text.truncation import without_base64
from holdfast.errors import BadInputError
from holdfast.ports import Attachment, Blobs
from holdfast.types.messages import BlobRef, LargeText, Media, Text

_DEFAULT_BOUNDS = Bounds()
# Chunk size of file reads: large enough to make the thread switch per chunk negligible, small in memory.
_CHUNK_BYTES = 2**20
# Characters of a blob's hash that identify it in a session: 2^48 values.
BLOB_NAME_CHARS = 12


async def admit_parts(
    text: str, attachments: Sequence[Attachment | Path | str], *, blobs: Blobs, bounds: Bounds
) -> tuple[Text | LargeText | Media, ...]:
    """Return the parts of a message, its text first. Raises `BadInputError` before any blob is stored.

    A str among the attachments is a path. An attached text with a name, or too long for a record, is stored as a blob;
    a short one without a name becomes plain text.
    """
    _check_text(text, bounds)
    if not text.strip() and not attachments:
        raise BadInputError("the message is empty; write something or attach a file")
    if len(attachments) > bounds.attachments_max:
        raise BadInputError(
            f"{len(attachments):,} attachments exceed the maximum of {bounds.attachments_max:,} per message; "
            "send them in several messages"
        )
    checked = [await asyncio.to_thread(_check_attachment, attachment, bounds) for attachment in attachments]
    parts: list[Text | LargeText | Media] = []
    if text.strip():
        parts.append(await _text_part(text, blobs, bounds))
    parts.extend([await _attached_part(one, blobs, bounds) for one in checked])
    return tuple(parts)


async def leave_out_base64(text: str, *, blobs: Blobs, bounds: Bounds) -> tuple[str, tuple[BlobRef, ...]]:
    """Replace files pasted into a message as base64 by placeholders; return the text and the blob of the original.

    Raises as `admit_parts` does, before anything is stored.
    """
    _check_text(text, bounds)
    chars = bounds.message_base64_chars_max
    if len(text) < chars or not (await asyncio.to_thread(without_base64, text, chars_min=chars)).runs:
        return text, ()
    original = await blobs.put(text.encode())
    location = f"kept whole: recall(blob={original.sha256[:BLOB_NAME_CHARS]!r}) reads it"
    stripped = await asyncio.to_thread(without_base64, text, location, chars_min=chars)
    return stripped.text, (original,)


def check_session_key(key: str, *, bounds: Bounds = _DEFAULT_BOUNDS) -> None:
    """Raise `BadInputError` if a session key is invalid."""
    _check_name("session key", key, bounds.session_key_bytes_max, 'such as "telegram:42"')
    if key.startswith(RESERVED_KEYS):
        raise BadInputError(f"the session key {key!r} begins with {RESERVED_KEYS!r}, which is reserved; use another")


def check_client_id(client_id: str, *, bounds: Bounds = _DEFAULT_BOUNDS) -> None:
    """Raise `BadInputError` if a client id is invalid."""
    _check_name("client id", client_id, bounds.client_id_bytes_max, "such as a UUID, or leave it out")


def _check_name(what: str, name: str, bytes_max: int, such_as: str) -> None:
    if not name:
        raise BadInputError(f"the {what} is empty; give one, {such_as}")
    # The message quotes the name only after its length is checked.
    size_bytes = len(name.encode(errors="surrogatepass"))
    if size_bytes > bytes_max:
        raise BadInputError(f"the {what} has {size_bytes:,} bytes, the maximum is {bytes_max:,}; use a shorter one")
    if name != name.strip():
        raise BadInputError(f"the {what} {name!r} starts or ends with white space; remove it")
    if name.isprintable():
        return
    for position, character in enumerate(name, start=1):
        # Control characters, lone surrogates, line and paragraph separators break logs, URLs and terminals.
        if unicodedata.category(character) in {"Cc", "Cs", "Zl", "Zp"}:
            raise BadInputError(
                f"the {what} {name!r} has {_code_point(character)} at position {position}; "
                "use printable characters only"
            )


# --- Text ---


def _check_text(text: str, bounds: Bounds) -> None:
    try:
        size_bytes = len(text.encode())
    except UnicodeEncodeError as error:
        raise BadInputError(
            f"the message has a lone surrogate ({_code_point(text[error.start])}) at position {error.start + 1:,}; "
            "remove it, or decode the text with the encoding it was written in"
        ) from error
    if size_bytes > bounds.message_bytes_max:
        raise BadInputError(
            f"the message has {size_bytes:,} bytes, the maximum is {bounds.message_bytes_max:,}; attach it as a file"
        )
    # Some stores cannot hold NUL, and in text it indicates a wrong encoding. Other control characters are accepted:
    # pasted terminal output is full of them, and models ignore them.
    if "\0" in text:
        raise BadInputError(
            f"the message has a NUL character at position {text.index(chr(0)) + 1:,}; "
            "remove it, or decode the text with the encoding it was written in"
        )


def _code_point(character: str) -> str:
    return f"U+{ord(character):04X}"


async def _text_part(text: str, blobs: Blobs, bounds: Bounds) -> Text | LargeText:
    raw = text.encode()
    if len(raw) <= bounds.inline_text_bytes_max:
        return Text(text)
    return LargeText(blob=await blobs.put(raw), head=text[: bounds.head_chars])


# --- Attachments ---


class _FileIdentity(msgspec.Struct, frozen=True):
    """Identity of a file, to detect a change after the check."""

    device: int
    inode: int
    size_bytes: int
    modified_ns: int


class _Source(msgspec.Struct, frozen=True):
    """An attachment before its check."""

    content: bytes | Path
    # Its name in error messages.
    label: str
    name: str
    # Media types claimed by its name and its declared type.
    claims: tuple[str, ...]
    size_bytes: int
    # Set for files only.
    identity: _FileIdentity | None = None

    def chunks(self) -> Generator[bytes, None, None]:
        """Yield its bytes in chunks."""
        return _file_chunks(self.content) if isinstance(self.content, Path) else _memory_chunks(self.content)


class _Checked(msgspec.Struct, frozen=True):
    """An accepted attachment. `head` is the beginning of a text, empty for other types."""

    source: _Source
    media_type: str
    head: str = ""
    size_pixels: tuple[int, int] = (0, 0)


def _check_attachment(attachment: Attachment | Path | str, bounds: Bounds) -> _Checked:
    """Check one attachment completely. Runs in a thread."""
    if isinstance(attachment, Attachment):
        return _check_content(_memory_source(attachment), bounds)
    path = Path(attachment)
    label = _label(path)
    try:
        return _check_content(_file_source(path), bounds)
    except FileNotFoundError as error:
        raise BadInputError(f"{label} does not exist; check the path") from error
    except PermissionError as error:
        raise BadInputError(f"{label} is not readable by this process; change its permissions") from error
    except OSError as error:
        raise BadInputError(f"{label} cannot be read ({error.strerror}); attach another copy") from error
    except ValueError as error:
        # A NUL or a lone surrogate. The message of Python differs between versions.
        raise BadInputError(f"{label} has a character that is invalid in a path; check the path") from error


def _memory_source(attachment: Attachment) -> _Source:
    name = safe_name(attachment.name)
    return _Source(
        content=attachment.data,
        label=f"attachment {name!r}" if name else "an attachment without a name",
        name=name,
        claims=(claimed_by_name(name), attachment.media_type),
        size_bytes=len(attachment.data),
    )


def _file_source(path: Path) -> _Source:
    identity = _identity(path)
    return _Source(
        content=path,
        label=_label(path),
        name=safe_name(path.name),
        claims=(claimed_by_name(path.name),),
        size_bytes=identity.size_bytes,
        identity=identity,
    )


def _label(path: Path) -> str:
    # The end of a path identifies the file better than its beginning.
    return f"file {str(path)[-300:]!r}"


def _identity(path: Path) -> _FileIdentity:
    found = path.stat()
    # Checked before the open, because opening a pipe waits for its writer.
    if not stat.S_ISREG(found.st_mode):
        raise BadInputError(f"{_label(path)} is not a regular file; attach regular files one by one")
    return _FileIdentity(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


def _check_content(source: _Source, bounds: Bounds) -> _Checked:
    _check_size(source, bounds)
    with closing(source.chunks()) as chunks:
        head = next(chunks, b"")
        media_type = _checked_type(source, head)
        if media_type == TEXT:
            _check_utf8(source, head, chunks)
            # A character has at most four bytes in UTF-8.
            text = head[: 4 * bounds.head_chars].decode(errors="ignore")
            return _Checked(source, media_type, head=text[: bounds.head_chars])
    size_pixels = pixels(head[:HEAD_BYTES])
    if media_type != PDF and 0 in size_pixels and source.size_bytes <= HEAD_BYTES:
        # The complete file has no readable header: every model would reject it, now and in every later turn.
        raise BadInputError(
            f"{source.label} is {spoken(media_type)} that is damaged or truncated; attach a complete copy"
        )
    width, height = size_pixels
    if width * height > bounds.image_pixels_max:
        raise BadInputError(
            f"{source.label} has {width:,} by {height:,} pixels, the maximum is {bounds.image_pixels_max:,} in all; "
            "send a smaller picture"
        )
    return _Checked(source, media_type, size_pixels=size_pixels)


def _checked_type(source: _Source, head: bytes) -> str:
    media_type = sniff(head[:HEAD_BYTES])
    if not media_type:
        raise BadInputError(f"{source.label} has a type that models do not accept; accepted are {ACCEPTED}")
    for claim in source.claims:
        if not is_honest(claim, media_type):
            raise BadInputError(
                f"{source.label} claims to be {spoken(claim)} but is {spoken(media_type)}; "
                "give it the right name and type, or attach the right file"
            )
    return media_type


def _check_size(source: _Source, bounds: Bounds) -> None:
    if source.size_bytes == 0:
        raise BadInputError(f"{source.label} is empty; leave it out or attach the right file")
    if source.size_bytes > bounds.attachment_bytes_max:
        raise BadInputError(
            f"{source.label} has {source.size_bytes:,} bytes, the maximum is {bounds.attachment_bytes_max:,}; "
            "send a part of it"
        )


def _check_utf8(source: _Source, head: bytes, rest: Iterator[bytes]) -> None:
    check = Utf8Check()
    if not (check.accepts(head) and all(check.accepts(chunk) for chunk in rest) and check.is_whole()):
        raise BadInputError(
            f"{source.label} starts as text but is not valid UTF-8; save it as UTF-8. Accepted are {ACCEPTED}"
        )


def _memory_chunks(content: bytes) -> Generator[bytes, None, None]:
    view = memoryview(content)
    for start in range(0, len(view), _CHUNK_BYTES):
        yield bytes(view[start : start + _CHUNK_BYTES])


def _file_chunks(path: Path) -> Generator[bytes, None, None]:
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            yield chunk


async def _attached_part(checked: _Checked, blobs: Blobs, bounds: Bounds) -> Text | LargeText | Media:
    source = checked.source
    content = source.content
    is_text = checked.media_type == TEXT
    is_short = source.size_bytes <= bounds.inline_text_bytes_max
    if is_text and is_short and not source.name and isinstance(content, bytes):
        return Text(content.decode())
    ref = await blobs.put(content if isinstance(content, bytes) else _unchanged_chunks(content, source.identity))
    if is_text:
        return LargeText(blob=ref, head=checked.head, name=source.name)
    width, height = checked.size_pixels
    return Media(blob=ref, media_type=checked.media_type, name=source.name, width_pixels=width, height_pixels=height)


async def _unchanged_chunks(path: Path, checked: _FileIdentity | None) -> AsyncIterator[bytes]:
    """Yield a file's bytes; raise if it is no longer the file that was checked, so that the blob is not stored."""
    changed = BadInputError(f"{_label(path)} changed while it was read; send the message again when it is finished")
    # Not closed explicitly: after a cancel the last read may still run in its thread. The generator's `with` closes the
    # file.
    chunks = _file_chunks(path)
    try:
        while chunk := await asyncio.to_thread(next, chunks, b""):
            yield chunk
        if await asyncio.to_thread(_identity, path) != checked:
            raise changed
    except OSError as error:
        raise changed from error
