"""A session store for the Claude Agent SDK: `ClaudeAgentOptions(session_store=HoldfastSessionStore(client))`.

The SDK mirrors its transcripts into the store and can resume from it in another container. Each transcript is a
session; an entry of it is one record, byte for byte, beside the message that it is. An entry with a known `uuid` is not
stored again. The summary that the SDK folds is the last record of each append.
"""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from claude_agent_sdk import fold_session_summary

from holdfast.adapters.blocking import Client as BlockingClient
from holdfast.adapters.blocking import calls_of
from holdfast.adapters.keys import key_part
from holdfast.errors import RetryLaterError, SeqMovedError
from holdfast.ports import SessionInfo
from holdfast.runtime.sessions.appending import Draft
from holdfast.runtime.sessions.client import Client
from holdfast.runtime.sessions.session import Session
from holdfast.types.messages import Message, Part, Role, Text, ToolCall, ToolOutcome, ToolResult

if TYPE_CHECKING:
    from claude_agent_sdk import SessionKey, SessionStoreEntry
    from claude_agent_sdk.types import SessionListSubkeysKey, SessionStoreListEntry, SessionSummaryEntry

PREFIX = "claude"
_ENTRY, _NAMES, _SUMMARY = "claude-entry", "claude-names", "claude-summary"
# Writers of one transcript at the same moment repeat their write; so many in a row is a busy loop.
_REPEATS_MAX = 1_000


class HoldfastSessionStore:
    """A session store in a Holdfast store, for any number of processes.

    `client` is a `holdfast.blocking` client, which serves every event loop, or a `holdfast.Client` for its own.
    """

    def __init__(self, client: Client | BlockingClient) -> None:
        self._client, self._calls = calls_of(client)

    async def append(self, key: "SessionKey", entries: list["SessionStoreEntry"]) -> None:
        """Append entries in order, all of them or none. Known ones are skipped."""
        if entries:
            await self._calls.call(self._append(key, entries))

    async def load(self, key: "SessionKey") -> list["SessionStoreEntry"] | None:
        """Return all entries of a transcript; None if it was never written."""
        return await self._calls.call(self._load(key), is_write=False)

    async def list_sessions(self, project_key: str) -> list["SessionStoreListEntry"]:
        """Return the sessions of a project with the times of their last change."""
        return await self._calls.call(self._list(project_key), is_write=False)

    async def list_session_summaries(self, project_key: str) -> list["SessionSummaryEntry"]:
        """Return the summary of each session of a project."""
        return await self._calls.call(self._summaries(project_key), is_write=False)

    async def list_subkeys(self, key: "SessionListSubkeysKey") -> list[str]:
        """Return the subpaths of a session."""
        return await self._calls.call(self._subkeys(key), is_write=False)

    async def delete(self, key: "SessionKey") -> None:
        """Delete a transcript; a main one with those of its subagents."""
        await self._calls.call(self._delete(key))

    # --- In the loop of the client ---

    async def _append(self, key: "SessionKey", entries: Sequence["SessionStoreEntry"]) -> None:
        session = await self._client.session(_session_key(key))
        for _ in range(_REPEATS_MAX):
            known = await session.known()
            last = known.last_seq if known else 0
            fresh = await _unknown(session, entries)
            if not fresh:
                return
            drafts = [] if last else [_draft(_NAMES, dict(key))]
            drafts += [Draft(_message(one), json.dumps(one).encode(), _ENTRY, _client_id(one)) for one in fresh]
            if key.get("subpath") is None:
                before = await _summary(session, last)
                drafts.append(_draft(_SUMMARY, fold_session_summary(before, key, fresh)))
            try:
                await session.append(drafts, expect=last)
            except SeqMovedError:
                continue
            return
        raise RetryLaterError(f"session {session.key!r} has too many writers at once; try again")

    async def _load(self, key: "SessionKey") -> list["SessionStoreEntry"] | None:
        session = await self._client.session(_session_key(key))
        stored = await session.stored()
        found = [json.loads(one.payload or b"") for one in stored if one.tag == _ENTRY]
        return found if stored else None

    async def _list(self, project: str) -> list["SessionStoreListEntry"]:
        return [
            {"session_id": names["session_id"], "mtime": _mtime(known)}
            async for known, names in self._transcripts(f"{PREFIX}:{key_part(project)}:")
            if names.get("subpath") is None
        ]

    async def _summaries(self, project: str) -> list["SessionSummaryEntry"]:
        found: list[SessionSummaryEntry] = []
        async for known, names in self._transcripts(f"{PREFIX}:{key_part(project)}:"):
            if names.get("subpath") is None:
                summary = await _summary(await self._client.session(known.key), known.last_seq)
                if summary is not None:
                    found.append({**summary, "mtime": _mtime(known)})
        return found

    async def _subkeys(self, key: "SessionListSubkeysKey") -> list[str]:
        prefix = f"{PREFIX}:{key_part(key['project_key'])}:{key_part(key['session_id'])}:"
        return [names["subpath"] async for _, names in self._transcripts(prefix) if names.get("subpath") is not None]

    async def _delete(self, key: "SessionKey") -> None:
        own = _session_key(key)
        keys = [own]
        if key.get("subpath") is None:
            prefix = own.rpartition(":")[0] + ":"
            keys += [known.key async for known, _ in self._transcripts(prefix) if known.key != own]
        # The main transcript goes last: after a crash the deletion can be repeated.
        for one in reversed(keys):
            if await (await self._client.session(one)).known() is not None:
                await self._client.delete(one)

    async def _transcripts(self, prefix: str) -> AsyncIterator[tuple[SessionInfo, Mapping[str, Any]]]:
        """Yield the transcripts below a prefix, each with its names."""
        after = prefix[:-1]
        while page := await self._client.sessions(after=after, limit=100):
            for known in page:
                if known.key.startswith(prefix):
                    (first,) = await (await self._client.session(known.key)).stored_at([1])
                    yield known, json.loads(first.payload or b"")
                elif known.key > prefix:
                    return
            after = page[-1].key


