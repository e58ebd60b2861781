"""Whose sessions are whose: each gateway key is a tenant, and a tenant sees its own sessions and no others.

A tenant's session `telegram:42` is kept under `@NAME/telegram:42`. A name has no "/", so no key of one tenant can begin
with the prefix of another, and whatever stands behind the prefix is only text. Without keys there is one tenant without
a prefix, whose sessions are those of the library and the command line; it may not use keys that begin with "@".
"""

from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.gateway.bounds import GatewayBounds
from holdfast.gateway.problems import InvalidError, NotFoundError, TooManyError
from holdfast.ports import SessionInfo
from holdfast.runtime.admission import check_session_key
from holdfast.runtime.hold import Hold
from holdfast.runtime.sessions import Session

_MARK = "@"
# Behind every key that begins with the mark: no character is higher.
_BEHIND_MARKED = _MARK + "\U0010ffff"
# What a key may have, so that it fits the engine's 256 bytes with the longest prefix of 34.
KEY_BYTES_MAX = 200
# Sessions that are read from the store at once where many are looked at, some 100 bytes each ...
_PAGE = 1_000
# ... and how many keys one request for those that match may look at: a tenth of a second.
_LOOKED_AT_MAX = 20_000


class Tenant:
    """Somebody who uses the gateway: a prefix of keys, and how much is under way."""

    def __init__(self, name: str, bounds: GatewayBounds) -> None:
        self.name = name
        self._bounds = bounds
        self._prefix = f"{_MARK}{name}/" if name else ""
        self.streams = 0
        self.requests = 0

    def store_key(self, key: str) -> str:
        """Return the key that a session of this tenant has in the store."""
        check_session_key(key)
        size_bytes = len(key.encode(errors="replace"))
        if size_bytes > KEY_BYTES_MAX:
            raise InvalidError(f"the session key has {size_bytes:,} bytes, at most {KEY_BYTES_MAX} are taken")
        if not self._prefix and key.startswith(_MARK):
            raise InvalidError(f"a session key may not begin with {_MARK!r} here; use another")
        return self._prefix + key

    def key_of(self, store_key: str) -> str | None:
        """Return what this tenant calls a session of the store; None where it is not its own."""
        if self._prefix:
            return store_key.removeprefix(self._prefix) if store_key.startswith(self._prefix) else None
        return None if store_key.startswith(_MARK) else store_key

    async def session(self, hold: Hold, key: str) -> tuple[Session, SessionInfo]:
        """Return a session that exists, with what is known of it. Raises `NotFoundError` where there is none."""
        session = await hold.session(self.store_key(key))
        known = await session.known()
        if known is None or known.last_seq == 0:
            raise NotFoundError("there is no such session; a session exists from its first message or settings on")
        return session, known

    async def sessions(
        self, hold: Hold, *, after: str, limit: int, match: str = ""
    ) -> tuple[list[tuple[str, SessionInfo]], str | None]:
        """Return this tenant's sessions behind one of its keys, each with its own name for it, and where to go on.

        With `match`, those that have it in their key; then there may be fewer than `limit`, and more to come.
        """
        found: list[tuple[str, SessionInfo]] = []
        wanted, behind = match.casefold(), self._prefix + after
        size, looked_at = _PAGE if match else limit, 0
        while looked_at < _LOOKED_AT_MAX:
            page = await hold.sessions(after=behind, limit=size)
            for known in page:
                key = self.key_of(known.key)
                if key is not None and wanted in key.casefold():
                    found.append((key, known))
                    if len(found) == limit:
                        return found, key
            last = self.key_of(page[-1].key) if page else None
            if len(page) < size or (self._prefix and last is None):
                return found, None
            # Other tenants' sessions stand side by side, so they are passed over at once.
            behind = page[-1].key if last is not None else max(page[-1].key, _BEHIND_MARKED)
            looked_at += len(page)
        return found, behind.removeprefix(self._prefix)

    async def every_session(self, hold: Hold, *, count_max: int) -> list[tuple[str, SessionInfo]]:
        """Return all sessions of this tenant, or the first so many in order of their keys."""
        found: list[tuple[str, SessionInfo]] = []
        behind: str | None = ""
        while behind is not None and len(found) < count_max:
            page, behind = await self.sessions(hold, after=behind, limit=_PAGE)
            found += page
        return found[:count_max]

    @contextmanager
    def streaming(self) -> Iterator[None]:
        """Count an event stream while it is open."""
        if self.streams >= self._bounds.streams_max:
            raise TooManyError(f"this key has {self.streams:,} event streams open, which is the most; close some")
        self.streams += 1
        try:
            yield
        finally:
            self.streams -= 1

    @contextmanager
    def working(self) -> Iterator[None]:
        """Count a request while it is being worked on."""
        if self.requests >= self._bounds.requests_max:
            raise TooManyError(f"this key has {self.requests:,} requests under way, which is the most; wait for some")
        self.requests += 1
        try:
            yield
        finally:
            self.requests -= 1
