"""`holdfast estimate` shows what the messages of a transcript take."""

import json
from pathlib import Path

from click.testing import CliRunner

from holdfast.cli.commands.analysis import estimate
from holdfast.core.limits.sizing import bytes_of_message, tokens_of_message
from holdfast.types.messages import Message, Role, Text
from tests.cli.transcripts import a_message, write_transcript

HELLO = Message(Role.USER, (Text("Hello there, how are you?"),))
ANSWER = Message(Role.ASSISTANT, (Text("Well."),))


def a_transcript(folder: Path) -> str:
    return str(
        write_transcript(
            folder / "t.jsonl",
            a_message("s1", 0, "system", "Be brief."),
            a_message("s1", 1, "user", "Hello there, how are you?"),
            a_message("s1", 2, "assistant", "Well."),
        )
    )


def test_every_message_and_all_of_them_are_shown(tmp_path: Path) -> None:
    result = CliRunner().invoke(estimate, [a_transcript(tmp_path)])
    tokens = [tokens_of_message(message) for message in (HELLO, ANSWER)]
    sizes = [bytes_of_message(message) for message in (HELLO, ANSWER)]
    assert [line.split() for line in result.output.splitlines()] == [
        ["seq", "role", "tokens", "bytes"],
        ["1", "user", str(tokens[0]), str(sizes[0])],
        ["2", "assistant", str(tokens[1]), str(sizes[1])],
        ["2", "total", str(sum(tokens)), str(sum(sizes))],
    ]


def test_programs_get_json(tmp_path: Path) -> None:
    result = CliRunner().invoke(estimate, [a_transcript(tmp_path), "--session", "s1", "--json"])
    sizes = [
        {"seq": seq, "role": message.role, "tokens": tokens_of_message(message), "bytes": bytes_of_message(message)}
        for seq, message in ((1, HELLO), (2, ANSWER))
    ]
    assert json.loads(result.output) == {
        "session": "s1",
        "messages": sizes,
        "tokens": tokens_of_message(HELLO) + tokens_of_message(ANSWER),
        "bytes": bytes_of_message(HELLO) + bytes_of_message(ANSWER),
    }
