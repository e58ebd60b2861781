"""Images made smaller: within their bounds, upright, and never at the price of a crash."""

import asyncio
import builtins
import io
import random
import struct
import sys
import zlib
from collections.abc import Mapping

import pytest
from PIL import Image

from holdfast.core.text.media_type import GIF, JPEG, PDF, PNG, WEBP, pixels, sniff
from holdfast.core.view.offending_part import ImageFit
from holdfast.errors import StoreFullError
from holdfast.runtime.images import PillowImages
from holdfast.stores.memory import MemoryBlobs
from holdfast.types.messages import BlobRef, Media

FIT = ImageFit(pixels_max=100, bytes_max=20_000)


def a_picture(kind: str, *, size: tuple[int, int] = (400, 200), mode: str = "RGB", **settings: object) -> bytes:
    """Return noise, which no format makes small by itself."""
    picture = Image.frombytes("RGB", size, random.Random(1).randbytes(3 * size[0] * size[1])).convert(mode)
    body = io.BytesIO()
    picture.save(body, kind, **settings)
    return body.getvalue()


async def shrunk(original: bytes, fit: ImageFit = FIT, media_type: str = "") -> tuple[Media | None, MemoryBlobs]:
    blobs = MemoryBlobs()
    width, height = pixels(original)
    media = Media(await blobs.put(original), media_type or sniff(original), "photo", width, height)
    return await PillowImages(blobs).shrink(media, fit), blobs


@pytest.mark.parametrize(
    ("original", "media_type"),
    [
        (a_picture("PNG"), PNG),
        (a_picture("JPEG", quality=95), JPEG),
        (a_picture("WEBP", lossless=True), WEBP),
        (a_picture("GIF"), GIF),
        (a_picture("PNG", mode="L"), PNG),
        (a_picture("PNG", mode="P"), PNG),
        (a_picture("JPEG", mode="CMYK"), JPEG),
    ],
    ids=["png", "jpeg", "webp", "gif", "grey", "palette", "print"],
)
async def test_every_format_that_models_take_is_made_to_fit(original: bytes, media_type: str) -> None:
    assert sniff(original) == media_type

    smaller, blobs = await shrunk(original)

    assert smaller is not None
    body = await blobs.get(smaller.blob)
    assert (sniff(body), pixels(body)) == (smaller.media_type, (smaller.width_pixels, smaller.height_pixels))
    assert (smaller.name, smaller.width_pixels, smaller.height_pixels) == ("photo", 100, 50)
    assert smaller.blob.size_bytes == len(body) <= FIT.bytes_max


async def test_an_image_with_few_pixels_and_many_bytes_is_reduced_until_it_fits() -> None:
    smaller, _ = await shrunk(a_picture("PNG", size=(90, 90)), ImageFit(pixels_max=100, bytes_max=2_000))

    assert smaller is not None
    assert smaller.blob.size_bytes <= 2_000
    assert 0 < smaller.width_pixels < 90


async def test_what_cannot_be_made_small_enough_stays_as_it_is() -> None:
    smaller, _ = await shrunk(a_picture("PNG"), ImageFit(pixels_max=100, bytes_max=10))

    assert smaller is None


@pytest.mark.parametrize(("width", "height"), [(1, 400), (400, 1)])
async def test_a_line_of_pixels_stays_a_line(width: int, height: int) -> None:
    smaller, _ = await shrunk(a_picture("PNG", size=(width, height)))

    assert smaller is not None
    assert sorted((smaller.width_pixels, smaller.height_pixels)) == [1, 100]


async def test_a_photo_is_turned_as_its_camera_meant_it_and_tells_no_place() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # the orientation: turn by a quarter
    exif[0x010E] = "at home"
    smaller, blobs = await shrunk(a_picture("JPEG", exif=exif))

    assert smaller is not None
    assert (smaller.width_pixels, smaller.height_pixels) == (50, 100)
    assert b"at home" not in await blobs.get(smaller.blob)


async def test_what_is_transparent_stays_so_where_there_is_room_and_else_stands_on_white() -> None:
    clear = io.BytesIO()
    Image.new("RGBA", (400, 200), (255, 0, 0, 0)).save(clear, "PNG")
    noise = Image.frombytes("RGBA", (100, 100), random.Random(1).randbytes(40_000))
    noisy = io.BytesIO()
    noise.save(noisy, "PNG")

    roomy, _ = await shrunk(clear.getvalue())
    tight, _ = await shrunk(noisy.getvalue(), ImageFit(pixels_max=100, bytes_max=12_000))

    assert roomy is not None
    assert tight is not None
    assert (roomy.media_type, tight.media_type) == (PNG, JPEG)


