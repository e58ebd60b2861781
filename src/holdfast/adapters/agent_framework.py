"""A history provider for Microsoft's Agent Framework: `Agent(…, context_providers=[HoldfastHistoryProvider(client)])`.

A session of the framework is a session here. Every message is one entry, byte for byte as the framework writes it,
beside the message that it is. Messages that a run sends again after those that are stored are not stored twice.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from agent_framework import HistoryProvider, Message

from holdfast.adapters.blocking import Client as BlockingClient
from holdfast.adapters.blocking import calls_of
from holdfast.adapters.records import append_repeatedly, as_messages, entry_drafts, newest_entries
from holdfast.runtime.sessions.appending import Draft, StoredMessage, session_key
from holdfast.runtime.sessions.client import Client
from holdfast.types.messages import Message as OwnMessage
from holdfast.types.messages import Text, ToolCall, ToolOutcome, ToolResult

TAG = "agent-framework"
# The session of runs without a session id, as in the provider of the framework that writes files.
_NO_SESSION = "default"


class HoldfastHistoryProvider(HistoryProvider):
    """Histories of the Agent Framework in a Holdfast store, for any number of processes.

    `client` is a `holdfast.blocking` client, which serves every event loop, or a `holdfast.Client` for its own. The
    other arguments are those of the framework.
    """

    DEFAULT_SOURCE_ID = "holdfast_history"

    def __init__(
        self,
        client: Client | BlockingClient,
        *,
        source_id: str = DEFAULT_SOURCE_ID,
        skip_excluded: bool = False,
        **flags: Any,  # noqa: ANN401 - `load_messages`, `store_inputs` and others of the framework, passed on
    ) -> None:
        super().__init__(source_id, **flags)
        self.skip_excluded = skip_excluded
        self._client, self._calls = calls_of(client)

    def key(self, session_id: str | None) -> str:
        """Return the key of the Holdfast session of a session: search it, view it, or continue it natively."""
        return session_key(TAG, session_id or _NO_SESSION)

    async def get_messages(
        self,
        session_id: str | None,
        *,
        state: dict[str, Any] | None = None,  # noqa: ARG002 - the interface
        **_kwargs: Any,  # noqa: ANN401 - the interface
    ) -> list[Message]:
        """Return the messages of a session in order."""
        stored = await self._calls.call(self._stored(session_id), is_write=False)
        found = [Message.from_dict(_decoded(one)) for one in stored]
        if self.skip_excluded:
            return [one for one in found if not one.additional_properties.get("_excluded")]
        return found

    async def save_messages(
        self,
        session_id: str | None,
        messages: Sequence[Message],
        *,
        state: dict[str, Any] | None = None,  # noqa: ARG002 - the interface
        **_kwargs: Any,  # noqa: ANN401 - the interface
    ) -> None:
        """Append the messages that are new, all of them or none."""
        if messages:
            await self._calls.call(self._save(session_id, [one.to_dict() for one in messages]))

    # --- In the loop of the client ---

    async def _stored(self, session_id: str | None) -> list[StoredMessage]:
        session = await self._client.session(self.key(session_id))
        return await newest_entries(session, TAG, None)

    async def _save(self, session_id: str | None, given: Sequence[Mapping[str, Any]]) -> None:
        session = await self._client.session(self.key(session_id))

        async def build(last: int) -> list[Draft]:
            tail = [_decoded(one) for one in await newest_entries(session, TAG, len(given) + 1)] if last else []
            fresh = given[overlap(tail, given) :]
            return [draft for one in fresh for draft in _drafts(one)]

        await append_repeatedly(session, build)


def overlap(tail: Sequence[Mapping[str, Any]], given: Sequence[Mapping[str, Any]]) -> int:
    """Return how many of the given messages are stored: a run can send the stored history again, or its end.

    `tail` has the newest stored messages, one more than are given if there are so many. One user message without an id
    that equals the last one is a message that was sent twice, and is new.
    """
    stored, sent = [_identity(one) for one in tail], [_identity(one) for one in given]
    for start in range(len(sent) - len(stored) + 1):
        if stored and sent[start : start + len(stored)] == stored and not (start == 0 and _is_repeated(tail, 1)):
            return start + len(stored)
    for count in range(min(len(stored), len(sent)), 0, -1):
        if stored[-count:] == sent[:count] and not (count == 1 and _is_repeated(tail[-1:], 1)):
            return count
    return 0


def _is_repeated(tail: Sequence[Mapping[str, Any]], count: int) -> bool:
    return len(tail) == count and tail[-1].get("role") == "user" and not tail[-1].get("message_id")


def _identity(given: Mapping[str, Any]) -> str:
    return given.get("message_id") or json.dumps(given, sort_keys=True)


def _decoded(stored: StoredMessage) -> dict[str, Any]:
    decoded: dict[str, Any] = json.loads(stored.payload or b"{}")
    return decoded


def _drafts(given: Mapping[str, Any]) -> list[Draft]:
    return entry_drafts(_messages(given), json.dumps(given).encode(), TAG)


def _messages(given: Mapping[str, Any]) -> list[OwnMessage]:
    """Return the messages of a message. A system message is kept and not shown; so are contents of other kinds."""
    texts: list[str] = []
    calls: list[ToolCall] = []
    results: list[ToolResult] = []
    for content in given.get("contents") or ():
        match content:
            case {"type": "text", "text": str() as text}:
                texts.append(text)
            case {"type": "function_call", "call_id": str() as call_id, "name": str() as name, **rest}:
                arguments = rest.get("arguments")
                calls.append(
                    ToolCall(call_id, name, arguments if isinstance(arguments, str) else json.dumps(arguments))
                )
            case {"type": "function_result", "call_id": str() as call_id, **rest}:
                outcome = ToolOutcome.FAILED if rest.get("exception") else ToolOutcome.DONE
                results.append(ToolResult(call_id, (Text(_result_text(content)),), outcome))
            case {"type": str() as kind} if given.get("role") == "user":
                texts.append(f"[{kind}]")
            case _:
                pass
    if given.get("role") not in {"user", "assistant", "tool"}:
        return []
    return as_messages(is_user=given["role"] == "user", texts=texts, calls=calls, results=results)


def _result_text(content: Mapping[Any, Any]) -> str:
    found = content.get("result", content.get("exception", ""))
    return found if isinstance(found, str) else json.dumps(found)
