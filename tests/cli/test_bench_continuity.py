"""`holdfast bench continuity` finds what was live at a compaction, and what a text tells of it."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from holdfast.lab.benches.continuity import (
    Told,
    continuity,
    is_bare,
    measure_continuity,
    names_foreseen,
    sessions_in,
    units_of,
)
from holdfast.lab.benches.ledger import cuts_of
from holdfast.rescue.neutral import read_neutral
from tests.cli.transcripts import a_call, a_message, a_result, write_transcript

TALK = (
    a_message("s1", 0, "user", "Please make the harbour parser accept trailing commas everywhere."),
    a_message(
        "s1",
        1,
        "assistant",
        "I read it.",
        a_call("TodoWrite", todos=[{"content": "Write parser tests", "status": "pending"}]),
    ),
    a_message("s1", 2, "tool", a_result("ok")),
    a_message("s1", 3, "assistant", "The strict parser stops early. Should I also relax the harbour lexer rules?"),
    a_message("s1", 4, "user", "yes"),
    a_message("s1", 5, "assistant", a_call("Edit", file_path="/src/parse_list.py", new_string="x")),
    a_message("s1", 6, "tool", a_result("ok")),
    a_message("s1", 7, "assistant", a_call("bash", command="pytest -q")),
    a_message("s1", 8, "tool", a_result("Error: harbour master missing\n1 failed, 40 passed")),
    a_message("s1", 9, "assistant", "One harbour test still fails in parse_list."),
    a_message("s1", 10, "system", "compacted", meta={"subtype": "compact_boundary"}),
    a_message("s1", 11, "assistant", "Back to parse_list now.", a_call("read", path="/src/parse_list.py")),
)
LIVE = [
    ("typed", "Please make the harbour parser accept trailing commas everywhere."),
    ("agreed", "Should I also relax the harbour lexer rules?"),
    ("changed", "/src/parse_list.py"),
    ("error", "Error: harbour master missing"),
    ("verdict", "failed 1 failed, 40 passed"),
    ("task", "Write parser tests"),
    ("last words", "One harbour test still fails in parse_list."),
    ("name", "/src/parse_list.py"),
    ("name", "parse_list"),
    ("unread name", "/src/parse_list.py"),
    ("unread name", "parse_list"),
]


def test_what_is_live_at_a_compaction_is_found(tmp_path: Path) -> None:
    [cut] = cuts_of(list(read_neutral(write_transcript(tmp_path / "t.jsonl", *TALK))))
    found = units_of(cut, cut.before)
    assert [unit for unit in LIVE if unit not in found] == []


@pytest.mark.parametrize(
    ("text", "unit", "told"),
    [
        ("user [#1] make the harbour parser accept trailing commas", LIVE[0], True),
        ("The harbour is calm today.", LIVE[0], False),
        ("changed parse_list.py", LIVE[2], True),
        ("nothing of it", LIVE[2], False),
        ("the name is parse_list", LIVE[8], True),
        # A bare list tells names, and no sentence.
        ("a_b harbour_x parser.y accept/z trailing_q commas_r lexer_s rules_t", LIVE[1], False),
    ],
)
def test_a_text_tells_a_unit_or_not(text: str, unit: tuple[str, str], *, told: bool) -> None:
    assert Told(text).tells(unit) is told


def test_a_bare_list_is_told_from_prose() -> None:
    assert is_bare("names: a_b c.d e/f g_h i_j k_l m_n o_p")
    assert not is_bare("The parser in src/a.py reads a_b and then c_d before it stops.")


def test_a_digest_tells_what_was_live(tmp_path: Path) -> None:
    path = write_transcript(tmp_path / "t.jsonl", *TALK)
    report = measure_continuity(sessions_in(path))
    assert (report.cuts, report.lost) == (1, ())
    assert {kind: row.share for kind, row in report.rows.items()} == dict.fromkeys(
        ("typed", "agreed", "changed", "error", "verdict", "task", "last words", "name", "unread name"), 1.0
    )
    assert report.names_foreseen == report.rows["name"].live


def test_a_name_that_a_tool_shows_again_before_the_agent_writes_it_is_not_unread(tmp_path: Path) -> None:
    shown = a_message("s1", 11, "tool", a_result("parse_list is in /src/parse_list.py"))
    path = write_transcript(tmp_path / "t.jsonl", *TALK[:11], shown, *TALK[11:])
    [cut] = cuts_of(list(read_neutral(path)))
    assert [unit for unit in units_of(cut, cut.before) if unit[0] == "unread name"] == []


def test_names_with_foresight_are_bounded_by_their_share() -> None:
    names = [f"name_{number:04}" for number in range(100)]
    sentences = "goal [#1] say what was asked and what is left to do\n" * 20
    told = names_foreseen(f"{sentences}goal [#2] name_0007\nnames [#3] other_name", names, 3_000)
    assert 25 <= told <= 35
    assert names_foreseen(sentences, names, 10) == 0


def test_the_command_prints_a_row_per_kind_and_cuts_where_it_is_told(tmp_path: Path) -> None:
    path = write_transcript(tmp_path / "t.jsonl", *TALK)
    shown = CliRunner().invoke(continuity, [str(path), "--every", "5", "--max-tokens", "150", "--lost"])
    assert shown.exit_code == 0
    assert shown.output.startswith("2 compactions; digests of 150 tokens\ntyped ")
    assert "lost " in shown.output
    as_json = CliRunner().invoke(continuity, [str(path), "--json"])
    assert json.loads(as_json.output)["rows"]["agreed"]["told"] == 1


def test_a_transcript_without_compactions_asks_for_a_distance(tmp_path: Path) -> None:
    path = write_transcript(tmp_path / "t.jsonl", *TALK[:4])
    assert "--every" in str(CliRunner().invoke(continuity, [str(path)]).exception)
