"""Image resizing with Pillow, in a thread. No other module uses an imaging library.

The bytes are untrusted. An image is decoded only if its header gives a bounded size, and one at a time. After any error
of the decoder the caller continues without the image.
"""

import asyncio
import io
import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from holdfast.core.text.media_type import GIF, HEAD_BYTES, JPEG, PNG, WEBP, pixels
from holdfast.core.view.offending_part import ImageFit
from holdfast.errors import BlobMissingError, StoreFullError, StoreIoError
from holdfast.ports import Blobs
from holdfast.types.messages import Media

if TYPE_CHECKING:
    from PIL import Image

log = logging.getLogger("holdfast")

_FORMATS = {PNG: "PNG", JPEG: "JPEG", WEBP: "WEBP", GIF: "GIF"}
# Phone cameras have 50 megapixels. Decoded, this many take at most 256 MiB.
_PIXELS_MAX = 64 * 2**20
# The encoded image is in memory while it is decoded. No camera writes larger files in these formats.
_ORIGINAL_BYTES_MAX = 128 * 2**20
# Keeps text on screenshots readable; below 80 it blurs.
_JPEG_QUALITY = 85
# Each attempt has three quarters of the previous width: after six, a thirtieth of the area.
_TRIES_MAX = 6


class _Picture(msgspec.Struct, frozen=True):
    body: bytes
    media_type: str
    width_pixels: int
    height_pixels: int


class PillowImages:
    """The `Images` port. Without Pillow (the extra `images`) it resizes no image."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs
        self._one_at_a_time = asyncio.Lock()

    async def shrink(self, image: Media, fit: ImageFit) -> Media | None:
        """Return the image resized to these bounds and stored as a blob of its own; None if that is not possible."""
        if image.media_type not in _FORMATS or image.blob.size_bytes > _ORIGINAL_BYTES_MAX:
            return None
        async with self._one_at_a_time:
            try:
                original = await self._blobs.get(image.blob)
                picture = await asyncio.to_thread(_shrunk, original, _FORMATS[image.media_type], fit)
                kept = None if picture is None else await self._blobs.put(picture.body)
            except (BlobMissingError, StoreFullError, StoreIoError) as error:
                # The next step replaces the image by a placeholder, which needs no blob.
                log.warning("image not resized", extra={"code": error.code, "blob": image.blob.sha256})
                return None
        if picture is None or kept is None:
            return None
        return Media(kept, picture.media_type, image.name, picture.width_pixels, picture.height_pixels)


def _shrunk(original: bytes, kind: str, fit: ImageFit) -> _Picture | None:
    try:
        from PIL import Image  # noqa: PLC0415 - an extra, and a tenth of a second to load
    except ImportError:
        return None
    width, height = pixels(original[:HEAD_BYTES])
    if not 0 < width * height <= _PIXELS_MAX:
        return None
    try:
        with Image.open(io.BytesIO(original), formats=(kind,)) as opened:
            # A file can have two headers with different sizes; this is the size that would be decoded.
            return _fitted(opened, fit) if opened.width * opened.height <= _PIXELS_MAX else None
    except Exception:  # noqa: BLE001 - a decoder of untrusted bytes raises a dozen types, all with this meaning
        return None


def _fitted(opened: "Image.Image", fit: ImageFit) -> _Picture | None:
    """Reduce an image until it fits, rotated by its EXIF orientation and without metadata."""
    from PIL import Image, ImageOps  # noqa: PLC0415 - see above

    if opened.mode in ("P", "PA"):
        # Palette images cannot be interpolated.
        opened = opened.convert("RGBA")
    side = min(fit.pixels_max, max(opened.size))
    opened.thumbnail((side, side), Image.Resampling.LANCZOS)
    upright = ImageOps.exif_transpose(opened)
    frame = upright.convert("RGBA" if upright.has_transparency_data else "RGB")
    for _ in range(_TRIES_MAX):
        frame.thumbnail((side, side), Image.Resampling.LANCZOS)
        for media_type, body in _encoded(frame):
            if len(body) <= fit.bytes_max:
                return _Picture(body, media_type, frame.width, frame.height)
        side = max(frame.size) * 3 // 4
        if side == 0:
            break
    return None


def _encoded(frame: "Image.Image") -> Iterator[tuple[str, bytes]]:
    """Yield encodings of an image, the best first: PNG if it has transparency, then JPEG on white."""
    from PIL import Image  # noqa: PLC0415 - see above

    if frame.mode == "RGBA":
        yield PNG, _saved(frame, "PNG")
        paper = Image.new("RGB", frame.size, "white")
        paper.paste(frame, mask=frame)
        frame = paper
    yield JPEG, _saved(frame, "JPEG")


def _saved(frame: "Image.Image", kind: str) -> bytes:
    body = io.BytesIO()
    # Drops metadata such as the location: `info` is not saved unless it is passed.
    settings = {"quality": _JPEG_QUALITY} if kind == "JPEG" else {}
    frame.save(body, kind, **settings)
    return body.getvalue()
