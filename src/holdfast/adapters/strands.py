"""Storage and session repository for Strands Agents.

`SnapshotSessionManager("s1", storage=HoldfastStorage(client))` keeps snapshots: a key of the storage is a session whose
records are the versions of its value. `RepositorySessionManager("s1", session_repository=HoldfastRepository(client))`
keeps messages: an agent is a session, and a message is one entry beside the message that it is.
"""

import builtins
import copy
import json
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import contextmanager
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Self, TypeVar
from urllib.parse import quote

from strands.session.session_repository import SessionRepository
from strands.storage.search.keyword import KeywordSearchStrategy
from strands.storage.storage import StorageSearchResult, _normalize_key, _normalize_prefix
from strands.types.exceptions import SessionException, StorageError
from strands.types.session import Session as StrandsSession
from strands.types.session import SessionAgent, SessionMessage

from holdfast.adapters.blocking import Client as BlockingClient
from holdfast.adapters.blocking import calls_of
from holdfast.adapters.keys import key_part
from holdfast.adapters.records import as_messages, entry_drafts, last_seq, newest_of, sessions_below
from holdfast.adapters.versions import read_version, write_version
from holdfast.errors import HoldfastError, SeqMovedError
from holdfast.runtime.sessions.appending import Draft, StoredMessage
from holdfast.runtime.sessions.client import Client
from holdfast.runtime.sessions.session import Session
from holdfast.types.messages import Message, Text, ToolCall, ToolOutcome, ToolResult

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strands.multiagent import MultiAgentBase
    from strands.storage.search.types import SearchStrategy

STORAGE_PREFIX, PREFIX = "strands-storage:", "strands:"
_NAME, _VALUE = "strands-name", "strands-value"
_SESSION, _AGENT, _MESSAGE, _UPDATE, _MULTI = (
    f"strands-{name}" for name in ("session", "agent", "message", "update", "multi")
)
# Bytes of a storage key in a session key; a longer one is hashed.
_KEY_BYTES_MAX = 220
_ResultT = TypeVar("_ResultT")


class HoldfastStorage:
    """A storage of Strands in a Holdfast store, for any number of processes.

    `client` is a `holdfast.blocking` client, which serves every event loop, or a `holdfast.Client` for its own. A
    search strategy of Strands indexes what is written, and answers searches.
    """

    def __init__(
        self, client: Client | BlockingClient, *, search_strategy: "SearchStrategy[Any] | None" = None
    ) -> None:
        self._client, self._calls = calls_of(client)
        self._prefix, self._search = "", search_strategy

    async def write(self, key: str, data: bytes) -> None:
        """Store a new version of the value of a key."""
        full, content = self._full(key), bytes(data)

        async def work() -> None:
            session = await self._client.session(_storage_key(full))
            await write_version(session, _VALUE, content, lambda: [Draft(payload=full.encode(), tag=_NAME)])

        with _storage_errors():
            await self._calls.call(work())
        if self._search is not None:
            await self._search.index(self, _normalize_key(key), content)

    async def read(self, key: str) -> bytes | None:
        """Return the newest value of a key; None if there is none."""
        full = self._full(key)

        async def work() -> bytes | None:
            session = await self._client.session(_storage_key(full))
            return await read_version(session, _VALUE, await last_seq(session))

        with _storage_errors():
            return await self._calls.call(work(), is_write=False)

    async def delete(self, key: str) -> None:
        """Delete a key with all versions of its value."""
        full = self._full(key)
        with _storage_errors():
            await self._calls.call(_delete(self._client, _storage_key(full)))

    async def list(self, query: str = "") -> builtins.list[str]:
        """Return the keys with a prefix, sorted."""
        with _storage_errors():
            found = await self._calls.call(self._list(f"{self._prefix}{_normalize_prefix(query)}"), is_write=False)
        return [key[len(self._prefix) :] for key in found]

    async def search(self, query: str) -> builtins.list[StorageSearchResult]:
        """Return the keys whose values match a query, as the storages of Strands do."""
        return await (self._search or KeywordSearchStrategy()).search(self, query)

    def namespace(self, prefix: str) -> Self:
        """Return this storage below a prefix."""
        scoped, normalized = copy.copy(self), _normalize_prefix(prefix).rstrip("/")
        scoped._prefix = f"{self._prefix}{normalized}/" if normalized else self._prefix  # noqa: SLF001 - a copy of ours
        scoped._namespaced = _namespaced()  # type: ignore[attr-defined]  # noqa: SLF001 - the mark of Strands
        return scoped

    def clear(self) -> None:
        """Delete every key of this storage, or below its namespace."""

        async def work() -> None:
            for key in await self._list(self._prefix):
                await _delete(self._client, _storage_key(key))

        self._calls.run(work())

    def _full(self, key: str) -> str:
        return f"{self._prefix}{_normalize_key(key)}"

    async def _list(self, prefix: str) -> builtins.list[str]:
        found = [name async for name in self._names(f"{STORAGE_PREFIX}{_quoted(prefix)}")]
        if prefix:
            found += [name async for name in self._names(f"{STORAGE_PREFIX}~")]
        return sorted({name for name in found if name.startswith(prefix)})

    async def _names(self, prefix: str) -> AsyncIterator[str]:
        async for known in sessions_below(self._client, prefix):
            for first in await (await self._client.session(known.key)).stored_at([1]):
                yield (first.payload or b"").decode()


