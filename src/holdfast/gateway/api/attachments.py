"""Handler for attachments: the original bytes of a blob, served so that no browser executes them.

Attachments are untrusted and share the page's origin. The content type is sniffed from the bytes, not taken from the
client: safe image types keep theirs, everything else is a download. A CSP sandbox covers browsers that open it anyway.
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

# Image types without active content. SVG is not among them: it can contain scripts and load resources.
_IMAGES: Mapping[str, str] = MappingProxyType({PNG: ".png", JPEG: ".jpg", GIF: ".gif", WEBP: ".webp"})
_DOWNLOAD = "application/octet-stream"
FILE_TYPES = (*_IMAGES, _DOWNLOAD)
# Bytes per read and write, so that memory use is constant.
_CHUNK_BYTES = 256 * 2**10
# Characters of the SHA-256 in the file name, enough to distinguish files.
_NAME_CHARS = 12
_HEADERS = (
    (b"content-security-policy", b"default-src 'none'; sandbox"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
)


async def show_attachment(context: RequestContext) -> None:
    """Send the bytes of a blob, if the record in the path refers to it."""
    logged = await show_record(context)
    sha256 = context.names["sha256"]
    ref = next((ref for ref in refs_of(logged.record) if ref.sha256 == sha256), None)
    if ref is None:
        raise NotFoundError("this record has no such attachment; its parts list the SHA-256 of each")
    blobs = context.state.client.engine.blobs
    head = await blobs.read(ref, start=0, length=_CHUNK_BYTES)
    sniffed = sniff(head)
    kind = sniffed if sniffed in _IMAGES else _DOWNLOAD
    disposition = "inline" if kind in _IMAGES else "attachment"
    # Untrusted names must not reach headers or file systems.
    name = sha256[:_NAME_CHARS] + _IMAGES.get(kind, ".bin")
    headers = (*_HEADERS, (b"content-disposition", f'{disposition}; filename="{name}"'.encode("ascii")))
    await context.file(_checked(blobs, ref, head), kind=kind, headers=headers)


async def _checked(blobs: Blobs, ref: BlobRef, head: bytes) -> AsyncGenerator[bytes, None]:
    """Yield the bytes in chunks. Raises before the last chunk if the digest does not match."""
    digest = hashlib.sha256(head)
    chunk, start = head, len(head)
    while start < ref.size_bytes and chunk:
        yield chunk
        chunk = await blobs.read(ref, start=start, length=_CHUNK_BYTES)
        digest.update(chunk)
        start += len(chunk)
    if digest.hexdigest() != ref.sha256:
        raise BlobMissingError(ref.sha256, "was altered: its bytes do not match its SHA-256")
    # Held back until here: a complete download is a verified one.
    yield chunk
