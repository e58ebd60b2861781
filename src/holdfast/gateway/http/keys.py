"""Gateway keys: names, hashed secrets, roles and limits, in a file beside the store.

Each gateway reads the file again within a second after a change, so a key is added, rotated, limited or removed without
a restart.
"""

import fcntl
import hashlib
import hmac
import os
import re
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path

import msgspec
from msgspec.structs import replace

from holdfast.errors import StoreBusyError, StoreIoError, UsageError
from holdfast.stores.folder import sync_folder
from holdfast.types.accounts import KeyLimits

PREFIX = "hf_"
# Names appear in logs and in store keys, so they are short and ASCII.
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
# Longer than any key of ours; longer input is not hashed.
_KEY_CHARS_MAX = 256
# The file is read at most this often: removing a key takes effect within this time.
_REFRESH_SECONDS = 1.0
# A file that changed this recently is read again: another change may leave the same time, size and inode.
_SETTLED_SECONDS = 2.0
# Changes wait for each other: a change takes some milliseconds, so a longer wait means a stopped process.
_LOCK_SECONDS_MAX = 30.0
_LOCK_RETRY_SECONDS = 0.01
_NO_KEYS = b"[]\n"
# Valid secrets of one key: each costs a comparison with every request.
_SECRETS_MAX = 8


class Role(StrEnum):
    """The requests that a key may make."""

    # Everything in its own sessions, and model calls.
    USE = "use"
    # Reading its own sessions; nothing that writes or calls a model.
    READ = "read"
    # As USE, and figures of all keys.
    OPERATOR = "operator"


class Secret(msgspec.Struct, frozen=True, omit_defaults=True):
    """The hash of a secret. Several secrets of one key overlap while it is rotated."""

    sha256: str
    created_at: float
    # 0: it does not expire.
    expires_at: float = 0.0


class GatewayKey(msgspec.Struct, frozen=True, omit_defaults=True):
    """A stored key: its name, the hashes of its secrets, its role and limits."""

    name: str
    # The only secret of a key that an earlier version wrote.
    sha256: str = ""
    created_at: float = 0.0
    secrets: tuple[Secret, ...] = ()
    role: Role = Role.USE
    comment: str = ""
    # 0: it does not expire.
    expires_at: float = 0.0
    limits: KeyLimits = KeyLimits()

    def all_secrets(self) -> tuple[Secret, ...]:
        """Return the secrets, with the one of an earlier version."""
        old = (Secret(self.sha256, self.created_at),) if self.sha256 else ()
        return (*old, *self.secrets)


def _is_over(expires_at: float, now: float) -> bool:
    return 0 < expires_at <= now


def matching_key(keys: Iterable[GatewayKey], presented: str) -> GatewayKey | None:
    """Return the key of a secret; None if it is unknown or expired. Takes as long for invalid secrets."""
    if len(presented) > _KEY_CHARS_MAX:
        return None
    digest, now = _digest(presented), time.time()
    found = None
    for key in keys:
        for secret in key.all_secrets():
            is_equal = hmac.compare_digest(secret.sha256, digest)
            if is_equal and not _is_over(secret.expires_at, now) and not _is_over(key.expires_at, now):
                found = key
    return found


def random_secret() -> str:
    """Return a random secret."""
    return PREFIX + secrets.token_urlsafe(32)


