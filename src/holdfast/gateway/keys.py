"""Who may use a gateway: named keys in a file of their own, hashed.

A key is 256 random bits, so its plain SHA-256 tells nothing about it and needs no salt and no slow hash. The name of a
key is the tenant whose sessions it opens. The file is read again when it has changed, so that a key that was removed
stops working at once.
"""

import hashlib
import hmac
import os
import re
import secrets
import time
from pathlib import Path

import msgspec

from holdfast.errors import StoreIoError, UsageError

PREFIX = "hf_"
# A name stands in logs and before session keys, so it is short and plain.
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
# Longer than any key of ours; what is longer is not even hashed.
_KEY_CHARS_MAX = 256
# How old the knowledge of the file may be: removing a key takes effect within it.
_LOOK_SECONDS = 1.0


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
        self._looked_at = float("-inf")

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
        self._look()
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
        self._look()
        return not self._keys

    def _look(self) -> None:
        now = time.monotonic()
        if now - self._looked_at >= _LOOK_SECONDS:
            self.all()
            self._looked_at = now

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
        beside = self.path.with_name(f"{self.path.name}.{os.getpid()}.new")
        try:
            with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(msgspec.json.format(msgspec.json.encode(keys), indent=2) + b"\n")
                file.flush()
                os.fsync(file.fileno())
            beside.replace(self.path)
        except OSError as error:
            raise StoreIoError(f"the keys in {self.path} cannot be written ({error.strerror})") from error
        finally:
            beside.unlink(missing_ok=True)


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode(errors="replace")).hexdigest()
