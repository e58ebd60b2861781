"""Slash commands of a chat: lines that begin with a slash and are not sent to the model."""

import re
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

import msgspec

from holdfast.cli.options import check_message
from holdfast.cli.output import align_columns, shorten
from holdfast.errors import BadInputError, HoldfastError
from holdfast.runtime.sessions.record_text import describe_parts
from holdfast.runtime.sessions.session import Session
from holdfast.runtime.sessions.view import View

# --- Gauge of the fullest budget ---


# Width of the gauge: one cell per 10 %.
_CELLS = 10


class BudgetUse(msgspec.Struct, frozen=True):
    """Use of one budget by the view; `most` is None if the limit is unknown."""

    used: int
    most: int | None
    unit: str

    @property
    def percent(self) -> int | None:
        """Use in percent; None if the limit is unknown."""
        return None if self.most is None else 100 * self.used // max(self.most, 1)

    @property
    def sentence(self) -> str:
        """The use as a sentence."""
        if self.percent is None:
            return f"About {self.used:,} {self.unit}; the model's limit is unknown."
        return f"About {self.used:,} of {self.most:,} {self.unit} ({self.percent} %)."

    @property
    def line(self) -> str:
        """The use with a gauge, for the status line."""
        if self.percent is None:
            return f"{self.used:,} {self.unit}"
        return f"{bar(self.percent)} {self.percent}% of {self.most:,} {self.unit}"


def fullest_budget(seen: View) -> BudgetUse:
    """Return the budget with the highest use; tokens if no limit is known."""
    limits = seen.limits
    budgets = [
        BudgetUse(seen.tokens_estimated, seen.window_tokens, "tokens"),
        BudgetUse(seen.wire_bytes_estimated, limits.wire_bytes_max, "bytes"),
        BudgetUse(seen.sizes.media_count, limits.media_count_max, "images"),
    ]
    return max(budgets, key=lambda budget: -1 if budget.percent is None else budget.percent)


def bar(percent: int) -> str:
    """Return a gauge of ASCII characters, which every terminal shows."""
    full = min(max(percent, 0), 100) * _CELLS // 100
    return f"[{'#' * full}{'-' * (_CELLS - full)}]"


# Enough to recognise a message.
_LINE_CHARS = 100
_HITS = 5
# A command name; "/etc/hosts" and "/ 2" start a message.
_COMMAND = re.compile(r"/[a-z]+(?=\s|$)")


class Conversation(Protocol):
    """The chat as slash commands see it."""

    session: Session
    attachments: list[Path]
    # Turn of the last message accepted from this chat; 0 before the first.
    last_turn: int

    def print_note(self, sentence: str) -> None:
        """Show a note to the user."""
        ...

    def leave(self) -> None:
        """End the chat."""
        ...


class SlashCommand(msgspec.Struct, frozen=True):
    """One slash command: usage, help text and function."""

    usage: str
    help_text: str
    run: Callable[[Conversation, str], Awaitable[None]]


def parse_command(line: str) -> tuple[str, str] | None:
    """Return the command name and its arguments; None if the line is a message."""
    found = _COMMAND.match(line)
    return None if found is None else (found[0], line[found.end() :].strip())


async def run_command(chat: Conversation, name: str, rest: str) -> None:
    """Run a command. Errors are shown as notes; the chat continues."""
    if name not in SLASH_COMMANDS:
        chat.print_note(f"Unknown command {name}; see /help. To send it as a message, begin with a space.")
        return
    try:
        await SLASH_COMMANDS[name].run(chat, rest)
    except HoldfastError as error:
        chat.print_note(str(error))


async def _attach(chat: Conversation, rest: str) -> None:
    if rest == "-":
        chat.attachments.clear()
    elif rest:
        path = _path(rest)
        await check_message("…", [path])
        chat.attachments.append(path)
    names = ", ".join(path.name for path in chat.attachments)
    chat.print_note(f"With the next message: {names} (/attach - removes them)" if names else "Nothing is attached.")


