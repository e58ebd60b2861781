"""What a person sends becomes parts, or is refused with a sentence that says what to do, before anything is stored.

A path is read with the rights of this process: give `admit_parts` only paths that the person at this machine chose,
never one that came over the wire. Everything attached is checked from end to end before the first blob is put.
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
# Read at once from a file: large enough that a thread switch per chunk does not show, small beside everything else.
_CHUNK_BYTES = 2**20
# Enough of a blob's name to be told from all others: 2^48 values.
BLOB_NAME_CHARS = 12


async def admit_parts(
    text: str, attachments: Sequence[Attachment | Path | str], *, blobs: Blobs, bounds: Bounds
) -> tuple[Text | LargeText | Media, ...]:
    """Return the parts of a message, its text first. Raises `BadInputError` before any blob is put.

    A str among the attachments is a path. An attached text with a name, or too long for a record, is kept as it is in a
    blob; a short one without a name is plain text.
    """
    _check_text(text, bounds)
    if not text.strip() and not attachments:
        raise BadInputError("the message is empty; write something or attach a file")
    if len(attachments) > bounds.attachments_max:
        raise BadInputError(
            f"{len(attachments):,} attachments are more than the {bounds.attachments_max:,} one message takes; "
            "send them in several messages"
        )
    checked = [await asyncio.to_thread(_check_attachment, attachment, bounds) for attachment in attachments]
    parts: list[Text | LargeText | Media] = []
    if text.strip():
        parts.append(await _text_part(text, blobs, bounds))
    parts.extend([await _attached_part(one, blobs, bounds) for one in checked])
    return tuple(parts)


async def leave_out_base64(text: str, *, blobs: Blobs, bounds: Bounds) -> tuple[str, tuple[BlobRef, ...]]:
    """Return a message's text without the files that were pasted into it as base64, and where the whole of it is kept.

    Raises as `admit_parts` does, before anything is put.
    """
    _check_text(text, bounds)
    chars = bounds.message_base64_chars_max
    if len(text) < chars or not (await asyncio.to_thread(without_base64, text, chars_min=chars)).runs:
        return text, ()
    original = await blobs.put(text.encode())
    kept_as = f"kept whole: recall(blob={original.sha256[:BLOB_NAME_CHARS]!r}) reads it"
    shown = await asyncio.to_thread(without_base64, text, kept_as, chars_min=chars)
    return shown.text, (original,)


def check_session_key(key: str, *, bounds: Bounds = _DEFAULT_BOUNDS) -> None:
    """Raise `BadInputError` where this cannot be a session's key."""
    _check_name("session key", key, bounds.session_key_bytes_max, 'such as "telegram:42"')
    if key.startswith(RESERVED_KEYS):
        raise BadInputError(f"the session key {key!r} begins with {RESERVED_KEYS!r}, which is reserved; use another")


def check_client_id(client_id: str, *, bounds: Bounds = _DEFAULT_BOUNDS) -> None:
    """Raise `BadInputError` where this cannot be a message's client id."""
    _check_name("client id", client_id, bounds.client_id_bytes_max, "such as a UUID, or leave it out")


def _check_name(what: str, name: str, bytes_max: int, such_as: str) -> None:
    if not name:
        raise BadInputError(f"the {what} is empty; give one, {such_as}")
    # The name is repeated in the sentence only once its length is known to be bounded.
    size_bytes = len(name.encode(errors="surrogatepass"))
    if size_bytes > bytes_max:
        raise BadInputError(f"the {what} has {size_bytes:,} bytes, at most {bytes_max:,} are taken; use a shorter one")
    if name != name.strip():
        raise BadInputError(f"the {what} {name!r} starts or ends with white space; remove it")
    for position, character in enumerate(name, start=1):
        # Control characters, lone surrogates, line and paragraph separators: they break logs, URLs and terminals.
        if unicodedata.category(character) in {"Cc", "Cs", "Zl", "Zp"}:
            raise BadInputError(
                f"the {what} {name!r} has {_code_point(character)} at position {position}; "
                "use printable characters only"
            )


