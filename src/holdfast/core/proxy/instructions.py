"""Instructions that a client sends at the head of its first message: project rules, environment, user rules.

Agents put them beside the person's first words and send them again with every request. A compaction must not represent
them: they stay verbatim, in the version of the newest request. The rest of a short first message stays too, because
unknown agents write rules without any frame.
"""

import hashlib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import IntEnum
from functools import lru_cache

import msgspec

from holdfast.core.limits.sizing import tokens_of_text
from holdfast.core.proxy.client_profiles import INSTRUCTION_FRAMES
from holdfast.types.messages import ContentPart, LargeText, Message, Part, Role, Text
from holdfast.types.records import InputAdmitted, Logged

# Frames around a person's own words, and around a serialised history.
_OTHER_TAGS = frozenset(
    {
        *("task", "user_query", "user_message", "query", "question", "prompt", "message", "request", "input"),
        *("feedback", "conversation", "previous-summary", "summary", "transcript", "history", "messages"),
    }
)
_TAG = re.compile(r"\s*<([A-Za-z][\w.:-]{1,60})(?:\s[^<>\n]{0,200})?>")
_TAG_CLOSED = re.compile(r"</([A-Za-z][\w.:-]{1,60})>\s*\Z")
_SPACE = re.compile(r"\s*")
# Shares of the window. Text in unknown tags may be a pasted file; text without a frame is mostly a person's.
_FRAMED_SHARE = 1 / 4
_PLAIN_SHARE = 1 / 8
# Without a frame, a model would take an old question for a new one.
_FIRST_MESSAGE = "The conversation began with this message.\n<first-message>\n{}\n</first-message>"
# Tags whose content a client renews in later messages; two files in one tag are not versions of each other.
_RENEWED = re.compile(r"instruct|rule|context|env|memor|setting|guideline|preference|info|date", re.IGNORECASE)
# A closing tag with the space after it.
_CLOSING_CHARS_MAX = 200
# Frames that one message may have at its beginning or at its end.
_FRAMES_MAX = 32
# Texts whose parts are cached, and how long each may be: one MiB at most.
_CACHED_TEXTS = 64
_CACHED_CHARS_MAX = 16_384


class Certainty(IntEnum):
    """How certain it is that a text is an instruction of the client."""

    # No frame: a person's words, or rules that look like them.
    PLAIN = 0
    # In a tag that no profile names.
    FRAMED = 1
    # In a frame of a client profile.
    KNOWN = 2


class HeadPart(msgspec.Struct, frozen=True):
    """One text of the first message."""

    text: str
    certainty: Certainty
    # The name of its frame; a later part with the same name is a newer version. "": it has no versions.
    name: str = ""


class ClientInstructions(msgspec.Struct, frozen=True):
    """Parts of the first message that stay, and newer versions of them by the number of their message."""

    parts: tuple[HeadPart, ...] = ()
    newer: tuple[tuple[int, HeadPart], ...] = ()

    def within(self, window_tokens: int) -> "ClientInstructions":
        """Return the parts that may stay in a window of this size; known instructions always do."""
        rooms = {Certainty.FRAMED: window_tokens * _FRAMED_SHARE, Certainty.PLAIN: window_tokens * _PLAIN_SHARE}
        kept: list[HeadPart] = []
        for one in self.parts:
            if one.certainty in rooms:
                rooms[one.certainty] -= tokens_of_text(one.text)
                if rooms[one.certainty] < 0:
                    continue
            kept.append(one)
        return ClientInstructions(tuple(kept), self.newer)

    def shown(self, first_shown: int, *, is_first_generation: bool = True) -> Message | None:
        """Return the message that shows them while the view begins with message number `first_shown`.

        A newer version counts once its own message is not shown any more; before that it follows by itself. After a
        roll-over only framed parts are left: the rest may be the reason for it.
        """
        if not first_shown:
            return None
        newest = {one.name: one.text for number, one in self.newer if number < first_shown}
        parts = tuple(
            Text(
                _FIRST_MESSAGE.format(one.text) if one.certainty is Certainty.PLAIN else newest.get(one.name, one.text)
            )
            for one in self.parts
            if one.certainty is not Certainty.PLAIN or is_first_generation
        )
        return Message(Role.USER, parts) if parts else None

    @property
    def framed(self) -> tuple[Message, ...]:
        """The message with the parts that stay whatever happens; empty if there are none."""
        shown = self.shown(1, is_first_generation=False)
        return (shown,) if shown is not None else ()

    def places(self, parts: Sequence[ContentPart]) -> frozenset[int]:
        """Return the places of framed parts among the parts of the recorded first message."""
        framed = {_sha256(one.text) for one in self.parts if one.certainty is not Certainty.PLAIN}
        return frozenset(place for place, part in enumerate(parts) if framed and _identity(part) in framed)

    def without(self, message: Message) -> Message | None:
        """Return the recorded first message without the parts that stay; None if nothing is left of it."""
        staying = {_sha256(one.text) for one in self.parts}
        parts = tuple(part for part in message.parts if _identity(part) not in staying)
        return Message(message.role, parts) if parts else None


NO_INSTRUCTIONS = ClientInstructions()


def first_shown(tail: Sequence[Logged], boundary: int) -> int:
    """Return the client's number of the first message in a view with this boundary; 0 if it shows all of them."""
    if not boundary:
        return 0
    origins = (one.record.origin for one in tail if one.seq >= boundary and isinstance(one.record, InputAdmitted))
    return min((origin for origin in origins if origin is not None), default=0)


