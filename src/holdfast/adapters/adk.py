"""A session service for Google's Agent Development Kit: `Runner(…, session_service=HoldfastSessionService(client))`.

A session is a session here, and an event is one entry, byte for byte, beside the message that it is. The state of a
session is what its events changed; a state in full is stored now and then, so that reading the newest events needs few
records. The states of users and apps are sessions of their own.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

import msgspec
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.sessions.base_session_service import BaseSessionService, GetSessionConfig, ListSessionsResponse
from google.adk.sessions.session import Session as AdkSession
from google.adk.sessions.state import State
from pydantic_core import to_jsonable_python

from holdfast.adapters.blocking import Client as BlockingClient
from holdfast.adapters.blocking import calls_of
from holdfast.adapters.keys import key_part
from holdfast.adapters.records import (
    append_repeatedly,
    as_messages,
    entry_drafts,
    last_seq,
    newest_entries,
    newest_of,
    sessions_below,
)
from holdfast.errors import SeqMovedError
from holdfast.runtime.sessions.appending import Draft, StoredMessage
from holdfast.runtime.sessions.client import Client
from holdfast.runtime.sessions.session import Session
from holdfast.types.messages import Message, Text, ToolCall, ToolResult

try:
    from google.adk.errors._stale_session_error import StaleSessionError
except ImportError:  # a private module: the base class of the error is public
    StaleSessionError = ValueError  # type: ignore[misc, assignment]

__all__ = ["PREFIX", "STATE_PREFIX", "HoldfastSessionService", "StaleSessionError"]

PREFIX, STATE_PREFIX = "adk:", "adk-state:"
_TAG = "adk"
# Changes of a state between two records that have it in full.
_CHANGES_MAX = 32
_NO_EVENT = msgspec.Raw(b"null")


class _Row(msgspec.Struct, frozen=True, omit_defaults=True):
    """An event or the start of a session, and what it changes in the state."""

    time: float
    event: msgspec.Raw = _NO_EVENT
    change: dict[str, Any] = {}
    # The state after this row, or None: then it takes so many rows before this one.
    state: dict[str, Any] | None = None
    since: int = 0
    # App, user and session, in the first row of a session.
    names: tuple[str, ...] = ()


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(_Row)


class HoldfastSessionService(BaseSessionService):
    """Sessions of the ADK in a Holdfast store, for any number of processes.

    `client` is a `holdfast.blocking` client, which serves every event loop, or a `holdfast.Client` for its own.
    """

    def __init__(self, client: Client | BlockingClient) -> None:
        self._client, self._calls = calls_of(client)

    def key(self, app_name: str, user_id: str, session_id: str) -> str:
        """Return the key of the Holdfast session of a session: search it, view it, or continue it natively."""
        return PREFIX + ":".join(key_part(one) for one in (app_name, user_id, session_id))

    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> AdkSession:
        """Create a session. Raises `AlreadyExistsError` if it exists."""
        names = (app_name, user_id, (session_id or "").strip() or str(uuid4()))
        return await self._calls.call(self._create(names, state or {}))

    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> AdkSession | None:
        """Return a session with its events, or those that `config` chooses; None if there is none."""
        names = (app_name, user_id, session_id.strip())
        return await self._calls.call(self._get(names, config or GetSessionConfig()), is_write=False)

    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        """Return the sessions of an app or a user without their events, the last changed at the end."""
        return await self._calls.call(self._list(app_name, user_id), is_write=False)

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Delete a session. The states of its user and its app stay."""

        async def work() -> None:
            key = self.key(app_name, user_id, session_id.strip())
            if await (await self._client.session(key)).known() is not None:
                await self._client.delete(key)

        await self._calls.call(work())

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """Return the state of a user, with keys without their prefix."""
        return await self._calls.call(self._scope(app_name, user_id), is_write=False)

    async def append_event(self, session: AdkSession, event: Event) -> Event:
        """Append an event. Raises `StaleSessionError` if the session has newer events than this copy of it."""
        if event.partial:
            return event
        self._apply_temp_state(session, event)
        event = self._trim_temp_delta_state(event)
        await self._calls.call(self._append(session, event))
        session.last_update_time = event.timestamp
        return self._commit_event_to_session(session, event)

    # --- In the loop of the client ---

    async def _create(self, names: tuple[str, str, str], given: Mapping[str, Any]) -> AdkSession:
        of_app, of_user, own = _split(given)
        session = await self._client.session(self.key(*names))
        now = self._client.engine.clock.now()
        row = _Row(now, state=own, names=names)
        try:
            appended = await session.append([Draft(payload=_encoder.encode(row), tag=_TAG)], expect=0)
        except SeqMovedError:
            raise AlreadyExistsError(f"Session with id {names[2]} already exists.") from None
        await self._change_scopes(names, of_app, of_user)
        return await self._session(names, own, [], now, appended.last)

    async def _get(self, names: tuple[str, str, str], config: GetSessionConfig) -> AdkSession | None:
        session = await self._client.session(self.key(*names))
        newest = await newest_of(session, _TAG, await last_seq(session))
        if newest is None:
            return None
        row, count = _row(newest), config.num_recent_events
        wanted = None if count is None or config.after_timestamp else max(count, row.since) + 1
        stored = await newest_entries(session, _TAG, wanted)
        rows = [_row(one) for one in stored if one.seq <= newest.seq]
        return await self._session(names, _folded(rows), _events(rows, config), row.time, newest.seq)

    async def _list(self, app_name: str, user_id: str | None) -> ListSessionsResponse:
        prefix = f"{PREFIX}{key_part(app_name)}:"
        if user_id is not None:
            prefix += f"{key_part(user_id)}:"
        found: list[AdkSession] = []
        async for known in sessions_below(self._client, prefix):
            session = await self._client.session(known.key)
            newest = await newest_of(session, _TAG, known.last_seq)
            if newest is None:
                continue
            row = _row(newest)
            rows = [_row(one) for one in await newest_entries(session, _TAG, row.since + 1)]
            (first,) = [_row(one).names for one in await session.stored_at([1])]
            found.append(await self._session((first[0], first[1], first[2]), _folded(rows), [], row.time, newest.seq))
        found.sort(key=lambda one: (one.last_update_time, one.user_id, one.id))
        return ListSessionsResponse(sessions=found)

    async def _append(self, adk: AdkSession, event: Event) -> None:
        names = (adk.app_name, adk.user_id, adk.id)
        session = await self._client.session(self.key(*names))
        of_app, of_user, own = _split(event.actions.state_delta if event.actions else {})
        body = event.model_dump_json(exclude_none=True).encode()
        written = 0

        async def build(last: int) -> list[Draft]:
            nonlocal written
            newest = await newest_of(session, _TAG, last)
            if newest is None:
                raise SessionNotFoundError(f"Session {adk.id} not found.")
            before = _row(newest)
            _check_fresh(adk, newest.seq, before.time)
            since, state = before.since + 1, None
            if since >= _CHANGES_MAX:
                rows = [_row(one) for one in await newest_entries(session, _TAG, since)]
                since, state = 0, {**_folded(rows), **own}
            row = _Row(event.timestamp, msgspec.Raw(body), own, state, since)
            drafts = entry_drafts(_messages(event), _encoder.encode(row), _TAG)
            written = last + sum(_records(draft) for draft in drafts)
            return drafts

        await append_repeatedly(session, build)
        adk._storage_update_marker = str(written)  # noqa: SLF001 - the mark that the services of the ADK keep there
        await self._change_scopes(names, of_app, of_user)

    async def _change_scopes(
        self, names: tuple[str, str, str], of_app: Mapping[str, Any], of_user: Mapping[str, Any]
    ) -> None:
        for change, key in ((of_app, _state_key(names[0])), (of_user, _state_key(names[0], names[1]))):
            if change:
                await self._change(await self._client.session(key), dict(change))

    async def _change(self, session: Session, change: dict[str, Any]) -> None:
        async def build(last: int) -> list[Draft]:
            newest = await newest_of(session, _TAG, last)
            before = _row(newest) if newest else None
            since = before.since + 1 if before else 0
            state = None
            if before is None or since >= _CHANGES_MAX:
                rows = [_row(one) for one in await newest_entries(session, _TAG, since)] if before else []
                since, state = 0, {**_folded(rows), **change}
            row = _Row(self._client.engine.clock.now(), change=change, state=state, since=since)
            return [Draft(payload=_encoder.encode(row), tag=_TAG)]

        await append_repeatedly(session, build)

    async def _scope(self, *names: str) -> dict[str, Any]:
        session = await self._client.session(_state_key(*names))
        newest = await newest_of(session, _TAG, await last_seq(session))
        if newest is None:
            return {}
        return _folded([_row(one) for one in await newest_entries(session, _TAG, _row(newest).since + 1)])

    async def _session(
        self, names: tuple[str, str, str], own: Mapping[str, Any], events: list[Event], time: float, seq: int
    ) -> AdkSession:
        state = dict(own)
        state |= {State.APP_PREFIX + name: value for name, value in (await self._scope(names[0])).items()}
        state |= {State.USER_PREFIX + name: value for name, value in (await self._scope(names[0], names[1])).items()}
        found = AdkSession(
            app_name=names[0], user_id=names[1], id=names[2], state=state, events=events, last_update_time=time
        )
        found._storage_update_marker = str(seq)  # noqa: SLF001 - as above
        return found