# --- the text ----------------------------------------------------------------------------------------------------


def _check_text(text: str, bounds: Bounds) -> None:
    try:
        size_bytes = len(text.encode())
    except UnicodeEncodeError as error:
        raise BadInputError(
            f"the message has half a character ({_code_point(text[error.start])}) at position {error.start + 1:,}; "
            "remove it, or decode the text with the encoding it was written in"
        ) from error
    if size_bytes > bounds.message_bytes_max:
        raise BadInputError(
            f"the message has {size_bytes:,} bytes, at most {bounds.message_bytes_max:,} are taken; attach it as a file"
        )
    # Not every store can hold NUL, and in text it is a sign of bytes read in the wrong encoding. Other control
    # characters are kept: a pasted terminal session is full of them, and models read past them.
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


# --- attachments -------------------------------------------------------------------------------------------------


class _Stamp(msgspec.Struct, frozen=True):
    """By what a file is recognised as the one that was checked."""

    device: int
    inode: int
    size_bytes: int
    modified_ns: int


class _Offer(msgspec.Struct, frozen=True):
    """An attachment as it was given: where its bytes are, and what its name and declared type claim."""

    source: bytes | Path
    # What a refusal calls it.
    shown: str
    name: str
    claims: tuple[str, ...]
    size_bytes: int
    # Of a file alone.
    stamp: _Stamp | None = None

    def pieces(self) -> Generator[bytes, None, None]:
        """Return its bytes, never more than a chunk at once."""
        return _file_pieces(self.source) if isinstance(self.source, Path) else _memory_pieces(self.source)


class _Checked(msgspec.Struct, frozen=True):
    """An attachment that can be taken. `head` is the beginning of a text, empty for everything else."""

    offer: _Offer
    media_type: str
    head: str = ""
    size_pixels: tuple[int, int] = (0, 0)


def _check_attachment(attachment: Attachment | Path | str, bounds: Bounds) -> _Checked:
    """Look at one attachment from end to end. Runs in a thread."""
    if isinstance(attachment, Attachment):
        return _check_content(_offer_memory(attachment), bounds)
    path = Path(attachment)
    shown = _shown(path)
    try:
        return _check_content(_offer_file(path), bounds)
    except FileNotFoundError as error:
        raise BadInputError(f"{shown} does not exist; check the path") from error
    except PermissionError as error:
        raise BadInputError(f"{shown} may not be read by this process; change its permissions") from error
    except OSError as error:
        raise BadInputError(f"{shown} cannot be read ({error.strerror}); attach another copy") from error
    except ValueError as error:
        # A NUL, or half of a character: what Python says of it changes from version to version.
        raise BadInputError(f"{shown} has a character that no path can have; check the path") from error


def _offer_memory(attachment: Attachment) -> _Offer:
    name = safe_name(attachment.name)
    return _Offer(
        source=attachment.data,
        shown=f"attachment {name!r}" if name else "an attachment without a name",
        name=name,
        claims=(claimed_by_name(name), attachment.media_type),
        size_bytes=len(attachment.data),
    )


def _offer_file(path: Path) -> _Offer:
    stamp = _stamp(path)
    return _Offer(
        source=path,
        shown=_shown(path),
        name=safe_name(path.name),
        claims=(claimed_by_name(path.name),),
        size_bytes=stamp.size_bytes,
        stamp=stamp,
    )


def _shown(path: Path) -> str:
    # The end of a path tells more than its beginning; 300 characters are enough to find the file by.
    return f"file {str(path)[-300:]!r}"


