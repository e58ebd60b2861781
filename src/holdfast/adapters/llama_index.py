"""A chat store for LlamaIndex: `Memory.from_defaults(session_id="s1", chat_store=HoldfastChatStore(client=client))`.

A key is a session, and a message is one entry beside the message that it is. Archiving and deleting change a small
state, which names ranges of records; the last record of every write has it. Messages that were deleted leave the view,
and the log keeps them; archived ones stay in the view, which Holdfast compacts itself.
"""

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.storage.chat_store.base_db import AsyncDBChatStore, MessageStatus

from holdfast.adapters.blocking import Client as BlockingClient
from holdfast.adapters.blocking import calls_of
from holdfast.adapters.keys import key_part
from holdfast.adapters.loop_thread import LoopCalls
from holdfast.adapters.records import append_repeatedly, as_messages, entry_drafts, last_seq, newest_of, sessions_below
from holdfast.runtime.sessions.appending import Draft, StoredMessage
from holdfast.runtime.sessions.client import Client
from holdfast.runtime.sessions.session import Session
from holdfast.types.messages import Message, Text, ToolCall, ToolResult

PREFIX = "llama-index:"
_TAG = "llama-index"
# Records between two ranges that are read to join them: those of writes that changed the state only.
_GAP_RECORDS = 8
_ACTIVE, _ARCHIVED = MessageStatus.ACTIVE, MessageStatus.ARCHIVED


class _Range(msgspec.Struct, frozen=True, array_like=True):
    """Records `first` to `last`, among them `count` messages; those are all messages of the range."""

    first: int
    last: int
    count: int


class _State(msgspec.Struct, frozen=True, array_like=True):
    """The messages of a key by status."""

    active: tuple[_Range, ...] = ()
    archived: tuple[_Range, ...] = ()

    def ranges(self, status: MessageStatus | None) -> list[_Range]:
        """Return the ranges of a status in order; None: of both."""
        chosen = [*(self.active if status != _ARCHIVED else ()), *(self.archived if status != _ACTIVE else ())]
        return sorted(chosen, key=lambda one: one.first)


class _Entry(msgspec.Struct, frozen=True):
    """A message or None, and the state after the write if this is its last record."""

    key: str
    message: Any = None
    state: _State | None = None


class _Found(msgspec.Struct, frozen=True):
    seq: int
    message: Any
    is_shown: bool


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(_Entry)