def a_bomb(width: int, height: int) -> bytes:
    """Return a PNG that is small and would fill memory."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(bytes(1_000))) + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("original", "media_type"),
    [
        (a_bomb(60_000, 60_000), PNG),
        (a_bomb(8_193, 8_192), PNG),
        (a_bomb(400, 200), PNG),
        (a_picture("JPEG")[:2_000], JPEG),
        (a_picture("PNG")[:20], PNG),
        (b"%PDF-1.7 whatever", PDF),
        (a_picture("PNG"), JPEG),
        (b"not an image", PNG),
    ],
    ids=["bomb", "just-too-large", "truncated", "cut-off", "head-alone", "pdf", "mislabelled", "text"],
)
async def test_what_cannot_or_must_not_be_decoded_is_left_alone(original: bytes, media_type: str) -> None:
    smaller, _ = await shrunk(original, media_type=media_type)

    assert smaller is None


@pytest.mark.parametrize("seed", range(30))
async def test_whatever_the_bytes_are_nothing_is_raised(seed: int) -> None:
    chance = random.Random(seed)
    kind = chance.choice(["PNG", "JPEG", "WEBP", "GIF"])
    broken = bytearray(a_picture(kind, size=(60, 40)))
    for _ in range(chance.randint(1, 40)):
        broken[chance.randrange(len(broken))] = chance.randrange(256)
    types: Mapping[str, str] = {"PNG": PNG, "JPEG": JPEG, "WEBP": WEBP, "GIF": GIF}

    smaller, _ = await shrunk(bytes(broken), media_type=types[kind])

    assert smaller is None or smaller.blob.size_bytes <= FIT.bytes_max


async def test_a_header_that_says_two_sizes_is_judged_by_the_one_that_would_be_decoded() -> None:
    small, large = a_picture("JPEG"), a_picture("JPEG", size=(800, 600))
    start = small.index(b"\xff\xc0")
    frame = bytearray(small[start : start + 19])
    frame[5:9] = struct.pack(">HH", 60_000, 60_000)
    at = large.index(b"\xff\xc0")

    smaller, _ = await shrunk(large[:at] + small[start : start + 19] + bytes(frame) + large[at + 19 :])

    assert smaller is None


async def test_without_the_library_no_image_is_made_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    imported = builtins.__import__

    def without_pillow(name: str, *rest: object) -> object:
        if name.partition(".")[0] == "PIL":
            raise ImportError(name)
        return imported(name, *rest)  # type: ignore[arg-type] # passed on as it came

    monkeypatch.delitem(sys.modules, "PIL")
    monkeypatch.setattr(builtins, "__import__", without_pillow)
    smaller, _ = await shrunk(a_picture("PNG"))

    assert smaller is None


async def test_a_blob_that_is_gone_or_cannot_be_written_leaves_the_image_as_it_is() -> None:
    class FullBlobs(MemoryBlobs):
        is_full = False

        async def put(self, chunks: object) -> BlobRef:
            if self.is_full:
                raise StoreFullError("no space is left")
            return await super().put(chunks)  # type: ignore[arg-type] # passed on as it came

    blobs = FullBlobs()
    original = await blobs.put(a_picture("PNG"))
    blobs.is_full = True

    assert await PillowImages(blobs).shrink(Media(original, PNG), FIT) is None
    assert await PillowImages(blobs).shrink(Media(BlobRef("ab" * 32, 9), PNG), FIT) is None
    assert await PillowImages(blobs).shrink(Media(BlobRef("ab" * 32, 2**30), PNG), FIT) is None


async def test_one_image_is_in_hand_at_a_time() -> None:
    class CountedBlobs(MemoryBlobs):
        in_hand = most = 0

        async def get(self, ref: BlobRef) -> bytes:
            self.in_hand += 1
            self.most = max(self.most, self.in_hand)
            await asyncio.sleep(0)
            return await super().get(ref)

        async def put(self, chunks: object) -> BlobRef:
            kept = await super().put(chunks)  # type: ignore[arg-type] # passed on as it came
            self.in_hand -= 1
            return kept

    blobs = CountedBlobs()
    media = Media(await blobs.put(a_picture("PNG")), PNG)
    blobs.in_hand = 0
    images = PillowImages(blobs)

    made = await asyncio.gather(*(images.shrink(media, FIT) for _ in range(5)))

    assert None not in made
    assert blobs.most == 1
