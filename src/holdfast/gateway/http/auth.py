"""Whose sessions are whose: each gateway key is a tenant, and a tenant sees its own sessions and no others.

A tenant's session `telegram:42` is kept under `@NAME/telegram:42`. A name has no "/", so no key of one tenant can begin
with the prefix of another, and whatever stands behind the prefix is only text. Without keys there is one tenant without
a prefix, whose sessions are those of the library and the command line; it may not use keys that begin with "@".
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
# Behind every key that begins with the mark: no character is higher.
_AFTER_TENANT_KEYS = _TENANT_MARK + "\U0010ffff"
# What a key may have, so that it fits the engine's 256 bytes with the longest prefix of 34.
KEY_BYTES_MAX = 200
# Sessions that are read from the store at once where many are looked at, some 100 bytes each ...
_PAGE = 1_000
# ... and how many keys one request for those that match may look at: a tenth of a second.
_SCANNED_MAX = 20_000


class Tenant:
    """Somebody who uses the gateway: a prefix of keys, and how much is under way."""

    def __init__(self, name: str, bounds: GatewayBounds) -> None:
        self.name = name
        self._bounds = bounds
        self._prefix = f"{_TENANT_MARK}{name}/" if name else ""
        self.streams = 0
        self.requests = 0

    def store_key(self, key: str) -> str:
        """Return the key that a session of this tenant has in the store."""
        check_session_key(key)
        size_bytes = len(key.encode(errors="replace"))
        if size_bytes > KEY_BYTES_MAX:
            raise InvalidError(f"the session key has {size_bytes:,} bytes, at most {KEY_BYTES_MAX} are taken")
        if not self._prefix and key.startswith(_TENANT_MARK):
            raise InvalidError(f"a session key may not begin with {_TENANT_MARK!r} here; use another")
        return self._prefix + key

    def key_of(self, store_key: str) -> str | None:
        """Return what this tenant calls a session of the store; None where it is not its own."""
        if self._prefix:
            return store_key.removeprefix(self._prefix) if store_key.startswith(self._prefix) else None
        return None if store_key.startswith(_TENANT_MARK) else store_key

    async def session(self, client: Client, key: str) -> tuple[Session, SessionInfo]:
        """Return a session that exists, with what is known of it. Raises `NotFoundError` where there is none."""
        session = await client.session(self.store_key(key))
        known = await session.known()
        if known is None or known.last_seq == 0:
            raise NotFoundError("there is no such session; a session exists from its first message or settings on")
        return session, known

    async def sessions(
        self, client: Client, *, after: str, limit: int, match: str = ""
    ) -> tuple[list[tuple[str, SessionInfo]], str | None]:
        """Return this tenant's sessions behind one of its keys, each with its own name for it, and where to go on.

        With `match`, those that have it in their key; then there may be fewer than `limit`, and more to come.
        """
        found: list[tuple[str, SessionInfo]] = []
        wanted, after_key = match.casefold(), self._prefix + after
        size, scanned = _PAGE if match else limit, 0
        while scanned < _SCANNED_MAX:
            page = await client.sessions(after=after_key, limit=size)
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
            after_key = page[-1].key if last is not None else max(page[-1].key, _AFTER_TENANT_KEYS)
            scanned += len(page)
        return found, after_key.removeprefix(self._prefix)

    async def every_session(self, client: Client, *, count_max: int) -> list[tuple[str, SessionInfo]]:
        """Return all sessions of this tenant, or the first so many in order of their keys."""
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


# --- Who may use a gateway: named keys in a file of their own, hashed.


PREFIX = "hf_"
# A name stands in logs and before session keys, so it is short and plain.
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
# Longer than any key of ours; what is longer is not even hashed.
_KEY_CHARS_MAX = 256
# How old the knowledge of the file may be: removing a key takes effect within it.
_REFRESH_SECONDS = 1.0


class GatewayKey(msgspec.Struct, frozen=True):
    """A key as it is kept: its name, its hash and when it was made."""

    name: str
    sha256: str
    created_at: float


class KeyFile:
    """The keys of a gateway. Where there is no file there are none."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._keys: tuple[GatewayKey, ...] = ()
        self._stamp: tuple[int, int, int] | None = None
        self._checked_at = float("-inf")

    def all(self) -> tuple[GatewayKey, ...]:
        """Return the keys as the file has them now."""
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

    def _unreadable(self, why: str) -> StoreIoError:
        return StoreIoError(f"the keys in {self.path} cannot be read ({why}); restore the file or make keys anew")

    def name_of(self, presented: str) -> str | None:
        """Return the name of a key; None where it is not known. Takes as long for a right key as for a wrong one."""
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
        """Return whether there are no keys."""
        self._refresh()
        return not self._keys

    def _refresh(self) -> None:
        now = time.monotonic()
        if now - self._checked_at >= _REFRESH_SECONDS:
            self.all()
            self._checked_at = now

    def add(self, name: str) -> str:
        """Make a key and return it: it is shown this once, and kept only as a hash."""
        if not _NAME.fullmatch(name):
            raise UsageError(
                f"{name[:80]!r} cannot name a key; use up to 32 small letters, digits, '-' and '_', as in \"alice\""
            )
        if any(key.name == name for key in self.all()):
            raise UsageError(f"there is a key named {name!r} already; remove it first, or use another name")
        secret = PREFIX + secrets.token_urlsafe(32)
        self._write((*self.all(), GatewayKey(name, _digest(secret), round(time.time(), 3))))
        return secret

    def remove(self, name: str) -> None:
        """Forget a key. The sessions of its tenant stay, and a new key of that name opens them again."""
        left = tuple(key for key in self.all() if key.name != name)
        if len(left) == len(self.all()):
            known = ", ".join(key.name for key in self.all()) or "none"
            raise UsageError(f"there is no key named {name[:80]!r}; there are: {known}")
        self._write(left)

    def _write(self, keys: tuple[GatewayKey, ...]) -> None:
        """Replace the file in one step: whoever reads it sees all keys or all keys as they were."""
        temporary = self.path.with_name(f"{self.path.name}.{os.getpid()}.new")
        try:
            with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(msgspec.json.format(msgspec.json.encode(keys), indent=2) + b"\n")
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self.path)
        except OSError as error:
            raise StoreIoError(f"the keys in {self.path} cannot be written ({error.strerror})") from error
        finally:
            temporary.unlink(missing_ok=True)


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode(errors="replace")).hexdigest()
