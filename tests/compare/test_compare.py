"""The comparison with other stores: its tables and plots, and one round over the reference and Holdfast."""

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.compare.__main__ import BEGIN, END, collected, installed, kill, measure, written
from tests.compare.peers import PEERS
from tests.compare.report import Cell, Report, Row, Survived, markdown, plots
from tests.house.places import ROOT

REPORT = Report(
    date="2026-11-18",
    system="Linux",
    python="3.11",
    cores=2,
    rounds=2,
    lengths=(1_000,),
    rows=(
        Row("plain", "sqlite3", "", {"append_ms@1000": Cell((2.0, 4.0)), "load_ms@1000": Cell((1.0,))}),
        Row("holdfast", "Holdfast", "0.1.0", {"append_ms@1000": Cell((1.0, 3.0)), "lost": Cell((0.0,))}),
    ),
    survival=(
        Survived("openai-agents", "overflow", "alone", 7, knows=False),
        Survived("openai-agents", "overflow", "with Holdfast", 17, knows=True),
    ),
    messages=17,
)


def test_a_table_has_medians_with_their_spread_and_a_dash_for_what_was_not_measured() -> None:
    assert markdown(REPORT).splitlines() == [
        "2 rounds in turns, 2 cores, Linux, Python 3.11, 2026-11-18. Medians, with the smallest and the largest value.",
        "",
        "| store | version | append at 1,000, ms | load at 1,000, ms | acknowledged and lost by kill -9 |",
        "|---|---|---|---|---|",
        "| sqlite3 | - | 3.00 (2.00 to 4.00) | 1.0 | - |",
        "| Holdfast | 0.1.0 | 2.00 (1.00 to 3.00) | - | 0 |",
        "",
        "| framework | overflow, alone | overflow, with Holdfast |",
        "|---|---|---|",
        "| openai-agents | 7 of 17, fact lost | 17 of 17, fact known |",
    ]


def test_plots_are_valid_svg_with_the_smallest_bar_first() -> None:
    found = plots(REPORT)

    names = [f"compare-{name}-{theme}.svg" for name in ("append", "load") for theme in ("dark", "light")]
    assert sorted(found) == names
    texts = [one.text for one in ET.fromstring(found["compare-append-dark.svg"]).iter() if one.tag.endswith("}text")]
    assert texts[1:] == ["Holdfast", "2.00", "sqlite3", "3.00"]


def test_the_page_keeps_what_is_around_the_measured_part() -> None:
    page = f"before\n{BEGIN}\nold\n{END}\nafter\n"

    assert written(page, "new") == f"before\n{BEGIN}\n\nnew\n\n{END}\nafter\n"
    with pytest.raises(SystemExit):
        written("no marks", "new")
    assert BEGIN in (ROOT / "docs/comparison.md").read_text()


def test_a_row_has_the_figures_of_every_round() -> None:
    rounds: list[dict[str, dict[str, float | str]]] = [
        {"plain": {"append_ms@1": 1.0, "version": ""}},
        {"plain": {"append_ms@1": 2.0, "version": ""}},
    ]

    (row,) = collected(["plain"], rounds)

    assert row == Row("plain", PEERS["plain"][1], "", {"append_ms@1": Cell((1.0, 2.0))})


def test_reference_and_holdfast_are_measured_and_lose_nothing_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert installed()[:2] == ["plain", "holdfast"]
    for peer in ("plain", "holdfast"):
        found = measure(peer, [20])
        assert {"append_ms@20", "turn_ms@20", "load_ms@20", "disk_mib@20", "import_ms"} <= found.keys()
    assert kill("holdfast", 1, seed=1) == 0
