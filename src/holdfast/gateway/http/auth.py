"""Tenants and gateway keys: each gateway key is a tenant that sees only its own sessions.

A tenant's session `telegram:42` is stored under `@NAME/telegram:42`. A name has no "/", so no key of one tenant can
begin with the prefix of another; the rest of the key is opaque text. Without keys there is one tenant without a prefix.
It shares the sessions of the library and the command line, and may not use session keys that begin with "@".
"""

import hashlib
import hmac
import os
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from holdfast.errors import StoreIoError, UsageError
from holdfast.gateway.bounds import GatewayBounds
from holdfast.gateway.http.problems import InvalidError, NotFoundError, TooManyError
from holdfast.ports import SessionInfo
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


class Tenant:
    """The owner of a gateway key: a prefix of session keys, and counts of its open requests and streams."""

    def __init__(self, name: str, bounds: GatewayBounds) -> None:
        self.name = name
        self._bounds = bounds
        self._prefix = f"{_TENANT_MARK}{name}/" if name else ""
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
            page = await client.sessions(after=after_key, limit=size)
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
        if self.streams >= self._bounds.streams_max:
            raise TooManyError(f"this key has {self.streams:,} open event streams, which is the limit; close some")
        self.streams += 1
        try:
            yield
        finally:
            self.streams -= 1

    @contextmanager
    def working(self) -> Iterator[None]:
        """Count a request while it is in flight."""
        if self.requests >= self._bounds.requests_max:
            raise TooManyError(f"this key has {self.requests:,} requests in flight, which is the limit; retry later")
        self.requests += 1
        try:
            yield
        finally:
            self.requests -= 1


# --- Key file ---


PREFIX = "hf_"
# Names appear in logs and in store keys, so they are short and ASCII.
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
# Longer than any key of ours; longer input is not hashed.
_KEY_CHARS_MAX = 256
# The file is read at most this often: removing a key takes effect within this time.
_REFRESH_SECONDS = 1.0


class GatewayKey(msgspec.Struct, frozen=True):
    """A stored key: its name, hash and creation time."""

    name: str
    sha256: str
    created_at: float


class KeyFile:
    """The keys of a gateway, hashed in a file. A missing file means no keys."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._keys: tuple[GatewayKey, ...] = ()
        self._stamp: tuple[int, int, int] | None = None
        self._checked_at = float("-inf")

    def all(self) -> tuple[GatewayKey, ...]:
        """Return the keys that the file holds now."""
        try:
            found = self.path.stat()
        except FileNotFoundError:
            self._keys, self._stamp = (), None
            return ()
        except OSError as error:
            raise self._unreadable(error.strerror or str(error)) from error
        stamp = (found.st_ino, found.st_size, found.st_mtime_ns)
        if stamp != self._stamp:
            try:
                self._keys = msgspec.json.decode(self.path.read_bytes(), type=tuple[GatewayKey, ...])
            except OSError as error:
                raise self._unreadable(error.strerror or str(error)) from error
            except msgspec.MsgspecError as error:
                raise self._unreadable(str(error)) from error
            self._stamp = stamp
        return self._keys

    def _unreadable(self, reason: str) -> StoreIoError:
        return StoreIoError(f"cannot read the keys in {self.path} ({reason}); restore the file or create new keys")

    def name_of(self, presented: str) -> str | None:
        """Return the name of a key; None if it is unknown. Runs in constant time for valid and invalid keys."""
        self._refresh()
        if len(presented) > _KEY_CHARS_MAX:
            return None
        digest = _digest(presented)
        name = None
        for key in self._keys:
            if hmac.compare_digest(key.sha256, digest):
                name = key.name
        return name

    def is_empty(self) -> bool:
        """Return true if there are no keys."""
        self._refresh()
        return not self._keys

    def _refresh(self) -> None:
        now = time.monotonic()
        if now - self._checked_at >= _REFRESH_SECONDS:
            self.all()
            self._checked_at = now

    def add(self, name: str) -> str:
        """Create a key and return it. Only its hash is stored, so it cannot be shown again."""
        if not _NAME.fullmatch(name):
            raise UsageError(
                f"{name[:80]!r} is not a valid key name; use up to 32 lowercase letters, digits, '-' and '_', "
                'as in "alice"'
            )
        if any(key.name == name for key in self.all()):
            raise UsageError(f"a key named {name!r} already exists; remove it first, or use another name")
        secret = PREFIX + secrets.token_urlsafe(32)
        self._write((*self.all(), GatewayKey(name, _digest(secret), round(time.time(), 3))))
        return secret

    def remove(self, name: str) -> None:
        """Remove a key. The tenant's sessions stay; a new key with the same name opens them again."""
        left = tuple(key for key in self.all() if key.name != name)
        if len(left) == len(self.all()):
            known = ", ".join(key.name for key in self.all()) or "none"
            raise UsageError(f"no key named {name[:80]!r}; keys: {known}")
        self._write(left)

    def _write(self, keys: tuple[GatewayKey, ...]) -> None:
        """Replace the file atomically."""
        temporary = self.path.with_name(f"{self.path.name}.{os.getpid()}.new")
        try:
            with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(msgspec.json.format(msgspec.json.encode(keys), indent=2) + b"\n")
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self.path)
        except OSError as error:
            raise StoreIoError(f"cannot write the keys in {self.path} ({error.strerror})") from error
        finally:
            temporary.unlink(missing_ok=True)


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode(errors="replace")).hexdigest()
