"""Within which bounds an image must come to be taken, and what a person is told about one that was made smaller."""

from collections.abc import Sequence

import msgspec

from holdfast.core.culprits import Culprit
from holdfast.core.faults import Fault, FaultKind, Unit
from holdfast.core.limits import Bounds, Limits
from holdfast.core.messages import Media

# Providers scale images down to 1,568 or 2,048 pixels before a model sees them, and Anthropic takes no more than this
# where a request has many: beyond it nothing is gained.
_SIDE_PIXELS_USUAL = 2_000
# The smallest limit that a large provider has, where none is known.
_IMAGE_BYTES_USUAL = 5 * 2**20
# Some count an image by its base64, which has four bytes for three.
_BASE64_SHARE = 3 / 4
# Of a whole request, one image takes at most this much, so that there is room for the rest of it.
_WIRE_SHARE = 0.5


class ImageFit(msgspec.Struct, frozen=True):
    """What an image must come to: its longest side, and its bytes."""

    pixels_max: int
    bytes_max: int


def image_fit(fault: Fault, limits: Limits, bounds: Bounds) -> ImageFit | None:
    """Return what would be taken after a refusal, by all that is known and said; None where size is not the matter."""
    if fault.kind not in {FaultKind.MEDIA_OVERFLOW, FaultKind.WIRE_OVERFLOW} or fault.unit is Unit.COUNT:
        return None
    wire = limits.wire_bytes_max or bounds.wire_bytes_max
    sides = (_SIDE_PIXELS_USUAL, limits.media_pixels_max, _stated(fault, Unit.PIXELS))
    sizes = (_IMAGE_BYTES_USUAL, limits.media_bytes_max, _stated(fault, Unit.BYTES), int(wire * _WIRE_SHARE))
    return ImageFit(
        pixels_max=min(side for side in sides if side is not None),
        bytes_max=int(min(size for size in sizes if size is not None) * _BASE64_SHARE),
    )


def is_to_blame(image: Media, fault: Fault, limits: Limits) -> bool | None:
    """Return whether an image by itself is what was refused; None where nobody can say."""
    known = {Unit.PIXELS: limits.media_pixels_max, Unit.BYTES: limits.media_bytes_max}
    if fault.kind is not FaultKind.MEDIA_OVERFLOW or fault.unit not in known:
        return None
    stated = [limit for limit in (known[fault.unit], fault.limit) if limit is not None]
    return size_of(image, fault) > min(stated) if stated else None


def size_of(image: Media, fault: Fault) -> int:
    """Return how large an image is in what was refused: the longest side in pixels, else bytes."""
    return max(image.width_pixels, image.height_pixels) if fault.unit is Unit.PIXELS else image.blob.size_bytes


def told_of_smaller(shrunk: Sequence[tuple[Culprit, Media]]) -> str:
    """Return what a person is told about images that the model sees smaller from now on."""
    culprit, smaller = shrunk[0]
    others = f" and {len(shrunk) - 1} more" if len(shrunk) > 1 else ""
    return (
        f"{culprit.what}{others}: too much for the model, which now sees it smaller: {smaller.width_pixels}x"
        f"{smaller.height_pixels} pixels, {smaller.blob.size_bytes:,} bytes. The original is kept: record "
        f"{culprit.seq} has it."
    )


def _stated(fault: Fault, unit: Unit) -> int | None:
    is_about_images = fault.kind is FaultKind.MEDIA_OVERFLOW and fault.unit is unit
    return fault.limit if is_about_images and fault.limit is not None and fault.limit > 0 else None
