"""What a person can order in a talk: lines that begin with a slash and are not for the model."""

import re
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

import msgspec

from holdfast.cli.options import check_message
from holdfast.cli.output import columns, shortened
from holdfast.errors import BadInputError, HoldfastError
from holdfast.runtime.sessions.record_text import in_words
from holdfast.runtime.sessions.session import Session, View

# --- How full the fullest of the three budgets is, as a bar and as a sentence.


# As wide as a bar needs to be to tell a tenth from the next.
_CELLS = 10


class Filling(msgspec.Struct, frozen=True):
    """What the view takes of the budget that it takes most of; nothing is known of a limit where `most` is None."""

    used: int
    most: int | None
    unit: str

    @property
    def percent(self) -> int | None:
        """How full it is."""
        return None if self.most is None else 100 * self.used // max(self.most, 1)

    @property
    def sentence(self) -> str:
        """The same for a person to read."""
        if self.percent is None:
            return f"About {self.used:,} {self.unit}; the model's limit is not known yet."
        return f"About {self.used:,} of {self.most:,} {self.unit} ({self.percent} %)."

    @property
    def line(self) -> str:
        """The same with a bar, for a status line."""
        if self.percent is None:
            return f"{self.used:,} {self.unit}"
        return f"{bar(self.percent)} {self.percent}% of {self.most:,} {self.unit}"


def filling(seen: View) -> Filling:
    """Return the budget of which a view takes most; tokens where nothing is known."""
    limits = seen.limits
    budgets = [
        Filling(seen.tokens_estimated, seen.window_tokens, "tokens"),
        Filling(seen.wire_bytes_estimated, limits.wire_bytes_max, "bytes"),
        Filling(seen.sizes.media_count, limits.media_count_max, "images"),
    ]
    return max(budgets, key=lambda budget: -1 if budget.percent is None else budget.percent)


def bar(percent: int) -> str:
    """Return a bar that is so full. Of plain characters: it has to come out right everywhere."""
    full = min(max(percent, 0), 100) * _CELLS // 100
    return f"[{'#' * full}{'-' * (_CELLS - full)}]"


# Enough of a message to recognise it by.
_LINE_CHARS = 100
_HITS = 5
# A word that names an order; "/etc/hosts" and "/ 2" are the beginning of a message.
_ORDER = re.compile(r"/[a-z]+(?=\s|$)")


class Talking(Protocol):
    """What an order needs of a talk."""

    session: Session
    attachments: list[Path]
    # The last message that was accepted from here, by its turn; 0 before there is one.
    last_turn: int

    def tell(self, sentence: str) -> None:
        """Show a sentence to the person."""
        ...

    def leave(self) -> None:
        """End the talk."""
        ...


class Order(msgspec.Struct, frozen=True):
    """One order: how it is written, what it does in a few words, and what does it."""

    usage: str
    told: str
    obey: Callable[[Talking, str], Awaitable[None]]


def order_in(line: str) -> tuple[str, str] | None:
    """Return the name of an order and what stands behind it; None where a line is a message."""
    found = _ORDER.match(line)
    return None if found is None else (found[0], line[found.end() :].strip())


async def obey(talk: Talking, name: str, rest: str) -> None:
    """Do what was ordered. What cannot be done is told, and the talk goes on."""
    if name not in ORDERS:
        talk.tell(f"There is no {name}; /help lists what there is. To send it as a message, begin with a space.")
        return
    try:
        await ORDERS[name].obey(talk, rest)
    except HoldfastError as error:
        talk.tell(str(error))


async def _attach(talk: Talking, rest: str) -> None:
    if rest == "-":
        talk.attachments.clear()
    elif rest:
        path = _path(rest)
        await check_message("…", [path])
        talk.attachments.append(path)
    names = ", ".join(path.name for path in talk.attachments)
    talk.tell(f"With the next message: {names} (/attach - takes that back)" if names else "Nothing is attached.")


def _path(written: str) -> Path:
    """Return a path as it is written in a shell, or dropped on a terminal."""
    return Path(written.strip("'\"").replace("\\ ", " ")).expanduser()


async def _compact(talk: Talking, rest: str) -> None:
    from holdfast.cli.commands.compact import compacted, told  # noqa: PLC0415 - what summaries are made with is loaded late

    talk.tell("Compacting; you may go on writing.")
    talk.tell(told(talk.session.key, await compacted(talk.session, rest)))


async def _undo(talk: Talking, rest: str) -> None:
    del rest
    if await talk.session.undo():
        talk.tell("Undone: the model sees again what it saw before the last compaction or roll-over.")
    else:
        talk.tell("There is nothing to undo.")


async def _search(talk: Talking, rest: str) -> None:
    if not rest:
        raise BadInputError("/search needs words to look for, as in /search berth 17")
    hits = await talk.session.search(rest, limit=_HITS)
    for hit in hits:
        talk.tell(f"[#{hit.seq}] {shortened(hit.excerpt, 2 * _LINE_CHARS)}")
    if not hits:
        talk.tell("Nothing was found.")


async def _view(talk: Talking, rest: str) -> None:
    del rest
    seen = await talk.session.view()
    talk.tell(filling(seen).sentence)
    if seen.boundary:
        talk.tell(f"Word for word from message {seen.boundary} on; what came before is represented:")
    for message in seen.messages:
        talk.tell(f"{message.role.value}: {shortened(in_words(message.parts), _LINE_CHARS)}")


async def _pin(talk: Talking, rest: str) -> None:
    turn = _turn(talk, rest)
    await talk.session.pin(turn)
    talk.tell(f"Message {turn} stays in the view, whatever is compacted.")


async def _unpin(talk: Talking, rest: str) -> None:
    turn = _turn(talk, rest)
    await talk.session.pin(turn, keep=False)
    talk.tell(f"Message {turn} is no longer pinned.")


def _turn(talk: Talking, rest: str) -> int:
    if rest.isdecimal():
        return int(rest)
    if rest or not talk.last_turn:
        raise BadInputError("name a message by its number, as in /pin 12; `holdfast show` and /search tell the numbers")
    return talk.last_turn


async def _cancel(talk: Talking, rest: str) -> None:
    del rest
    await talk.session.cancel()


async def _help(talk: Talking, rest: str) -> None:
    del rest
    for line in columns((order.usage, order.told) for order in ORDERS.values()):
        talk.tell(line)
    talk.tell("Alt-Enter begins a new line. Ctrl-C stops an answer, twice leaves. What you write meanwhile waits.")


async def _quit(talk: Talking, rest: str) -> None:
    del rest
    talk.leave()


ORDERS: Mapping[str, Order] = MappingProxyType(
    {
        "/attach": Order("/attach FILE", "send a text, an image or a PDF along with the next message", _attach),
        "/compact": Order("/compact [FOCUS]", "represent what is old by a summary that keeps FOCUS", _compact),
        "/undo": Order("/undo", "take the last compaction or roll-over back", _undo),
        "/search": Order("/search WORDS", "find what was said or done, also long ago", _search),
        "/view": Order("/view", "show what the model sees now, a line each", _view),
        "/pin": Order("/pin [NUMBER]", "keep a message in the view; without a number the last one", _pin),
        "/unpin": Order("/unpin [NUMBER]", "keep it no longer", _unpin),
        "/cancel": Order("/cancel", "stop everything that is being answered or waits", _cancel),
        "/help": Order("/help", "this list", _help),
        "/quit": Order("/quit", "leave; so do Ctrl-D and kill -9", _quit),
    }
)
