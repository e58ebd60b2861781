"""How the demo is shown: the picture, the tables at the end, the page; and a program that does not start."""

import io
import os
import random
import sys
from pathlib import Path

import click
import pytest
from rich.console import Console

import holdfast
from holdfast.core.limits.fit import Sizes
from holdfast.gateway.api.schemas import ViewNow
from holdfast.lab.demo.client import Observations, flip_bit
from holdfast.lab.demo.context import ProcessGroup
from holdfast.lab.demo.display import LineDisplay, LiveDisplay
from holdfast.lab.demo.report import Evidence, Figures, read_store
from holdfast.lab.demo.run import DemoResult, open_page, print_result, until_enter
from holdfast.testing.builders import a_notice, a_reply, a_turn_ended, an_input
from holdfast.types.limits import Limits
from holdfast.types.messages import Message, Role, Text
from holdfast.types.records import AnyRecord, DamageSetAside, Logged, WindowWarned

FIGURES = Figures(
    sent=9,
    answered=8,
    told_why=1,
    lost=0,
    doubled=0,
    records=70,
    altered=0,
    compactions=3,
    digests=1,
    kills=1,
    facts_planted=6,
    facts_recalled=6,
    facts_found=6,
    disasters=(Evidence("rate limits", "429 came 2 times"), Evidence("restart", "")),
    broken=(),
    seconds=12.5,
)


def a_view(*texts: str, window_tokens: int | None = 8_000) -> ViewNow:
    roles = (Role.USER, Role.ASSISTANT)
    messages = [Message(roles[place % 2], (Text(text),)) for place, text in enumerate(texts)]
    return ViewNow("", messages, [], 0, 4_321, Sizes(4_321, 99, 2, 0, 0), Limits(window_tokens, media_count_max=20))


def drawn(display: LiveDisplay, console: Console) -> str:
    with console.capture() as captured:
        console.print(display, height=console.height - 1)
    return captured.get()


def stdout_console() -> Console:
    return Console(width=120, height=32, file=io.StringIO(), force_terminal=True, color_system=None)


def test_the_picture_shows_the_act_the_budgets_the_view_and_what_happens() -> None:
    console = stdout_console()
    display = LiveDisplay(("Rate limits", "Restart"), console)
    display.begin(2, "Restart")
    display.say("Starting is recovering:")
    display.see(Logged(7, 0.0, a_notice("Something was cut.")))
    display.see(Logged(8, 0.0, a_turn_ended()))
    display.show(a_view("remember harbour = Kiel", "I will remember that."))
    display.count(5, 4)

    shown = drawn(display, console)

    for text in ("✓ Rate limits", "▶ Restart", "sent 5  answered 4  records 8", "4,321 / 8,000", "2 / 20"):
        assert text in shown
    assert "you remember harbour = Kiel" in shown
    assert "model I will remember that." in shown
    assert "#7 notice: Something was cut." in shown
    assert "#8" not in shown


def test_a_picture_with_more_than_fits_shows_the_beginning_and_the_end() -> None:
    console = stdout_console()
    display = LiveDisplay(("Rate limits",), console)
    display.show(a_view(*(f"line {number}." for number in range(100)), window_tokens=None))
    for number in range(200):
        display.say(f"event {number}.")

    shown = drawn(display, console)

    assert all(text in shown for text in ("line 0.", "line 99.", "event 199.", " more"))
    assert "line 50." not in shown
    assert "event 100." not in shown


def test_what_a_model_wrote_cannot_steer_the_terminal() -> None:
    console = stdout_console()
    display = LiveDisplay(("Rate limits",), console)
    display.show(a_view("\x1b]0;renamed\x07 [red]not markup[/red]"))
    display.see(Logged(1, 0.0, WindowWarned(1, 70, "\x1b[2J [blue]nor this[/blue]")))

    shown = drawn(display, console)

    assert "[red]not markup[/red]" in shown
    assert "[blue]nor this[/blue]" in shown
    assert "\x1b]0" not in shown
    assert "\x1b[2J" not in shown


def test_lines_tell_what_is_worth_telling() -> None:
    out = io.StringIO()
    lines = LineDisplay(out)
    records: list[AnyRecord] = [an_input("hello"), a_reply("hi"), a_notice("Cut."), a_turn_ended()]
    for seq, record in enumerate(records, start=1):
        lines.see(Logged(seq, 0.0, record))
    lines.show(a_view("a"))
    assert out.getvalue().splitlines() == [
        "    record 3: notice: Cut.",
        "  the model sees 1 messages: tokens 4,321 of 8,000, images 2 of 20",
    ]


class FakeTerminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_on_a_terminal_the_end_is_two_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    out = FakeTerminal()
    exit_code = print_result(DemoResult(1, FIGURES, Observations(8_000)), Path("gone"), out, as_json=False)
    assert exit_code == 0
    for text in ("429 came 2 times", "no evidence", "planted facts found by search", "Every promise held."):
        assert text in out.getvalue()


async def test_without_a_desktop_no_browser_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    assert not await open_page("http://127.0.0.1:1/")


async def test_where_there_is_no_keyboard_nobody_is_waited_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "keys").touch()
    with (tmp_path / "keys").open() as file:
        monkeypatch.setattr(sys, "stdin", file)
        await until_enter()


async def test_a_key_ends_the_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading) as keyboard:
        monkeypatch.setattr(sys, "stdin", keyboard)
        os.write(writing, b"\n")
        await until_enter()
    os.close(writing)


async def test_a_program_that_does_not_start_is_told_with_its_last_words(tmp_path: Path) -> None:
    async with ProcessGroup(tmp_path, {}) as processes:
        with pytest.raises(click.ClickException) as caught:
            await processes.serve("serve", "--port", "0", "--store", str(tmp_path / "missing" / "s.db"))
    assert caught.value.message.startswith("`holdfast serve` did not start: holdfast: ")
    assert "missing" in caught.value.message


async def test_the_bit_that_is_flipped_makes_its_record_unreadable_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    async with holdfast.open(path) as client:
        session = await client.session("k")
        for number in range(3):
            await session.send(f"message {number}")
    before = (await read_store(path, "k")).records

    nothing = await flip_bit(path, "k", len(before), random.Random(1))
    flip = await flip_bit(path, "k", 0, random.Random(1))

    after = (await read_store(path, "k")).records
    assert nothing is None
    assert flip is not None
    differing = [two for one, two in zip(before, after, strict=True) if one != two]
    assert [(one.seq, type(one.record)) for one in differing] == [(flip.seq, DamageSetAside)]