class HoldfastRepository(SessionRepository):
    """A session repository of Strands in a Holdfast store, for any number of processes.

    Strands calls it without asyncio, so `client` is a `holdfast.blocking` client.
    """

    def __init__(self, client: BlockingClient) -> None:
        self._client, self._calls = calls_of(client)

    def key(self, session_id: str, agent_id: str) -> str:
        """Return the key of the Holdfast session of an agent: search it, view it, or continue it natively."""
        return f"{_session_key(session_id)}:a:{key_part(agent_id)}"

    def create_session(self, session: StrandsSession, **_kwargs: object) -> StrandsSession:
        """Create a session. Raises `SessionException` if it exists."""
        draft = _draft(_SESSION, session.to_dict())
        self._create(_session_key(session.session_id), draft, f"Session {session.session_id}")
        return session

    def read_session(self, session_id: str, **_kwargs: object) -> StrandsSession | None:
        """Return a session; None if there is none."""
        found = self._newest(_session_key(session_id), _SESSION)
        return None if found is None else StrandsSession.from_dict(found)

    def delete_session(self, session_id: str, **_kwargs: object) -> None:
        """Delete a session with its agents."""
        self._check_session(session_id)

        async def work() -> None:
            key = _session_key(session_id)
            keys = [known.key async for known in sessions_below(self._client, f"{key}:")]
            # The session goes last: after a crash the deletion can be repeated.
            for one in [*keys, key]:
                await _delete(self._client, one)

        self._run(work())

    def create_agent(self, session_id: str, session_agent: SessionAgent, **_kwargs: object) -> None:
        """Create an agent. Raises `SessionException` if it exists, or its session does not."""
        self._check_session(session_id)
        draft = _draft(_AGENT, session_agent.to_dict())
        name = f"Agent {session_agent.agent_id} in session {session_id}"
        self._create(self.key(session_id, session_agent.agent_id), draft, name)

    def read_agent(self, session_id: str, agent_id: str, **_kwargs: object) -> SessionAgent | None:
        """Return an agent; None if there is none."""
        found = self._newest(self.key(session_id, agent_id), _AGENT)
        return None if found is None else SessionAgent.from_dict(found)

    def update_agent(self, session_id: str, session_agent: SessionAgent, **_kwargs: object) -> None:
        """Store a new version of an agent."""
        before = self.read_agent(session_id, session_agent.agent_id)
        if before is None:
            raise SessionException(f"Agent {session_agent.agent_id} in session {session_id} does not exist")
        session_agent.created_at = before.created_at
        self._append(self.key(session_id, session_agent.agent_id), [_draft(_AGENT, session_agent.to_dict())])

    def create_message(
        self, session_id: str, agent_id: str, session_message: SessionMessage, **_kwargs: object
    ) -> None:
        """Append a message. Raises `SessionException` if its index is taken, or its agent does not exist."""
        key, number = self.key(session_id, agent_id), session_message.message_id
        given = session_message.to_dict()

        async def work() -> None:
            session = await self._client.session(key)
            while last := await last_seq(session):
                if await session.find([f"m:{number}"]):
                    raise SessionException(f"Message {number} already exists in agent {agent_id}")
                try:
                    await session.append(_message_drafts(given), expect=last)
                except SeqMovedError:
                    continue
                return
            raise SessionException(f"Agent {agent_id} does not exist in session {session_id}")

        self._run(work())

    def read_message(self, session_id: str, agent_id: str, message_id: int, **_kwargs: object) -> SessionMessage | None:
        """Return a message; None if there is none."""

        async def work() -> StoredMessage | None:
            session = await self._client.session(self.key(session_id, agent_id))
            count = await _updates(session, message_id)
            return await session.lookup(f"u:{message_id}:{count - 1}" if count else f"m:{message_id}")

        found = self._run(work())
        return None if found is None else SessionMessage.from_dict(_decoded(found))

    def update_message(
        self, session_id: str, agent_id: str, session_message: SessionMessage, **_kwargs: object
    ) -> None:
        """Store a new version of a message. The old one leaves the view; the log keeps it."""
        number = session_message.message_id
        before = self.read_message(session_id, agent_id, number)
        if before is None:
            raise SessionException(f"Message {number} does not exist")
        session_message.created_at = before.created_at
        payload = _encoded(session_message.to_dict())

        async def work() -> None:
            session = await self._client.session(self.key(session_id, agent_id))
            while True:
                last, count = await last_seq(session), await _updates(session, number)
                draft = Draft(payload=payload, tag=_UPDATE, client_id=f"u:{number}:{count}")
                try:
                    await session.append([draft], expect=last)
                except SeqMovedError:
                    continue
                break
            shown = await session.lookup(f"m:{number}")
            if shown is not None and shown.message is not None:
                await session.exclude(shown.seq)

        self._run(work())

    def list_messages(
        self, session_id: str, agent_id: str, limit: int | None = None, offset: int = 0, **_kwargs: object
    ) -> list[SessionMessage]:
        """Return messages by index, from an offset on."""

        async def work() -> list[StoredMessage]:
            session = await self._client.session(self.key(session_id, agent_id))
            return [one for one in await session.stored() if one.tag in {_MESSAGE, _UPDATE}]

        newest = {given["message_id"]: given for given in map(_decoded, self._run(work()))}
        chosen = [newest[number] for number in sorted(newest)][offset:]
        return [SessionMessage.from_dict(given) for given in chosen[:limit]]

    def create_multi_agent(self, session_id: str, multi_agent: "MultiAgentBase", **_kwargs: object) -> None:
        """Store the state of a group of agents."""
        self._check_session(session_id)
        self._append(_multi_key(session_id, multi_agent.id), [_draft(_MULTI, multi_agent.serialize_state())])

    def read_multi_agent(self, session_id: str, multi_agent_id: str, **_kwargs: object) -> dict[str, Any] | None:
        """Return the state of a group of agents; None if there is none."""
        return self._newest(_multi_key(session_id, multi_agent_id), _MULTI)

    def update_multi_agent(self, session_id: str, multi_agent: "MultiAgentBase", **_kwargs: object) -> None:
        """Store a new state of a group of agents."""
        if self.read_multi_agent(session_id, multi_agent.id) is None:
            raise SessionException(f"MultiAgent state {multi_agent.id} in session {session_id} does not exist")
        self._append(_multi_key(session_id, multi_agent.id), [_draft(_MULTI, multi_agent.serialize_state())])

    def _check_session(self, session_id: str) -> None:
        if self._newest(_session_key(session_id), _SESSION) is None:
            raise SessionException(f"Session {session_id} does not exist")

    def _create(self, key: str, draft: Draft, name: str) -> None:
        async def work() -> None:
            session = await self._client.session(key)
            try:
                await session.append([draft], expect=0)
            except SeqMovedError:
                raise SessionException(f"{name} already exists") from None

        self._run(work())

    def _append(self, key: str, drafts: list[Draft]) -> None:
        async def work() -> None:
            await (await self._client.session(key)).append(drafts)

        self._run(work())

    def _newest(self, key: str, tag: str) -> dict[str, Any] | None:
        async def work() -> StoredMessage | None:
            session = await self._client.session(key)
            return await newest_of(session, tag, await last_seq(session))

        found = self._run(work())
        return None if found is None else _decoded(found)

    def _run(self, work: Coroutine[Any, Any, _ResultT]) -> _ResultT:
        try:
            return self._calls.run(work)
        except HoldfastError as error:
            raise SessionException(str(error)) from error


