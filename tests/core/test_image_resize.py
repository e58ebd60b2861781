"""What an image must come to: within everything that is known, learned or said."""

import pytest

from holdfast.core.limits.bounds import Bounds
from holdfast.core.view.offending_part import Culprit, ImageFit, image_fit, is_to_blame, size_of, told_of_smaller
from holdfast.types.faults import Confidence, Fault, FaultKind, Unit
from holdfast.types.limits import Limits
from holdfast.types.messages import BlobRef, Media, Text

BOUNDS = Bounds()
MIB = 2**20
PHOTO = Media(BlobRef("ab" * 32, 9_000_000), "image/png", "photo.png", 4_000, 3_000)


def refused(kind: FaultKind, unit: Unit | None = None, limit: int | None = None) -> Fault:
    return Fault(kind, Confidence.CERTAIN, limit=limit, unit=unit)


@pytest.mark.parametrize(
    ("fault", "limits", "fit"),
    [
        # Nothing is known: what every large provider takes.
        (refused(FaultKind.MEDIA_OVERFLOW), Limits(), ImageFit(2_000, 5 * MIB * 3 // 4)),
        (refused(FaultKind.MEDIA_OVERFLOW, Unit.PIXELS, 1_000), Limits(), ImageFit(1_000, 5 * MIB * 3 // 4)),
        (refused(FaultKind.MEDIA_OVERFLOW, Unit.BYTES, 100_000), Limits(), ImageFit(2_000, 75_000)),
        (refused(FaultKind.MEDIA_OVERFLOW, Unit.BYTES), Limits(media_bytes_max=80_000), ImageFit(2_000, 60_000)),
        (
            refused(FaultKind.MEDIA_OVERFLOW, Unit.BYTES, 100_000),
            Limits(media_bytes_max=80_000, media_pixels_max=512),
            ImageFit(512, 60_000),
        ),
        # Limits above what helps do not make an image larger than it need be.
        (refused(FaultKind.MEDIA_OVERFLOW, Unit.PIXELS, 8_000), Limits(), ImageFit(2_000, 5 * MIB * 3 // 4)),
        # A limit of nothing cannot be met.
        (refused(FaultKind.MEDIA_OVERFLOW, Unit.PIXELS, 0), Limits(), ImageFit(2_000, 5 * MIB * 3 // 4)),
        # The bytes of a whole request leave room for the rest of it.
        (refused(FaultKind.WIRE_OVERFLOW, Unit.BYTES, 9), Limits(wire_bytes_max=MIB), ImageFit(2_000, MIB * 3 // 8)),
    ],
)  # fmt: skip
def test_an_image_has_to_fit_everything_that_is_known_or_said(fault: Fault, limits: Limits, fit: ImageFit) -> None:
    assert image_fit(fault, limits, BOUNDS) == fit


@pytest.mark.parametrize(
    "fault", [refused(FaultKind.MEDIA_OVERFLOW, Unit.COUNT, 20), refused(FaultKind.TOKEN_OVERFLOW, Unit.TOKENS, 9)]
)
def test_where_size_is_not_the_matter_no_image_is_made_smaller(fault: Fault) -> None:
    assert image_fit(fault, Limits(), BOUNDS) is None


def test_only_an_image_above_the_limit_in_question_is_to_blame() -> None:
    bytes_ = refused(FaultKind.MEDIA_OVERFLOW, Unit.BYTES, 9_000_000)
    pixels = refused(FaultKind.MEDIA_OVERFLOW, Unit.PIXELS, 3_999)

    assert is_to_blame(PHOTO, bytes_, Limits()) is False
    assert is_to_blame(PHOTO, bytes_, Limits(media_bytes_max=1_000)) is True
    assert is_to_blame(PHOTO, pixels, Limits()) is True
    assert is_to_blame(PHOTO, refused(FaultKind.MEDIA_OVERFLOW, Unit.BYTES), Limits()) is None
    assert is_to_blame(PHOTO, refused(FaultKind.MEDIA_OVERFLOW), Limits(media_bytes_max=1_000)) is None
    assert is_to_blame(PHOTO, refused(FaultKind.WIRE_OVERFLOW, Unit.BYTES, 9), Limits(media_bytes_max=9)) is None
    assert (size_of(PHOTO, bytes_), size_of(PHOTO, pixels)) == (9_000_000, 4_000)


def test_a_person_is_told_both_sizes_and_where_the_original_is() -> None:
    culprit = Culprit(4, 0, 9_000_000, "photo.png (image/png, 9,000,000 bytes, 4000x3000 pixels)", Text(""), PHOTO)
    smaller = Media(BlobRef("cd" * 32, 400_000), "image/jpeg", "photo.png", 2_000, 1_500)

    assert told_of_smaller([(culprit, smaller)]) == (
        "photo.png (image/png, 9,000,000 bytes, 4000x3000 pixels): too much for the model, which now sees it smaller: "
        "2000x1500 pixels, 400,000 bytes. The original is kept: record 4 has it."
    )
    assert "pixels) and 2 more: too much" in told_of_smaller([(culprit, smaller)] * 3)
