"""Talking on the command line: what is shown, what is kept, and what a kill or Ctrl-C leaves."""

import io
from pathlib import Path

import msgspec
import pytest

from holdfast.cli.chat.turn_printer import VOID, PlainTurnPrinter
from holdfast.ports import ReasoningDelta, TextDelta
from holdfast.runtime.sessions.session import Event
from holdfast.runtime.tools.tool_context import ToolProgress
from holdfast.testing.builders import a_reply
from holdfast.types.faults import Confidence, Fault, FaultKind, Phase, Refusal, Rung
from holdfast.types.messages import StopReason, Text, ToolOutcome, ToolResult
from holdfast.types.records import (
    AnyRecord,
    AttemptFailed,
    InputAdmitted,
    Logged,
    NoticePosted,
    Outcome,
    RungFinished,
    RungResult,
    RungStarted,
    ToolSettled,
    ToolStarted,
    TurnEnded,
)
from tests.cli.programs import holdfast, terminal

# Something that takes long enough to be interrupted in: the stream falls silent in the middle of the answer.
STALLS = ("--faults", "stall:after=12")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "chat.db"


def records(store: Path, key: str = "default") -> list[Logged]:
    shown = holdfast("show", key, "--store", store, "--after", "0", "--limit", "1000", "--json")
    assert shown.returncode == 0, shown.stderr
    return [msgspec.json.decode(line, type=Logged) for line in shown.stdout.splitlines()]


def outcomes(store: Path) -> list[Outcome]:
    return [logged.record.outcome for logged in records(store) if isinstance(logged.record, TurnEnded)]


# --- one message -------------------------------------------------------------------------------------------------


def test_a_message_is_answered_on_standard_output_and_nothing_else_is(store: Path) -> None:
    answered = holdfast("chat", "--store", store, "hello", "there")

    assert (answered.returncode, answered.stdout, answered.stderr) == (
        0,
        b'You said: "hello there". This is message 1 from you that I see.\n',
        b"",
    )


def test_a_message_can_be_piped_in_and_the_session_goes_on(store: Path) -> None:
    holdfast("chat", "--store", store, "hello")

    answered = holdfast("chat", "--store", store, stdin="grüß dich\n".encode())

    assert answered.stdout.decode() == 'You said: "grüß dich". This is message 2 from you that I see.\n'


def test_the_simulated_model_fails_as_the_script_says_and_the_waiting_is_told(store: Path) -> None:
    answered = holdfast("chat", "--store", store, "--faults", "529", "hello")

    assert answered.returncode == 0
    assert answered.stdout.startswith(b'You said: "hello".')
    assert answered.stderr.startswith(b"the provider is overloaded; waiting 1.")


def test_text_of_an_attempt_that_failed_never_reaches_a_pipe(store: Path) -> None:
    answered = holdfast("chat", "--store", store, "--faults", "cut:after=5", "hello")

    assert answered.stdout == b'You said: "hello". This is message 1 from you that I see.\n'


def test_a_turn_that_ends_without_an_answer_is_told_in_a_sentence_with_its_own_exit_code(store: Path) -> None:
    answered = holdfast("chat", "--store", store, "--faults", "401", "hello")

    assert (answered.returncode, answered.stdout) == (69, b"")
    assert answered.stderr.startswith(b"holdfast: session 'default', turn 1: The provider does not accept the key.")
    assert holdfast("chat", "--store", store, "and now?").returncode == 0, "the next message always works"


def test_the_system_text_is_kept_with_the_session(store: Path) -> None:
    holdfast("chat", "--store", store, "--system", "remember tone = dry", "hello")

    answered = holdfast("chat", "--store", store, "what is tone?")

    assert answered.stdout == b"tone = dry.\n"


