"""Slash commands of a chat: lines that begin with a slash and are not sent to the model."""

import re
import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

import msgspec

from holdfast.cli.options import check_message
from holdfast.cli.output import align_columns, shorten
from holdfast.core.limits.settings import checked_settings
from holdfast.errors import BadInputError, HoldfastError
from holdfast.runtime.sessions.client import Client
from holdfast.runtime.sessions.record_text import describe_parts
from holdfast.runtime.sessions.session import Session
from holdfast.runtime.sessions.view import View
from holdfast.types.settings import NO_SETTINGS, Settings

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

    client: Client
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


async def _approve(chat: Conversation, rest: str) -> None:
    await _answer(chat, rest, is_approved=True)


async def _deny(chat: Conversation, rest: str) -> None:
    await _answer(chat, rest, is_approved=False)


async def _answer(chat: Conversation, rest: str, *, is_approved: bool) -> None:
    waiting = await chat.session.approvals()
    number, _, note = rest.removeprefix("#").partition(" ")
    if not number.isdecimal():
        number, note = "", rest
    if is_approved and note:
        raise BadInputError("/approve takes the number of a request, or nothing")
    if not number and len(waiting) > 1:
        raise BadInputError("several wait: " + "; ".join(f"{one.request} {one.tool}" for one in waiting))
    if not number and not waiting:
        chat.print_note("No tool call waits for an approval.")
        return
    request = int(number) if number else waiting[0].request
    answered = chat.session.approve(request) if is_approved else chat.session.deny(request, note=note.strip())
    if not await answered:
        chat.print_note(f"Request {request} was answered before, or its turn has ended.")


async def _settings(chat: Conversation, rest: str) -> None:
    kept = (await chat.session.state()).settings or NO_SETTINGS
    if rest:
        kept = NO_SETTINGS if rest == "-" else changed_settings(kept, _words(rest))
        await chat.client.session(chat.session.key, settings=kept)
    pairs = msgspec.to_builtins(kept)
    shown = " ".join(f"{name}={_shown(value)}" for name, value in pairs.items())
    chat.print_note(f"Settings of this session: {shown or 'none'}. /settings NAME=VALUE sets one, NAME= removes it.")


def _shown(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _words(text: str) -> list[str]:
    """Split words as a shell does."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise BadInputError(f"the quotes do not match: {text[:80]}") from error


def changed_settings(kept: Settings, pairs: Sequence[str]) -> Settings:
    """Return settings with those in pairs of NAME=VALUE changed; an empty value removes one. Raises `BadInputError`."""
    fields = msgspec.structs.asdict(kept)
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or name not in fields:
            raise BadInputError(f"{pair[:80]!r} is not a setting; use NAME=VALUE with one of {', '.join(fields)}")
        fields[name] = _value_of(name, value) if value else getattr(NO_SETTINGS, name)
    return checked_settings(Settings(**fields))


def _value_of(name: str, text: str) -> object:
    """Return a value in the type of its setting: the text itself, JSON, or a list of the text."""
    given: list[object] = [text, [text]]
    with suppress(msgspec.DecodeError):
        given.insert(1, msgspec.json.decode(text))
    reason = ""
    for value in given:
        try:
            return getattr(msgspec.convert({name: value}, Settings, strict=False), name)
        except msgspec.ValidationError as error:
            reason = reason or str(error).partition(" - at ")[0]
    raise BadInputError(f"{name}={text[:80]}: {reason[0].lower()}{reason[1:]}")


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
        "/approve": SlashCommand("/approve [NUMBER]", "approve a tool call that waits", _approve),
        "/deny": SlashCommand("/deny [NUMBER] [WHY]", "deny it; the model reads why", _deny),
        "/settings": SlashCommand("/settings [NAME=VALUE]", "show or change temperature, effort and others", _settings),
        "/cancel": SlashCommand("/cancel", "cancel the running turn and all queued messages", _cancel),
        "/help": SlashCommand("/help", "this list", _help),
        "/quit": SlashCommand("/quit", "leave (also Ctrl-D)", _quit),
    }
)
