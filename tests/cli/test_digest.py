"""`holdfast digest` shows what would stand in place of older messages."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from holdfast.cli.commands.analysis import digest
from holdfast.errors import UsageError
from tests.cli.transcripts import a_message, write_transcript

SESSION = (
    a_message("s1", 0, "system", "You are a helpful agent with a very long system text."),
    a_message("s1", 1, "user", "Please rename the function isReady in src/main.go to hasStarted."),
    a_message("s1", 2, "assistant", "I have renamed it everywhere and all tests pass as before."),
    a_message("s1", 3, "user", "Now add a flag for the port."),
)


def test_it_stands_in_for_the_messages_before_the_given_one(tmp_path: Path) -> None:
    path = write_transcript(tmp_path / "t.jsonl", *SESSION)

    result = CliRunner().invoke(digest, [str(path), "--until", "3", "--max-tokens", "400"])

    assert result.exit_code == 0, result.output
    assert "2 messages, #1 to #2." in result.output
    assert "goal [#1] Please rename the function isReady in src/main.go to hasStarted." in result.output
    assert "last words [#2] I have renamed it everywhere and all tests pass as before." in result.output
    assert "flag for the port" not in result.output
    assert "system text" not in result.output


def test_without_a_boundary_it_stands_in_for_all(tmp_path: Path) -> None:
    path = write_transcript(tmp_path / "t.jsonl.gz", *SESSION)
    result = CliRunner().invoke(digest, [str(path)])
    assert "3 messages, #1 to #3." in result.output


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--session", "nobody"], "has no session 'nobody'; it has s1, s2"),
        ([], "has several sessions: name one with --session; it has s1, s2"),
        (["--session", "s1", "--until", "0"], "there are no messages before 0; the first one is 0"),
    ],
)
def test_what_cannot_be_done_is_said_with_what_to_do(tmp_path: Path, arguments: list[str], sentence: str) -> None:
    path = write_transcript(tmp_path / "t.jsonl", *SESSION, a_message("s2", 0, "user", "hello"))
    result = CliRunner().invoke(digest, [str(path), *arguments])
    assert isinstance(result.exception, UsageError)
    assert sentence in str(result.exception)


def test_of_very_many_sessions_a_few_are_named(tmp_path: Path) -> None:
    path = write_transcript(tmp_path / "t.jsonl", *(a_message(f"s{n}", 0, "user", "hello") for n in range(40)))
    result = CliRunner().invoke(digest, [str(path)])
    assert "it has s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, ..." in str(result.exception)


@pytest.mark.parametrize(("body", "sentence"), [("", "has no messages"), ("nonsense\n", "line 1: not a message")])
def test_a_file_that_holds_no_transcript_is_told(tmp_path: Path, body: str, sentence: str) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(body)
    result = CliRunner().invoke(digest, [str(path)])
    assert isinstance(result.exception, UsageError)
    assert sentence in str(result.exception)
