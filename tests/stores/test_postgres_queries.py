"""The named queries of the PostgreSQL store: each has a purpose and is used."""

import re
from pathlib import Path

import pytest

from holdfast.stores import postgres
from holdfast.stores.postgres.migrations import SQL, load_queries

FOLDER = Path(postgres.__file__).parent


def test_every_query_of_the_file_is_loaded_and_used_and_no_other_is_named() -> None:
    named = re.findall(r"^-- (\w+) --$", (FOLDER / "queries.sql").read_text(), re.MULTILINE)
    text = "".join(path.read_text() for path in FOLDER.glob("*.py"))
    used = {
        *re.findall(r"SQL\[[\"'](\w+)[\"']\]", text),
        *(name for name in SQL if f'"{name}",' in text or f'"{name}")' in text),
    }

    assert sorted(named) == sorted(SQL)
    assert used == set(SQL)


def test_a_query_has_a_name_a_purpose_and_a_statement() -> None:
    text = "-- Head\n\n-- one --\n-- Read it\nSELECT a\nFROM b\n\n-- == Part ==\n\n-- two --\n-- Read two\nSELECT 2\n"

    assert load_queries(text) == {"one": "SELECT a\nFROM b", "two": "SELECT 2"}
    with pytest.raises(AssertionError, match="one"):
        load_queries(text + text)
