"""Which requests leave with the provider key of the gateway, and which paths may leave at all.

A client that brings its own provider key reaches its own account, so every path is forwarded. With the gateway's key
the client would reach the operator's account, so only the paths of a table are forwarded. A path is forwarded as its
raw bytes or not at all: servers decode, normalise and split paths in different ways, so one that any of them could read
as another path is rejected.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import unquote_to_bytes

from holdfast.errors import UsageError
from holdfast.gateway.http.asgi import Scope
from holdfast.gateway.http.problems import MalformedError, MediaTypeError, NotFoundError
from holdfast.gateway.proxy.upstream import KEY_HEADERS, Upstream
from holdfast.models import gemini

PREFIXES = ("/v1/", "/v1beta/")
RESPONSES = "/v1/responses"
COUNT_PATH = "/v1/messages/count_tokens"
CONVERSATIONS = "/v1/conversations"
# Model calls and token counts of the Responses API: their bodies can name stored answers.
RESPONSES_CALLS = (RESPONSES, f"{RESPONSES}/input_tokens", f"{RESPONSES}/compact")
# Everything that is forwarded with the gateway's own key. "*" stands for one or more segments.
FORWARDED = (
    "POST /v1/chat/completions",
    "POST /v1/messages",
    f"POST {COUNT_PATH}",
    *(f"POST {path}" for path in RESPONSES_CALLS),
    "GET /v1/models",
    "GET /v1/models/*",
    "GET /v1beta/models",
    "GET /v1beta/models/*",
)
_MODEL_CALLS = frozenset(pattern.removeprefix("POST ") for pattern in FORWARDED if pattern.startswith("POST "))
_PATTERN = re.compile(r"(?:([A-Z]+) )?(/v1(?:beta)?(?:/(?!\.+(?:/|$))[A-Za-z0-9_.~:@-]+)+(?:/\*)?)")
_ROUTES = _MODEL_CALLS | {"/v1/models", "/v1beta/models"}
# The printable characters of ASCII without the backslash, which some servers read as a slash.
_RAW_PATH = re.compile(rb"/[!-\[\]-~]*")
_RAW_QUERY = re.compile(rb"[!-~]*")
# A path that is still encoded after this many rounds is an attack.
_DECODE_ROUNDS_MAX = 4
_PATHS_MAX = 128
# Types that a browser sends to other origins without asking first.
_SIMPLE_TYPES = frozenset({b"text/plain", b"application/x-www-form-urlencoded"})


@lru_cache(maxsize=_PATHS_MAX)
def route_of(path: str) -> str:
    """Return a path as metrics and logs name it: one that has the name of a model, or any other text, without it."""
    if gemini.is_model_call(path):
        version, _, method = path.partition("/models/")
        return f"{version}/models/{{model}}:{method.rpartition(':')[2]}"
    return path if path in _ROUTES else f"/{path.split('/')[1]}/other"


def raw_path(scope: Scope) -> str:
    """Return the path of a request as it came. Raises `MalformedError` for one that a server could read differently."""
    if not _RAW_QUERY.fullmatch(scope["query_string"]):
        raise MalformedError("the query has bytes that are not printable ASCII; percent-encode them")
    return _checked(scope.get("raw_path") or scope["path"].encode())


@lru_cache(maxsize=_PATHS_MAX)
def _checked(raw: bytes) -> str:
    if not _RAW_PATH.fullmatch(raw):
        raise MalformedError("the path has bytes that are not allowed in one; percent-encode them")
    decoded = raw
    for _ in range(_DECODE_ROUNDS_MAX):
        before = _normalised(decoded)
        decoded = unquote_to_bytes(before)
        if before.encode() == decoded:
            break
    else:
        raise MalformedError("the path is percent-encoded too often")
    path = raw.decode("ascii")
    if not path.startswith(PREFIXES):
        raise NotFoundError(f"the proxy serves paths below {' and '.join(PREFIXES)}")
    return path


def _normalised(path: bytes) -> str:
    """Return a path as the most lenient server reads it. Raises if a segment of it is empty or leads elsewhere."""
    try:
        # Some servers replace look-alikes, such as a full-width full stop, by ASCII.
        text = unicodedata.normalize("NFKC", path.decode())
    except UnicodeDecodeError as error:
        raise MalformedError("the path is not UTF-8; percent-encode its UTF-8 bytes") from error
    if "\\" in text or not text.isprintable():
        raise MalformedError("the path has a backslash or a control character")
    first, *inner, last = text.split("/")
    assert not first, "a path begins with a slash"
    for segment in (*inner, *([last] if last else [])):
        # Parameters of a segment, as in "..;x", are dropped by some servers; trailing spaces and full stops too.
        if not segment.partition(";")[0].strip(". "):
            raise MalformedError("the path has an empty segment or one of dots; send it resolved")
    return text


@dataclass(frozen=True)
class _Row:
    """One pattern of the table: a method, "" for all, and a path; `is_open`: also every path below it."""

    method: str
    path: str
    is_open: bool

    def covers(self, method: str, path: str) -> bool:
        if self.method and self.method != ("GET" if method == "HEAD" else method):
            return False
        return path.startswith(self.path) and len(path) > len(self.path) if self.is_open else path == self.path


class ForwardTable:
    """The paths that are forwarded with the gateway's own provider key."""

    def __init__(self, allowed: Sequence[str] = ()) -> None:
        self._rows = [_row(pattern) for pattern in (*FORWARDED, *allowed)]

    def check(self, method: str, path: str) -> None:
        """Raise `NotFoundError` for a request that the table does not have."""
        if method == "POST" and gemini.is_model_call(path):
            return
        if not any(row.covers(method, path) for row in self._rows):
            raise NotFoundError(
                "this path is not forwarded with the gateway's provider key; send your own provider key, or ask the "
                "operator to add the path to upstream.allow_paths"
            )


def _row(pattern: str) -> _Row:
    found = _PATTERN.fullmatch(pattern.strip())
    if found is None:
        raise UsageError(
            f"upstream.allow_paths: {pattern[:80]!r} is not a path; use one like 'POST /v1/embeddings' or '/v1/files/*'"
        )
    method, path = found[1] or "", found[2]
    return _Row(method, path.removesuffix("*"), path.endswith("/*"))


def uses_operator_account(scope: Scope, upstream: Upstream) -> bool:
    """Return whether a request reaches the upstream as the operator, not with a provider key of the client's own.

    A tenant without a key of its own is restricted also if the gateway has none: then the upstream trusts the gateway.
    """
    is_key_ours = bool(scope.get("holdfast.key_is_ours"))
    has_own_key = not is_key_ours and not KEY_HEADERS.isdisjoint([name for name, _ in scope["headers"]])
    return not has_own_key and bool(upstream.key or is_key_ours or scope["holdfast.tenant"].name)


def check_media_type(scope: Scope, path: str) -> None:
    """Reject bodies that a web page can send without the browser asking first. Model calls are JSON."""
    if scope["method"] in {"GET", "HEAD"}:
        return
    kind = _media_type(scope["headers"])
    is_call = scope["method"] == "POST" and (path in _MODEL_CALLS or gemini.is_model_call(path))
    if kind in _SIMPLE_TYPES or (is_call and kind != b"application/json"):
        raise MediaTypeError(f"the content type must be application/json, not {kind[:80].decode('latin-1')!r}")


def _media_type(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    kinds = [text for name, text in headers if name == b"content-type"]
    if len(kinds) > 1:
        raise MalformedError("the header content-type is repeated; send it once")
    return kinds[0].partition(b";")[0].strip().lower() if kinds else b""