# --- Rows ---


def _state_key(*names: str) -> str:
    return STATE_PREFIX + ":".join(key_part(one) for one in names)


def _row(stored: StoredMessage) -> _Row:
    return _decoder.decode(stored.payload or b"")


def _records(draft: Draft) -> int:
    """Return the records of a draft: a result of a tool has one of its own."""
    return len(draft.message.parts) if draft.message is not None and draft.message.role == "tool" else 1


def _events(rows: Sequence[_Row], config: GetSessionConfig) -> list[Event]:
    """Return the events of rows that a configuration chooses."""
    found = [one for one in rows if bytes(one.event) != b"null"]
    if config.after_timestamp:
        found = [one for one in found if one.time >= config.after_timestamp]
    if config.num_recent_events is not None:
        found = found[len(found) - min(config.num_recent_events, len(found)) :]
    return [Event.model_validate_json(bytes(one.event)) for one in found]


def _folded(rows: Sequence[_Row]) -> dict[str, Any]:
    """Return the state after rows, which begin with one that has it in full."""
    state: dict[str, Any] = {}
    for row in rows:
        state = dict(row.state) if row.state is not None else {**state, **row.change}
    return state


def _check_fresh(adk: AdkSession, seq: int, time: float) -> None:
    marker = adk._storage_update_marker  # noqa: SLF001 - the mark that the services of the ADK keep there
    if marker != str(seq) if marker is not None else time > adk.last_update_time:
        raise StaleSessionError(f"Session {adk.id} has newer events than this copy; get it again, then append.")