def split_first(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return a conversation with each frame in its first message as a part of its own."""
    if not messages or messages[0].role is not Role.USER:
        return tuple(messages)
    parts: list[Part] = []
    for part in messages[0].parts:
        split = _head_parts(part.text) if isinstance(part, Text) else []
        parts += [Text(one.text) for one in split] if len(split) > 1 else [part]
    return (Message(Role.USER, tuple(parts)), *messages[1:])


def persons_part(first: Message) -> Message:
    """Return the first message without known instructions; all of it if it has nothing else."""
    left = tuple(part for part in first.parts if not (isinstance(part, Text) and _is_known(part.text)))
    return Message(first.role, left) if left else first


def _is_known(text: str) -> bool:
    parts = _head_parts(text)
    return bool(parts) and all(one.certainty is Certainty.KNOWN for one in parts)


def instructions_of(messages: Sequence[Message], texts: Mapping[str, bytes]) -> ClientInstructions:
    """Return the instructions in a conversation; `texts` has the bytes of its large texts."""
    if not messages or messages[0].role is not Role.USER:
        return NO_INSTRUCTIONS
    parts = tuple(_parts_of(messages[0], texts))
    names = {one.name for one in parts if one.name}
    return ClientInstructions(parts, tuple(_newer(messages, texts, names)) if names else ())


def _newer(
    messages: Sequence[Message], texts: Mapping[str, bytes], names: Collection[str]
) -> Iterator[tuple[int, HeadPart]]:
    """Yield the frames of later messages that have one of these names, with the numbers of the messages."""
    for number, message in enumerate(messages):
        if number and message.role is Role.USER:
            yield from ((number, one) for one in _parts_of(message, texts) if one.name in names)


def _parts_of(message: Message, texts: Mapping[str, bytes]) -> Iterator[HeadPart]:
    for text in _texts(message, texts):
        yield from _head_parts(text)


def _texts(message: Message, texts: Mapping[str, bytes]) -> list[str]:
    found: list[str] = []
    for part in message.parts:
        if isinstance(part, Text):
            found.append(part.text)
        elif isinstance(part, LargeText) and (content := texts.get(part.blob.sha256)) is not None:
            found.append(content.decode("utf-8", "replace"))
    return found


def _head_parts(text: str) -> Sequence[HeadPart]:
    """Split a text into the frames at its beginning, the text between, and the frames at its end."""
    # Clients send the same first message with every request.
    return _cached_head_parts(text) if len(text) <= _CACHED_CHARS_MAX else _split_head(text)


@lru_cache(maxsize=_CACHED_TEXTS)
def _cached_head_parts(text: str) -> tuple[HeadPart, ...]:
    return tuple(_split_head(text))


def _split_head(text: str) -> list[HeadPart]:
    head: list[HeadPart] = []
    at = 0
    while len(head) < _FRAMES_MAX and (found := _frame_at(text, at)) is not None:
        end, certainty, name = found
        # Space between frames belongs to the frame before it.
        end = _space_end(text, end)
        head.append(HeadPart(text[at:end], certainty, name))
        at = end
    tail: list[HeadPart] = []
    end = len(text)
    while len(tail) < _FRAMES_MAX and (start := _last_frame(text, at, end)) is not None:
        found = _frame_at(text, start)
        assert found is not None, "a frame that was found from its end has a beginning"
        tail.append(HeadPart(text[start:end], found[1], found[2]))
        end = start
    between = [HeadPart(text[at:end], Certainty.PLAIN)] if text[at:end].strip() else []
    return [*head, *between, *reversed(tail)]


def _space_end(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found is not None else at


def _frame_at(text: str, at: int) -> tuple[int, Certainty, str] | None:
    """Return the end of the frame at an offset, its certainty and its name; None if there is none."""
    for frame, opening in INSTRUCTION_FRAMES:
        found = opening.match(text, at)
        if found is not None:
            end = _closing_end(text, found.end(), opening, frame.closing) if frame.closing else len(text)
            return (end, Certainty.KNOWN, frame.name) if end else None
    tag = _TAG.match(text, at)
    if tag is None or tag[1].lower() in _OTHER_TAGS:
        return None
    end = _closing_end(text, tag.end(), re.compile(rf"<{re.escape(tag[1])}\b"), f"</{tag[1]}>")
    return (end, Certainty.FRAMED, tag[1] if _RENEWED.search(tag[1]) else "") if end else None


def _closing_end(text: str, at: int, opening: re.Pattern[str], closing: str) -> int:
    """Return the end of a frame that was opened before an offset; 0 if it is not closed.

    Rules may quote the closing tag: a frame reaches to its last one before the next opening.
    """
    end = text.find(closing, at)
    if end < 0:
        return 0
    following = opening.search(text, end)
    end = text.rfind(closing, at, following.start() if following is not None else len(text))
    return end + len(closing)


def _last_frame(text: str, start: int, end: int) -> int | None:
    """Return the offset of the frame that ends a text; None if there is none."""
    closed = _TAG_CLOSED.search(text[max(start, end - _CLOSING_CHARS_MAX) : end])
    if closed is None:
        return None
    at = max(text.rfind(f"<{closed[1]}>", start, end), text.rfind(f"<{closed[1]} ", start, end))
    if at <= start:
        return None
    found = _frame_at(text, at)
    return at if found is not None and _space_end(text, found[0]) >= end else None


def _identity(part: Part) -> str:
    match part:
        case Text(text=text):
            return _sha256(text)
        case LargeText(blob=blob):
            return blob.sha256
        case _:
            return ""


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
