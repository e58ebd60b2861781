"""Named SQL queries of the PostgreSQL store, loaded once from `queries.sql`.

A query begins with a line `-- name --`, followed by a comment line with its purpose and the statement. Statements that
depend on a table name or a number of parameters are built in Python.
"""

import re
from collections.abc import Mapping
from importlib import resources
from types import MappingProxyType

_QUERY = re.compile(r"^-- (?P<name>\w+) --\n-- (?P<purpose>.+)\n(?P<sql>(?:(?!--).*\n)+)", re.MULTILINE)


def load_queries(text: str) -> dict[str, str]:
    """Return the statements of a file by their names."""
    queries: dict[str, str] = {}
    for found in _QUERY.finditer(text):
        assert found["name"] not in queries, f"two queries are named {found['name']}"
        queries[found["name"]] = found["sql"].strip()
    return queries


SQL: Mapping[str, str] = MappingProxyType(
    load_queries((resources.files("holdfast.stores.postgres") / "queries.sql").read_text(encoding="utf-8"))
)