class HoldfastChatStore(AsyncDBChatStore):
    """Messages of LlamaIndex in a Holdfast store, for any number of processes.

    `client` is a `holdfast.blocking` client: LlamaIndex calls a store from several event loops. The index of
    `delete_message` is the place of a message among all of its key, from 0.
    """

    _client: Client = PrivateAttr()
    _calls: LoopCalls = PrivateAttr()

    def __init__(self, client: Client | BlockingClient, **kwargs: Any) -> None:  # noqa: ANN401 - of the base class
        super().__init__(**kwargs)
        self._client, self._calls = calls_of(client)

    @classmethod
    def class_name(cls) -> str:
        """Return the name that LlamaIndex stores."""
        return "HoldfastChatStore"

    def session_key(self, key: str) -> str:
        """Return the key of the Holdfast session of a key: search it, view it, or continue it natively."""
        return f"{PREFIX}{key_part(key)}"

    async def get_messages(
        self,
        key: str,
        status: MessageStatus | None = _ACTIVE,
        limit: int | None = None,
        offset: int | None = None,
    ) -> list[ChatMessage]:
        """Return the messages of a key in order."""

        async def work() -> list[_Found]:
            session = await self._session(key)
            state = await _state(session, await last_seq(session))
            return await _window(session, state.ranges(status), offset or 0, limit)

        return [_decoded(one) for one in await self._calls.call(work(), is_write=False)]

    async def count_messages(self, key: str, status: MessageStatus | None = _ACTIVE) -> int:
        """Return the number of messages of a key."""

        async def work() -> int:
            session = await self._session(key)
            state = await _state(session, await last_seq(session))
            return sum(one.count for one in state.ranges(status))

        return await self._calls.call(work(), is_write=False)

    async def add_message(self, key: str, message: ChatMessage, status: MessageStatus = _ACTIVE) -> None:
        """Append a message."""
        await self.add_messages(key, [message], status)

    async def add_messages(self, key: str, messages: list[ChatMessage], status: MessageStatus = _ACTIVE) -> None:
        """Append messages, all of them or none."""
        if messages:
            await self._calls.call(self._write(key, messages, status))

    async def set_messages(self, key: str, messages: list[ChatMessage], status: MessageStatus = _ACTIVE) -> None:
        """Replace all messages of a key, in one commit."""
        await self._calls.call(self._write(key, messages, status, is_replacing=True))

    async def delete_message(self, key: str, idx: int) -> ChatMessage | None:
        """Delete the message at a place, and return it; None if there is none."""
        found = await self._calls.call(self._take(key, None, idx, 1)) if idx >= 0 else []
        return _decoded(found[0]) if found else None

    async def delete_messages(self, key: str, status: MessageStatus | None = None) -> None:
        """Delete the messages of a key."""
        await self._calls.call(self._take(key, status, 0, None))

    async def delete_oldest_messages(self, key: str, n: int) -> list[ChatMessage]:
        """Delete the oldest active messages of a key, and return them. Concurrent calls get different ones."""
        return [_decoded(one) for one in await self._calls.call(self._take(key, _ACTIVE, 0, n))]

    async def archive_oldest_messages(self, key: str, n: int) -> list[ChatMessage]:
        """Archive the oldest active messages of a key, and return them. Concurrent calls get different ones."""
        return [_decoded(one) for one in await self._calls.call(self._take(key, _ACTIVE, 0, n, is_archiving=True))]

    async def get_keys(self) -> list[str]:
        """Return the keys with messages."""

        async def work() -> list[str]:
            return [name async for name in self._names()]

        return await self._calls.call(work(), is_write=False)

    # --- In the loop of the client ---

    async def _session(self, key: str) -> Session:
        return await self._client.session(self.session_key(key))

    async def _names(self) -> AsyncIterator[str]:
        async for known in sessions_below(self._client, PREFIX):
            session = await self._client.session(known.key)
            newest = await newest_of(session, _TAG, known.last_seq)
            if newest is not None and (entry := _entry(newest)).state != _State():
                yield entry.key

    async def _write(
        self, key: str, messages: Sequence[ChatMessage], status: MessageStatus, *, is_replacing: bool = False
    ) -> None:
        session = await self._session(key)
        replaced: list[_Found] = []

        async def build(last: int) -> list[Draft]:
            state = await _state(session, last)
            replaced[:] = await _window(session, state.ranges(None), 0, None) if is_replacing else []
            return await _drafts(session, key, messages, status, _State() if is_replacing else state, last)

        await append_repeatedly(session, build)
        await _leave_view(session, replaced)

    async def _take(
        self, key: str, status: MessageStatus | None, offset: int, limit: int | None, *, is_archiving: bool = False
    ) -> list[_Found]:
        """Delete or archive messages, and return them."""
        session = await self._session(key)
        taken: list[_Found] = []

        async def build(last: int) -> list[Draft]:
            state = await _state(session, last)
            taken[:] = await _window(session, state.ranges(status), offset, limit)
            if not taken:
                return []
            left = await _without(session, state, {one.seq for one in taken})
            if is_archiving:
                moved = [_Range(one.seq, one.seq, 1) for one in taken]
                left = _State(left.active, await _joined(session, left.archived, moved))
            return [Draft(payload=_encoder.encode(_Entry(key, state=left)), tag=_TAG)]

        await append_repeatedly(session, build)
        if not is_archiving:
            await _leave_view(session, taken)
        return taken


# --- Records ---


async def _state(session: Session, last: int) -> _State:
    newest = await newest_of(session, _TAG, last)
    return (_entry(newest).state if newest else None) or _State()


def _entry(stored: StoredMessage) -> _Entry:
    return _decoder.decode(stored.payload or b"")


def _decoded(found: _Found) -> ChatMessage:
    return ChatMessage.model_validate(found.message)


async def _messages_of(session: Session, one: _Range) -> list[_Found]:
    stored = await session.stored_at(range(one.first, one.last + 1))
    entries = [(record, _entry(record)) for record in stored if record.tag == _TAG]
    return [
        _Found(record.seq, entry.message, record.message is not None)
        for record, entry in entries
        if entry.message is not None
    ]


async def _window(session: Session, ranges: Sequence[_Range], offset: int, limit: int | None) -> list[_Found]:
    """Return messages of ranges, from a place on. Ranges before it are not read."""
    found: list[_Found] = []
    for one in ranges:
        if offset >= one.count:
            offset -= one.count
            continue
        if limit is not None and len(found) >= limit:
            break
        found += (await _messages_of(session, one))[offset:]
        offset = 0
    return found if limit is None else found[: max(limit, 0)]