# --- Keys and records ---


@contextmanager
def _storage_errors() -> "Iterator[None]":
    try:
        yield
    except HoldfastError as error:
        raise StorageError(str(error)) from error


def _namespaced() -> object:
    from strands.storage import storage  # noqa: PLC0415 - a private name, which may move

    return getattr(storage, "_NAMESPACED", True)


def _quoted(name: str) -> str:
    return quote(name.encode("utf-8", "surrogatepass"), safe="/").replace("~", "%7E")


def _storage_key(name: str) -> str:
    quoted = _quoted(name)
    return f"{STORAGE_PREFIX}{quoted if len(quoted) <= _KEY_BYTES_MAX else '~' + sha256(quoted.encode()).hexdigest()}"


def _session_key(session_id: str) -> str:
    return f"{PREFIX}{key_part(session_id)}"


def _multi_key(session_id: str, multi_agent_id: str) -> str:
    return f"{_session_key(session_id)}:m:{key_part(multi_agent_id)}"


async def _delete(client: Client, key: str) -> None:
    if await (await client.session(key)).known() is not None:
        await client.delete(key)


async def _updates(session: Session, number: int) -> int:
    """Return how many updates a message has."""
    count = 0
    while await session.find([f"u:{number}:{count}"]):
        count += 1
    return count


