"""`holdfast search` and `holdfast import`: foreign sessions come in once, and everything in them is found."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from holdfast.cli.commands.search import search
from holdfast.cli.commands.sessions import show
from holdfast.cli.commands.transfer import import_
from tests.cli.transcripts import a_call, a_message, a_result, write_transcript

SESSION = (
    a_message("s1", 0, "system", "You are an agent."),
    a_message("s1", 10, "user", "Please look at the harbour plans."),
    a_message("s1", 11, "assistant", "I will.", a_call("read", path="/plans/harbour.md")),
    a_message("s1", 12, "tool", a_result("The quay is 400 m long.")),
    a_message("s1", 13, "assistant", "The quay is long."),
    a_message("s1", 14, "user", "Thanks."),
)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "s.db"


def imported(store: Path, tmp_path: Path, *messages: dict[str, object]) -> Result:
    path = write_transcript(tmp_path / "t.jsonl.gz", *(messages or SESSION))
    return CliRunner().invoke(import_, [str(path), "--store", str(store)])


def found(store: Path, *arguments: str) -> list[dict[str, object]]:
    result = CliRunner().invoke(search, [*arguments, "--store", str(store), "--json"])
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.output.splitlines()]


def test_an_imported_message_is_found_under_its_own_number(store: Path, tmp_path: Path) -> None:
    assert imported(store, tmp_path).output == "s1: 5 messages imported, 1 system texts skipped\n"

    [first, *_] = found(store, "s1", "harbour.md")

    assert (first["origin"], first["call_origin"]) == (12, 11)
    assert first["excerpt"] == "read /plans/harbour.md: The quay is 400 m long."
    assert [hit["origin"] for hit in found(store, "s1", "thanks")] == [14]


def test_the_same_file_twice_changes_nothing(store: Path, tmp_path: Path) -> None:
    """FM-129: what is there already is not imported again."""
    imported(store, tmp_path)
    before = CliRunner().invoke(show, ["s1", "--store", str(store), "--json"]).output

    again = imported(store, tmp_path)

    assert again.output == "s1: 0 messages imported, 5 already there, 1 system texts skipped\n"
    assert CliRunner().invoke(show, ["s1", "--store", str(store), "--json"]).output == before


def test_a_file_that_has_grown_brings_only_what_is_new(store: Path, tmp_path: Path) -> None:
    imported(store, tmp_path)

    grown = imported(store, tmp_path, *SESSION, a_message("s1", 15, "assistant", "You are welcome, narwhal."))

    assert grown.output == "s1: 1 messages imported, 5 already there, 1 system texts skipped\n"
    assert [hit["origin"] for hit in found(store, "s1", "narwhal")] == [15]


def test_several_sessions_of_a_file_become_several(store: Path, tmp_path: Path) -> None:
    imported(store, tmp_path, a_message("a", 1, "user", "about herons"), a_message("b", 1, "user", "about boats"))

    assert [hit["excerpt"] for hit in found(store, "a", "herons boats")] == ["about herons"]
    assert [hit["excerpt"] for hit in found(store, "b", "herons boats")] == ["about boats"]


def test_odd_transcripts_lose_nothing(store: Path, tmp_path: Path) -> None:
    """Parallel calls in several messages, calls without ids, results without calls, an answer before any question."""
    unnamed = {"type": "tool_call", "id": None, "name": "run", "args": {"command": "ls"}}
    messages = (
        a_message("s1", 1, "assistant", "Hello first."),
        a_message("s1", 2, "user", "Go."),
        a_message("s1", 3, "assistant", unnamed),
        a_message("s1", 4, "assistant", {"type": "tool_call", "id": "b", "name": "run", "args": {"command": "pwd"}}),
        a_message("s1", 5, "tool", {"type": "tool_result", "id": None, "text": "listing of everything"}),
        a_message("s1", 6, "tool", {"type": "tool_result", "id": "b", "text": "printed folder"}),
        a_message("s1", 7, "tool", {"type": "tool_result", "id": "lost", "text": "orphaned output"}),
        a_message("s1", 8, "user", "x" * 40_000 + " the end"),
        a_message("s1", 9, "assistant", {"type": "tool_call", "id": "c", "name": "never", "args": {}}),
    )
    assert imported(store, tmp_path, *messages).exit_code == 0

    for query, origin, call in (
        ("ls", 5, 3),
        ("pwd", 6, 4),
        ("orphaned", 7, None),
        ("hello", 1, None),
        ("go", 2, None),
    ):
        [first, *_] = found(store, "s1", query)
        assert (first["origin"], first["call_origin"]) == (origin, call)


def test_many_questions_are_answered_at_once(store: Path, tmp_path: Path) -> None:
    imported(store, tmp_path)
    queries = tmp_path / "q.txt"
    queries.write_text('thanks\n\n{"query": "quay", "id": "q2"}\n{"question": "plans?", "qid": 7}\n"harbour"\n')

    answers = found(store, "s1", "--queries", str(queries), "--limit", "1")

    assert [(answer["query"], answer.get("id")) for answer in answers] == [
        ("thanks", None),
        ("quay", "q2"),
        ("plans?", 7),
        ("harbour", None),
    ]
    assert all(len(answer["hits"]) == 1 for answer in answers if isinstance(answer["hits"], list))


def test_people_get_a_line_per_hit(store: Path, tmp_path: Path) -> None:
    imported(store, tmp_path)

    result = CliRunner().invoke(search, ["s1", "thanks", "--store", str(store)])
    nothing = CliRunner().invoke(search, ["s1", "narwhal", "--store", str(store)])

    assert result.output.endswith("] Thanks.\n")
    assert nothing.output == "nothing found\n"


@pytest.mark.parametrize("arguments", [[], ["a question", "--queries", "-"]])
def test_one_kind_of_question_must_be_given(store: Path, tmp_path: Path, arguments: list[str]) -> None:
    (tmp_path / "q").write_text("x")
    given = [str(tmp_path / "q") if argument == "-" else argument for argument in arguments]

    result = CliRunner().invoke(search, ["s1", *given, "--store", str(store)])

    assert result.exit_code == 2
    assert "one of the two" in result.output


@pytest.mark.parametrize("line", ['{"broken"', '{"other": 1}'])
def test_a_question_that_cannot_be_read_is_named(store: Path, tmp_path: Path, line: str) -> None:
    imported(store, tmp_path)
    queries = tmp_path / "q.jsonl"
    queries.write_text(f"fine\n{line}\n")

    result = CliRunner().invoke(search, ["s1", "--queries", str(queries), "--store", str(store)])

    assert "line 2" in str(result.exception)


def test_a_key_is_for_one_session(store: Path, tmp_path: Path) -> None:
    path = write_transcript(tmp_path / "t.jsonl", a_message("a", 1, "user", "x"), a_message("b", 1, "user", "y"))
    several = CliRunner().invoke(import_, [str(path), "--key", "k", "--store", str(store)])
    one = CliRunner().invoke(import_, [str(path), "--session", "b", "--key", "k2", "--store", str(store), "--json"])
    none = CliRunner().invoke(import_, [str(path), "--session", "c", "--store", str(store)])

    assert "several sessions" in str(several.exception)
    assert json.loads(one.output) == {
        "session": "k2",
        "messages": 1,
        "already_there": 0,
        "system_texts": 0,
        "records": 3,
    }
    assert "no session 'c'" in str(none.exception)
