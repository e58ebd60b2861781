"""Find the part that makes a request too large, and build its replacement."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import assert_never

import msgspec
from msgspec.structs import replace

from holdfast.core.fold.session_state import Turn
from holdfast.core.limits.bounds import Bounds
from holdfast.core.text.truncation import excerpt
from holdfast.core.view.appended import as_turns
from holdfast.core.view.exclusion import excluded_places
from holdfast.types.faults import Fault, FaultKind, Unit
from holdfast.types.limits import Limits
from holdfast.types.messages import ContentPart, LargeText, Media, Text
from holdfast.types.records import InputAdmitted, Logged, ReplyRecorded, ToolSettled, TurnStarted

# Length of the excerpt that replaces a text; shorter texts than the minimum are never replaced.
_SHOWN_BYTES = 2_000
_TEXT_BYTES_MIN = 4_000


class Culprit(msgspec.Struct, frozen=True):
    """A part to be replaced in the view."""

    seq: int
    place: int
    size_bytes: int
    # Description for the person, such as "photo.png (image/png, 30,000,000 bytes)".
    what: str
    shown: Text
    # The image or document, as it was sent to the model.
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
    """Return the next part to replace or resize; None if no part is large enough.

    Prefer the image named by the refusal (`blamed`, its SHA-256); of too many images, the oldest. Else return the
    largest part, in the refused unit, that the model has not accepted yet, else the largest of all. Parts in `passed`,
    by record and place, are skipped. `tail` reaches back to the boundary, and may begin with older pinned inputs.
    """
    media_only = kind is FaultKind.MEDIA_OVERFLOW
    entered = {
        one: at for at, one in _candidates(tail, turn, media_only=media_only) if (one.seq, one.place) not in passed
    }
    if (named := _with_sha256(entered, blamed)) is not None:
        return named
    if unit is Unit.COUNT:
        return min(entered, key=lambda one: (one.seq, one.place), default=None)
    last_success = max((logged.seq for logged in tail if isinstance(logged.record, ReplyRecorded)), default=0)
    fresh = [one for one, at in entered.items() if at > last_success]
    return max(fresh or entered, key=lambda one: (_measure(one, unit), one.seq), default=None)


def _with_sha256(culprits: Iterable[Culprit], sha256: str) -> Culprit | None:
    if not sha256:
        return None
    return next((one for one in culprits if one.media is not None and one.media.blob.sha256 == sha256), None)


def _measure(culprit: Culprit, unit: Unit | None) -> tuple[int, int]:
    media = culprit.media
    side = max(media.width_pixels, media.height_pixels) if media and unit is Unit.PIXELS else 0
    return side, culprit.size_bytes


class LargePart(msgspec.Struct, frozen=True):
    """A text in the view that can be shortened: its record and index, and the byte of the record at which it begins."""

    seq: int
    place: int
    part: Text | LargeText
    start_bytes: int
    # The part as it is shown now, if it was shortened before.
    shown: Text | LargeText
    # The model has not accepted it yet.
    is_fresh: bool


def large_parts(tail: Sequence[Logged], turn: Turn) -> list[LargePart]:
    """Return the texts in the view that are long enough to be shortened, also those that were shortened before."""
    replaced = {(one.seq, one.place): one.shown for one in turn.replaced}
    last_success = max((logged.seq for logged in tail if isinstance(logged.record, ReplyRecorded)), default=0)
    found: list[LargePart] = []
    excluded = excluded_places(turn)
    for entered, seq, parts in _parts_in_view(tail, turn):
        start_bytes = 0
        for place, part in enumerate(parts):
            shown = replaced.get((seq, place), part)
            is_long = (seq, place) not in excluded and _size_of(shown) >= _TEXT_BYTES_MIN
            if is_long and not isinstance(part, Media) and not isinstance(shown, Media):
                found.append(LargePart(seq, place, part, start_bytes, shown, entered > last_success))
            # A line break separates the parts of a record.
            start_bytes += _size_of(part) + 1
    return found


def _size_of(part: ContentPart) -> int:
    return len(part.text.encode()) if isinstance(part, Text) else part.blob.size_bytes


def told_of_shorter(shown: Sequence[tuple[LargePart, int]]) -> str:
    """Return the notice about texts that are shown in part, each with the number of tokens shown."""
    part, tokens = shown[0]
    name = part.part.name if isinstance(part.part, LargeText) else ""
    others = f" and {len(shown) - 1} more" if len(shown) > 1 else ""
    return (
        f"{name or 'A text'} of {_size_of(part.part):,} bytes{others}: too much for the model, which sees its "
        f"beginning, its end and an outline of the rest, about {tokens:,} tokens. It is kept whole: record {part.seq} "
        "has it, and the model can read on with recall."
    )


def told_of(culprits: Sequence[Culprit]) -> str:
    """Return the notice about parts that were removed from the view."""
    first = culprits[0]
    others = f" and {len(culprits) - 1} more" if len(culprits) > 1 else ""
    return (
        f"{first.what}{others}: too much for the model, which does not see it any more. "
        f"It is kept: record {first.seq} has it."
    )


def _candidates(tail: Sequence[Logged], turn: Turn, *, media_only: bool) -> Iterator[tuple[int, Culprit]]:
    """Yield the large parts in the view, each with the record by which it entered."""
    replaced = {(one.seq, one.place): one.shown for one in turn.replaced}
    excluded = excluded_places(turn)
    for entered, seq, parts in _parts_in_view(tail, turn):
        for place, part in enumerate(parts):
            shown = replaced.get((seq, place), part)
            if (seq, place) in excluded or (shown is not part and isinstance(shown, Text)):
                continue
            if (isinstance(part, Media) or not media_only) and (one := _as_culprit(seq, place, part)):
                if isinstance(shown, Media):
                    # A resized image keeps its original description, and counts with its current size.
                    one = replace(one, size_bytes=shown.blob.size_bytes, media=shown)
                yield entered, one


def _parts_in_view(tail: Sequence[Logged], turn: Turn) -> Iterator[tuple[int, int, tuple[ContentPart, ...]]]:
    """Yield the parts of inputs and tool results in the view: the record by which they entered, their own, the parts.

    A waiting input enters the view only when its turn starts. Messages that are left out are not in it.
    """
    excluded = excluded_places(turn)
    yield from (found for found in _parts_entered(tail, turn) if (found[1], None) not in excluded)


def _parts_entered(tail: Sequence[Logged], turn: Turn) -> Iterator[tuple[int, int, tuple[ContentPart, ...]]]:
    inputs: dict[int, tuple[ContentPart, ...]] = {}
    shown_from = max(turn.first_step, turn.masked_before)
    for logged in as_turns(tail, turn.retracted):
        match logged.record:
            case InputAdmitted(parts=parts) if logged.seq < turn.boundary:
                yield logged.seq, logged.seq, parts
            case InputAdmitted(parts=parts):
                inputs[logged.seq] = parts
            case TurnStarted(turn=number) if number >= turn.boundary:
                yield logged.seq, number, inputs.get(number, ())
            case ToolSettled(turn=number) if number >= turn.boundary and logged.seq >= shown_from:
                yield logged.seq, logged.seq, logged.record.result.parts
            case _:
                pass


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


# --- Image limits ---


# Providers scale images down to 1,568 or 2,048 pixels, and Anthropic accepts no more than this in a request with many
# images, so larger ones gain nothing.
_SIDE_PIXELS_USUAL = 2_000
# The smallest limit of a large provider, used if no limit is known.
_IMAGE_BYTES_USUAL = 5 * 2**20
# Some providers count the base64 form, which has four bytes for three.
_BASE64_SHARE = 3 / 4
# Largest share of the request size for one image, so that the rest fits.
_WIRE_SHARE = 0.5


class ImageFit(msgspec.Struct, frozen=True):
    """Limits for an image: its longest side, and its bytes."""

    pixels_max: int
    bytes_max: int


def image_fit(fault: Fault, limits: Limits, bounds: Bounds) -> ImageFit | None:
    """Return image limits from the refusal, the model's limits and usual values; None if size was not the cause."""
    if fault.kind not in {FaultKind.MEDIA_OVERFLOW, FaultKind.WIRE_OVERFLOW} or fault.unit is Unit.COUNT:
        return None
    wire = limits.wire_bytes_max or bounds.wire_bytes_max
    sides = (_SIDE_PIXELS_USUAL, limits.media_pixels_max, _stated_limit(fault, Unit.PIXELS))
    sizes = (_IMAGE_BYTES_USUAL, limits.media_bytes_max, _stated_limit(fault, Unit.BYTES), int(wire * _WIRE_SHARE))
    return ImageFit(
        pixels_max=min(side for side in sides if side is not None),
        bytes_max=int(min(size for size in sizes if size is not None) * _BASE64_SHARE),
    )


