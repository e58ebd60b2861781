"""Static files of the page, read from the package at start and served from memory by exact name.

A path is a lookup in this table and is never joined to a folder, so path traversal is impossible. The files contain no
secrets and need no key; the page calls the API with the user's key.
"""

import gzip
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable

from holdfast.gateway.http.asgi import Headers, Receive, Scope, Send, header, segments
from holdfast.gateway.http.problems import MethodError, NotFoundError

INDEX = "index.html"
TYPES: Mapping[str, bytes] = {
    "html": b"text/html; charset=utf-8",
    "js": b"text/javascript; charset=utf-8",
    "css": b"text/css; charset=utf-8",
    "svg": b"image/svg+xml",
}
# The page shows all content as text. If content ever becomes markup, this policy stops it from running scripts or
# contacting other hosts. Attached images are fetched with the key and shown from `blob:` URLs. Trusted types make the
# browser reject assignments that turn text into markup.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
    "trusted-types 'none'"
)
_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    # The URL contains a session key.
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    # Cached but revalidated, so that an upgrade never mixes old and new modules.
    (b"cache-control", b"no-cache"),
    (b"vary", b"accept-encoding"),
)


@dataclass(frozen=True)
class PageFile:
    """One file in its two encodings."""

    kind: bytes
    plain: bytes
    zipped: bytes
    tag: bytes


# The reference is made by a library that sets its own markup, from the gateway's own document. It may load nothing else
# and talk to this gateway alone.
REFERENCE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


class Page:
    """The files of a folder of the package as an ASGI application; `below` are the segments before them."""

    def __init__(
        self, folder: str = "page", policy: str = CONTENT_SECURITY_POLICY, below: tuple[str, ...] = ()
    ) -> None:
        self._files = dict(_read(files("holdfast") / folder, ""))
        self._headers = ((b"content-security-policy", policy.encode()), *_HEADERS)
        self._below = below

    @property
    def names(self) -> frozenset[str]:
        """The paths of all files."""
        return frozenset(self._files)

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        """Serve one file. Raises `NotFoundError` for an unknown path."""
        name = "/".join(segments(scope)[len(self._below) :]) or INDEX
        found = self._files.get(name)
        if found is None:
            raise NotFoundError("nothing at this address; the page is at /, the API at /api/openapi.json")
        if scope["method"] not in {"GET", "HEAD"}:
            raise MethodError("this address allows GET")
        given: Headers = (*self._headers, (b"etag", found.tag))
        if found.tag in {tag.strip().encode() for tag in header(scope, b"if-none-match").split(",")}:
            await _send(send, 304, given, b"")
        elif "gzip" in header(scope, b"accept-encoding").lower():
            await _send(
                send, 200, (*given, (b"content-type", found.kind), (b"content-encoding", b"gzip")), found.zipped
            )
        else:
            await _send(send, 200, (*given, (b"content-type", found.kind)), found.plain)


def _read(folder: Traversable, below: str) -> Iterator[tuple[str, PageFile]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _read(entry, f"{below}{entry.name}/")
        elif (kind := TYPES.get(entry.name.rpartition(".")[2])) is not None:
            plain = entry.read_bytes()
            # Weak, because the gzip encoding shares it.
            tag = f'W/"{hashlib.sha256(plain).hexdigest()[:16]}"'.encode()
            yield f"{below}{entry.name}", PageFile(kind, plain, gzip.compress(plain, mtime=0), tag)


async def _send(send: Send, status: int, headers: Headers, body: bytes) -> None:
    given = [*headers, (b"content-length", str(len(body)).encode())] if status != 304 else [*headers]  # noqa: PLR2004
    await send({"type": "http.response.start", "status": status, "headers": given})
    await send({"type": "http.response.body", "body": body, "more_body": False})
