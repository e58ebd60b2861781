"""What a tool gave becomes the parts of its result: bounded, well-formed, never empty, with the originals in blobs.

The bound holds for all text of one result together. The blobs are named in the text that is shown and by
`ToolResult.originals`; they are never sent to a model by themselves.
"""

import asyncio
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from holdfast.core.excerpt import excerpt, fair_shares, well_formed, without_base64
from holdfast.core.limits import Bounds
from holdfast.core.media import HEAD_BYTES, PDF, TEXT, pixels, safe_name, sniff, spoken
from holdfast.core.messages import BlobRef, Media, Text
from holdfast.errors import HoldfastError
from holdfast.ports import Attachment, Blobs

_NO_OUTPUT = "(no output)"
# Enough of a blob's name to be told from all others: 2^48 values.
_BLOB_NAME_CHARS = 12
# Searching more than this for base64 takes long enough (some 20 ms) that other sessions would feel it.
_CHARS_ON_LOOP_MAX = 2**20


class BoundedOutput(msgspec.Struct, frozen=True):
    """The parts to show, and the blobs with the whole of what they shorten or leave out."""

    parts: tuple[Text | Media, ...]
    originals: tuple[BlobRef, ...]


async def bound_output(output: Sequence[str | Attachment], *, blobs: Blobs, bounds: Bounds) -> BoundedOutput:
    """Keep what must be kept and return what is shown. Raises nothing where a blob cannot be put: the text says so."""
    shelf = _Shelf(blobs)
    listed = [output] if isinstance(output, str) else output
    attached = 0
    pieces: list[str | Media] = []
    for given in listed:
        if isinstance(given, str):
            pieces.append(given)
            continue
        attached += 1
        if attached <= bounds.attachments_max:
            pieces.append(await _shown_attachment(given, shelf, bounds))
    if attached > bounds.attachments_max:
        pieces.append(f"[{attached - bounds.attachments_max:,} more attachments are left out; ask for fewer at once]")
    pieces = list(_joined(pieces))
    texts = iter(await _shown_texts([piece for piece in pieces if isinstance(piece, str)], shelf, bounds))
    parts = tuple(Text(next(texts)) if isinstance(piece, str) else piece for piece in pieces)
    return BoundedOutput(parts or (Text(_NO_OUTPUT),), tuple(shelf.originals))


class _Shelf:
    """Where originals are put, and the words for where they are."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs
        self.originals: list[BlobRef] = []

    async def put(self, content: bytes) -> BlobRef | str:
        """Return the blob, or why there is none. The tool has had its effect: its result must not be lost for this."""
        try:
            return await self._blobs.put(content)
        except (HoldfastError, OSError) as error:
            return f"it could not be kept ({type(error).__name__})"

    async def keep(self, content: bytes, *, is_text: bool) -> str:
        """Put an original that is not shown as it is, and return where it is and how to read it, in words."""
        kept = await self.put(content)
        if isinstance(kept, str):
            return kept
        self.originals.append(kept)
        name = kept.sha256[:_BLOB_NAME_CHARS]
        return f"kept whole: recall(blob={name!r}) reads it" if is_text else f"kept whole as blob {name}"


def _joined(pieces: Iterable[str | Media]) -> Iterator[str | Media]:
    """Make one text of texts that follow each other, and drop those with nothing to read: providers refuse them."""
    waiting: list[str] = []
    for piece in pieces:
        if isinstance(piece, str):
            waiting.append(well_formed(piece))
            continue
        yield from _one_text(waiting)
        waiting.clear()
        yield piece
    yield from _one_text(waiting)


def _one_text(texts: list[str]) -> Iterator[str]:
    text = "\n".join(texts)
    if text.strip():
        yield text


async def _shown_texts(texts: list[str], shelf: _Shelf, bounds: Bounds) -> list[str]:
    bytes_max = bounds.tool_output_bytes_max
    is_short = sum(map(len, texts)) <= _CHARS_ON_LOOP_MAX
    shaped = _shape(texts, bytes_max) if is_short else await asyncio.to_thread(_shape, texts, bytes_max)
    if shaped == texts:
        return texts
    where = await shelf.keep("\n".join(texts).encode(), is_text=True)
    return _shape(texts, bytes_max, where) if is_short else await asyncio.to_thread(_shape, texts, bytes_max, where)


def _shape(texts: list[str], bytes_max: int, where: str = "") -> list[str]:
    """Return the texts without base64 and within the bound together; those that are neither come back as they are."""
    stripped = [without_base64(text, where).text for text in texts]
    shares = fair_shares([len(text.encode()) for text in stripped], bytes_max)
    advice = f"{where}; or ask the tool for a part (a range, a filter, fewer lines), not for all of it again"
    return [excerpt(text, share, advice) for text, share in zip(stripped, shares, strict=True)]


async def _shown_attachment(attachment: Attachment, shelf: _Shelf, bounds: Bounds) -> Media | str:
    content, name = attachment.data, safe_name(attachment.name)
    what = f"{name or 'output'}: {len(content):,} bytes"
    if not content:
        return f"[{what}]"
    if len(content) > bounds.attachment_bytes_max:
        return f"[{what} are more than the {bounds.attachment_bytes_max:,} that are taken; it is not kept]"
    head = content[:HEAD_BYTES]
    media_type = sniff(head)
    if media_type == TEXT:
        return content.decode(errors="replace")
    width, height = pixels(head)
    is_readable = media_type == PDF or (media_type != "" and 0 not in (width, height))
    if not is_readable and not (media_type and len(content) > HEAD_BYTES):
        # A model would refuse it, and the request that carries it, in every later turn.
        where = await shelf.keep(content, is_text=False)
        return f"[{what}, {spoken(media_type)}{' that is damaged' if media_type else ''}, {where}]"
    kept = await shelf.put(content)
    if isinstance(kept, str):
        return f"[{what}, {spoken(media_type)}; {kept}]"
    return Media(blob=kept, media_type=media_type, name=name, width_pixels=width, height_pixels=height)
