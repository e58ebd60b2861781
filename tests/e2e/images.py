"""Images for tests: true headers, and as many bytes behind them as a test wants."""

import struct
import zlib


def a_png(*, width: int = 64, height: int = 64, size_bytes: int = 0, seed: int = 0) -> bytes:
    """Return a PNG of this size: a true header, and a chunk that makes up the rest."""
    header = _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    pixels = _chunk(b"IDAT", zlib.compress((b"\0" + bytes([seed % 256]) * 3 * width) * min(height, 64)))
    end = _chunk(b"IEND", b"")
    whole = b"\x89PNG\r\n\x1a\n" + header + pixels + end
    padding = max(size_bytes - len(whole) - 12, 0)
    filler = _chunk(b"teSt", bytes([seed % 256]) * padding) if padding else b""
    return b"\x89PNG\r\n\x1a\n" + header + filler + pixels + end


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
