"""The smallest beginnings of images, built from their specifications: enough for a header, nothing to look at."""

import struct


def a_png(width: int, height: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", width, height) + b"\x08\x06\x00\x00\x00"


def a_gif(width: int, height: int) -> bytes:
    # Behind the size: flags, background, aspect.
    return b"GIF89a" + struct.pack("<HH", width, height) + b"\x80\x00\x00"


def a_jpeg(width: int, height: int, before_frame: bytes = b"") -> bytes:
    start = b"\xff\xd8\xff\xe0" + struct.pack(">H", 16) + b"JFIF\x00" + bytes(9)
    frame = b"\xff\xc2" + struct.pack(">HBHH", 17, 8, height, width) + bytes(10)
    return start + before_frame + frame


def _a_webp(chunk: bytes, content: bytes) -> bytes:
    return b"RIFF" + struct.pack("<I", len(content) + 12) + b"WEBP" + chunk + struct.pack("<I", len(content)) + content


def a_lossy_webp(width: int, height: int) -> bytes:
    return _a_webp(b"VP8 ", bytes(3) + b"\x9d\x01\x2a" + struct.pack("<HH", width, height) + bytes(8))


def a_lossless_webp(width: int, height: int) -> bytes:
    return _a_webp(b"VP8L", b"\x2f" + struct.pack("<I", (width - 1) | (height - 1) << 14) + bytes(8))


def an_extended_webp(width: int, height: int) -> bytes:
    return _a_webp(b"VP8X", bytes(4) + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little"))
