"""`holdfast bench sizing` measures what it says: here on sessions whose usage follows a known rule."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from holdfast.core.limits.sizing import tokens_of_message
from holdfast.lab.benches.sizing import Accuracy, Reading, measure_sizing, readings_of, sizing
from holdfast.rescue.neutral import read_neutral
from holdfast.types.messages import Message, Role, Text
from tests.cli.transcripts import a_message, write_transcript

WORDS = "The page loads too slowly for most of the people who look at it. " * 80
QUESTION = tokens_of_message(Message(Role.USER, (Text(WORDS),)))
ANSWER = tokens_of_message(Message(Role.ASSISTANT, (Text("Yes."),)))


def a_session(session_id: str, rounds: int, *, scale: float, hidden: int) -> list[dict[str, object]]:
    """A session whose model counts `scale` times our estimate, and `hidden` tokens that nobody sees."""
    messages: list[dict[str, object]] = []
    raw = 0
    for _ in range(rounds):
        messages.append(a_message(session_id, len(messages), "user", WORDS))
        raw += QUESTION
        usage = {"input_tokens": 3, "cache_read_input_tokens": round(scale * raw) + hidden - 3}
        meta = {"model": "m", "usage": usage}
        messages.append(a_message(session_id, len(messages), "assistant", "Yes.", meta=meta))
        raw += ANSWER
    return messages


def a_corpus(folder: Path, *sessions: list[dict[str, object]]) -> Path:
    messages = [message for session in sessions for message in session]
    write_transcript(folder / "transcripts" / "neutral" / "t.jsonl.gz", *messages)
    return folder


def the_readings(folder: Path, *messages: dict[str, object]) -> list[Reading]:
    return readings_of(list(read_neutral(write_transcript(folder / "t.jsonl", *messages))))


def test_each_request_is_read_with_what_was_sent_before_it(tmp_path: Path) -> None:
    assert the_readings(tmp_path, *a_session("s", 2, scale=1.0, hidden=100)) == [
        Reading("m", QUESTION, QUESTION + 100),
        Reading("m", 2 * QUESTION + ANSWER, 2 * QUESTION + ANSWER + 100),
    ]


def test_usage_is_read_in_both_ways_of_writing(tmp_path: Path) -> None:
    usage = {"input": 1, "output": 5, "cacheRead": 20, "cacheWrite": 300, "cost": {"input": 0.1}}
    message = a_message("s", 0, "assistant", "Yes.", meta={"model": "m", "usage": usage})
    assert the_readings(tmp_path, message) == [Reading("m", 0, 321)]


def test_one_reply_in_several_messages_is_one_request(tmp_path: Path) -> None:
    first, second = (a_message("s", seq, "assistant", "Yes.", meta={"usage": {"input_tokens": 50}}) for seq in range(2))
    assert the_readings(tmp_path, first, second) == [Reading("", 0, 50)]


@pytest.mark.parametrize(
    "end",
    [
        a_message("s", 90, "system", "compacted", meta={"subtype": "compact_boundary"}),
        a_message("s", 90, "system", "cleared", meta={"subtype": "microcompact_boundary"}),
        a_message("s", 90, "system", "compacted", meta={"subtype": "compaction"}),
        # Fewer tokens than before although the transcript grew.
        a_message("s", 90, "assistant", "Yes.", meta={"usage": {"input_tokens": 9}}),
    ],
)
def test_a_session_is_followed_until_something_left_the_view(tmp_path: Path, end: dict[str, object]) -> None:
    known = a_session("s", 2, scale=1.0, hidden=100)
    assert len(the_readings(tmp_path, *known, end, *known)) == 2


def test_a_model_that_counts_by_a_rule_is_learned(tmp_path: Path) -> None:
    report = measure_sizing(a_corpus(tmp_path, a_session("a", 30, scale=1.4, hidden=9_000)))
    assert (report.sessions, report.requests) == (1, 30)
    assert report.whole_per_session.requests == 20
    assert report.whole_per_session.within_10_percent == 1.0
    assert report.visible_per_model.within_10_percent == 1.0
    assert report.visible_uncalibrated.within_10_percent == 0.0


def test_sessions_of_one_file_are_told_apart(tmp_path: Path) -> None:
    sessions = [a_session(name, 3, scale=1.0, hidden=100) for name in ("a", "b")]
    report = measure_sizing(a_corpus(tmp_path, *sessions))
    assert (report.sessions, report.requests) == (2, 6)


def test_sessions_without_usage_give_no_accuracy(tmp_path: Path) -> None:
    report = measure_sizing(a_corpus(tmp_path, [a_message("s", 0, "user", "hello")]))
    assert (report.sessions, report.whole_per_session) == (0, Accuracy(0, 0.0, 0.0, 0.0, 0.0))


def test_the_figures_are_printed_for_people_and_for_programs(tmp_path: Path) -> None:
    corpus = a_corpus(tmp_path, a_session("a", 12, scale=1.2, hidden=0))
    spoken = CliRunner().invoke(sizing, ["--corpus", str(corpus)])
    as_json = CliRunner().invoke(sizing, ["--json"], env={"HOLDFAST_CORPUS": str(corpus)})
    assert "12 requests of 1 sessions with reported usage" in spoken.output
    assert "whole, per session            2 requests, 100.0% within 10 %" in spoken.output
    assert json.loads(as_json.output)["requests"] == 12
