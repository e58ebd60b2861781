"""Images made smaller with Pillow: the only module that touches an imaging library, and does so in a thread.

The bytes are foreign. Nothing is decoded before the header has told a bounded size, one image is in hand at a time, and
whatever the decoder raises means that this image cannot be made smaller: the caller then goes on without it.
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
# Phones make 50 megapixels. Decoded, so many are 256 MiB at the most: what is held of one image.
_PIXELS_MAX = 64 * 2**20
# Held whole while it is decoded. No camera's picture in these formats is larger.
_ORIGINAL_BYTES_MAX = 128 * 2**20
# Text on a screenshot stays readable; below 80 it frays.
_JPEG_QUALITY = 85
# Each try is three quarters as wide as the one before: six of them are a thirtieth of the area.
_TRIES_MAX = 6


class _Picture(msgspec.Struct, frozen=True):
    body: bytes
    media_type: str
    width_pixels: int
    height_pixels: int


class PillowImages:
    """See `Images`. Without Pillow (the extra `images`) no image can be made smaller."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs
        self._in_hand = asyncio.Lock()

    async def shrink(self, image: Media, fit: ImageFit) -> Media | None:
        """Return the same image within these bounds, kept as a blob of its own; None where that cannot be done."""
        if image.media_type not in _FORMATS or image.blob.size_bytes > _ORIGINAL_BYTES_MAX:
            return None
        async with self._in_hand:
            try:
                original = await self._blobs.get(image.blob)
                picture = await asyncio.to_thread(_shrunk, original, _FORMATS[image.media_type], fit)
                kept = None if picture is None else await self._blobs.put(picture.body)
            except (BlobMissingError, StoreFullError, StoreIoError) as error:
                # Showing it by a line needs no blob, and comes next.
                log.warning("image not made smaller", extra={"code": error.code, "blob": image.blob.sha256})
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
            # A header may be written twice, with two sizes; this is the one that would be decoded.
            return _fitted(opened, fit) if opened.width * opened.height <= _PIXELS_MAX else None
    except Exception:  # noqa: BLE001 - a decoder of foreign bytes raises a dozen kinds, and all mean the same
        return None


def _fitted(opened: "Image.Image", fit: ImageFit) -> _Picture | None:
    """Reduce an image until it fits. Turned as its camera meant it, and without what the camera wrote beside it."""
    from PIL import Image, ImageOps  # noqa: PLC0415 - see above

    if opened.mode in ("P", "PA"):
        # Colours of a palette cannot be mixed.
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
    """Yield an image as bytes, the better likeness first: what is transparent as PNG, anything as JPEG on white."""
    from PIL import Image  # noqa: PLC0415 - see above

    if frame.mode == "RGBA":
        yield PNG, _saved(frame, "PNG")
        paper = Image.new("RGB", frame.size, "white")
        paper.paste(frame, mask=frame)
        frame = paper
    yield JPEG, _saved(frame, "JPEG")


def _saved(frame: "Image.Image", kind: str) -> bytes:
    body = io.BytesIO()
    # Nothing the camera wrote, such as a place, goes along: `info` is not saved unless it is passed.
    settings = {"quality": _JPEG_QUALITY} if kind == "JPEG" else {}
    frame.save(body, kind, **settings)
    return body.getvalue()
