"""The native API, attachments: the original bytes that a record names, given so that no browser runs any of them.

What people and tools attach is not to be trusted, and it comes from the same origin as the page. The bytes decide what
it is, whatever was claimed: an image of a kind that every browser only draws is called by its type, and everything else
is a file to be saved. A sandbox without any right is what is left where a browser opens it all the same.
"""

import hashlib
from collections.abc import AsyncGenerator, Mapping
from types import MappingProxyType

from holdfast.core.text.media_type import GIF, JPEG, PNG, WEBP, sniff
from holdfast.errors import BlobMissingError
from holdfast.gateway.api.request_context import RequestContext
from holdfast.gateway.api.sessions import show_record
from holdfast.gateway.http.problems import NotFoundError
from holdfast.ports import Blobs
from holdfast.types.messages import BlobRef
from holdfast.types.records import refs_of

# Drawn by browsers without running anything. SVG is not among them: it has scripts and loads what it names.
_DRAWN: Mapping[str, str] = MappingProxyType({PNG: ".png", JPEG: ".jpg", GIF: ".gif", WEBP: ".webp"})
_SAVED = "application/octet-stream"
FILE_TYPES = (*_DRAWN, _SAVED)
# Read and sent at once; memory does not grow with what is attached.
_PIECE_BYTES = 256 * 2**10
# Of a name in the log, enough to tell files apart.
_NAME_CHARS = 12
_HEADERS = (
    (b"content-security-policy", b"default-src 'none'; sandbox"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
)


async def show_attachment(context: RequestContext) -> None:
    """Answer with the bytes of a blob, if the record that the path names is one that names it."""
    logged = await show_record(context)
    wanted = context.names["sha256"]
    ref = next((ref for ref in refs_of(logged.record) if ref.sha256 == wanted), None)
    if ref is None:
        raise NotFoundError("this record names no such attachment; its parts have the SHA-256 of what they name")
    blobs = context.state.client.engine.blobs
    head = await blobs.read(ref, start=0, length=_PIECE_BYTES)
    found = sniff(head)
    kind = found if found in _DRAWN else _SAVED
    disposition = "inline" if kind in _DRAWN else "attachment"
    # No name that somebody chose gets into a header or onto a disk.
    name = wanted[:_NAME_CHARS] + _DRAWN.get(kind, ".bin")
    headers = (*_HEADERS, (b"content-disposition", f'{disposition}; filename="{name}"'.encode("ascii")))
    await context.file(_checked(blobs, ref, head), kind=kind, headers=headers)


async def _checked(blobs: Blobs, ref: BlobRef, head: bytes) -> AsyncGenerator[bytes, None]:
    """Yield the bytes in pieces. Raises before the end where they are not those that the name stands for."""
    digest = hashlib.sha256(head)
    piece, start = head, len(head)
    while start < ref.size_bytes and piece:
        yield piece
        piece = await blobs.read(ref, start=start, length=_PIECE_BYTES)
        digest.update(piece)
        start += len(piece)
    if digest.hexdigest() != ref.sha256:
        raise BlobMissingError(ref.sha256, "was altered: its bytes do not match its name")
    # Held back until then: whoever has the whole of it has what was attached.
    yield piece
