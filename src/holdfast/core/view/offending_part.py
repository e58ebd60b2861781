"""Which part of a conversation is to blame when a request is too large, and what is shown in its place."""

from collections.abc import Collection, Iterator, Sequence
from typing import assert_never

import msgspec
from msgspec.structs import replace

from holdfast.core.fold.session_state import Turn
from holdfast.core.limits.bounds import Bounds
from holdfast.core.text.truncation import excerpt
from holdfast.types.faults import Fault, FaultKind, Unit
from holdfast.types.limits import Limits
from holdfast.types.messages import ContentPart, LargeText, Media, Text
from holdfast.types.records import InputAdmitted, Logged, ReplyRecorded, ToolSettled, TurnStarted

# What is kept of a text: enough to see what it was. Anything shorter is not to blame.
_SHOWN_BYTES = 2_000
_TEXT_BYTES_MIN = 4_000


class Culprit(msgspec.Struct, frozen=True):
    """A part that is shown as something else from now on."""

    seq: int
    place: int
    size_bytes: int
    # For a person: what it was, such as "photo.png (image/png, 30,000,000 bytes)".
    what: str
    shown: Text
    # The image or document itself, as the model was sent it.
    media: Media | None = None


def find_culprit(
    tail: Sequence[Logged],
    turn: Turn,
    kind: FaultKind,
    *,
    unit: Unit | None = None,
    blamed: str = "",
    passed: Collection[tuple[int, int]] = (),
) -> Culprit | None:
    """Return the part to leave out next, or to make smaller; None where none is large enough to matter.

    The image that the refusal points at, by its SHA-256; of too many images the oldest. Else the largest, in the unit
    that was refused, that the model has not accepted yet, else the largest of all. What was passed over, by record and
    place, is not found again. `tail` reaches back to the boundary; before it may stand the pinned inputs from further
    back.
    """
    media_only = kind is FaultKind.MEDIA_OVERFLOW
    entered = {
        one: at for at, one in _candidates(tail, turn, media_only=media_only) if (one.seq, one.place) not in passed
    }
    for one in entered:
        if blamed and one.media is not None and one.media.blob.sha256 == blamed:
            return one
    if unit is Unit.COUNT:
        return min(entered, key=lambda one: (one.seq, one.place), default=None)
    last_success = max((logged.seq for logged in tail if isinstance(logged.record, ReplyRecorded)), default=0)
    fresh = [one for one, at in entered.items() if at > last_success]
    return max(fresh or entered, key=lambda one: (_measure(one, unit), one.seq), default=None)


def _measure(culprit: Culprit, unit: Unit | None) -> tuple[int, int]:
    media = culprit.media
    side = max(media.width_pixels, media.height_pixels) if media and unit is Unit.PIXELS else 0
    return side, culprit.size_bytes


def told_of(culprits: Sequence[Culprit]) -> str:
    """Return what a person is told about parts that the model does not see any more."""
    first = culprits[0]
    others = f" and {len(culprits) - 1} more" if len(culprits) > 1 else ""
    return (
        f"{first.what}{others}: too much for the model, which does not see it any more. "
        f"It is kept: record {first.seq} has it."
    )


def _candidates(tail: Sequence[Logged], turn: Turn, *, media_only: bool) -> Iterator[tuple[int, Culprit]]:
    """Yield what is in the view and large, with the record by which it came there.

    An input that waits is in nobody's way, and comes into the view only when its turn starts.
    """
    replaced = {(one.seq, one.place): one.shown for one in turn.replaced}
    inputs: dict[int, tuple[ContentPart, ...]] = {}
    shown_from = max(turn.first_step, turn.masked_before)
    for logged in tail:
        match logged.record:
            case InputAdmitted(parts=parts) if logged.seq < turn.boundary:
                seq, held = logged.seq, parts
            case InputAdmitted(parts=parts):
                inputs[logged.seq] = parts
                continue
            case TurnStarted(turn=number) if number >= turn.boundary:
                seq, held = number, inputs.get(number, ())
            case ToolSettled(turn=number) if number >= turn.boundary and logged.seq >= shown_from:
                seq, held = logged.seq, logged.record.result.parts
            case _:
                continue
        for place, part in enumerate(held):
            now = replaced.get((seq, place), part)
            if now is not part and isinstance(now, Text):
                continue
            if (isinstance(part, Media) or not media_only) and (one := _as_culprit(seq, place, part)):
                if isinstance(now, Media):
                    # An image that was made smaller is named as what it was, and weighed as what it is.
                    one = replace(one, size_bytes=now.blob.size_bytes, media=now)
                yield logged.seq, one


def _as_culprit(seq: int, place: int, part: ContentPart) -> Culprit | None:
    match part:
        case Media(blob=blob):
            pixels = f", {part.width_pixels}x{part.height_pixels} pixels" if part.width_pixels else ""
            what = f"{part.name or 'an attachment'} ({part.media_type}, {blob.size_bytes:,} bytes{pixels})"
            shown = f"[{what} was attached here and is not shown; record {seq} keeps it]"
            return Culprit(seq, place, blob.size_bytes, what, Text(shown))
        case LargeText(blob=blob):
            what = f"{part.name or 'a text'} of {blob.size_bytes:,} bytes"
            shown = f"{part.head}\n[{what} begins so; the rest is not shown; recall(seq={seq}) reads it]"
            return Culprit(seq, place, blob.size_bytes, what, Text(shown))
        case Text(text=text):
            size = len(text.encode())
            if size < _TEXT_BYTES_MIN:
                return None
            shown = excerpt(text, _SHOWN_BYTES, f"recall(seq={seq}) reads all of it")
            return Culprit(seq, place, size, f"a text of {size:,} bytes", Text(shown))
        case _:
            assert_never(part)


# --- Within which bounds an image must come to be taken, and what a person is told about one that was made smaller.


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
