"""A body that a client has compressed: read as what it says, and passed on so.

A request that cannot be read cannot be rescued. What is packed in another way, or wrongly, goes on as it came, because
the provider says best what is wrong with it.
"""

import zlib

from holdfast.gateway.asgi import Scope, header

# zlib's own number for "gzip, by its header".
_GZIP_WBITS = 16 + zlib.MAX_WBITS
_PACKED = {"gzip": _GZIP_WBITS, "x-gzip": _GZIP_WBITS, "deflate": zlib.MAX_WBITS}


def unpacked(scope: Scope, body: bytes, bytes_max: int) -> bytes:
    """Return a body as it was before it was compressed, and take the header away that says so.

    As it came where it is not packed, not in a way that is read here, or becomes more than `bytes_max`.
    """
    wbits = _PACKED.get(header(scope, b"content-encoding").strip().lower())
    if wbits is None:
        return body
    packed = zlib.decompressobj(wbits)
    try:
        # One byte more than may be: so it is seen that there is more.
        plain = packed.decompress(body, bytes_max + 1)
    except zlib.error:
        return body
    if len(plain) > bytes_max or not packed.eof or packed.unused_data:
        return body
    scope["headers"] = [(name, text) for name, text in scope["headers"] if name != b"content-encoding"]
    return plain
