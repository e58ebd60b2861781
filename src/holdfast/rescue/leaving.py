"""State of a proxied session as a compaction for the agent's own file, so that the agent continues without the gateway.

Behind the gateway an agent keeps its whole history, which the gateway compacts for every request. Without the gateway
the agent would send all of it. The view of the proxied session is what the model last saw: its summary and the messages
after it. The session is found by the messages of the user, because most agents send no id of their sessions.
"""

from collections.abc import AsyncIterator, Sequence

import msgspec

from holdfast.core.limits.bounds import DROPIN_MARK
from holdfast.core.proxy.client_profiles import ASIDE, REMINDER
from holdfast.core.search.rank import RECALL
from holdfast.core.view import conversation, lens_of, messages_in_view
from holdfast.errors import UsageError
from holdfast.ports import Blobs, Store
from holdfast.rescue.diagnosis import Symptom, Trouble
from holdfast.rescue.formats.base import Compaction, ForeignSession
from holdfast.rescue.neutral import NeutralMessage, NeutralRole
from holdfast.runtime.engine.log import open_log, pages
from holdfast.types.messages import (
    ContentPart,
    LargeText,
    Media,
    Message,
    Part,
    Reasoning,
    Role,
    Text,
    ToolCall,
    ToolResult,
)
from holdfast.types.records import InputAdmitted

# Sessions of the gateway that are compared, newest first, and a page of the list.
_SESSIONS_MAX = 500
_PAGE = 1_000
# Of the messages in the log, the share that the agent's file must have in the same order.
_SHARE_MIN = 0.8
_MARK = "[Holdfast wrote this compaction from session {key}"
_HEAD = _MARK + " of a gateway. `holdfast recall {key} N` reads record N where the text cites it as #N.]"


class ProxiedState(msgspec.Struct, frozen=True):
    """The state that a gateway has of an agent's session: the session's key, and what its model last saw."""

    key: str
    compaction: Compaction

    @property
    def symptom(self) -> Symptom:
        """The trouble that the agent has without the gateway."""
        says = f"its compaction is only in session {self.key} of the gateway: without it the agent sends everything"
        return Symptom(Trouble.PROXIED, says)


async def proxied_state(
    session: ForeignSession, store: Store, blobs: Blobs, key: str | None = None
) -> ProxiedState | None:
    """Return the gateway's state of a session; None if the gateway has none, changed nothing, or it is written already.

    `key` names the gateway's session; without it the one with the same messages is taken. Raises `UsageError` for a
    key without a session.
    """
    asked = _asked(session.context)
    if key is not None:
        if await store.info(key) is None:
            raise UsageError(f"there is no session {key!r}; `holdfast sessions` lists all")
        return await _state(session, store, blobs, key, await _last_common(store, key, asked))
    best: tuple[int, str, int] | None = None
    async for candidate in _proxied(store):
        found = await _common(store, candidate, asked)
        # Of two that have as much in common, the newer one, which comes first.
        if found is not None and (best is None or found[0] > best[0]):
            best = (found[0], candidate, found[1])
    return await _state(session, store, blobs, best[1], best[2]) if best else None


async def _proxied(store: Store) -> AsyncIterator[str]:
    """Yield the keys of the newest sessions of clients without a gateway key of their own."""
    found: list[tuple[float, str]] = []
    # Keys with this prefix follow each other.
    after = DROPIN_MARK
    while page := await store.sessions(after=after, limit=_PAGE):
        own = [(one.updated_at, one.key) for one in page if one.key.startswith(DROPIN_MARK)]
        found += own
        if len(own) < len(page):
            break
        after = page[-1].key
    for _, key in sorted(found, reverse=True)[:_SESSIONS_MAX]:
        yield key


def _asked(messages: Sequence[NeutralMessage]) -> list[str]:
    """Return the texts of the user's messages."""
    texts = [
        "\n".join(part.text for part in one.parts if isinstance(part, Text)).strip()
        for one in messages
        if one.role is NeutralRole.USER
    ]
    return [_plain(text) for text in texts if text]


def _plain(text: str) -> str:
    return ASIDE.sub("", REMINDER.sub("", text)).strip()


