"""Where a PostgreSQL store is: its URL, and how to speak of it without its password."""

from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from holdfast.errors import StorePathError

SCHEMES = ("postgresql://", "postgres://")


class Address:
    """The address of a database. Whatever is shown of it, a password is not."""

    def __init__(self, url: str) -> None:
        self._url = url
        try:
            parts = urlsplit(url)
            # Reading it is what checks it.
            port = parts.port
            asked = parse_qs(parts.query, strict_parsing=bool(parts.query))
        except ValueError:
            # Without the cause: it may quote the address, and that may hold a password.
            raise StorePathError(
                "the address of the store is not a URL that PostgreSQL knows; write it as "
                "postgresql://user@host:5432/database, with special characters percent-encoded"
            ) from None
        host = (asked.get("host") or [parts.hostname or ""])[0]
        database = unquote(parts.path.lstrip("/"))
        self.shown = f"postgresql://{host}{f':{port}' if port else ''}/{database}"

    def __repr__(self) -> str:
        return f"Address({self.shown!r})"

    def arguments(self) -> dict[str, Any]:
        """Return what `asyncpg.connect` takes. What is not in the URL it takes from libpq's variables and files."""
        return {"dsn": self._url}
