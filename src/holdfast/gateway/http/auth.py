"""Tenants: each gateway key is a tenant that sees only its own sessions.

A tenant's session `telegram:42` is stored under `@NAME/telegram:42`. A name has no "/", so no key of one tenant can
begin with the prefix of another; the rest of the key is opaque text. Without keys there is one tenant without a prefix.
It shares the sessions of the library and the command line, and may not use session keys that begin with "@".
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import unquote_plus

from msgspec.structs import replace

from holdfast.core.limits.bounds import RESERVED_KEYS
from holdfast.gateway.bounds import GatewayBounds
from holdfast.gateway.http.asgi import Scope, header
from holdfast.gateway.http.keys import GatewayKey
from holdfast.gateway.http.problems import InvalidError, NotFoundError, TooManyError
from holdfast.ports import ListedSession, SessionFilter, SessionInfo, SessionOrder
from holdfast.runtime.sessions.admission import check_session_key
from holdfast.runtime.sessions.client import Client
from holdfast.runtime.sessions.session import Session

_TENANT_MARK = "@"
# Sorts after every key that begins with the mark: no character is higher.
_AFTER_TENANT_KEYS = _TENANT_MARK + "\U0010ffff"
# Leaves room for the longest prefix (34 bytes) within the engine's limit of 256 bytes.
KEY_BYTES_MAX = 200
# Sessions per store read when many are scanned, about 100 bytes each ...
_PAGE = 1_000
# ... and keys that one request with `match` may scan: a tenth of a second.
_SCANNED_MAX = 20_000

# Paths of Google's API, whose clients may send their key in the query.
_QUERY_KEY_PATHS = ("/v1beta/", "/v1/models")
GOOGLE_KEY = b"x-goog-api-key"


def presented_keys(scope: Scope) -> list[str]:
    """Return the API keys in the headers of a request, whichever provider's library sent it."""
    scheme, _, token = header(scope, b"authorization").partition(" ")
    keys = [token.strip() if scheme.lower() == "bearer" else "", header(scope, b"x-api-key"), header(scope, GOOGLE_KEY)]
    return [key for key in keys if key]


def move_query_key(scope: Scope) -> None:
    """Move the key of a Google client from the query to its header, so that no address has it.

    Addresses are logged, traced and forwarded; a header is masked, and a gateway key in it stays here.
    """
    query: bytes = scope["query_string"]
    if not query or not scope["path"].startswith(_QUERY_KEY_PATHS):
        return
    fields = [_Field(field) for field in query.split(b"&")]
    keys = [field.value for field in fields if field.name == "key"]
    scope["query_string"] = b"&".join(field.raw for field in fields if field.name != "key")
    if keys and keys[0].isascii() and keys[0].isprintable() and not header(scope, GOOGLE_KEY):
        scope["headers"] = [*scope["headers"], (GOOGLE_KEY, keys[0].encode())]


