"""Talking at a terminal: writing while it works, orders, Ctrl-C, and what a terminal is sent."""

import re
from pathlib import Path

import msgspec
import pytest

from holdfast.cli.chat.slash_commands import SLASH_COMMANDS, BudgetUse, bar, parse_command
from holdfast.types.records import InputAdmitted, Logged, MessagePinned, Outcome, TurnEnded
from tests.cli.programs import holdfast, terminal

# The stream falls silent in the middle of the first answer, for longer than any test takes.
STALLS = ("--faults", "stall:after=12")
# A terminal that can do everything.
FULL = {"TERM": "xterm-256color"}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "talk.db"


def records(store: Path) -> list[Logged]:
    shown = holdfast("show", "default", "--store", store, "--after", "0", "--limit", "1000", "--json")
    assert shown.returncode == 0, shown.stderr
    return [msgspec.json.decode(line, type=Logged) for line in shown.stdout.splitlines()]


def inputs(store: Path) -> list[str]:
    found = [logged.record for logged in records(store) if isinstance(logged.record, InputAdmitted)]
    return [getattr(message.parts[0], "text", "") for message in found]


def outcomes(store: Path) -> list[Outcome]:
    return [logged.record.outcome for logged in records(store) if isinstance(logged.record, TurnEnded)]


# --- on a terminal that can do everything ------------------------------------------------------------------------


def test_answers_are_shown_as_markdown_below_a_status_line_with_a_gauge(store: Path) -> None:
    with terminal("chat", "--store", store, settings=FULL) as screen:
        screen.until("[----------] 0% of 128,000 tokens")
        screen.write("take **care**\r")
        screen.until('You said: "take \x1b[1mcare\x1b[0m". This is message 1 from you that I see.\n')
        screen.write("\x04")
        assert screen.end() == 0


def test_what_is_written_while_it_works_is_on_disk_at_once_and_answered_in_its_turn(store: Path) -> None:
    with terminal("chat", "--store", store, *STALLS, settings=FULL) as screen:
        screen.until("128,000 tokens")
        screen.write("hello\r")
        screen.until("You said:")
        screen.write("are you \x1b\rthere?\r")
        screen.until("queued: are you there?")
        assert inputs(store) == ["hello", "are you \nthere?"]
        screen.write("\x03")
        screen.until("The turn was cancelled, as you asked.")
        screen.until("This is message 2 from you that I see.")
        screen.write("\x04")
        assert screen.end() == 0

    assert outcomes(store) == [Outcome.CANCELLED, Outcome.ANSWERED]


def test_ctrl_c_twice_leaves_and_what_was_accepted_is_kept(store: Path) -> None:
    with terminal("chat", "--store", store, *STALLS, settings=FULL) as screen:
        screen.until("128,000 tokens")
        screen.write("hello\r")
        screen.until("You said:")
        screen.write("and then?\r")
        screen.until("queued")
        screen.write("half a thought")
        screen.until("half a thought")
        screen.write("\x03\x03")
        assert screen.end() == 130

    assert inputs(store) == ["hello", "and then?"]
    assert holdfast("chat", "--store", store, "go on").returncode == 0
    assert outcomes(store) == [Outcome.CANCELLED, Outcome.ANSWERED, Outcome.ANSWERED]


def test_ctrl_c_at_rest_first_clears_the_line_and_an_order_is_completed_by_tab(store: Path) -> None:
    with terminal("chat", "--store", store, settings=FULL) as screen:
        screen.until("128,000 tokens")
        screen.write("never mind")
        screen.until("never mind")
        screen.write("\x03/und\t")
        screen.until("/undo")
        screen.write("\r")
        screen.until("There is nothing to undo.")
        screen.write("\x03")
        screen.until("Ctrl-C again leaves")
        screen.write("\x03")
        assert screen.end() == 130
    assert not store.exists() or "never mind" not in inputs_or_nothing(store)


def inputs_or_nothing(store: Path) -> list[str]:
    listed = holdfast("sessions", "--store", store, "--json")
    return inputs(store) if listed.stdout else []


def test_an_answer_cannot_steer_a_terminal_that_obeys(store: Path) -> None:
    hostile = "\x1b]0;owned\x07 \x9b2J \x1b[31mred\x1b[0m [x](javascript:alert) \r\x08"
    with terminal("chat", "--store", store, hostile, settings=FULL) as screen:
        # Where a line is broken depends on the width.
        screen.until("see.")
        assert screen.end() == 0

    assert "␛]0;owned␇ \ufffd2J ␛[31mred␛[0m" in screen.shown
    foreign = re.findall(r"\x1b(?!\[[0-9;?]*[A-Za-z])|\x1b\[31m|[\x07\x08\x9b]", screen.shown)
    assert foreign == []


@pytest.mark.parametrize("setting", [{}, {"NO_COLOR": "1"}])
def test_plain_means_plain(store: Path, setting: dict[str, str]) -> None:
    wanted = () if not setting else ("--plain",)
    terminal_kind = {"TERM": "dumb"} if not setting else FULL
    with terminal("chat", "--store", store, *wanted, "take **care**", settings={**terminal_kind, **setting}) as screen:
        assert screen.end() == 0

    assert screen.shown == 'You said: "take **care**". This is message 1 from you that I see.\n'


# --- line by line ------------------------------------------------------------------------------------------------


