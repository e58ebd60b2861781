"""A conversation store for Pydantic AI: `await store.save(result)` with `store = HoldfastConversationStore(client)`.

A conversation is a session. An entry is one message with its bytes, and the record of the conversation is the last
record of each save, in the same commit. A fork has copies of the entries that it shares, so that deleting one
conversation erases its messages and leaves the other whole. Branches that a conversation left stay in its log and leave
the view.
"""

import time
from collections.abc import Sequence
from typing import Any

import msgspec
from pydantic import TypeAdapter
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
)
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from holdfast.adapters.blocking import Client as BlockingClient
from holdfast.adapters.blocking import calls_of
from holdfast.adapters.keys import key_part
from holdfast.adapters.records import append_repeatedly, as_messages, entry_drafts, last_seq, sessions_below
from holdfast.errors import RetryLaterError
from holdfast.runtime.sessions.appending import Draft, StoredMessage
from holdfast.runtime.sessions.client import Client
from holdfast.runtime.sessions.session import Session
from holdfast.types.messages import Message, Text, ToolCall, ToolResult

PREFIX = "pydantic-ai:"
# An entry; an entry that was in the view before and is again; the record of a conversation.
_ENTRY, _SHOWN, _RECORD = "pydantic-ai-entry", "pydantic-ai-shown", "pydantic-ai-record"
# Entries whose conversation is remembered. The conversation of others is looked for.
_REMEMBERED_MAX = 10_000
# A deletion that was not finished after so long was cut off by a crash.
_DELETION_SECONDS = 60.0
# Numbers of saves that are tried at once to find the newest: powers of two.
_POWERS = 40

_records: TypeAdapter[ConversationRecord] = TypeAdapter(ConversationRecord)


class _Stored(msgspec.Struct, frozen=True):
    """The record of a conversation after a save; null: deleted. Saves are numbered from 1."""

    number: int
    record: msgspec.Raw

    @property
    def is_deletion(self) -> bool:
        """Whether the conversation was deleted."""
        return bytes(self.record) == b"null"


class _Entry(msgspec.Struct, frozen=True):
    id: str
    parent: str | None
    kind: str
    message: msgspec.Raw