class _Field:
    """A field of a query: as it came, and decoded."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        name, _, value = raw.decode("latin-1").partition("=")
        self.name, self.value = unquote_plus(name), unquote_plus(value).strip()


def tenant_of(store_key: str) -> str:
    """Return the name of the tenant that owns a stored session; "" for one without a tenant."""
    is_owned = store_key.startswith(_TENANT_MARK)
    return store_key.removeprefix(_TENANT_MARK).partition("/")[0] if is_owned else ""


class Tenant:
    """The owner of a gateway key: a prefix of session keys, and counts of its open requests and streams."""

    def __init__(self, name: str, bounds: GatewayBounds) -> None:
        self.name = name
        self.bounds = bounds
        self._prefix = f"{_TENANT_MARK}{name}/" if name else ""
        # As it was when this key was last used; without keys there is nothing to limit.
        self.key = GatewayKey(name)
        self.streams = 0
        self.requests = 0

    def store_key(self, key: str) -> str:
        """Return the store key of one of this tenant's sessions."""
        check_session_key(key)
        size_bytes = len(key.encode(errors="replace"))
        if size_bytes > KEY_BYTES_MAX:
            raise InvalidError(f"the session key has {size_bytes:,} bytes, the limit is {KEY_BYTES_MAX}")
        if not self._prefix and key.startswith(_TENANT_MARK):
            raise InvalidError(f"a session key may not begin with {_TENANT_MARK!r}; use another")
        return self._prefix + key

    def key_of(self, store_key: str) -> str | None:
        """Return this tenant's key of a stored session; None if the session belongs to another tenant."""
        if self._prefix:
            return store_key.removeprefix(self._prefix) if store_key.startswith(self._prefix) else None
        return None if store_key.startswith(_TENANT_MARK) else store_key

    async def session(self, client: Client, key: str) -> tuple[Session, SessionInfo]:
        """Return a session and its store entry. Raises `NotFoundError` if it does not exist."""
        session = await client.session(self.store_key(key))
        known = await session.known()
        if known is None or known.last_seq == 0:
            raise NotFoundError("session not found; the first message or configuration creates it")
        return session, known

    async def sessions(
        self, client: Client, *, after: str, limit: int, match: str = ""
    ) -> tuple[list[tuple[str, SessionInfo]], str | None]:
        """Return this tenant's sessions after one of its keys, each with its tenant key, and the next `after`.

        With `match`, only sessions whose key contains it; then a page with fewer than `limit` may have a next one.
        """
        found: list[tuple[str, SessionInfo]] = []
        needle, after_key = match.casefold(), self._prefix + after
        size, scanned = _PAGE if match else limit, 0
        while scanned < _SCANNED_MAX:
            page = await client.session_infos(after=after_key, limit=size)
            for known in page:
                key = self.key_of(known.key)
                if key is not None and needle in key.casefold():
                    found.append((key, known))
                    if len(found) == limit:
                        return found, key
            last = self.key_of(page[-1].key) if page else None
            if len(page) < size or (self._prefix and last is None):
                return found, None
            # Keys with a tenant prefix are adjacent, so skip all of them at once.
            after_key = page[-1].key if last is not None else max(page[-1].key, _AFTER_TENANT_KEYS)
            scanned += len(page)
        return found, after_key.removeprefix(self._prefix)

    async def list_sessions(
        self, client: Client, wanted: SessionFilter, *, order: SessionOrder, after: str, limit: int
    ) -> tuple[list[tuple[str, ListedSession]], str | None]:
        """Return a page of this tenant's sessions with their labels, each with its tenant key, and the next `after`."""
        left_out = () if self._prefix else (RESERVED_KEYS, _TENANT_MARK)
        wanted = replace(wanted, prefix=self._prefix, prefixes_left_out=left_out)
        start = _rekeyed(after, order, lambda key: self._prefix + key)
        page = await client.session_page(wanted, order=order, after=start, limit=limit)
        following = None if page.next is None else _rekeyed(page.next, order, self._own)
        return [(self._own(one.key), one) for one in page.sessions], following

    def _own(self, store_key: str) -> str:
        return store_key.removeprefix(self._prefix)

    async def every_session(self, client: Client, *, count_max: int) -> list[tuple[str, SessionInfo]]:
        """Return all sessions of this tenant, or the first `count_max` by key."""
        found: list[tuple[str, SessionInfo]] = []
        after_key: str | None = ""
        while after_key is not None and len(found) < count_max:
            page, after_key = await self.sessions(client, after=after_key, limit=_PAGE)
            found += page
        return found[:count_max]

    @contextmanager
    def streaming(self) -> Iterator[None]:
        """Count an event stream while it is open."""
        if self.streams >= self.bounds.streams_max:
            raise TooManyError(f"this key has {self.streams:,} open event streams, which is the limit; close some")
        self.streams += 1
        try:
            yield
        finally:
            self.streams -= 1

    def working(self) -> "_Working":
        """Count a request while it is in flight."""
        return _Working(self)


class _Working:
    """A request in flight. Every request has one, so it is a class: a generator takes several times as long."""

    __slots__ = ("_tenant",)

    def __init__(self, tenant: Tenant) -> None:
        self._tenant = tenant

    def __enter__(self) -> None:
        tenant = self._tenant
        if tenant.requests >= tenant.bounds.requests_max:
            raise TooManyError(f"this key has {tenant.requests:,} requests in flight, which is the limit; retry later")
        tenant.requests += 1

    def __exit__(self, *_error: object) -> None:
        self._tenant.requests -= 1


def _rekeyed(cursor: str, order: SessionOrder, change: Callable[[str], str]) -> str:
    """Return a place in a list with another key: a key, or behind the time of a change."""
    if order is SessionOrder.KEY or not cursor:
        return change(cursor) if order is SessionOrder.KEY else ""
    *place, key = cursor.split(":", 2)
    return ":".join([*place, change(key)])