def is_to_blame(image: Media, fault: Fault, limits: Limits) -> bool | None:
    """Return whether this image alone exceeds the refused limit; None if unknown."""
    known = {Unit.PIXELS: limits.media_pixels_max, Unit.BYTES: limits.media_bytes_max}
    if fault.kind is not FaultKind.MEDIA_OVERFLOW or fault.unit not in known:
        return None
    stated = [limit for limit in (known[fault.unit], fault.limit) if limit is not None]
    return size_of(image, fault) > min(stated) if stated else None


def size_of(image: Media, fault: Fault) -> int:
    """Return the size of an image in the refused unit: the longest side in pixels, else bytes."""
    return max(image.width_pixels, image.height_pixels) if fault.unit is Unit.PIXELS else image.blob.size_bytes


def told_of_smaller(shrunk: Sequence[tuple[Culprit, Media]]) -> str:
    """Return the notice about images that were resized for the model."""
    culprit, smaller = shrunk[0]
    others = f" and {len(shrunk) - 1} more" if len(shrunk) > 1 else ""
    return (
        f"{culprit.what}{others}: too much for the model, which now sees it smaller: {smaller.width_pixels}x"
        f"{smaller.height_pixels} pixels, {smaller.blob.size_bytes:,} bytes. The original is kept: record "
        f"{culprit.seq} has it."
    )


def _stated_limit(fault: Fault, unit: Unit) -> int | None:
    is_about_images = fault.kind is FaultKind.MEDIA_OVERFLOW and fault.unit is unit
    return fault.limit if is_about_images and fault.limit is not None and fault.limit > 0 else None