async def _common(store: Store, key: str, asked: Sequence[str]) -> tuple[int, int] | None:
    """Return how many messages a log has in common with a file, and the last of the file's; None if too few."""
    matched, last, count = 0, -1, 0
    async for page in pages(store, key):
        for logged in page:
            if not isinstance(logged.record, InputAdmitted) or logged.record.origin is None:
                continue
            count += 1
            place = next((n for n in range(last + 1, len(asked)) if _is_same(asked[n], logged.record.parts)), None)
            if place is not None:
                matched, last = matched + 1, place
    return (matched, last) if matched and matched >= count * _SHARE_MIN else None


async def _last_common(store: Store, key: str, asked: Sequence[str]) -> int:
    found = await _common(store, key, asked)
    return found[1] if found else len(asked) - 1


def _is_same(asked: str, parts: Sequence[ContentPart]) -> bool:
    """Return whether a message of the file is in a message of the log, which may have reminders around it."""
    texts = [part.text for part in parts if isinstance(part, Text)]
    heads = [part.head for part in parts if isinstance(part, LargeText)]
    is_large = any(head and asked.startswith(head.strip()) for head in heads)
    return bool(asked) and (is_large or asked in "\n".join(texts))


async def _state(session: ForeignSession, store: Store, blobs: Blobs, key: str, last: int) -> ProxiedState | None:
    log = await open_log(store, key)
    if not log.turn.shows_changed or _is_written(session, key):
        return None
    view = messages_in_view(log.tail, log.turn, pinned=log.pinned)
    kept = conversation(log.tail, first_turn=log.turn.boundary, first_step=log.turn.first_step, lens=lens_of(log.turn))
    past = view[: len(view) - len(kept)]
    told = [await _text_of(part, blobs) for message in past for part in message.parts]
    tail = [await _neutral(message, blobs, number) for number, message in enumerate(_without_recall(view[len(past) :]))]
    summary = "\n\n".join([_HEAD.format(key=key), *told])
    return ProxiedState(key, Compaction(summary, (*(one for one in tail if one.parts), *_after(session, last))))


def _is_written(session: ForeignSession, key: str) -> bool:
    mark = _MARK.format(key=key)
    return any(isinstance(part, Text) and part.text.startswith(mark) for one in session.context for part in one.parts)


def _after(session: ForeignSession, last: int) -> tuple[NeutralMessage, ...]:
    """Return the messages of the file after the last one that the gateway has: those of a time without it."""
    number = -1
    for place, message in enumerate(session.context):
        if message.role is NeutralRole.USER and _asked((message,)):
            number += 1
        if number > last:
            return session.context[place:]
    return ()


def _without_recall(messages: Sequence[Message]) -> list[Message]:
    """Return messages without calls of the gateway's own tool, which the agent does not have."""
    calls = {
        part.call_id
        for message in messages
        for part in message.parts
        if isinstance(part, ToolCall) and part.name == RECALL
    }

    def is_own(part: Part) -> bool:
        return isinstance(part, ToolCall | ToolResult) and part.call_id in calls

    return [Message(message.role, tuple(part for part in message.parts if not is_own(part))) for message in messages]


async def _neutral(message: Message, blobs: Blobs, number: int) -> NeutralMessage:
    """Return a message with its large texts and media, without reasoning and without reminders of the client."""
    kept: dict[str, bytes] = {}
    parts: list[Part] = []
    for part in message.parts:
        match part:
            case ToolResult(parts=inner):
                parts.append(
                    msgspec.structs.replace(part, parts=tuple([await _loaded(one, blobs, kept) for one in inner]))
                )
            case Text() | LargeText() | Media():
                shown = await _loaded(part, blobs, kept)
                if isinstance(shown, Text) and message.role is Role.USER:
                    shown = Text(_plain(shown.text))
                if not (isinstance(shown, Text) and not shown.text):
                    parts.append(shown)
            case Reasoning():
                continue
            case _:
                parts.append(part)
    return NeutralMessage("", number, NeutralRole(message.role.value), tuple(parts), blobs=kept)


async def _loaded(part: ContentPart, blobs: Blobs, kept: dict[str, bytes]) -> Text | Media:
    match part:
        case LargeText():
            return Text(await _text_of(part, blobs))
        case Media(blob=blob):
            kept[blob.sha256] = await blobs.get(blob)
            return part
        case _:
            return part


async def _text_of(part: Part, blobs: Blobs) -> str:
    match part:
        case Text(text=text):
            return text
        case LargeText(blob=blob):
            return (await blobs.get(blob)).decode(errors="replace")
        case _:
            return "[media]"