def test_a_file_is_sent_along(store: Path, tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("berth = 17-B\n")

    holdfast("chat", "--store", store, "--attach", notes, "read this")

    (sent,) = [logged.record for logged in records(store) if isinstance(logged.record, InputAdmitted)]
    assert [type(part).__name__ for part in sent.parts] == ["Text", "LargeText"]


def test_a_store_is_made_in_the_data_folder_unless_another_is_named(tmp_path: Path) -> None:
    answered = holdfast("chat", "hello", settings={"XDG_DATA_HOME": str(tmp_path / "data")})

    assert answered.returncode == 0, answered.stderr
    assert (tmp_path / "data" / "holdfast" / "holdfast.db").is_file()


# --- at a terminal -----------------------------------------------------------------------------------------------


def test_a_conversation_goes_on_until_the_person_leaves(store: Path) -> None:
    with terminal("chat", "--store", store) as screen:
        screen.until("> ")
        screen.write("hello\n")
        screen.until("This is message 1 from you that I see.\n")
        screen.until("> ")
        screen.write("\x04")
        assert screen.end() == 0

    with terminal("chat", "--store", store) as screen:
        greeting = screen.until("> ")
        assert "Your last message: hello\n" in greeting
        assert 'The answer to it: You said: "hello". This is message 1 from you that I see.\n' in greeting
        assert screen.leave() == 130


def test_void_text_is_marked_on_a_terminal(store: Path) -> None:
    with terminal("chat", "--store", store, "--faults", "cut:after=5", "hello") as screen:
        screen.until(VOID)
        screen.until("This is message 1 from you that I see.\n")
        assert screen.end() == 0


def test_ctrl_c_stops_an_answer_and_the_conversation_goes_on(store: Path) -> None:
    with terminal("chat", "--store", store, *STALLS) as screen:
        screen.until("> ")
        screen.write("hello\n")
        screen.until("You said:")
        screen.interrupt()
        screen.until("The turn was cancelled, as you asked.")
        screen.until("> ")
        screen.write("again\n")
        screen.until("This is message 2 from you that I see.\n")
        screen.until("> ")
        screen.write("\x04")
        assert screen.end() == 0

    assert outcomes(store) == [Outcome.CANCELLED, Outcome.ANSWERED]


def test_ctrl_c_in_a_single_message_cancels_it_and_exits_with_130(store: Path) -> None:
    with terminal("chat", "--store", store, *STALLS, "hello") as screen:
        screen.until("You said:")
        screen.interrupt()
        assert screen.end() == 130

    assert outcomes(store) == [Outcome.CANCELLED]


def test_a_turn_that_fails_is_told_and_the_conversation_goes_on(store: Path) -> None:
    with terminal("chat", "--store", store, "--faults", "401") as screen:
        screen.until("> ")
        screen.write("hello\n")
        screen.until("The provider does not accept the key.")
        screen.until("> ")
        screen.write("again\n")
        screen.until("This is message 2 from you that I see.\n")
        screen.until("> ")
        screen.write("\x04")
        assert screen.end() == 0


# --- killed ------------------------------------------------------------------------------------------------------


def killed_in_the_middle_of_an_answer(store: Path) -> None:
    with terminal("chat", "--store", store, *STALLS, "are you there?") as screen:
        screen.until("You said:")
        screen.program.kill()
        assert screen.end() == -9
    assert outcomes(store) == []


def test_a_killed_chat_is_resumed_by_the_next_one(store: Path) -> None:
    killed_in_the_middle_of_an_answer(store)

    with terminal("chat", "--store", store) as screen:
        shown = screen.until("> ")
        assert "Message 1 (are you there?) has no answer yet; resuming it.\n" in shown
        assert 'You said: "are you there?". This is message 1 from you that I see.\n' in shown
        screen.write("\x04")
        assert screen.end() == 0

    assert outcomes(store) == [Outcome.ANSWERED]


def test_what_was_left_is_answered_before_the_next_message_and_beside_its_answer(store: Path) -> None:
    killed_in_the_middle_of_an_answer(store)

    answered = holdfast("chat", "--store", store, "and now?")

    assert answered.stdout == b'You said: "and now?". This is message 2 from you that I see.\n'
    assert b'You said: "are you there?". This is message 1' in answered.stderr
    assert outcomes(store) == [Outcome.ANSWERED, Outcome.ANSWERED]


def test_what_was_left_with_an_attachment_is_answered_too(store: Path, tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("berth = 17-B\n")
    with terminal("chat", "--store", store, *STALLS, "--attach", notes, "read this") as screen:
        screen.until("You said:")
        screen.program.kill()
        screen.end()

    answered = holdfast("chat", "--store", store, "and now?")

    assert answered.returncode == 0
    assert b'You said: "read this' in answered.stderr
    assert outcomes(store) == [Outcome.ANSWERED, Outcome.ANSWERED]


# --- telling a turn ----------------------------------------------------------------------------------------------


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def told(*events: Event | AnyRecord, on_a_terminal: bool = True) -> str:
    """Return all that is shown of some events, in one order."""
    stream = Screen() if on_a_terminal else io.StringIO()
    teller = PlainTurnPrinter(stream, stream)
    for event in events:
        teller.print_event(
            event if isinstance(event, TextDelta | ReasoningDelta | ToolProgress | Logged) else Logged(1, 0.0, event)
        )
    return stream.getvalue()


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")


ENDED = TurnEnded(1, Outcome.ANSWERED)
OVERLOADED = Fault(FaultKind.OVERLOADED, Confidence.CERTAIN)


def test_pieces_that_were_missed_are_made_up_for_by_the_whole_answer() -> None:
    assert told(TextDelta("Hello "), a_reply("Hello there"), ENDED) == "Hello there\n"
    assert told(TextDelta("lo there"), a_reply("Hello there"), ENDED) == f"lo there\n{VOID}\nHello there\n"
    assert told(a_reply("Hello there"), ENDED) == "Hello there\n"


def test_an_answer_in_a_pipe_is_the_last_reply_of_a_turn_that_was_answered() -> None:
    on_the_way = a_reply("let me look")
    failed = TurnEnded(1, Outcome.FAILED, "auth", "The key is wrong.")

    assert told(on_the_way, a_reply("found it"), ENDED, on_a_terminal=False) == "found it\n"
    assert told(on_the_way, failed, on_a_terminal=False) == ""


def test_what_happens_beside_an_answer_is_told_on_lines_of_its_own() -> None:
    shown = told(
        ReasoningDelta("hm"),
        ReasoningDelta("hm"),
        TextDelta("let me"),
        a_reply("let me"),
        ToolStarted(1, "call-1", "look_up"),
        ToolSettled(1, ToolResult("call-1", (Text("?"),), ToolOutcome.TIMED_OUT)),
        TextDelta("so"),
        AttemptFailed(1, 2, Refusal("openai-chat", Phase.STREAM), OVERLOADED),
        RungStarted(1, Rung.BACKOFF, FaultKind.OVERLOADED, 4.0),
        RungFinished(1, Rung.BACKOFF, RungResult.CHANGED),
        RungStarted(1, Rung.FALLBACK_MODEL, FaultKind.OVERLOADED),
        RungFinished(1, Rung.FALLBACK_MODEL, RungResult.UNCHANGED),
        RungStarted(1, Rung.RETRY, FaultKind.EMPTY_RESPONSE),
        RungFinished(1, Rung.RETRY, RungResult.CHANGED),
        NoticePosted(1, "compacted", "Something was cut."),
        TextDelta("done"),
        a_reply("done"),
        ENDED,
    )
    assert shown.splitlines() == [
        "thinking …",
        "let me",
        "running look_up …",
        "look_up: timed out",
        "so",
        VOID,
        "the provider is overloaded; waiting 4.0 s",
        "the model's answer was empty; retrying",
        "Something was cut.",
        "done",
    ]


def test_an_answer_cannot_steer_the_terminal() -> None:
    assert told(TextDelta("\x1b]0;owned\x07\x9b2Jhi"), on_a_terminal=True) == "␛]0;owned␇\ufffd2Jhi"


def test_an_answer_that_stopped_for_length_is_shown_as_it_is() -> None:
    reply = a_reply("cut off he")
    cut = msgspec.structs.replace(reply, reply=msgspec.structs.replace(reply.reply, stop_reason=StopReason.LENGTH))

    assert told(cut, ENDED) == "cut off he\n"
