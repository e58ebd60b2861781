"""Images for tests: true headers, and as many bytes behind them as a test wants."""

import random
import struct
import zlib


def a_png(*, width: int = 64, height: int = 64, size_bytes: int = 0, seed: int = 0) -> bytes:
    """Return a PNG of this size: a true header, and a chunk that makes up the rest. Above 64 rows it is damaged."""
    header = _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    pixels = _chunk(b"IDAT", zlib.compress((b"\0" + bytes([seed % 256]) * 3 * width) * min(height, 64)))
    end = _chunk(b"IEND", b"")
    whole = b"\x89PNG\r\n\x1a\n" + header + pixels + end
    padding = max(size_bytes - len(whole) - 12, 0)
    filler = _chunk(b"teSt", bytes([seed % 256]) * padding) if padding else b""
    return b"\x89PNG\r\n\x1a\n" + header + filler + pixels + end


def a_photo(*, width: int, height: int, size_bytes: int = 0, seed: int = 0) -> bytes:
    """Return a whole PNG that can be decoded, with a chunk that makes up the rest of its bytes."""
    chance = random.Random(seed)
    row = b"\0" + chance.randbytes(3 * width)
    header = _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    head = b"\x89PNG\r\n\x1a\n" + header
    pixels = _chunk(b"IDAT", zlib.compress(row * height, 1)) + _chunk(b"IEND", b"")
    padding = max(size_bytes - len(head) - len(pixels) - 12, 0)
    return head + (_chunk(b"teSt", bytes(padding)) if padding else b"") + pixels


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
