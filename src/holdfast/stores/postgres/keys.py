"""Gateway keys in a PostgreSQL database, which every node reads."""

from holdfast.ports import KeyRow
from holdfast.stores.postgres.connections import Connections
from holdfast.stores.postgres.migrations import SQL

_LIST = SQL["list_keys"]
_INSERT = SQL["insert_key"]
_UPDATE = SQL["update_key"]
_DELETE = SQL["delete_key"]


class PostgresKeyRows:
    """Keys in the database of a `PostgresStore`, over its connections, which close with the store.

    A statement whose connection was lost is repeated. If it had taken effect, the repetition sees another version and
    returns False, so a caller reads the row again.
    """

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def key_rows(self) -> list[KeyRow]:
        """Return all keys; see `KeyRows.key_rows`."""
        rows = await self._connections.query(lambda db: db.fetch(_LIST))
        return [KeyRow(row["name"], bytes(row["body"]), row["version"]) for row in rows]

    async def put_key(self, row: KeyRow, *, version: int) -> bool:
        """Write a key; see `KeyRows.put_key`."""
        if version == 0:
            return await self._connections.query(lambda db: db.execute(_INSERT, row.name, row.body)) == "INSERT 0 1"
        return await self._connections.query(lambda db: db.execute(_UPDATE, row.name, row.body, version)) == "UPDATE 1"

    async def remove_key(self, name: str, *, version: int) -> bool:
        """Remove a key; see `KeyRows.remove_key`."""
        return await self._connections.query(lambda db: db.execute(_DELETE, name, version)) == "DELETE 1"
