"""Detect media types by magic bytes, and image sizes by their headers.

File names and declared types are claims; the bytes decide. `sniff` knows only the types that models accept.
"""

import codecs
import re
from collections.abc import Mapping
from types import MappingProxyType

PNG = "image/png"
JPEG = "image/jpeg"
GIF = "image/gif"
WEBP = "image/webp"
PDF = "application/pdf"
TEXT = "text/plain"

# Bytes of a file that `sniff` and `pixels` need. A JPEG has its size after its metadata, in segments of at most 64 KiB:
# a preview, a colour profile and an edit history fit in eight of them.
HEAD_BYTES = 512 * 2**10

# End of the size field per format; a JPEG has no fixed position for it.
_HEADER_BYTES: Mapping[str, int] = MappingProxyType({PNG: 24, GIF: 10, WEBP: 30})

# Longest file name of a part: the limit of common file systems.
_NAME_CHARS_MAX = 255

_SPOKEN: Mapping[str, str] = MappingProxyType(
    {
        PNG: "a PNG image",
        JPEG: "a JPEG image",
        GIF: "a GIF image",
        WEBP: "a WebP image",
        PDF: "a PDF",
        TEXT: "plain text",
    }
)
ACCEPTED = "PNG, JPEG, GIF and WebP images, PDF, and text in UTF-8"

_TYPE_OF_SUFFIX: Mapping[str, str] = MappingProxyType(
    {
        "png": PNG,
        "jpg": JPEG,
        "jpeg": JPEG,
        "jpe": JPEG,
        "gif": GIF,
        "webp": WEBP,
        "pdf": PDF,
        # Only extensions that are always text; other names claim nothing.
        **dict.fromkeys(
            ("txt", "md", "csv", "tsv", "json", "jsonl", "xml", "html", "yaml", "yml", "toml", "log"), TEXT
        ),
        **dict.fromkeys(("py", "js", "ts", "c", "h", "rs", "go", "java", "sh", "sql", "css", "ini", "svg"), TEXT),
    }
)

# Default types of browsers and libraries, which claim nothing.
_NO_CLAIM = frozenset({"", "application/octet-stream", "binary/octet-stream"})
_ALIASES: Mapping[str, str] = MappingProxyType(
    {"image/jpg": JPEG, "image/pjpeg": JPEG, "image/x-png": PNG, "application/x-pdf": PDF, "image/svg+xml": TEXT}
)
_NEVER_TEXT = ("image/", "audio/", "video/", "font/")


def sniff(head: bytes) -> str:
    """Return the media type of these first bytes, or "" if no model accepts it.

    Text is UTF-8 without NUL. The head may end inside a character; the caller must check the rest.
    """
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return PNG
    if head.startswith(b"\xff\xd8\xff"):
        return JPEG
    if head.startswith((b"GIF87a", b"GIF89a")):
        return GIF
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return WEBP
    # Some writers put a byte order mark or line breaks before the PDF's magic bytes.
    if head.removeprefix(codecs.BOM_UTF8).lstrip().startswith(b"%PDF-"):
        return PDF
    return TEXT if head and Utf8Check().accepts(head) else ""


class Utf8Check:
    """Incremental check for text: UTF-8 without NUL. Feed all pieces, then call `is_whole`."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")()

    def accepts(self, piece: bytes) -> bool:
        """Return False for a piece that cannot be text."""
        try:
            self._decoder.decode(piece)
        except UnicodeDecodeError:
            return False
        return b"\0" not in piece

    def is_whole(self) -> bool:
        """Return whether the last character is complete."""
        return not self._decoder.getstate()[0]


def pixels(head: bytes) -> tuple[int, int]:
    """Return width and height of an image from its header, or (0, 0) if unknown."""
    found = sniff(head)
    if found == JPEG:
        return _jpeg_pixels(head)
    if len(head) < _HEADER_BYTES.get(found, 0):
        return 0, 0
    if found == PNG:
        return _png_pixels(head)
    if found == GIF:
        return _little(head[6:8]), _little(head[8:10])
    return _webp_pixels(head) if found == WEBP else (0, 0)


def spoken(media_type: str) -> str:
    """Return the name of this type for people, as in "a PNG image"."""
    return _SPOKEN.get(media_type, media_type or "of an unknown type")


def claimed_by_name(name: str) -> str:
    """Return the media type that a file's name claims, or "" for none."""
    _, dot, suffix = name.rpartition(".")
    return _TYPE_OF_SUFFIX.get(suffix.lower(), "") if dot else ""


def is_honest(claimed: str, found: str) -> bool:
    """Return whether a claimed media type is compatible with the detected one.

    Text has hundreds of types ("application/json", "application/x-yaml"), so only a claim to be an image, audio or
    another known type contradicts it.
    """
    claim = claimed.partition(";")[0].strip().lower()
    claim = _ALIASES.get(claim, claim)
    if claim in _NO_CLAIM or claim == found:
        return True
    return found == TEXT and claim not in _SPOKEN and not claim.startswith(_NEVER_TEXT)


def safe_name(name: str) -> str:
    """Return a file's name safe for display: without folders, control characters and lone surrogates, truncated."""
    base = re.split(r"[/\\]", name)[-1].strip()
    return re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]", "\N{REPLACEMENT CHARACTER}", base)[:_NAME_CHARS_MAX]


def _little(field: bytes) -> int:
    return int.from_bytes(field, "little")


def _png_pixels(head: bytes) -> tuple[int, int]:
    """Read the IHDR chunk, the first of a PNG: length, name, width, height."""
    if head[12:16] != b"IHDR":
        return 0, 0
    return int.from_bytes(head[16:20]), int.from_bytes(head[20:24])


def _webp_pixels(head: bytes) -> tuple[int, int]:
    """Read the first chunk of a WebP: extended, lossless or lossy, each with its own size encoding."""
    match head[12:16]:
        case b"VP8X":
            return _little(head[24:27]) + 1, _little(head[27:30]) + 1
        case b"VP8L" if head[20:21] == b"\x2f":  # the signature byte of the lossless format
            bits = _little(head[21:25])
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8 " if head[23:26] == b"\x9d\x01\x2a":  # the start code of a key frame
            return _little(head[26:28]) & 0x3FFF, _little(head[28:30]) & 0x3FFF
        case _:
            return 0, 0


_JPEG_MARK = 0xFF
# Frame headers: C0 to CF without the three that only share the range (Huffman table, reserved, arithmetic coding).
_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
# Markers without a length field.
_JPEG_BARE = frozenset({0x01, *range(0xD0, 0xD9)})
_JPEG_SCAN = 0xDA


def _jpeg_pixels(head: bytes) -> tuple[int, int]:
    """Walk the segments of a JPEG up to the frame header. Every step moves forward, so the walk ends with the head."""
    at = 2
    while at + 9 <= len(head) and head[at] == _JPEG_MARK:
        marker = head[at + 1]
        if marker in _JPEG_FRAMES:
            return int.from_bytes(head[at + 7 : at + 9]), int.from_bytes(head[at + 5 : at + 7])
        if marker == _JPEG_SCAN:
            break
        if marker == _JPEG_MARK:  # a fill byte before the marker
            at += 1
        elif marker in _JPEG_BARE:
            at += 2
        else:
            at += 2 + max(2, int.from_bytes(head[at + 2 : at + 4]))
    return 0, 0
