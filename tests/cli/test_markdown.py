"""Answers in Markdown: what stays, what is drawn anew, and that no text can steer the terminal."""

import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.cli.chat.markdown import MarkdownOutput, dim, render, settled_chars
from holdfast.cli.chat.turn_printer import VOID, TurnPrinter
from holdfast.ports import TextDelta
from holdfast.testing.builders import a_reply
from holdfast.types.records import Logged, Outcome, TurnEnded

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class LiveArea:
    """A strip that remembers what was shown."""

    def __init__(self, columns: int = 60, rows: int = 12) -> None:
        self.size = (columns, rows)
        self.stays = ""
        self.drawn: list[str] = []

    def print_above(self, text: str) -> None:
        self.stays += text

    def redraw(self, text: str) -> None:
        self.drawn.append(text)


def plain(text: str) -> str:
    return _COLOURS.sub("", text)


@pytest.fixture(autouse=True)
def _a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("COLORTERM", raising=False)


def test_what_is_bold_or_code_is_shown_so() -> None:
    shown = render("Take **care** of `it`.", columns=60)

    assert "\x1b[1mcare\x1b[0m" in shown
    assert plain(shown) == "Take care of it."


def test_without_colours_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    shown = render("Take `it` and\n\n```python\nif x: pass\n```\n", columns=60)

    # Weight and slant are no colours: parameters from 30 on are.
    parameters = {int(number) for found in _COLOURS.findall(shown) for number in re.findall(r"\d+", found)}
    assert all(number < 30 for number in parameters)
    assert dim("aside") == "aside"


def test_html_and_links_stay_text() -> None:
    assert plain(render("use <b>it</b> <!-- now -->", columns=60)) == "use <b>it</b> <!-- now -->"
    assert plain(render("[here](https://example.com/x)", columns=60)) == "here (https://example.com/x)"


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("", ""),
        ("one", ""),
        ("one\n\n", ""),
        ("one\n\ntwo", ""),
        ("one\n\ntwo\n", "one\n\n"),
        ("# one\n\ntwo\n", "# one\n\n"),
        ("- a\n- b\n\n2", ""),
        ("one\n\n```\ncode\n\nmore\n", "one\n\n"),
        ("one\n\n```\ncode\n```\nthree\n", "one\n\n```\ncode\n```\n"),
        ("| a | b |\n|---|---|\n| 1 | 2 |\n", ""),
    ],
)
def test_all_but_the_last_block_is_whole(text: str, whole: str) -> None:
    assert text[: settled_chars(text)] == whole


def test_blocks_stay_as_soon_as_they_are_whole_and_the_one_in_hand_is_drawn_anew() -> None:
    strip = LiveArea()
    output = MarkdownOutput(strip)

    output.write("First.\n\nSec")
    before = plain(strip.stays)
    output.write("ond\n\nThird")
    meanwhile = plain(strip.stays)
    output.finish()

    assert (before, meanwhile, plain(strip.stays)) == ("", "First.\n", "First.\n\nSecond\n\nThird\n")
    assert [plain(drawn) for drawn in strip.drawn] == ["First.\n\nSec", "Second\n\nThird", ""]


def test_a_long_block_is_drawn_by_its_end_and_stays_whole() -> None:
    strip = LiveArea(rows=10)
    output = MarkdownOutput(strip)
    output.write("```\n")
    for number in range(100):
        output.write(f"line *{number}*\n")

    assert plain(strip.drawn[-1]).split() == ["line", "*97*", "line", "*98*", "line", "*99*"]
    assert strip.stays == ""
    output.finish()
    assert plain(strip.stays).split() == [word for n in range(100) for word in ("line", f"*{n}*")]


def test_an_aside_stands_between_what_was_written_and_what_follows() -> None:
    strip = LiveArea()
    output = MarkdownOutput(strip)

    output.write("let me look")
    output.finish()
    output.print_note("running look_up …")
    output.write("found it")
    output.finish()

    assert plain(strip.stays) == "let me look\nrunning look_up …\nfound it\n"


@pytest.mark.parametrize(
    ("pieces", "whole"),
    [
        (("Done.\n\nNext.\n\nThe har", "bour is Kiel."), "Done.\nqueued\nNext.\nThe harbour is Kiel.\n"),
        (("```\nlet har", "bour = 1\n```"), "queued\n let harbour = 1\n"),
        (("- one\n- tw", "o\n- three"), "queued\n • one\n • two\n • three\n"),
    ],
)
def test_a_note_never_lands_inside_a_word_or_a_block_that_is_being_written(pieces: Sequence[str], whole: str) -> None:
    strip = LiveArea()
    output = MarkdownOutput(strip)
    output.write(pieces[0])
    output.print_note("queued")
    assert "queued" in plain(strip.stays), "it does not wait for the model"
    output.write(pieces[1])
    output.finish()

    assert re.sub("\n{2,}", "\n", plain(strip.stays)) == whole


def test_an_answer_that_broke_off_is_marked_and_told_anew() -> None:
    strip = LiveArea()
    telling = TurnPrinter(MarkdownOutput(strip))

    for event in (TextDelta("wrong"), Logged(2, 0.0, a_reply("right")), Logged(3, 0.0, TurnEnded(1, Outcome.ANSWERED))):
        telling.print_event(event)

    assert plain(strip.stays) == f"wrong\n{VOID}\nright\n"


def test_the_end_of_a_line_may_come_in_two_pieces() -> None:
    strip = LiveArea()
    output = MarkdownOutput(strip)
    for piece in ("one\r", "\n\r\ntwo", "\r"):
        output.write(piece)
    output.finish()

    assert plain(strip.stays) == "one\n\ntwo␍\n"


@given(st.lists(st.text(st.characters(codec="utf-8") | st.sampled_from("\x1b\x9b\x07\r\n`*[]<>|-#")), max_size=20))
def test_whatever_a_model_writes_only_colours_reach_the_terminal(pieces: list[str]) -> None:
    strip = LiveArea()
    output = MarkdownOutput(strip)
    for piece in pieces:
        output.write(piece)
        output.print_note(piece)
        output.write(piece)
    output.finish()

    for shown in (strip.stays, *strip.drawn):
        assert _CONTROLS.search(plain(shown)) is None