def _session_key(key: "SessionKey") -> str:
    # A subpath is never empty.
    return ":".join([PREFIX, *map(key_part, (key["project_key"], key["session_id"], key.get("subpath") or ""))])


def _draft(tag: str, content: object) -> Draft:
    return Draft(payload=json.dumps(content).encode(), tag=tag)


def _mtime(known: SessionInfo) -> int:
    return int(known.updated_at * 1_000)


def _client_id(entry: Mapping[str, Any]) -> str:
    uuid = entry.get("uuid")
    return f"uuid:{key_part(uuid)}" if isinstance(uuid, str) and uuid else ""


async def _unknown(session: Session, entries: Sequence["SessionStoreEntry"]) -> list["SessionStoreEntry"]:
    """Return the entries without an id, and the first of each id that is not stored."""
    ids = [_client_id(cast("Mapping[str, Any]", one)) for one in entries]
    known = set(await session.find([one for one in ids if one]))
    fresh: list[SessionStoreEntry] = []
    for client_id, one in zip(ids, entries, strict=True):
        if not client_id or client_id not in known:
            fresh.append(one)
            known.add(client_id)
    return fresh


async def _summary(session: Session, last: int) -> "SessionSummaryEntry | None":
    """Return the summary in the last record."""
    found = await session.stored_at([last]) if last else []
    summary = [json.loads(one.payload or b"") for one in found if one.tag == _SUMMARY]
    return cast("SessionSummaryEntry", summary[0]) if summary else None


def _message(entry: Mapping[str, Any]) -> Message | None:
    """Return the message of an entry; None for titles, modes, system entries and unknown kinds."""
    match entry:
        case {"type": "user" | "assistant", "message": {"role": role, "content": str() as text}} if text:
            return Message(Role.USER if role == "user" else Role.ASSISTANT, (Text(text),))
        case {"type": "assistant", "message": {"content": list() as blocks}}:
            return _of(Role.ASSISTANT, [_assistant_part(one) for one in blocks])
        case {"type": "user", "message": {"content": list() as blocks}}:
            results = [_result(one) for one in blocks]
            texts: list[Part | None] = [_text_part(one) for one in blocks]
            return _of(Role.TOOL, results) or _of(Role.USER, texts)
        case _:
            return None


def _of(role: Role, parts: Sequence[Part | None]) -> Message | None:
    found = tuple(part for part in parts if part is not None)
    return Message(role, found) if found else None


def _text_part(block: object) -> Text | None:
    match block:
        case {"type": "text", "text": str() as text}:
            return Text(text)
        case _:
            return None


def _assistant_part(block: object) -> Part | None:
    match block:
        case {"type": "tool_use", "id": str() as call_id, "name": str() as name, "input": arguments}:
            return ToolCall(call_id, name, json.dumps(arguments))
        case _:
            return _text_part(block)


def _result(block: object) -> ToolResult | None:
    match block:
        case {"type": "tool_result", "tool_use_id": str() as call_id, **rest}:
            content = rest.get("content", "")
            parts = [_text_part(one) for one in content] if isinstance(content, list) else [Text(str(content))]
            outcome = ToolOutcome.FAILED if rest.get("is_error") else ToolOutcome.DONE
            return ToolResult(call_id, tuple(part for part in parts if part is not None), outcome)
        case _:
            return None