class HoldfastConversationStore(ConversationStore):
    """Conversations of Pydantic AI in a Holdfast store, for any number of processes.

    `client` is a `holdfast.blocking` client, which serves every event loop, or a `holdfast.Client` for its own.
    """

    def __init__(self, client: Client | BlockingClient) -> None:
        self._client, self._calls = calls_of(client)
        # The session of an entry, by its id.
        self._keys: dict[str, str] = {}

    def key(self, conversation_id: str) -> str:
        """Return the key of the Holdfast session of a conversation: search it, view it, or continue it natively."""
        return f"{PREFIX}{key_part(conversation_id)}"

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        """Return the record of a conversation; None if there is none."""
        return await self._calls.call(self._read_stored(self.key(conversation_id)), is_write=False)

    async def read_records(self, *, scope: str | None = None, limit: int | None = None) -> Sequence[ConversationRecord]:
        """Return the records, those of a scope or all, the last saved first."""
        found = await self._calls.call(self._list(), is_write=False)
        chosen = [one for one in found if scope is None or one.scope == scope]
        return sorted(chosen, key=lambda one: one.updated_at, reverse=True)[:limit]

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        """Save a record and its new entries in one commit, if the stored revision is the expected one."""
        await self._calls.call(self._write(record, new_entries, expected_revision))

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Delete a conversation with its entries. Forks have copies of theirs."""
        await self._calls.call(self._delete(conversation_id, expected_revision))

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        """Return an entry. Raises `KeyError` if there is none."""
        return (await self._calls.call(self._history(entry_id, limit=1), is_write=False))[0]

    async def read_history(self, head_id: str | None, *, limit: int | None = None) -> list[ConversationEntry]:
        """Return the entries up to a head, or the last `limit` of them, in order."""
        if head_id is None:
            return []
        return await self._calls.call(self._history(head_id, limit=limit), is_write=False)

    # --- In the loop of the client ---

    async def _read_stored(self, key: str) -> ConversationRecord | None:
        session = await self._client.session(key)
        stored, _ = await _newest(session, await last_seq(session))
        record = _record_of(stored)
        if record is not None and record.head_id is not None:
            self._remember(record.head_id, key)
        return record

    async def _list(self) -> list[ConversationRecord]:
        found = [await self._read_stored(known.key) async for known in sessions_below(self._client, PREFIX)]
        return [one for one in found if one is not None]

    async def _history(self, head_id: str, *, limit: int | None) -> list[ConversationEntry]:
        if limit == 0:
            return []
        key = await self._located(head_id)
        if key is None:
            raise KeyError(head_id)
        session = await self._client.session(key)
        # Entries are mostly in the order of the history; those of a branch that was left are looked up.
        ahead = await session.stored(limit=None if limit is None else 2 * limit + 1)
        known = {one.client_id: one for one in ahead if one.tag == _ENTRY}
        found: list[ConversationEntry] = []
        entry_id: str | None = head_id
        while entry_id is not None and (limit is None or len(found) < limit):
            stored = known.get(_client_id(entry_id)) or await session.lookup(_client_id(entry_id))
            if stored is None:
                raise KeyError(entry_id)
            found.append(_entry_of(stored))
            entry_id = found[-1].parent_id
        return found[::-1]

    async def _located(self, entry_id: str) -> str | None:
        """Return the key of the session with an entry."""
        client_id, known = _client_id(entry_id), self._keys.get(entry_id)
        if known is not None and await (await self._client.session(known)).find([client_id]):
            return known
        async for one in sessions_below(self._client, PREFIX):
            if await (await self._client.session(one.key)).find([client_id]):
                self._remember(entry_id, one.key)
                return one.key
        return None

    def _remember(self, entry_id: str, key: str) -> None:
        self._keys[entry_id] = key
        while len(self._keys) > _REMEMBERED_MAX:
            del self._keys[next(iter(self._keys))]

    async def _write(
        self, record: ConversationRecord, new: Sequence[ConversationEntry], expected_revision: str | None
    ) -> None:
        key = self.key(record.conversation_id)
        session = await self._client.session(key)

        async def build(last: int) -> list[Draft] | None:
            stored, seq = await _newest(session, last)
            current = _record_of(stored)
            if (current.revision if current else None) != expected_revision:
                raise ConversationConflict(record.conversation_id)
            parent = new[0].parent_id if new else record.head_id
            number = stored.number if stored else 0
            shown: list[Draft] | None = []
            if seq != last or parent != (current.head_id if current else None):
                await self._check_deletion(stored, session, seq)
                shown = await self._shown(session, record.conversation_id, parent, last)
            if shown is None:
                return None
            drafts = [draft for entry in new for draft in _drafts(entry)]
            return [*shown, *drafts, _record_draft(_Stored(number + 1, msgspec.Raw(_records.dump_json(record))))]

        await append_repeatedly(session, build)
        if record.head_id is not None:
            self._remember(record.head_id, key)

    async def _check_deletion(self, stored: _Stored | None, session: Session, seq: int) -> None:
        """Raise `RetryLaterError` while another process deletes the session; one that crashed is not waited for."""
        if stored is not None and stored.is_deletion:
            (at,) = [one.at for one in await session.stored_at([seq])]
            if time.time() - at < _DELETION_SECONDS:
                raise RetryLaterError(f"session {session.key!r} is being deleted; try again")

    async def _shown(self, session: Session, conversation_id: str, parent: str | None, last: int) -> list[Draft] | None:
        """Return drafts so that the view ends with an entry; None after retracting entries of another branch."""
        try:
            wanted = [] if parent is None else await self._history(parent, limit=None)
        except KeyError:
            raise ConversationConflict(conversation_id) from None
        stored = [one for one in await session.stored() if one.tag in {_ENTRY, _SHOWN}]
        shown = [_shown_id(one) for one in stored]
        count = 0
        while count < min(len(shown), len(wanted)) and shown[count] == wanted[count].id:
            count += 1
        if count < len(shown):
            await session.retract(after=stored[count - 1].seq if count else 0, expect=last)
            return None
        known = await session.find([_client_id(one.id) for one in wanted[count:]])
        drafts: list[Draft] = []
        for entry in wanted[count:]:
            if _client_id(entry.id) in known:
                drafts += entry_drafts(_messages(entry.message), entry.id.encode(), _SHOWN)
            else:
                drafts += _drafts(entry)
        return drafts

    async def _delete(self, conversation_id: str, expected_revision: str) -> None:
        key = self.key(conversation_id)
        session = await self._client.session(key)

        async def build(last: int) -> list[Draft]:
            stored, _ = await _newest(session, last)
            current = _record_of(stored)
            if stored is None or current is None or current.revision != expected_revision:
                raise ConversationConflict(conversation_id)
            return [_record_draft(_Stored(stored.number + 1, msgspec.Raw(b"null")))]

        await append_repeatedly(session, build)
        await self._client.delete(key)


# --- Records ---


async def _newest(session: Session, last: int) -> tuple[_Stored | None, int]:
    """Return the record of the newest save and its seq. A retraction does not take it back."""
    if not last:
        return None, 0
    found = await session.stored_at([last])
    if not found or found[0].tag != _RECORD:
        number = await _newest_number(session)
        newest = await session.lookup(f"r:{number}") if number else None
        found = [newest] if newest else []
    return (msgspec.json.decode(found[0].payload or b"", type=_Stored), found[0].seq) if found else (None, 0)


async def _newest_number(session: Session) -> int:
    """Return the greatest number of a save, by its client id; 0: none."""
    found = await session.find([f"r:{2**power}" for power in range(_POWERS)])
    if not found:
        return 0
    number, step = 2 ** (len(found) - 1), 2 ** (len(found) - 1)
    while step := step // 2:
        if await session.find([f"r:{number + step}"]):
            number += step
    return number


def _record_of(stored: _Stored | None) -> ConversationRecord | None:
    return None if stored is None or stored.is_deletion else _records.validate_json(bytes(stored.record))


def _record_draft(stored: _Stored) -> Draft:
    return Draft(payload=msgspec.json.encode(stored), tag=_RECORD, client_id=f"r:{stored.number}")


def _client_id(entry_id: str) -> str:
    return f"e:{key_part(entry_id)}"


def _drafts(entry: ConversationEntry) -> list[Draft]:
    message = ModelMessagesTypeAdapter.dump_json([entry.message])[1:-1]
    payload = msgspec.json.encode(_Entry(entry.id, entry.parent_id, entry.kind, msgspec.Raw(message)))
    return entry_drafts(_messages(entry.message), payload, _ENTRY, _client_id(entry.id))


def _entry_of(stored: StoredMessage) -> ConversationEntry:
    entry = msgspec.json.decode(stored.payload or b"", type=_Entry)
    (message,) = ModelMessagesTypeAdapter.validate_json(b"[" + bytes(entry.message) + b"]")
    kind: Any = entry.kind
    return ConversationEntry(id=entry.id, parent_id=entry.parent, message=message, kind=kind)


def _shown_id(stored: StoredMessage) -> str:
    payload = stored.payload or b""
    return payload.decode() if stored.tag == _SHOWN else msgspec.json.decode(payload, type=_Entry).id


# --- Messages ---


def _messages(message: ModelMessage) -> list[Message]:
    """Return the messages of a message of Pydantic AI. Other parts than text, tool calls and results are left out."""
    if isinstance(message, ModelResponse):
        texts = [part.content for part in message.parts if isinstance(part, TextPart)]
        calls = [
            ToolCall(part.tool_call_id, part.tool_name, part.args_as_json_str())
            for part in message.parts
            if isinstance(part, ToolCallPart)
        ]
        return as_messages(is_user=False, texts=texts, calls=calls)
    assert isinstance(message, ModelRequest), "there are two kinds of messages"
    asked = [_prompt(part.content) for part in message.parts if isinstance(part, UserPromptPart)]
    results = [
        ToolResult(part.tool_call_id, (Text(part.model_response_str()),))
        for part in message.parts
        if isinstance(part, ToolReturnPart)
    ]
    return as_messages(is_user=True, texts=asked, results=results)


def _prompt(content: str | Sequence[object]) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part if isinstance(part, str) else f"[{getattr(part, 'kind', 'part')}]" for part in content)
