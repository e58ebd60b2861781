"""`holdfast bench ledger` measures what it says: here on a session whose figures can be told by hand."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from holdfast.lab.benches.ledger import Coverage, cuts_of, identifiers, ledger, measure_ledger, used_again
from holdfast.rescue.neutral import read_neutral
from tests.cli.transcripts import a_call, a_message, a_result, write_transcript

BEFORE = (
    a_message("s1", 0, "user", "Please rename isReady, and see ticket #7. Limit it to 8080."),
    a_message("s1", 1, "assistant", "I read it.", a_call("read", path="/src/main.go")),
    a_message("s1", 2, "tool", a_result("func isReady() { neverAgain(); usedLater() } // 4711")),
)
AFTER = (
    a_message("s1", 3, "system", "compacted", meta={"subtype": "compact_boundary"}),
    a_message("s1", 4, "user", "The summary speaks of isReady.", meta={"compact_summary": True}),
    a_message("s1", 5, "user", "go on, newByUser"),
    a_message(
        "s1", 6, "assistant", "isReady, 8080, 4711", a_call("edit", path="/src/main.go", text="usedLater newName")
    ),
    a_message("s1", 7, "tool", a_result("neverAgain")),
)


def a_corpus(folder: Path, *messages: dict[str, object]) -> Path:
    write_transcript(folder / "transcripts" / "neutral" / "t.jsonl.gz", *messages)
    return folder


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("see https://a.org/b.", {"https://a.org/b": "url"}),
        ("in src/main.go and go.mod", {"src/main.go": "path", "go.mod": "path"}),
        ("8a6f3c2e-41d7-4b0e-9c55-0f2d7b1e6a90", {"8a6f3c2e-41d7-4b0e-9c55-0f2d7b1e6a90": "id"}),
        ("25fbbfd HOLD-12 #7", {"25fbbfd": "id", "HOLD-12": "id", "#7": "id"}),
        ("isReady snake_case plain Word", {"isReady": "symbol", "snake_case": "symbol"}),
        ("100 items, 12 more", {"100": "number"}),
    ],
)
def test_identifiers_are_told_by_their_shape(text: str, found: dict[str, str]) -> None:
    assert identifiers(text) == found


def test_used_again_is_what_stands_before_and_in_the_agents_words_after(tmp_path: Path) -> None:
    path = write_transcript(tmp_path / "t.jsonl", *BEFORE, *AFTER)
    [cut] = cuts_of(list(read_neutral(path)))
    # Not the number that only a tool printed, not what only others said, not what is new.
    assert used_again(cut) == {"isReady": "symbol", "8080": "number", "/src/main.go": "path", "usedLater": "symbol"}
    assert cut.summary == "compacted\nThe summary speaks of isReady."


def test_a_session_that_was_never_compacted_has_no_cuts(tmp_path: Path) -> None:
    path = write_transcript(tmp_path / "t.jsonl", *BEFORE)
    assert cuts_of(list(read_neutral(path))) == []


def test_coverage_is_counted_with_and_without_a_tail(tmp_path: Path) -> None:
    report = measure_ledger(a_corpus(tmp_path, *BEFORE, *AFTER))
    # So short a session lies in the tail altogether.
    assert report.all == Coverage(
        compactions=1,
        used_again=4,
        pooled=1.0,
        mean=1.0,
        pooled_beyond_tail=0.0,
        pooled_with_tail=1.0,
        pooled_agents_summary=0.25,
    )
    assert report.by_kind == {"number": (1, 1), "path": (1, 1), "symbol": (2, 2)}


def test_what_lies_before_the_tail_is_measured_by_itself(tmp_path: Path) -> None:
    filler = [
        a_message("s1", seq, "tool", a_result("nothing to see here, move along please " * 600)) for seq in range(10, 16)
    ]
    report = measure_ledger(a_corpus(tmp_path, *BEFORE, *filler, *AFTER))
    assert (report.all.used_again, report.all.pooled_beyond_tail, report.all.pooled_with_tail) == (4, 1.0, 1.0)


def test_too_few_tokens_hold_too_little(tmp_path: Path) -> None:
    assert measure_ledger(a_corpus(tmp_path, *BEFORE, *AFTER), tokens_max=30).all.pooled == 0.0


def test_arguments_that_are_no_object_are_measured_too(tmp_path: Path) -> None:
    odd = {"type": "tool_call", "id": "2", "name": "x", "args": ["usedLater", {"n": 5}, None]}
    path = write_transcript(tmp_path / "t.jsonl", *BEFORE, AFTER[0], a_message("s1", 8, "assistant", odd))
    [cut] = cuts_of(list(read_neutral(path)))
    assert used_again(cut) == {"usedLater": "symbol"}


def test_the_figures_are_printed_for_people_and_for_programs(tmp_path: Path) -> None:
    corpus = a_corpus(tmp_path, *BEFORE, *AFTER)
    spoken = CliRunner().invoke(ledger, ["--corpus", str(corpus)])
    as_json = CliRunner().invoke(ledger, ["--json"], env={"HOLDFAST_CORPUS": str(corpus)})
    assert "all: 1 compactions, 4 identifiers used again; kept in 3,000 tokens: 100.0% of all" in spoken.output
    assert json.loads(as_json.output)["all"]["pooled"] == 1.0


def test_without_transcripts_it_says_what_it_needs(tmp_path: Path) -> None:
    nowhere = CliRunner().invoke(ledger, env={"HOLDFAST_CORPUS": None})
    empty = CliRunner().invoke(ledger, ["--corpus", str(tmp_path)])
    assert "choose their folder with --corpus or HOLDFAST_CORPUS" in str(nowhere.exception)
    assert "has no transcripts/neutral/*.jsonl.gz" in str(empty.exception)
