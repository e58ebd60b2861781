"""Gateway keys in a table of the store, so that all gateways on a database agree.

Requests are checked against a copy that is read again every second: a change takes effect within that time on every
node. A copy that could not be read again for a minute is not used any more.
"""

import logging
from collections.abc import Callable
from time import monotonic

import msgspec

from holdfast.errors import HoldfastError, StoreBusyError, StoreIoError, StoreUnreachableError
from holdfast.gateway.http.keys import (
    GatewayKey,
    changed_key,
    check_known,
    make_key,
    matching_key,
    name_taken,
    random_secret,
    rotated_key,
)
from holdfast.ports import Clock, KeyRow, KeyRows

log = logging.getLogger(__name__)

_REFRESH_SECONDS = 1.0
# Without the store nothing can be accepted anyway; removed keys must not stay valid meanwhile.
_STALE_SECONDS_MAX = 60.0
# Changes of one key by several operators at once; each is tried again with the row that the other wrote.
_TRIES_MAX = 10


class KeyTable:
    """The keys of all gateways on a store."""

    def __init__(self, rows: KeyRows) -> None:
        self._rows = rows
        self._keys: tuple[GatewayKey, ...] = ()
        self._read_at = float("-inf")

    async def all(self) -> tuple[GatewayKey, ...]:
        """Read the keys, and return them."""
        await self.reload()
        return self._keys

    async def reload(self) -> None:
        """Read the table again now."""
        self._keys = tuple(_decoded(row) for row in await self._rows.key_rows())
        self._read_at = monotonic()

    async def keep_fresh(self, clock: Clock) -> None:
        """Read the table every second, forever."""
        is_failing = False
        while True:
            await clock.sleep(_REFRESH_SECONDS)
            try:
                await self.reload()
                is_failing = False
            except HoldfastError as error:
                if not is_failing:
                    log.warning("keys cannot be read", extra={"code": error.code})
                is_failing = True

    def find(self, presented: str) -> GatewayKey | None:
        """Return the key of a secret; None if it is unknown or expired."""
        return matching_key(self._fresh(), presented)

    def name_of(self, presented: str) -> str | None:
        """Return the name of a secret's key; None if it is unknown or expired."""
        found = self.find(presented)
        return None if found is None else found.name

    def is_empty(self) -> bool:
        """Return true if there are no keys."""
        return not self._fresh()

    def _fresh(self) -> tuple[GatewayKey, ...]:
        if monotonic() - self._read_at > _STALE_SECONDS_MAX:
            raise StoreUnreachableError("the keys of this gateway cannot be read from its store; retry later")
        return self._keys

    async def add(self, name: str, key: GatewayKey | None = None) -> str:
        """Create a key and return its secret. Only the hash is stored, so it cannot be shown again."""
        made, secret = make_key(name, key)
        if not await self._rows.put_key(KeyRow(name, msgspec.json.encode(made)), version=0):
            raise name_taken(name)
        return secret

    async def change(self, name: str, change: Callable[[GatewayKey], GatewayKey]) -> GatewayKey:
        """Replace a key by the changed one and return it. Its secrets stay."""
        return await self._replace(name, lambda key: changed_key(key, change))

    async def rotate(self, name: str, *, overlap_seconds: float) -> str:
        """Give a key a new secret and return it. The others expire after the overlap."""
        secret = random_secret()
        await self._replace(name, lambda key: rotated_key(key, secret, overlap_seconds))
        return secret

    async def remove(self, name: str) -> None:
        """Remove a key. The tenant's sessions stay; a new key with the same name opens them again."""
        for _ in range(_TRIES_MAX):
            if await self._rows.remove_key(name, version=(await self._row(name)).version):
                return
        raise self._busy(name)

    async def _replace(self, name: str, change: Callable[[GatewayKey], GatewayKey]) -> GatewayKey:
        for _ in range(_TRIES_MAX):
            row = await self._row(name)
            changed = change(_decoded(row))
            if await self._rows.put_key(KeyRow(name, msgspec.json.encode(changed)), version=row.version):
                return changed
        raise self._busy(name)

    async def _row(self, name: str) -> KeyRow:
        rows = await self._rows.key_rows()
        check_known(name, (_decoded(row) for row in rows))
        return next(row for row in rows if row.name == name)

    def _busy(self, name: str) -> StoreBusyError:
        return StoreBusyError(f"the key {name!r} is being changed by others at the same time; retry")


def _decoded(row: KeyRow) -> GatewayKey:
    try:
        return msgspec.json.decode(row.body, type=GatewayKey)
    except msgspec.MsgspecError as error:
        raise StoreIoError(f"the key {row.name!r} in the store cannot be read; remove its row") from error