def _path(written: str) -> Path:
    """Parse a path as typed in a shell or dropped on a terminal."""
    return Path(written.strip("'\"").replace("\\ ", " ")).expanduser()


async def _compact(chat: Conversation, rest: str) -> None:
    from holdfast.cli.commands.compact import compact_session, describe_result  # noqa: PLC0415 - slow to load

    chat.print_note("Compacting; you can keep typing.")
    chat.print_note(describe_result(chat.session.key, await compact_session(chat.session, rest)))


async def _undo(chat: Conversation, rest: str) -> None:
    del rest
    if await chat.session.undo():
        chat.print_note("Undone: the model sees what it saw before the last compaction or roll-over.")
    else:
        chat.print_note("There is nothing to undo.")


async def _search(chat: Conversation, rest: str) -> None:
    if not rest:
        raise BadInputError("/search needs words to find, such as /search berth 17")
    hits = await chat.session.search(rest, limit=_HITS)
    for hit in hits:
        chat.print_note(f"[#{hit.seq}] {shorten(hit.excerpt, 2 * _LINE_CHARS)}")
    if not hits:
        chat.print_note("Nothing found.")


async def _view(chat: Conversation, rest: str) -> None:
    del rest
    seen = await chat.session.view()
    chat.print_note(fullest_budget(seen).sentence)
    if seen.boundary:
        chat.print_note(f"Verbatim from message {seen.boundary} on; earlier messages are summarised:")
    for message in seen.messages:
        chat.print_note(f"{message.role.value}: {shorten(describe_parts(message.parts), _LINE_CHARS)}")


async def _pin(chat: Conversation, rest: str) -> None:
    turn = _turn(chat, rest)
    await chat.session.pin(turn)
    chat.print_note(f"Message {turn} is pinned: compactions keep it in the view.")


async def _unpin(chat: Conversation, rest: str) -> None:
    turn = _turn(chat, rest)
    await chat.session.pin(turn, keep=False)
    chat.print_note(f"Message {turn} is unpinned.")


def _turn(chat: Conversation, rest: str) -> int:
    if rest.isdecimal():
        return int(rest)
    if rest or not chat.last_turn:
        raise BadInputError("give the number of a message, such as /pin 12; `holdfast show` and /search print numbers")
    return chat.last_turn


async def _cancel(chat: Conversation, rest: str) -> None:
    del rest
    await chat.session.cancel()


async def _help(chat: Conversation, rest: str) -> None:
    del rest
    for line in align_columns((command.usage, command.help_text) for command in SLASH_COMMANDS.values()):
        chat.print_note(line)
    chat.print_note("Alt-Enter: new line. Ctrl-C: stop the answer; twice: leave. Messages sent meanwhile are queued.")


async def _quit(chat: Conversation, rest: str) -> None:
    del rest
    chat.leave()


SLASH_COMMANDS: Mapping[str, SlashCommand] = MappingProxyType(
    {
        "/attach": SlashCommand("/attach FILE", "send a text, an image or a PDF along with the next message", _attach),
        "/compact": SlashCommand("/compact [FOCUS]", "replace older messages by a summary that keeps FOCUS", _compact),
        "/undo": SlashCommand("/undo", "undo the last compaction or roll-over", _undo),
        "/search": SlashCommand("/search WORDS", "search all messages and tool steps", _search),
        "/view": SlashCommand("/view", "show what the model sees now, one line per message", _view),
        "/pin": SlashCommand("/pin [NUMBER]", "keep a message in the view; default: the last one", _pin),
        "/unpin": SlashCommand("/unpin [NUMBER]", "remove the pin", _unpin),
        "/cancel": SlashCommand("/cancel", "cancel the running turn and all queued messages", _cancel),
        "/help": SlashCommand("/help", "this list", _help),
        "/quit": SlashCommand("/quit", "leave (also Ctrl-D)", _quit),
    }
)
