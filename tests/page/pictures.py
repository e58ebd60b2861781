"""Pictures that a browser draws."""

import struct
import zlib


def a_chart(width: int, height: int) -> bytes:
    """Return a PNG with a slope on it."""
    rows = (
        b"\x00"
        + b"".join(b"\x20\x60\xa0" if x * height > (height - y) * width else b"\xf0\xf4\xf8" for x in range(width))
        for y in range(height)
    )
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(b"".join(rows))), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, body) for name, body in chunks)


def _chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(body, zlib.crc32(name)))