def test_in_a_dumb_terminal_too_what_is_written_meanwhile_waits_its_turn(store: Path) -> None:
    with terminal("chat", "--store", store, *STALLS) as screen:
        screen.until("> ")
        screen.write("hello\n")
        screen.until("You said:")
        screen.write("are you there?\n")
        screen.until("queued: are you there?\n")
        assert inputs(store) == ["hello", "are you there?"]
        screen.interrupt()
        screen.until("answering: are you there?\n")
        screen.until("This is message 2 from you that I see.\n")
        screen.until("> ")
        screen.interrupt()
        screen.until("Ctrl-C again leaves")
        screen.interrupt()
        assert screen.end() == 130
    assert "\x1b" not in screen.shown


def test_orders_are_obeyed_and_not_sent(store: Path, tmp_path: Path) -> None:
    notes = tmp_path / "my notes.txt"
    notes.write_text("berth = 17-B\n")
    steps = [
        ("/help", "/attach FILE"),
        ("/attach /nowhere/at/all.txt", "does not exist"),
        (f"/attach '{notes}'", "With the next message: my notes.txt"),
        ("/attach -", "Nothing is attached."),
        (f"/attach {str(notes).replace(' ', chr(92) + ' ')}", "With the next message: my notes.txt"),
        ("/pin", "give the number of a message"),
        ("remember harbour = Kiel", "I will remember that harbour = Kiel"),
        ("/pin", "Message 1 is pinned"),
        ("/unpin 1", "Message 1 is unpinned."),
        ("/pin 99", "has no turn 99"),
        ("/search", "/search needs words"),
        ("/search harbour", "[#1]"),
        ("/search xyzzy", "Nothing found."),
        ("/view", "user: remember harbour = Kiel"),
        ("/compact the harbour", "session 'default':"),
        ("/undo", "ndo"),
        ("/frobnicate", "Unknown command /frobnicate; see /help."),
        ("/etc/hosts is what?", 'You said: "/etc/hosts is what?"'),
        ("/cancel", ""),
        ("", ""),
    ]
    with terminal("chat", "--store", store) as screen:
        screen.until("> ")
        for line, told in steps:
            screen.write(f"{line}\n")
            screen.until(told)
            screen.until("\n> " if told else "> ")
        screen.write("/quit\n")
        assert screen.end() == 0

    found = records(store)
    sent = [logged.record for logged in found if isinstance(logged.record, InputAdmitted)]
    assert [len(message.parts) for message in sent] == [2, 1]
    assert [logged.record.is_pinned for logged in found if isinstance(logged.record, MessagePinned)] == [True, False]


def test_what_another_program_sends_meanwhile_is_told_and_answered_here(store: Path) -> None:
    with terminal("chat", "--store", store) as screen:
        screen.until("> ")
        screen.write("hello\n")
        screen.until("This is message 1 from you that I see.\n")
        assert holdfast("chat", "--store", store, "it is me").returncode == 0
        screen.until("From another client: it is me\n")
        screen.until("This is message 2 from you that I see.\n")
        screen.until("> ")
        screen.write("\x04")
        assert screen.end() == 0


def test_leaving_in_the_middle_of_an_answer_says_that_it_is_kept(store: Path) -> None:
    with terminal("chat", "--store", store, *STALLS) as screen:
        screen.until("> ")
        screen.write("hello\n")
        screen.until("You said:")
        screen.write("\x04")
        screen.until("1 message is stored, and will be answered when this session is next opened.\n")
        assert screen.end() == 0
    assert outcomes(store) == []


def test_a_message_that_is_refused_leaves_the_talk_as_it_was(store: Path) -> None:
    with terminal("chat", "--store", store) as screen:
        screen.until("> ")
        screen.write("nul \x16\x00\n")
        screen.until("has a NUL character")
        screen.until("> ")
        screen.write("hello\n")
        screen.until("This is message 1 from you that I see.\n")
        screen.write("\x04")
        assert screen.end() == 0


# --- one message as JSON, gauge, orders --------------------------------------------------------------------------


def test_an_answer_as_json_has_its_turn_and_its_notices(store: Path) -> None:
    answered = holdfast("chat", "--store", store, "--json", "hello")

    found = msgspec.json.decode(answered.stdout)
    assert (answered.returncode, found["turn"], found["model"], found["notices"]) == (0, 1, "sim", [])
    assert found["text"] == 'You said: "hello". This is message 1 from you that I see.'


def test_the_gauge_tells_the_fullest_budget() -> None:
    assert BudgetUse(64, 128, "tokens").line == "[#####-----] 50% of 128 tokens"
    assert BudgetUse(64, 128, "tokens").sentence == "About 64 of 128 tokens (50 %)."
    assert BudgetUse(64, None, "tokens").line == "64 tokens"
    assert BudgetUse(64, None, "tokens").sentence == "About 64 tokens; the model's limit is unknown."
    assert (bar(-5), bar(100), bar(250)) == ("[----------]", "[##########]", "[##########]")


@pytest.mark.parametrize(
    ("line", "order"),
    [
        ("/help", ("/help", "")),
        ("/search  berth 17 ", ("/search", "berth 17")),
        ("/helpme", ("/helpme", "")),
        ("/etc/hosts", None),
        (" /help", None),
        ("/ 2", None),
        ("1/2", None),
    ],
)
def test_an_order_is_a_slash_and_a_word(line: str, order: tuple[str, str] | None) -> None:
    assert parse_command(line) == order
    assert all(parse_command(name) == (name, "") for name in SLASH_COMMANDS)