def _stamp(path: Path) -> _Stamp:
    found = path.stat()
    # Before it is opened: opening a pipe would wait for its writer.
    if not stat.S_ISREG(found.st_mode):
        raise BadInputError(f"{_shown(path)} is not a regular file; attach regular files one by one")
    return _Stamp(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


def _check_content(offer: _Offer, bounds: Bounds) -> _Checked:
    _check_size(offer, bounds)
    with closing(offer.pieces()) as pieces:
        head = next(pieces, b"")
        media_type = sniff(head[:HEAD_BYTES])
        if not media_type:
            raise BadInputError(f"{offer.shown} is of a type that models do not take; accepted are {ACCEPTED}")
        for claim in offer.claims:
            if not is_honest(claim, media_type):
                raise BadInputError(
                    f"{offer.shown} claims to be {spoken(claim)} but is {spoken(media_type)}; "
                    "give it the right name and type, or attach the right file"
                )
        if media_type == TEXT:
            _check_utf8(offer, head, pieces)
            # Four bytes are the most a character has in UTF-8.
            text = head[: 4 * bounds.head_chars].decode(errors="ignore")
            return _Checked(offer, media_type, head=text[: bounds.head_chars])
    size_pixels = pixels(head[:HEAD_BYTES])
    if media_type != PDF and 0 in size_pixels and offer.size_bytes <= HEAD_BYTES:
        # All of it was seen, and its header cannot be read: every model would refuse it, now and in every later turn.
        raise BadInputError(f"{offer.shown} is {spoken(media_type)} that is damaged or cut short; attach a whole copy")
    width, height = size_pixels
    if width * height > bounds.image_pixels_max:
        raise BadInputError(
            f"{offer.shown} has {width:,} by {height:,} pixels, at most {bounds.image_pixels_max:,} in all are taken; "
            "send a smaller picture"
        )
    return _Checked(offer, media_type, size_pixels=size_pixels)


def _check_size(offer: _Offer, bounds: Bounds) -> None:
    if offer.size_bytes == 0:
        raise BadInputError(f"{offer.shown} is empty; leave it out or attach the right file")
    if offer.size_bytes > bounds.attachment_bytes_max:
        raise BadInputError(
            f"{offer.shown} has {offer.size_bytes:,} bytes, at most {bounds.attachment_bytes_max:,} are taken; "
            "send a part of it"
        )


def _check_utf8(offer: _Offer, head: bytes, rest: Iterator[bytes]) -> None:
    check = Utf8Check()
    if not (check.accepts(head) and all(check.accepts(piece) for piece in rest) and check.is_whole()):
        raise BadInputError(
            f"{offer.shown} starts as text but is not UTF-8 to its end; save it as UTF-8. Accepted are {ACCEPTED}"
        )


def _memory_pieces(content: bytes) -> Generator[bytes, None, None]:
    view = memoryview(content)
    for start in range(0, len(view), _CHUNK_BYTES):
        yield bytes(view[start : start + _CHUNK_BYTES])


def _file_pieces(path: Path) -> Generator[bytes, None, None]:
    with path.open("rb") as file:
        while piece := file.read(_CHUNK_BYTES):
            yield piece


async def _attached_part(checked: _Checked, blobs: Blobs, bounds: Bounds) -> Text | LargeText | Media:
    offer = checked.offer
    is_text = checked.media_type == TEXT
    if (
        is_text
        and not offer.name
        and isinstance(offer.source, bytes)
        and offer.size_bytes <= bounds.inline_text_bytes_max
    ):
        return Text(offer.source.decode())
    ref = await blobs.put(offer.source if isinstance(offer.source, bytes) else _unchanged(offer.source, offer.stamp))
    if is_text:
        return LargeText(blob=ref, head=checked.head, name=offer.name)
    width, height = checked.size_pixels
    return Media(blob=ref, media_type=checked.media_type, name=offer.name, width_pixels=width, height_pixels=height)


async def _unchanged(path: Path, checked: _Stamp | None) -> AsyncIterator[bytes]:
    """Yield a file's bytes, or fail if it is no longer the file that was checked, so that the blob is not kept."""
    changed = BadInputError(f"{_shown(path)} changed while it was read; send the message again when it is finished")
    # Not closed by hand: after a cancel the last read may still be under way in its thread. The generator's own `with`
    # closes the file.
    pieces = _file_pieces(path)
    try:
        while piece := await asyncio.to_thread(next, pieces, b""):
            yield piece
        if await asyncio.to_thread(_stamp, path) != checked:
            raise changed
    except OSError as error:
        raise changed from error