async def _without(session: Session, state: _State, seqs: set[int]) -> _State:
    """Return a state without some messages. A range that has only some of them is read and split."""

    async def rest(ranges: Sequence[_Range]) -> tuple[_Range, ...]:
        kept: list[_Range] = []
        for one in ranges:
            if not any(one.first <= seq <= one.last for seq in seqs):
                kept.append(one)
                continue
            found = await _messages_of(session, one)
            runs: list[list[int]] = [[]]
            for message in found:
                if message.seq in seqs:
                    runs.append([])
                else:
                    runs[-1].append(message.seq)
            kept += [_Range(run[0], run[-1], len(run)) for run in runs if run]
        return tuple(kept)

    return _State(await rest(state.active), await rest(state.archived))


async def _joined(session: Session, old: Sequence[_Range], new: Sequence[_Range]) -> tuple[_Range, ...]:
    """Return ranges with new ones. Neighbours with no other message between them become one range."""
    joined: list[_Range] = []
    for one in sorted([*old, *new], key=lambda one: one.first):
        before = joined[-1] if joined else None
        if before is not None and (one in new or before in new) and await _is_neighbour(session, before, one):
            joined[-1] = _Range(before.first, one.last, before.count + one.count)
            new = [*new, joined[-1]]
        else:
            joined.append(one)
    return tuple(joined)


async def _is_neighbour(session: Session, one: _Range, other: _Range) -> bool:
    gap = range(one.last + 1, other.first)
    if len(gap) > _GAP_RECORDS:
        return False
    return not gap or not await _messages_of(session, _Range(gap[0], gap[-1], 0))


async def _drafts(
    session: Session, key: str, messages: Sequence[ChatMessage], status: MessageStatus, state: _State, last: int
) -> list[Draft]:
    """Return the drafts of new messages. The last one has the state after them."""
    if not messages:
        return [Draft(payload=_encoder.encode(_Entry(key, state=state)), tag=_TAG)]
    drafts, added = list[Draft](), list[_Range]()
    for message in messages:
        # One record per draft: a message of LlamaIndex has at most one result of a tool.
        drafts += entry_drafts(_messages(message), _encoder.encode(_Entry(key, message.model_dump(mode="json"))), _TAG)
        added.append(_Range(last + len(drafts), last + len(drafts), 1))
    if status == _ARCHIVED:
        after = _State(state.active, await _joined(session, state.archived, added))
    else:
        after = _State(await _joined(session, state.active, added), state.archived)
    payload = _encoder.encode(_Entry(key, messages[-1].model_dump(mode="json"), after))
    return [*drafts[:-1], msgspec.structs.replace(drafts[-1], payload=payload)]


async def _leave_view(session: Session, taken: Sequence[_Found]) -> None:
    for one in taken:
        if one.is_shown:
            await session.exclude(one.seq)


def _messages(message: ChatMessage) -> list[Message]:
    """Return the messages of a message of LlamaIndex. Other blocks than text and tool calls are named."""
    role, call_id = message.role.value, message.additional_kwargs.get("tool_call_id")
    if role not in {"user", "assistant", "tool", "chatbot"}:
        return []
    texts = [getattr(block, "text", None) or f"[{block.block_type}]" for block in message.blocks]
    if role == "tool":
        results = [ToolResult(call_id, (Text("\n".join(texts)),))] if isinstance(call_id, str) else []
        return as_messages(is_user=True, texts=[], results=results)
    calls = [_call(one) for one in message.additional_kwargs.get("tool_calls") or ()]
    blocks = [one for one in message.blocks if one.block_type == "tool_call"]
    calls += [_block_call(one) for one in blocks]
    shown = [text for text, block in zip(texts, message.blocks, strict=True) if block not in blocks]
    return as_messages(is_user=role == "user", texts=shown, calls=[one for one in calls if one is not None])


def _call(given: object) -> ToolCall | None:
    found = given if isinstance(given, dict) else getattr(given, "model_dump", dict)()
    match found:
        case {"id": str() as call_id, "function": {"name": str() as name, "arguments": str() as arguments}}:
            return ToolCall(call_id, name, arguments)
        case _:
            return None


def _block_call(block: Any) -> ToolCall | None:  # noqa: ANN401 - a block of a kind that older versions have not
    if not isinstance(block.tool_call_id, str):
        return None
    arguments = block.tool_kwargs
    return ToolCall(
        block.tool_call_id, block.tool_name, arguments if isinstance(arguments, str) else json.dumps(arguments)
    )
