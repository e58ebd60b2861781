"""The page: files of the package, read once at the start and served from memory by their exact names.

A path is looked up among the names that are there and never joined to a folder, so none can lead out of it. Nothing of
the page is secret: it is served to anybody, and asks the API for everything else with the key of whoever looks on.
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
# Whatever a model or a person writes is shown as text; should it ever become markup, nothing of it may run, load or
# send anything elsewhere. Pictures that were attached are drawn from bytes that the page asked for with its key, which
# have an address of the page's own (`blob:`). Trusted types make the browser refuse the ways in which text becomes
# markup.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
    "trusted-types 'none'"
)
_HEADERS = (
    (b"content-security-policy", CONTENT_SECURITY_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    # The address holds the key of a session.
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    # Kept, but asked for again each time: after an upgrade no old module meets a new one.
    (b"cache-control", b"no-cache"),
    (b"vary", b"accept-encoding"),
)


@dataclass(frozen=True)
class PageFile:
    """One file as it is sent."""

    kind: bytes
    plain: bytes
    zipped: bytes
    tag: bytes


class Page:
    """The files of the page as an ASGI application."""

    def __init__(self) -> None:
        self._files = dict(_read(files("holdfast") / "page", ""))

    @property
    def names(self) -> frozenset[str]:
        """The names of all files, by their path."""
        return frozenset(self._files)

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        """Serve one file. Raises `NotFoundError` where there is none of this name."""
        name = "/".join(segments(scope)) or INDEX
        found = self._files.get(name)
        if found is None:
            raise NotFoundError("there is nothing at this address; the page is at /, the API at /api/openapi.json")
        if scope["method"] not in {"GET", "HEAD"}:
            raise MethodError("this address takes GET")
        given: Headers = (*_HEADERS, (b"etag", found.tag))
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
            # Weak, because the zipped form has it too.
            tag = f'W/"{hashlib.sha256(plain).hexdigest()[:16]}"'.encode()
            yield f"{below}{entry.name}", PageFile(kind, plain, gzip.compress(plain, mtime=0), tag)


async def _send(send: Send, status: int, headers: Headers, body: bytes) -> None:
    given = [*headers, (b"content-length", str(len(body)).encode())] if status != 304 else [*headers]  # noqa: PLR2004
    await send({"type": "http.response.start", "status": status, "headers": given})
    await send({"type": "http.response.body", "body": body, "more_body": False})