def _split(state: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Return what a state has for the app, the user and the session. Temporary keys are left out."""
    plain: dict[str, Any] = to_jsonable_python(dict(state), fallback=str)
    scopes: dict[str, dict[str, Any]] = {State.APP_PREFIX: {}, State.USER_PREFIX: {}, State.TEMP_PREFIX: {}, "": {}}
    for name, value in plain.items():
        prefix = next(one for one in scopes if name.startswith(one))
        scopes[prefix][name.removeprefix(prefix)] = value
    return scopes[State.APP_PREFIX], scopes[State.USER_PREFIX], scopes[""]


def _messages(event: Event) -> list[Message]:
    """Return the messages of an event. Other parts than text, calls and results are named in those of the user."""
    content = event.content
    if content is None:
        return []
    is_user = content.role == "user"
    texts: list[str] = []
    calls: list[ToolCall] = []
    results: list[ToolResult] = []
    for part in content.parts or ():
        if part.text and not part.thought:
            texts.append(part.text)
        elif part.function_call is not None:
            call = part.function_call
            calls.append(
                ToolCall(call.id or call.name or "", call.name or "", json.dumps(call.args or {}, default=str))
            )
        elif part.function_response is not None:
            response = part.function_response
            output = json.dumps(response.response, default=str)
            results.append(ToolResult(response.id or response.name or "", (Text(output),)))
        elif is_user and not part.thought:
            texts.append("[part]")
    return as_messages(is_user=is_user or bool(results), texts=texts, calls=calls, results=results)