def _encoded(given: Mapping[str, Any]) -> bytes:
    return json.dumps(given, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _decoded(stored: StoredMessage) -> dict[str, Any]:
    decoded: dict[str, Any] = json.loads((stored.payload or b"{}").decode("utf-8", "surrogatepass"))
    return decoded


def _draft(tag: str, given: Mapping[str, Any]) -> Draft:
    return Draft(payload=_encoded(given), tag=tag)


def _message_drafts(given: Mapping[str, Any]) -> list[Draft]:
    shown = _messages(given.get("redact_message") or given["message"])
    return entry_drafts(shown, _encoded(given), _MESSAGE, f"m:{given['message_id']}")


def _messages(given: Mapping[str, Any]) -> list[Message]:
    """Return the messages of a message of Strands. Contents of other kinds are named in those of the user."""
    is_user = given.get("role") == "user"
    texts: list[str] = []
    calls: list[ToolCall] = []
    results: list[ToolResult] = []
    for block in given.get("content") or ():
        match block:
            case {"text": str() as text}:
                texts.append(text)
            case {"toolUse": {"toolUseId": str() as call_id, "name": str() as name, **rest}}:
                calls.append(ToolCall(call_id, name, json.dumps(rest.get("input"))))
            case {"toolResult": {"toolUseId": str() as call_id, **rest}}:
                outcome = ToolOutcome.FAILED if rest.get("status") == "error" else ToolOutcome.DONE
                results.append(ToolResult(call_id, (Text(_result_text(rest.get("content"))),), outcome))
            case {**other} if is_user and other:
                texts.append(f"[{next(iter(other))}]")
            case _:
                pass
    return as_messages(is_user=is_user, texts=texts, calls=calls, results=results)


def _result_text(content: object) -> str:
    pieces = content if isinstance(content, list) else [content]
    texts = [piece.get("text") if isinstance(piece, dict) else None for piece in pieces]
    return "\n".join(
        text if isinstance(text, str) else json.dumps(piece) for text, piece in zip(texts, pieces, strict=True)
    )
