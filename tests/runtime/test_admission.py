"""What a person sends is taken whole or refused with a sentence, and a refusal leaves nothing behind."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.limits.bounds import Bounds
from holdfast.errors import BadInputError
from holdfast.ports import Attachment
from holdfast.runtime.sessions.admission import admit_parts, check_client_id, check_session_key
from holdfast.stores.memory import MemoryBlobs
from holdfast.types.messages import BlobRef, LargeText, Media, Text
from tests.core.images import a_jpeg, a_png

BOUNDS = Bounds()
SMALL = Bounds(
    message_bytes_max=100, attachment_bytes_max=1_000, attachments_max=2, inline_text_bytes_max=20, head_chars=5
)
PNG = a_png(640, 480)


class CountingBlobs:
    """Blobs in memory that count what was asked of them, and in pieces of which size it came."""

    def __init__(self) -> None:
        self._blobs = MemoryBlobs()
        self.puts = 0
        self.largest_piece_bytes = 0

    async def put(self, chunks: AsyncIterator[bytes] | bytes) -> BlobRef:
        self.puts += 1
        return await self._blobs.put(chunks if isinstance(chunks, bytes) else self._measured(chunks))

    async def _measured(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for chunk in chunks:
            self.largest_piece_bytes = max(self.largest_piece_bytes, len(chunk))
            yield chunk

    async def remove(self, ref: BlobRef) -> bool:
        raise NotImplementedError(ref)

    async def get(self, ref: BlobRef) -> bytes:
        return await self._blobs.get(ref)

    async def read(self, ref: BlobRef, *, start: int, length: int) -> bytes:
        return await self._blobs.read(ref, start=start, length=length)


@pytest.fixture
def blobs() -> CountingBlobs:
    return CountingBlobs()


# --- what is taken -----------------------------------------------------------------------------------------------


async def test_a_short_message_is_its_text(blobs: CountingBlobs) -> None:
    text = "  grüße\tand\r\n\x1b[31mcolours\x1b[0m\n"
    assert await admit_parts(text, [], blobs=blobs, bounds=BOUNDS) == (Text(text),)
    assert blobs.puts == 0


async def test_a_long_message_is_kept_in_a_blob_byte_for_byte(blobs: CountingBlobs) -> None:
    text = "世界, " * 10

    (part,) = await admit_parts(text, [], blobs=blobs, bounds=SMALL)

    assert isinstance(part, LargeText)
    assert part == LargeText(part.blob, head="世界, 世")
    assert await blobs.get(part.blob) == text.encode()


async def test_an_image_in_memory_becomes_media_with_its_size(blobs: CountingBlobs) -> None:
    image = Attachment(PNG, name="photo.png", media_type="image/png")

    text, media = await admit_parts("look", [image], blobs=blobs, bounds=BOUNDS)

    assert isinstance(media, Media)
    assert (text, media) == (
        Text("look"),
        Media(media.blob, "image/png", name="photo.png", width_pixels=640, height_pixels=480),
    )
    assert await blobs.get(media.blob) == PNG


async def test_files_become_parts_in_their_order(blobs: CountingBlobs, tmp_path: Path) -> None:
    photo, paper, notes = tmp_path / "photo.jpg", tmp_path / "paper.pdf", tmp_path / "notes"
    photo.write_bytes(a_jpeg(30, 20))
    paper.write_bytes(b"%PDF-1.7\n\xff\xfe")
    notes.write_bytes("grüße".encode())

    parts = await admit_parts(" \n", [photo, str(paper), notes], blobs=blobs, bounds=BOUNDS)

    photo_part, paper_part, notes_part = parts
    assert isinstance(photo_part, Media)
    assert isinstance(paper_part, Media)
    assert isinstance(notes_part, LargeText)
    assert parts == (
        Media(photo_part.blob, "image/jpeg", name="photo.jpg", width_pixels=30, height_pixels=20),
        Media(paper_part.blob, "application/pdf", name="paper.pdf"),
        LargeText(notes_part.blob, head="grüße", name="notes"),
    )
    assert [await blobs.get(part.blob) for part in (photo_part, paper_part, notes_part)] == [
        path.read_bytes() for path in (photo, paper, notes)
    ]


async def test_a_short_text_without_a_name_is_plain_text(blobs: CountingBlobs) -> None:
    assert await admit_parts("", [Attachment(b"log line\n")], blobs=blobs, bounds=BOUNDS) == (Text("log line\n"),)


async def test_a_large_file_reaches_the_blobs_in_pieces(blobs: CountingBlobs, tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    log.write_bytes("世".encode() * 1_200_000)

    (part,) = await admit_parts("", [log], blobs=blobs, bounds=BOUNDS)

    assert isinstance(part, LargeText)
    assert part.blob.size_bytes == 3_600_000
    assert blobs.largest_piece_bytes == 2**20
    assert await blobs.get(part.blob) == log.read_bytes()


async def test_a_large_image_whose_header_tells_nothing_is_taken_without_a_size(blobs: CountingBlobs) -> None:
    endless_metadata = (b"\xff\xe1\xff\xff" + bytes(0xFFFD)) * 9
    image = Attachment(a_jpeg(30, 20, before_frame=endless_metadata))

    (part,) = await admit_parts("", [image], blobs=blobs, bounds=BOUNDS)

    assert isinstance(part, Media)
    assert part == Media(part.blob, "image/jpeg")


async def test_a_link_to_a_file_is_that_file(blobs: CountingBlobs, tmp_path: Path) -> None:
    (tmp_path / "real.txt").write_text("hello")
    (tmp_path / "link.txt").symlink_to(tmp_path / "real.txt")

    (part,) = await admit_parts("", [tmp_path / "link.txt"], blobs=blobs, bounds=BOUNDS)

    assert isinstance(part, LargeText)
    assert part.name == "link.txt"


# --- what is refused ---------------------------------------------------------------------------------------------


async def _refusal(
    blobs: CountingBlobs, text: str, *attachments: Attachment | Path | str, bounds: Bounds = SMALL
) -> str:
    with pytest.raises(BadInputError) as caught:
        await admit_parts(text, attachments, blobs=blobs, bounds=bounds)
    assert blobs.puts == 0
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "the message is empty; write something or attach a file"),
        (" \n\t\u3000", "the message is empty; write something or attach a file"),
        ("é" * 51, "the message has 102 bytes, the maximum is 100; attach it as a file"),
        (
            "ab\ud83d",
            (
                "the message has a lone surrogate (U+D83D) at position 3; "
                "remove it, or decode the text with the encoding it was written in"
            ),
        ),
        (
            "h\0i\0",
            (
                "the message has a NUL character at position 2; "
                "remove it, or decode the text with the encoding it was written in"
            ),
        ),
    ],
)
async def test_a_text_that_cannot_be_kept_is_refused(blobs: CountingBlobs, text: str, sentence: str) -> None:
    assert await _refusal(blobs, text) == sentence


ACCEPTED = "accepted are PNG, JPEG, GIF and WebP images, PDF, and text in UTF-8"


@pytest.mark.parametrize(
    ("attachment", "sentence"),
    [
        (Attachment(b"", "a.txt"), "attachment 'a.txt' is empty; leave it out or attach the right file"),
        (
            Attachment(b"x" * 1_001),
            "an attachment without a name has 1,001 bytes, the maximum is 1,000; send a part of it",
        ),
        (
            Attachment(b"%PDF-1.7", "photo.png"),
            (
                "attachment 'photo.png' claims to be a PNG image but is a PDF; "
                "give it the right name and type, or attach the right file"
            ),
        ),
        (
            Attachment(PNG, "photo", media_type="video/mp4"),
            (
                "attachment 'photo' claims to be video/mp4 but is a PNG image; "
                "give it the right name and type, or attach the right file"
            ),
        ),
        (
            Attachment(b"PK\x03\x04\x00", "a.zip"),
            f"attachment 'a.zip' has a type that models do not accept; {ACCEPTED}",
        ),
        (
            Attachment(PNG[:20], "cut.png"),
            "attachment 'cut.png' is a PNG image that is damaged or truncated; attach a complete copy",
        ),
        (
            Attachment(b"abc\xe4\xb8", "a.txt"),
            f"attachment 'a.txt' starts as text but is not valid UTF-8; save it as UTF-8. A{ACCEPTED[1:]}",
        ),
    ],
)
async def test_an_attachment_that_cannot_be_used_is_refused(
    blobs: CountingBlobs, attachment: Attachment, sentence: str
) -> None:
    assert await _refusal(blobs, "look", attachment) == sentence


async def test_a_text_file_that_breaks_late_is_refused(blobs: CountingBlobs, tmp_path: Path) -> None:
    path = tmp_path / "dump.txt"
    path.write_bytes(b"a" * 2**20 + b"\xff")
    assert "is not valid UTF-8" in await _refusal(blobs, "", path, bounds=BOUNDS)


async def test_a_path_that_leads_nowhere_is_refused(blobs: CountingBlobs, tmp_path: Path) -> None:
    path = tmp_path / "gone.txt"
    assert await _refusal(blobs, "", path) == f"file {str(path)[-300:]!r} does not exist; check the path"


async def test_what_is_not_a_regular_file_is_refused_without_opening_it(blobs: CountingBlobs, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, tmp_path):
        assert await _refusal(blobs, "", path) == (
            f"file {str(path)[-300:]!r} is not a regular file; attach regular files one by one"
        )


async def test_a_file_that_may_not_be_read_is_refused(blobs: CountingBlobs, tmp_path: Path) -> None:
    path = tmp_path / "secret.txt"
    path.write_text("x")
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("this user may read every file, whatever its permissions")
    assert "is not readable by this process" in await _refusal(blobs, "", path)


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("a\0b", "file 'a\\x00b' has a character that is invalid in a path; check the path"),
        ("x" * 5_000, f"file {'x' * 300!r} cannot be read (File name too long); attach another copy"),
    ],
)
async def test_a_path_no_system_takes_is_refused(blobs: CountingBlobs, path: str, sentence: str) -> None:
    assert await _refusal(blobs, "", path) == sentence


async def test_too_many_attachments_are_refused(blobs: CountingBlobs) -> None:
    assert await _refusal(blobs, "", *[Attachment(b"x")] * 3) == (
        "3 attachments exceed the maximum of 2 per message; send them in several messages"
    )


async def test_one_bad_attachment_keeps_the_good_ones_and_the_text_from_being_stored(blobs: CountingBlobs) -> None:
    await _refusal(blobs, "a text long enough for a blob", Attachment(PNG, "a.png"), Attachment(b"", "b.png"))


async def test_a_file_that_changes_after_it_was_checked_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "growing.log"
    path.write_text("first line\n")

    class LateBlobs(CountingBlobs):
        async def put(self, chunks: AsyncIterator[bytes] | bytes) -> BlobRef:
            path.write_text("another text altogether\n")
            return await super().put(chunks)

    with pytest.raises(BadInputError, match=r"growing\.log' changed while it was read; send the message again"):
        await admit_parts("", [path], blobs=LateBlobs(), bounds=BOUNDS)


async def test_a_file_that_goes_away_after_it_was_checked_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "fleeting.log"
    path.write_text("first line\n")

    class LateBlobs(CountingBlobs):
        async def put(self, chunks: AsyncIterator[bytes] | bytes) -> BlobRef:
            path.unlink()
            return await super().put(chunks)

    with pytest.raises(BadInputError, match=r"fleeting\.log' changed while it was read"):
        await admit_parts("", [path], blobs=LateBlobs(), bounds=BOUNDS)


async def test_a_reader_that_stops_in_the_middle_leaves_no_file_open(tmp_path: Path) -> None:
    path = tmp_path / "long.log"
    path.write_bytes(b"x" * 3 * 2**20)

    class Impatient(CountingBlobs):
        async def put(self, chunks: AsyncIterator[bytes] | bytes) -> BlobRef:
            assert not isinstance(chunks, bytes)
            await anext(chunks)
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await admit_parts("", [path], blobs=Impatient(), bounds=BOUNDS)
    # A file left open would be a ResourceWarning, and warnings are errors here.


# --- names -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["telegram:42", "a", "семья 🙂", "x" * 256])
def test_a_plain_name_is_a_session_key_and_a_client_id(name: str) -> None:
    check_session_key(name)
    check_client_id(name)


@pytest.mark.parametrize(
    ("key", "sentence"),
    [
        ("", 'the session key is empty; give one, such as "telegram:42"'),
        ("é" * 129, "the session key has 258 bytes, the maximum is 256; use a shorter one"),
        (" a", "the session key ' a' starts or ends with white space; remove it"),
        ("a\n", "the session key 'a\\n' starts or ends with white space; remove it"),
        ("a\x07b", "the session key 'a\\x07b' has U+0007 at position 2; use printable characters only"),
        ("a\u2028b", "the session key 'a\\u2028b' has U+2028 at position 2; use printable characters only"),
        ("ab\ud800", "the session key 'ab\\ud800' has U+D800 at position 3; use printable characters only"),
    ],
)
def test_a_key_that_would_break_something_is_refused(key: str, sentence: str) -> None:
    with pytest.raises(BadInputError) as caught:
        check_session_key(key)
    assert str(caught.value) == sentence


def test_a_client_id_is_refused_in_its_own_words() -> None:
    with pytest.raises(BadInputError) as caught:
        check_client_id("")
    assert str(caught.value) == "the client id is empty; give one, such as a UUID, or leave it out"


@given(st.text(st.characters(), max_size=20))
def test_every_name_is_taken_or_refused_with_a_sentence_that_can_be_sent(name: str) -> None:
    try:
        check_session_key(name)
    except BadInputError as error:
        # A sentence with half a character in it could not be sent to anyone.
        str(error).encode()
    else:
        assert name.encode().decode() == name.strip()