def make_key(name: str, properties: GatewayKey | None = None) -> tuple[GatewayKey, str]:
    """Return a key and its secret. Raises `UsageError` for a name that is not valid."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name[:80]!r} is not a valid key name; use up to 32 lowercase letters, digits, '-' and '_', "
            'as in "alice"'
        )
    secret, now = random_secret(), round(time.time(), 3)
    made = (Secret(_digest(secret), now),)
    return replace(properties or GatewayKey(name), name=name, created_at=now, secrets=made), secret


def changed_key(key: GatewayKey, change: Callable[[GatewayKey], GatewayKey]) -> GatewayKey:
    """Return a changed key with its secrets as they are."""
    return replace(change(key), sha256=key.sha256, secrets=key.secrets)


def rotated_key(key: GatewayKey, secret: str, overlap_seconds: float) -> GatewayKey:
    """Return a key with a new secret; the others expire after the overlap, or earlier if they did before."""
    now = round(time.time(), 3)
    # An expiry of 0 would mean never.
    ends = max(now + overlap_seconds, 0.001)
    old = tuple(
        replace(one, expires_at=min(one.expires_at or ends, ends))
        for one in key.all_secrets()
        if not _is_over(one.expires_at, now)
    )
    if len(old) >= _SECRETS_MAX:
        raise UsageError(
            f"the key {key.name!r} has {len(old)} valid secrets, which is the limit; retry when one has expired"
        )
    return replace(key, sha256="", secrets=(*old, Secret(_digest(secret), now)))


def name_taken(name: str) -> UsageError:
    """Return the error for a name that has a key."""
    return UsageError(
        f"a key named {name!r} already exists; `holdfast keys rotate` gives it a new secret, or use another name"
    )


def check_known(name: str, known: Iterable[GatewayKey]) -> None:
    """Raise `UsageError` unless there is a key of this name."""
    names = [key.name for key in known]
    if name not in names:
        raise UsageError(f"no key named {name[:80]!r}; keys: {', '.join(names) or 'none'}")


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
            self._keys = self._read()
            self._stamp = stamp if time.time() - found.st_mtime > _SETTLED_SECONDS else None
        return self._keys

    def _read(self) -> tuple[GatewayKey, ...]:
        try:
            return msgspec.json.decode(self.path.read_bytes(), type=tuple[GatewayKey, ...])
        except OSError as error:
            raise self._unreadable(error.strerror or str(error)) from error
        except msgspec.MsgspecError as error:
            raise self._unreadable(str(error)) from error

    def _unreadable(self, reason: str) -> StoreIoError:
        return StoreIoError(f"cannot read the keys in {self.path} ({reason}); restore the file or create new keys")

    def find(self, presented: str) -> GatewayKey | None:
        """Return the key of a secret; None if it is unknown or expired. Takes as long for invalid secrets."""
        self._refresh()
        return matching_key(self._keys, presented)

    def name_of(self, presented: str) -> str | None:
        """Return the name of a secret's key; None if it is unknown or expired."""
        found = self.find(presented)
        return None if found is None else found.name

    async def reload(self) -> None:
        """Read the file again now."""
        self._stamp = None
        self.all()
        self._checked_at = time.monotonic()

    def is_empty(self) -> bool:
        """Return true if there are no keys."""
        self._refresh()
        return not self._keys

    def _refresh(self) -> None:
        now = time.monotonic()
        if now - self._checked_at >= _REFRESH_SECONDS:
            self.all()
            self._checked_at = now

    def add(self, name: str, key: GatewayKey | None = None) -> str:
        """Create a key and return its secret. Only the hash is stored, so it cannot be shown again.

        `key` has its role, comment, expiry and limits.
        """
        made, secret = make_key(name, key)
        with self._locked():
            known = self._read()
            if any(one.name == name for one in known):
                raise name_taken(name)
            self._write((*known, made))
        return secret

    def change(self, name: str, change: Callable[[GatewayKey], GatewayKey]) -> GatewayKey:
        """Replace a key by the changed one and return it. Its secrets stay."""
        return self._replace(name, lambda key: changed_key(key, change))

    def rotate(self, name: str, *, overlap_seconds: float) -> str:
        """Give a key a new secret and return it. The others expire after the overlap, or earlier if they did before."""
        secret = random_secret()
        self._replace(name, lambda key: rotated_key(key, secret, overlap_seconds))
        return secret

    def _replace(self, name: str, change: Callable[[GatewayKey], GatewayKey]) -> GatewayKey:
        check_known(name, self.all())
        with self._locked():
            known = self._read()
            check_known(name, known)
            changed = tuple(change(key) if key.name == name else key for key in known)
            self._write(changed)
        return next(key for key in changed if key.name == name)

    def remove(self, name: str) -> None:
        """Remove a key. The tenant's sessions stay; a new key with the same name opens them again."""
        check_known(name, self.all())
        with self._locked():
            known = self._read()
            check_known(name, known)
            self._write(tuple(key for key in known if key.name != name))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock of the file while it is read and replaced. A replaced file is locked again under its name."""
        deadline = time.monotonic() + _LOCK_SECONDS_MAX
        while True:
            file = self._open()
            try:
                if _is_locked(file) and self._is_current(file):
                    yield
                    return
            finally:
                os.close(file)
            if time.monotonic() > deadline:
                raise StoreBusyError(f"another process holds {self.path}; end it, or retry later")
            time.sleep(_LOCK_RETRY_SECONDS)

    def _open(self) -> int:
        """Return the file, made without keys if there is none."""
        try:
            if not self.path.exists():
                # A link appears complete and never replaces a file.
                fresh = self.path.with_name(f"{self.path.name}.{secrets.token_hex(4)}.new")
                try:
                    _write_file(fresh, _NO_KEYS)
                    with suppress(FileExistsError):
                        os.link(fresh, self.path)
                finally:
                    fresh.unlink(missing_ok=True)
            return os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            raise self._unwritable(error) from error

    def _is_current(self, file: int) -> bool:
        """Return whether a locked file is the one under its name, and not one that was replaced meanwhile."""
        try:
            return os.path.samestat(os.fstat(file), self.path.stat())
        except FileNotFoundError:
            return False

    def _write(self, keys: tuple[GatewayKey, ...]) -> None:
        """Replace the file atomically; a key that is printed is on disk. The lock ends with the replacement."""
        fresh = self.path.with_name(f"{self.path.name}.new")
        try:
            # Left by a process that died here.
            fresh.unlink(missing_ok=True)
            _write_file(fresh, msgspec.json.format(msgspec.json.encode(keys), indent=2) + b"\n")
            fresh.replace(self.path)
        except OSError as error:
            fresh.unlink(missing_ok=True)
            raise self._unwritable(error) from error
        try:
            sync_folder(self.path.parent)
        except OSError as error:
            raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> StoreIoError:
        return StoreIoError(f"cannot write the keys in {self.path} ({error.strerror})")


def _write_file(path: Path, content: bytes) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _is_locked(file: int) -> bool:
    """Lock a file and return true; false if another process has it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode(errors="replace")).hexdigest()
