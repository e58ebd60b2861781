"""The benches of what is kept and shown measure what they say, on sessions small enough to see through."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from holdfast.core.limits.sizing import tokens_of_message
from holdfast.errors import UsageError
from holdfast.lab.benches.digest import STATEMENTS, measure_digest, measure_told, told
from holdfast.lab.benches.masking import costs_of, masking, measure_masking
from holdfast.lab.benches.view import conversation_part, count_pairs, measure_prefix, measure_view, prefix, view
from holdfast.types.faults import Confidence, Fault, FaultKind, Phase, Refusal
from holdfast.types.messages import Message, Reply, Role, StopReason, Text, ToolCall, ToolResult
from holdfast.types.records import (
    AnyRecord,
    AttemptFailed,
    AttemptStarted,
    InputAdmitted,
    Logged,
    OutputMasked,
    ReplyRecorded,
    ToolSettled,
    ToolStarted,
    TurnStarted,
)
from tests.cli.transcripts import a_message, write_transcript

OUTPUT = "line of output\n" * 60


def a_step(seq: int, text: str) -> list[dict[str, object]]:
    name = f"call{seq}"
    call = {"type": "tool_call", "id": name, "name": "read", "args": {"path": f"src/{seq}.py"}}
    return [
        a_message("s1", seq, "assistant", call),
        a_message("s1", seq + 1, "tool", {"type": "tool_result", "id": name, "text": text}),
    ]


def a_corpus(folder: Path, *, steps: int, text: str = OUTPUT) -> Path:
    messages = [a_message("s1", 0, "user", "Please look.")]
    for step in range(steps):
        messages += a_step(1 + 2 * step, f"{text}{step}")
    messages.append(a_message("s1", 1 + 2 * steps, "assistant", "Done."))
    write_transcript(folder / "transcripts" / "neutral" / "claude_code_dev.jsonl.gz", *messages)
    return folder


def logged(*records: AnyRecord) -> list[Logged]:
    return [Logged(seq, 0.0, record) for seq, record in enumerate(records, start=1)]


# --- masking -----------------------------------------------------------------------------------------------------


def test_each_request_is_measured_with_and_without_the_output_that_is_masked_by_then() -> None:
    calls = [ToolCall(f"c{n}", "read", "{}") for n in range(2)]
    results = [ToolResult(call.call_id, (Text(OUTPUT),)) for call in calls]
    steps: list[AnyRecord] = []
    for call, result in zip(calls, results, strict=True):
        steps += [
            ReplyRecorded(1, 1, Reply((call,), StopReason.TOOL_CALLS, None, "m")),
            ToolStarted(1, call.call_id, call.name),
            ToolSettled(1, result),
        ]
    records = logged(InputAdmitted((Text("hi"),)), TurnStarted(1), *steps)
    records += [Logged(9, 0.0, ReplyRecorded(1, 1, Reply((Text("ok"),), StopReason.END, None, "m")))]

    costs = costs_of(records, keep=1)

    asked = tokens_of_message(Message(Role.USER, (Text("hi"),)))
    called = tokens_of_message(Message(Role.ASSISTANT, (calls[0],)))
    shown = tokens_of_message(Message(Role.TOOL, (results[0],)))
    line = Text(f"[{len(OUTPUT)} bytes of output, no longer shown; recall(seq=5) reads them]")
    hidden = tokens_of_message(Message(Role.TOOL, (ToolResult("c0", (line,)),)))
    assert costs.requests == 3
    assert costs.raw_tokens == asked + (asked + called + shown) + (asked + 2 * called + 2 * shown)
    # Only before the last request are there two outputs, of which one is masked.
    assert costs.raw_tokens - costs.masked_tokens == shown - hidden
    assert costs.masked == (5,)


def test_every_masked_output_is_read_back(tmp_path: Path) -> None:
    found = measure_masking(a_corpus(tmp_path, steps=12, text="grüße und ähnliches\n" * 2_000))

    assert (found.sessions, found.requests, found.masked_outputs, found.unreadable) == (1, 13, 4, ())
    assert found.masked_bytes == 4 * (2_000 * len("grüße und ähnliches\n".encode()) + 1)


def test_masking_says_when_it_costs_more_than_promised(tmp_path: Path) -> None:
    result = CliRunner().invoke(masking, ["--corpus", str(a_corpus(tmp_path, steps=3)), "--json"])

    report = json.loads(result.output)
    assert (result.exit_code, report["cost"], report["masked_outputs"]) == (1, 1.0, 0)


# --- prefix ------------------------------------------------------------------------------------------------------

ONE, TWO = b'{"messages":[1],"stream":true}', b'{"messages":[1,2],"stream":true}'
OTHER = b'{"messages":[3],"stream":true}'
ESTIMATED = AttemptFailed(
    1, 2, Refusal("openai-chat", Phase.ESTIMATE), Fault(FaultKind.TOKEN_OVERFLOW, Confidence.LIKELY)
)


def test_what_must_be_kept_is_the_conversation_without_the_settings() -> None:
    assert conversation_part(ONE) == b'{"messages":[1'
    assert conversation_part(b"odd") == b"odd"


@pytest.mark.parametrize(
    ("bodies", "records", "found"),
    [
        ([ONE, TWO], (AttemptStarted(1, 1, "m"), AttemptStarted(1, 2, "m")), (1, 1)),
        ([ONE, OTHER], (AttemptStarted(1, 1, "m"), AttemptStarted(1, 2, "m")), (1, 0)),
        ([ONE, OTHER], (AttemptStarted(1, 1, "m"), OutputMasked(1, 1), AttemptStarted(1, 2, "m")), (0, 0)),
        # One that was only estimated was not sent, and a change before it still counts.
        (
            [ONE, OTHER],
            (
                AttemptStarted(1, 1, "m"),
                OutputMasked(1, 1),
                AttemptStarted(1, 2, "m"),
                ESTIMATED,
                AttemptStarted(1, 3, "m"),
            ),
            (0, 0),
        ),
    ],
)
def test_only_requests_without_a_change_between_them_are_compared(
    bodies: list[bytes], records: tuple[AnyRecord, ...], found: tuple[int, int]
) -> None:
    assert count_pairs(bodies, logged(*records)) == found


def test_the_engine_keeps_the_prefix_of_a_real_conversation(tmp_path: Path) -> None:
    found = measure_prefix(a_corpus(tmp_path, steps=2))

    # One message, two looks and an answer, in each dialect.
    assert (found.sessions, found.requests, found.pairs, found.kept) == (4, 12, 8, 8)


def test_a_run_that_compared_nothing_is_no_success(tmp_path: Path) -> None:
    path = tmp_path / "transcripts" / "neutral" / "claude_code_dev.jsonl.gz"
    write_transcript(path, a_message("s1", 0, "assistant", "nobody asked"))

    result = CliRunner().invoke(prefix, ["--corpus", str(tmp_path)])

    assert result.exit_code == 1
    assert "0 of 0" in result.output


# --- view and digest ---------------------------------------------------------------------------------------------


def test_the_view_of_as_many_tokens_as_asked_for_is_measured(tmp_path: Path) -> None:
    found = measure_view(a_corpus(tmp_path, steps=30), tokens_max=1_000, rounds=1)

    assert found.tokens >= 1_000
    assert (found.messages, found.view.unit) == (62, "ms")
    assert found.view.value > 0


def test_the_figures_of_the_view_are_printed_for_programs(tmp_path: Path) -> None:
    result = CliRunner().invoke(view, ["--corpus", str(a_corpus(tmp_path, steps=3)), "--json"])

    assert set(json.loads(result.output)) == {"tokens", "records", "messages", "view"}


def test_the_slowest_digest_is_no_quicker_than_the_usual_one(tmp_path: Path) -> None:
    found = measure_digest(a_corpus(tmp_path, steps=20), bytes_min=1_000, rounds=1)

    assert found.sessions == 1
    assert found.slowest.value == found.usual.value > 0


# --- told --------------------------------------------------------------------------------------------------------


def test_statements_are_counted_as_kept_where_they_can_be_read_and_as_lost_where_not(tmp_path: Path) -> None:
    corpus = a_corpus(tmp_path, steps=20)
    everything = measure_told(corpus)
    assert (everything.sessions, everything.told, everything.held) == (1, len(STATEMENTS), len(STATEMENTS))
    little = measure_told(corpus, tokens_max=300)
    assert 0 < little.held < len(STATEMENTS)
    assert sum(little.lost.values()) == len(STATEMENTS) - little.held


def test_what_is_told_is_printed_and_meetings_of_people_are_left_out(tmp_path: Path) -> None:
    meeting = [a_message("s2", seq, "user", "I agree.") for seq in range(40)]
    write_transcript(tmp_path / "transcripts" / "neutral" / "meeting.jsonl.gz", *meeting)
    found = CliRunner().invoke(told, ["--corpus", str(tmp_path)])
    assert isinstance(found.exception, UsageError)
    assert "no session has 20 messages" in str(found.exception)
    found = CliRunner().invoke(told, ["--corpus", str(a_corpus(tmp_path, steps=20)), "--json"])
    assert (found.exit_code, json.loads(found.output)["held"]) == (0, len(STATEMENTS))
    found = CliRunner().invoke(told, ["--corpus", str(tmp_path)])
    assert "15 of 15 statements in 1 sessions" in found.output
