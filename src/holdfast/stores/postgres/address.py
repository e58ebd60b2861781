"""Where a PostgreSQL store is: its URL, and how to speak of it without its password."""

import re
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from holdfast.errors import StorePathError

# A name, a number or one in brackets, and a port. Several may be named, separated by commas.
_HOST = re.compile(r"(?:\[[0-9a-fA-F:.%]*\]|[^:\[\]@/]*)(?::\d{1,5})?")


class Address:
    """The address of a database. Whatever is shown of it, a password is not."""

    def __init__(self, url: str) -> None:
        self._url = url
        try:
            parts = urlsplit(url)
            hosts = parts.netloc.rpartition("@")[2]
            asked = parse_qs(parts.query, strict_parsing=bool(parts.query))
            if not all(map(_HOST.fullmatch, hosts.split(","))):
                raise ValueError("a host")  # noqa: TRY301 - the same sentence for whatever cannot be read
        except ValueError:
            # Without the cause: it may quote the address, and that may hold a password.
            raise StorePathError(
                "the address of the store is not a URL that PostgreSQL knows; write it as "
                "postgresql://user@host:5432/database, with special characters percent-encoded"
            ) from None
        database = unquote(parts.path.lstrip("/"))
        self.shown = f"postgresql://{hosts or (asked.get('host') or [''])[0]}/{database}"

    def __repr__(self) -> str:
        return f"Address({self.shown!r})"

    def arguments(self) -> dict[str, Any]:
        """Return what `asyncpg.connect` takes. What is not in the URL it takes from libpq's variables and files."""
        return {"dsn": self._url}
